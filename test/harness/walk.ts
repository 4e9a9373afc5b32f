/**
 * From nothing to delivered mail, as a new user goes: an account, a project, a domain, mail, figures, keys. Each step is the
 * real command; how it is run, with a terminal or without, is the test's.
 */
import { simpleParser } from 'mailparser';
import { expect } from 'vitest';
import { z } from 'zod';
import { startTestWorld, type TestWorld } from './daemon.ts';

export interface Step {
  readonly args: readonly string[];
  /** In place of a person. */
  readonly flags?: readonly string[];
  /** Of a person: what is asked, and what they say. */
  readonly answers?: readonly (readonly [question: string, answer: string])[];
  /** Default: 0. */
  readonly code?: number;
}

/** Runs a step; answers what it wrote to standard output, or all that is to be seen where there is a terminal. */
export type Walker = (step: Step) => Promise<string>;

const OWNER = 'owner@inbox.test';
const DOMAIN = 'shop.test';
const records = z.object({
  records: z.array(z.object({ name: z.string(), type: z.string(), value: z.string(), required: z.boolean() })),
});
const RECORD_TYPES = { TXT: 'TXT', MX: 'MX', CNAME: 'CNAME' } as const;

/** A daemon that nobody has an account on. */
export function startEmptyWorld(): Promise<TestWorld> {
  return startTestWorld({ projects: {}, server: { server: { signup: 'open' } } });
}

/** All steps, in order. */
export async function walk(world: TestWorld, run: Walker): Promise<void> {
  await account(world, run);
  await project(run);
  await domain(world, run);
  await mail(world, run);
  await figures(run);
  await keys(run);
}

async function account(world: TestWorld, run: Walker): Promise<void> {
  const signed = await run({
    args: ['signup', '--url', world.url],
    flags: ['--name', 'Ana', '--email', OWNER],
    answers: [
      ['Your name', 'Ana'],
      ['Email address', OWNER],
    ],
  });
  expect(signed).toMatch(/open the link in the email sent to owner@inbox\.test/);
  await run({ args: ['auth', 'status'], code: 1 });
  const link = /\/confirm\/(\S+)/;
  const [, token] = link.exec(await mailWith(world, 1, link)) ?? [];
  expect((await fetch(`${world.url}/confirm/${token}`, { method: 'POST' })).status).toBe(200);
  const status = await run({ args: ['auth', 'status', '--debug'] });
  expect(status).toMatch(/^account +Ana \(ten_\w+\), plan free$/m);
  expect(status).toMatch(/^versions +server /m);
}

async function project(run: Walker): Promise<void> {
  const begun = await run({
    args: ['init'],
    flags: ['--domain', DOMAIN, '--email', OWNER, '--yes'],
    answers: [
      ['Domain of the website', DOMAIN],
      ['Email address', OWNER],
      ['Project name', 'Shop'],
      ['Short name', ''],
      ['ID of the first form', ''],
    ],
  });
  expect(begun).toContain('postern.yml');
  await run({ args: ['test', 'config'] });
  await run({ args: ['test', 'config', '--check-api'] });
  expect(await run({ args: ['templates', 'preview', 'contact'] })).toMatch(/Subject: /i);
  await run({ args: ['push', '--dry-run'] });
  const pushed = await run({ args: ['push'], flags: ['--yes'], answers: [['[y/N]', 'y']] });
  expect(pushed).toMatch(/rev_\w+/);
}

async function domain(world: TestWorld, run: Walker): Promise<void> {
  await run({ args: ['domains', 'verify', DOMAIN], code: 1 });
  const { records: wanted } = records.parse(JSON.parse(await run({ args: ['domains', 'setup', DOMAIN, '--json'] })));
  expect(await run({ args: ['domains', 'setup', DOMAIN, '--zone'] })).toMatch(/IN\s+TXT\s/);
  expect(await run({ args: ['domains', 'setup', DOMAIN] })).toContain(`_domainkey`);
  const published = wanted.filter(({ required }) => required);
  world.dns.set([
    ...world.publicZone,
    ...published.map(({ name, type, value }) => ({ name, type: typeOf(type), value })),
  ]);
  expect(await run({ args: ['domains', 'verify', DOMAIN] })).toContain('verified');
  expect(await run({ args: ['domains', 'status'] })).toMatch(/shop\.test\s+verified/);
}

function typeOf(type: string): keyof typeof RECORD_TYPES {
  return z.enum(RECORD_TYPES).parse(type);
}

async function mail(world: TestWorld, run: Walker): Promise<void> {
  const sent = await run({ args: ['test', 'send', 'bo@inbox.test'] });
  expect(sent).toMatch(/bo@inbox\.test +delivered/);
  expect(sent).toMatch(/250/);
  const answer = await world.post(`/${DOMAIN}/contact`, { name: 'Cy', email: 'cy@inbox.test', message: 'Is it open?' });
  expect(answer.status).toBe(200);
  expect(await mailWith(world, 3, /Is it open\?/)).toContain('cy@inbox.test');
  expect(await run({ args: ['submissions', 'list', `${DOMAIN}/contact`] })).toContain('cy@inbox.test');
  expect(await run({ args: ['forms', 'snippet', `${DOMAIN}/contact`] })).toContain(`${world.url}/${DOMAIN}/contact`);

  await run({ args: ['instant', 'create', '--name', 'Guests', '--email', OWNER] });
  const [, form] = /(frm_\w+)/.exec(await run({ args: ['instant', 'forms'] })) ?? [];
  expect((await world.post(`/f/${form}`, { email: 'di@inbox.test', message: 'Hi' })).status).toBe(200);
  expect(await run({ args: ['instant', 'list'] })).toMatch(/sub_\w+\s.*accepted\s.*di@inbox\.test/);
}

async function figures(run: Walker): Promise<void> {
  expect(await run({ args: ['analytics'] })).toMatch(/total\s+2\s/);
  const [, key = ''] = /(key_\w+)/.exec(await run({ args: ['auth', 'list-keys'] })) ?? [];
  for (const flags of [['--last-30d'], ['--last-7d'], ['--key', key]]) {
    expect(await run({ args: ['analytics', 'api-usage', ...flags] })).toMatch(
      new RegExp(`^2\\S+\\s+${key}\\s+\\d+`, 'm'),
    );
  }
  const csv = await run({ args: ['analytics', 'export', '--type', 'api-usage', '--format', 'csv'] });
  expect(csv).toMatch(new RegExp(`^day,key,requests,errors,rate_limited\\r?\\n2\\S+,${key},`, 'm'));
}

async function keys(run: Walker): Promise<void> {
  const args = ['--name', 'Site', '--permissions', 'forms.read,email.send', '--rate-limit', '500'];
  const made = await run({ args: ['auth', 'create-key', ...args] });
  const [, id = ''] = /^id +(key_\w+)$/m.exec(made) ?? [];
  expect(made).toMatch(/^key +svc_rk_\w+$/m);
  expect(await run({ args: ['auth', 'permissions', '--key-id', id] })).toMatch(/^forms\.read\nemail\.send\n/);
  expect(await run({ args: ['auth', 'revoke-key', id], flags: ['--yes'], answers: [['[y/N]', 'y']] })).toContain(
    'was revoked',
  );
}

/** The text of the one of the first so many mails that says this. */
async function mailWith({ caught }: TestWorld, count: number, words: RegExp): Promise<string> {
  const mails = await caught(count);
  for (const one of mails.list()) {
    const { text = '' } = await simpleParser(await mails.source(one));
    if (words.test(text)) return text;
  }
  throw new Error(`none of ${count} mails says ${String(words)}`);
}
