/** `postern domains …`: the domains of the account, their DNS records and the rotation of DKIM keys. */
import { hostKeys, adminDomains, domains as routes } from '../contract/domains.ts';
import type { AnswerOf } from '../contract/route.ts';
import {
  readAnswer,
  isConfirmed,
  poll,
  EXIT,
  run,
  shortTime,
  writeJson,
  type CommandOptions,
  UsageError,
} from './run.ts';
import { RequestRefused, type Client } from './client.ts';
import { type Terminal, printable } from './terminal.ts';

import {
  domainPath,
  everyDomain,
  type Domain,
  domainSentence,
  isCorrect,
  recordSentence,
  recordText,
  requiredCount,
  zoneText,
} from './dns-records.ts';
import { writeTable } from './output.ts';

/** Between two looks at DNS, ms. */
const MAX_POLL_INTERVAL_MS = 30_000;

/** Prints the records to add and the records found. Returns the exit code, as all of these do. */
export function domainsSetup(options: CommandOptions, name: string, { zone }: { zone: boolean }): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await currentRecords(client, name);
    if (json) return writeJson(terminal, data);
    const domain = readAnswer(routes.show, data);
    if (zone) return terminal.write(zoneText(domain));
    writeDomain(terminal, domain);
    if (domain.records.every(isCorrect)) return;
    terminal.write(`\nAdd the missing records at your DNS provider, then run: postern domains verify ${name} --wait\n`);
  });
}

/** What DNS says now; what it said last where the key may see domains and no more. */
async function currentRecords(client: Client, name: string): Promise<unknown> {
  try {
    return await withNextStep(name, () => client.post(`${domainPath(name)}/verify`));
  } catch (error) {
    if (error instanceof RequestRefused && error.refused.code === 'AUTH_FORBIDDEN') return client.get(domainPath(name));
    throw error;
  }
}

/** Does the work; a domain that is not there is refused with what to do first. */
async function withNextStep(name: string, work: () => Promise<unknown>): Promise<unknown> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof RequestRefused) || error.refused.code !== 'DOMAIN_NOT_FOUND') throw error;
    const how = `Add it to postern.yml and run postern push, or run: postern domains add ${name} --project <project>`;
    throw new RequestRefused(`${error.message} ${how}`, error.refused);
  }
}

export interface VerifyOptions {
  /** Repeat the check until all required records are found. */
  readonly wait: boolean;
  /** For how long, s. */
  readonly timeout: number;
}

/** Checks the records; exit code 1 if a required one is missing or wrong. */
export function domainsVerify(
  options: CommandOptions,
  name: string,
  { wait, timeout }: VerifyOptions,
): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await poll({
      ask: () => withNextStep(name, () => client.post(`${domainPath(name)}/verify`)),
      isDone: (answer) => !wait || isVerified(readAnswer(routes.show, answer)),
      onWait: (answer, left) => terminal.progress(`${waitingFor(readAnswer(routes.show, answer))} (${left} s left)`),
      timeoutMs: wait ? timeout * 1000 : 0,
      maxIntervalMs: MAX_POLL_INTERVAL_MS,
    });
    terminal.progress('');
    const domain = readAnswer(routes.show, data);
    if (json) writeJson(terminal, data);
    else writeResult(terminal, domain);
    return isVerified(domain) ? EXIT.done : EXIT.failed;
  });
}

/** A degraded one still sends, but not for long. */
function isVerified({ status }: Domain): boolean {
  return status === 'verified';
}

function waitingFor({ records }: Domain): string {
  const missing = records.filter((record) => record.required && !isCorrect(record));
  return missing.map(recordSentence)[0] ?? 'Waiting';
}

function writeResult({ write, style }: Terminal, domain: Domain): void {
  const verified = isVerified(domain);
  write(`${style(verified ? 'green' : 'red', domainSentence(domain))}\n`);
  const missing = domain.records.filter((record) => !isCorrect(record));
  for (const record of missing) write(`  ${record.required ? '' : 'recommended: '}${recordSentence(record)}\n`);
  if (missing.length > 0) write(`To see the records to add, run: postern domains setup ${domain.domain}\n`);
  if (domain.reason) write(`${domain.domain} stays pending: it is ${domain.reason}.\n`);
}

/** A line for each domain, as the last check found it. */
export function domainsStatus(options: CommandOptions): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const domains = await everyDomain(client);
    if (json) return writeJson(terminal, { domains, count: domains.length });
    if (domains.length === 0) {
      return terminal.write('No domains found. Add one to postern.yml and run postern push.\n');
    }
    const rows = domains.map(({ domain, status, project, records, checked_at }) => [
      domain,
      status,
      project,
      requiredCount(records).join(' of '),
      shortTime(checked_at),
    ]);
    writeTable(terminal, { headings: ['DOMAIN', 'STATUS', 'PROJECT', 'REQUIRED RECORDS', 'LAST CHECK'], rows });
  });
}

/** One domain with all of its records, as the last check found them. */
export function domainStatus(options: CommandOptions, name: string): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await withNextStep(name, () => client.get(domainPath(name)));
    if (json) return writeJson(terminal, data);
    writeDomain(terminal, readAnswer(routes.show, data));
  });
}

function writeDomain({ write, style }: Terminal, domain: Domain): void {
  write(`${domainSentence(domain)}\n`);
  for (const record of domain.records) write(`\n${recordText(record, domain.domain, style)}`);
}

