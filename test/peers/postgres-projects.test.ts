/** Three daemons on one PostgreSQL database, a project file on one of them: all serve it alike, whichever is restarted. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import nodemailer from 'nodemailer';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { startDaemon, type Daemon } from '../../src/daemon/daemon.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { until } from '../harness/child.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { testKey } from '../harness/keys.ts';
import { startPostgres, type Postgres } from '../harness/postgres.ts';

let postgres: Postgres;

beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.close());

const SITE = `
project: { name: Site, slug: site, owner: owner@inbox.test }
settings: { rate_limit: 100000 }
domains:
  example.test:
    forwarding: { "info@example.test": ana@inbox.test }
    forms:
      contact: { name: Contact form, to: owner@inbox.test }
`;
const JSON_ANSWER = { Accept: 'application/json', 'Content-Type': 'application/x-www-form-urlencoded' };

interface Served {
  readonly daemon: Daemon;
  readonly world: TestWorld;
}

function urlOf({ daemon }: Served): string {
  return `http://127.0.0.1:${daemon.addresses?.tcp[0]?.port ?? 0}`;
}

/** What a visitor, a mail server and a program see of it. */
async function seen(served: Served, headers: Record<string, string>) {
  const form = await fetch(`${urlOf(served)}/example.test/contact`, {
    method: 'POST',
    headers: JSON_ANSWER,
    body: 'name=Ann',
  });
  const port = served.daemon.smtp[0]?.port ?? 0;
  const transport = nodemailer.createTransport({ host: '127.0.0.1', port, ignoreTLS: true });
  const mail = { from: 'ann@sender.test', to: 'info@example.test', subject: 'x', text: 'hello' };
  const { accepted } = await transport.sendMail(mail);
  const asked = await Promise.all(
    ['/projects/site', '/domains/example.test', '/forms/example.test/contact'].map(async (path) =>
      (await fetch(urlOf(served) + path, { headers })).json(),
    ),
  );
  const [project, domain, contact] = asked as [
    Record<string, unknown>,
    Record<string, unknown>,
    Record<string, unknown>,
  ];
  return {
    form: form.status,
    accepted,
    project,
    domain: [domain['status'], domain['project']],
    contact: [contact['name'], contact['to']],
  };
}

test('a project file on one of three daemons is served by all, also after each was restarted alone', async () => {
  const url = await postgres.createDatabase('projects_three');
  const zone = [{ name: 'sender.test', type: 'TXT', value: 'v=spf1 ip4:127.0.0.1 -all' }] as const;
  const server = { database: { url } };
  const first = await startTestWorld({ server, zone, projects: { 'site.yml': SITE } });
  const others = [
    await startTestWorld({ server, zone, projects: {} }),
    await startTestWorld({ server, zone, projects: {} }),
  ];
  const all: Served[] = [first, ...others].map((world) => ({ world, daemon: world.daemon }));
  const { headers } = await testKey(first.daemon.store, { tenant: OPERATOR });

  const [wanted, ...rest] = await Promise.all(all.map((one) => seen(one, headers)));
  expect(wanted).toMatchObject({
    form: 200,
    accepted: ['info@example.test'],
    project: { managed_by: { file: join(first.folder, 'projects', 'site.yml') }, file_missing: false },
    domain: ['verified', 'site'],
    contact: ['Contact form', 'owner@inbox.test'],
  });
  for (const one of rest) expect(one).toEqual(wanted);

  for (const [index, { world, daemon }] of all.entries()) {
    await daemon.close();
    const again = await startDaemon(join(world.folder, 'server.yml'));
    onTestFinished(() => again.close());
    all[index] = { world, daemon: again };
    expect(await Promise.all(all.map((one) => seen(one, headers)))).toEqual([wanted, wanted, wanted]);
  }

  // The file goes: nothing does, and all say so; until the operator ends the project.
  await rm(join(first.folder, 'projects', 'site.yml'));
  await all[0]?.daemon.reload();
  const problems = () => all.map(({ daemon }) => daemon.snapshot().problems.join());
  await until('all report it', () => problems().every((text) => text.includes('the file is missing')), 10_000);
  expect((await Promise.all(all.map((one) => seen(one, headers)))).map(({ form }) => form)).toEqual([200, 200, 200]);
  const answer = await fetch(`${urlOf(all[1] ?? { world: first, daemon: first.daemon })}/projects/site`, {
    method: 'DELETE',
    headers,
  });
  expect(answer.status).toBe(200);
  await until(
    'none serves it',
    () => all.every(({ daemon }) => !daemon.snapshot().domains.has('example.test')),
    10_000,
  );
});
