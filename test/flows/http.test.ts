import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createClient } from '../../src/cli/client.ts';
import { queueAct, queueList, queueShow } from '../../src/cli/queue.ts';
import { SITE, startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { testTerminal } from '../harness/terminal.ts';

const JSON_ANSWER = { Accept: 'application/json' };

/** A `postern queue` command as an operator sees it. */
function operator(world: TestWorld) {
  const socket = world.daemon.addresses?.socket ?? '';
  const terminal = testTerminal({ width: 300 });
  const options = { client: createClient({ address: `unix:${socket}` }), terminal, json: false };
  return async (command: (given: typeof options) => Promise<number>) => {
    const code = await command(options);
    return { code, out: terminal.out() };
  };
}

test('the operator holds a destination, sees what waits, releases it, and sees how it left', async () => {
  const world = await startTestWorld({ asInProduction: true });
  const say = operator(world);
  expect(await say((options) => queueAct(options, 'hold', { what: 'inbox.test', dryRun: false, yes: false }))).toEqual({
    code: 0,
    out: 'Holding mail to inbox.test\n',
  });
  expect((await world.post('/example.test/contact', { message: 'Hello' }, JSON_ANSWER)).status).toBe(200);
  const waiting = await say((options) => queueList(options, { domain: 'inbox.test' }));
  expect(waiting.out).toMatch(/\n(dlv_\w+) +queued +0 .*owner@inbox\.test\n1 of 1\n$/);
  const delivery = /dlv_\w+/.exec(waiting.out)?.[0] ?? '';
  expect(world.mx.mails.list()).toEqual([]);
  await say((options) => queueAct(options, 'release', { what: 'inbox.test', dryRun: false, yes: false }));
  await world.caught(1);
  await expect
    .poll(async () => (await say((options) => queueShow(options, delivery))).out)
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
    await createClient({ address: `unix:${world.daemon.addresses?.socket ?? ''}` }).get('/readyz'),
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
