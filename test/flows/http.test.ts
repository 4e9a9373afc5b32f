import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { createClient } from '../../src/cli/client.ts';
import { SITE, startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { runOperator } from '../harness/terminal.ts';

const READYZ = { method: 'GET', path: '/readyz', answer: z.unknown() } as const;
const JSON_ANSWER = { Accept: 'application/json' };

/** A `postern queue` command as an operator sees it. */
function operator(world: TestWorld) {
  return (...args: string[]) => runOperator(world.daemon.addresses?.socket ?? '', ['queue', ...args]);
}

test('the operator holds a destination, sees what waits, releases it, and sees how it left', async () => {
  const world = await startTestWorld({ asInProduction: true });
  const say = operator(world);
  expect(await say('hold', 'inbox.test')).toEqual({
    code: 0,
    out: 'Holding mail to inbox.test\n',
    err: '',
  });
  expect((await world.post('/example.test/contact', { message: 'Hello' }, JSON_ANSWER)).status).toBe(200);
  const waiting = await say('list', '--domain', 'inbox.test');
  expect(waiting.out).toMatch(/\n(dlv_\w+) +queued +0 .*owner@inbox\.test\n1 of 1\n$/);
  const delivery = /dlv_\w+/.exec(waiting.out)?.[0] ?? '';
  expect(world.mx.mails.list()).toEqual([]);
  await say('release', 'inbox.test');
  await world.caught(1);
  await expect
    .poll(async () => (await say('show', delivery)).out)
    .toMatch(/delivered[^]*1 +\S+ +delivered +mx\.inbox\.test 127\.0\.0\.1 +\S+ +250 /);
});

test('a configuration that breaks while the daemon runs shows in readyz, and stops nothing', async () => {
  const world = await startTestWorld({ asInProduction: true });
  const file = join(world.folder, 'projects', 'site.yml');
  await writeFile(file, SITE.replace('uploads', 'uplaods'));
  await world.daemon.reload();
  const ready = await fetch(`${world.url}/readyz`);
  expect(ready.status).toBe(200);
  expect(await ready.json()).toMatchObject({
    status: 'ready',
    configuration: { hint: expect.stringContaining('config check') },
  });
  const told = JSON.stringify(
    (await createClient({ address: `unix:${world.daemon.addresses?.socket ?? ''}` }).ask({ route: READYZ })).data,
  );
  expect(told).toContain('uplaods');
  expect((await world.post('/example.test/contact', { message: 'Hello' }, JSON_ANSWER)).status).toBe(200);
});

test('an unverified domain tells its owner what to publish, and works once it is published', async () => {
  const world = await startTestWorld({ asInProduction: true, unverified: ['example.test'] });
  const refused = await world.post('/example.test/contact', { message: 'Hello' }, JSON_ANSWER);
  const body = (await refused.json()) as {
    records: { type: string; name: string; value: string; required: boolean }[];
  };
  expect([refused.status, body]).toEqual([
    403,
    expect.objectContaining({ errors: [expect.objectContaining({ code: 'DOMAIN_NOT_VERIFIED' })] }),
  ]);
  world.dns.set(
    body.records.filter(({ required }) => required).map(({ name, value }) => ({ name, type: 'TXT', value })),
  );
  await world.daemon.domains.check('example.test');
  expect((await world.post('/example.test/contact', { message: 'Hello' }, JSON_ANSWER)).status).toBe(200);
});