/** Makes an account the owner of a domain. */
export function domainsMove(options: CommandOptions, name: string, tenant: string): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.post(`/admin/domains/${encodeURIComponent(name)}/move`, { tenant });
    if (json) return writeJson(terminal, data);
    const { project, status } = readAnswer(adminDomains.move, data);
    const next =
      status === 'verified'
        ? 'Its DNS records are correct.'
        : 'Its mail is held until the DNS records of this account are found.';
    terminal.write(`${name} is now owned by ${tenant} (project ${project}). ${next}\n`);
  });
}

/** Adds a domain to a project. */
export function domainsAdd(options: CommandOptions, name: string, project: string): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.post('/domains', { domain: name, project });
    if (json) return writeJson(terminal, data);
    const { domain, status } = readAnswer(routes.show, data);
    terminal.write(
      `Added ${domain} to ${project} (${status}). To see the DNS records to add, run: postern domains setup ${domain}\n`,
    );
  });
}

/** Removes a domain after confirmation. */
export function domainsRemove(options: CommandOptions, name: string, { yes }: { yes: boolean }): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const { status } = readAnswer(routes.show, await client.get(domainPath(name)));
    // Nothing that is pending has ever sent, or it is another account's now.
    const sends = status !== 'pending';
    const effect = `${sends ? 'Queued mail is still signed and sent. ' : ''}New mail and submissions are rejected.`;
    const question = `Remove ${name}? ${effect}`;
    if (!(await isConfirmed(terminal, question, yes))) return EXIT.failed;
    const data = await client.delete(domainPath(name));
    if (json) return writeJson(terminal, data);
    const records = sends
      ? 'Keep its DKIM records in DNS until the queued mail has been delivered. You can delete its other records now.'
      : 'You can delete its DNS records now.';
    terminal.write(`Removed ${name}. ${records}\n`);
  });
}

type Key = AnswerOf<typeof routes.rotateDkim>['keys'][number];

export interface RotateOptions {
  /** The server's own key instead of a domain's. */
  readonly host: boolean;
  /** Looks again until the new keys sign. */
  readonly wait: boolean;
  /** For how long, s. */
  readonly timeout: number;
}

/** Between two looks at DNS, ms. */
const MAX_KEY_POLL_INTERVAL_MS = 15_000;

/** Makes the next keys, or shows those that are made and wait. Answers 1 where they do not sign when the time to wait is over. */
export function rotateDkim(
  options: CommandOptions,
  domain: string | undefined,
  { host, wait, timeout }: RotateOptions,
): Promise<number> {
  const [rotate, verify] = pathsOf(domain, host);
  function keysIn(data: unknown): readonly Key[] {
    return (host ? readAnswer(hostKeys.rotate, data) : readAnswer(routes.rotateDkim, data)).keys;
  }

  function nextIn(data: unknown): readonly Key[] {
    return keysIn(data).filter(({ state }) => state === 'next');
  }

  return run(options, async ({ client, terminal, json }) => {
    const asked = await client.post(rotate);
    if (!json) writeNext(terminal, nextIn(asked));
    if (!wait) return json ? writeJson(terminal, asked) : terminal.write(NEXT_STEP);
    const answer = await poll({
      ask: () => client.post(verify),
      isDone: (data) => nextIn(data).length === 0,
      onWait: (data, left) =>
        terminal.progress(`Waiting for ${nextIn(data)[0]?.record.name ?? 'the record'} (${left} s left)`),
      timeoutMs: timeout * 1000,
      maxIntervalMs: MAX_KEY_POLL_INTERVAL_MS,
    });
    terminal.progress('');
    const isDone = nextIn(answer).length === 0;
    if (json) writeJson(terminal, answer);
    else writeKeys(terminal, keysIn(answer), isDone);
    return isDone ? EXIT.done : EXIT.failed;
  });
}

const NEXT_STEP = `
The current key stays in use until the new record is found. The daemon checks every
20 seconds at first. To wait, run the same command with --wait.
`;

/** Where to ask for the keys, and where for a look at DNS. */
function pathsOf(domain: string | undefined, host: boolean): [rotate: string, verify: string] {
  if (host && domain === undefined) return ['/admin/host-keys/rotate', '/admin/host-keys/verify'];
  if (!host && domain !== undefined) return [`${domainPath(domain)}/rotate-dkim`, `${domainPath(domain)}/verify`];
  throw new UsageError('Specify a domain, or --host for the key of the server itself.');
}

function writeNext({ write, style }: Terminal, next: readonly Key[]): void {
  write(`Add ${next.length === 1 ? 'this DNS record' : 'these DNS records'}, and keep the existing ones:\n`);
  for (const { record, algorithm } of next) {
    write(`\n${style('bold', `DKIM key (${algorithm})`)}\n`);
    for (const [name, value] of Object.entries(record)) write(`  ${name.padEnd(5)}  ${printable(value)}\n`);
  }
}

function writeKeys({ write, style }: Terminal, keys: readonly Key[], isDone: boolean): void {
  write(
    isDone
      ? `\n${style('green', 'Record found. The new key signs all mail within one minute.')}\n`
      : `\n${style('red', 'Record not found yet.')} The current key stays in use. The daemon keeps checking.\n`,
  );
  for (const { selector, state, since, record, advice } of keys)
    write(`\n${selector}  ${state} since ${shortTime(since)}\n  ${printable(record.name)}\n  ${printable(advice)}\n`);
}
