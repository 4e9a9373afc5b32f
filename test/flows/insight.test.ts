/** `domains rotate-dkim`, `explain` and `trace`, as somebody types them on the server. */
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { until } from '../harness/child.ts';
import { SITE, startTestWorld } from '../harness/daemon.ts';
import { runCommand, testTerminal } from '../harness/terminal.ts';

async function start() {
  const world = await startTestWorld({
    projects: {
      'site.yml': SITE.replace('    forms:', '    forwarding: { "*@example.test": ana@inbox.test }\n    forms:'),
    },
  });
  return {
    world,
    async say(...args: string[]) {
      const terminal = testTerminal();
      const code = await runCommand(terminal, [...args, '--config', join(world.folder, 'server.yml')]);
      return { code, out: terminal.out(), err: terminal.err() };
    },
  };
}

/** The record that the command says to publish. */
function recordIn(out: string) {
  const [, name = '', value = ''] = /name +(\S+)\n +value +(.+)\n/.exec(out) ?? [];
  return { type: 'TXT', name, value } as const;
}

test('domains rotate-dkim prints the record, waits until DNS has it, and says what to do with the old one', async () => {
  const { world, say } = await start();
  const asked = await say('domains', 'rotate-dkim', 'example.test');
  expect(asked).toMatchObject({ code: 0, err: '' });
  expect(asked.out).toMatch(/name +postern-\d{8}\._domainkey\.example\.test\n +value +v=DKIM1; k=rsa; p=/);
  expect(asked.out).toContain('The current key stays in use until the new record is found.');
  const late = await say('domains', 'rotate-dkim', 'example.test', '--wait', '--timeout', '1');
  expect(late.code).toBe(1);
  expect(late.out).toContain('Record not found yet.');
  expect(recordIn(late.out)).toEqual(recordIn(asked.out));

  const known = (await world.daemon.domains.report('example.test'))?.records ?? [];
  const published = known.flatMap(({ purpose, name, value }) =>
    purpose === 'ownership' || purpose === 'dkim' ? [{ type: 'TXT' as const, name, value }] : [],
  );
  const waiting = say('domains', 'rotate-dkim', 'example.test', '--wait');
  world.dns.set([...world.publicZone, ...published]);
  const done = await waiting;
  expect(done.code).toBe(0);
  expect(done.out).toContain('The new key signs all mail within one minute.');
  expect(done.out).toMatch(
    /postern {2}retiring since .*\n.*\n {2}This key no longer signs\. Keep this record until at least \d{4}-/,
  );

  const host = await say('domains', 'rotate-dkim', '--host');
  expect(recordIn(host.out).name).toMatch(/^postern-\d{8}\._domainkey\.mail\.postern\.test$/);
  world.dns.set([...world.publicZone, ...published, recordIn(host.out)]);
  expect(await say('domains', 'rotate-dkim', '--host', '--wait')).toMatchObject({ code: 0 });
  await expect(say('domains', 'rotate-dkim')).rejects.toThrow('Specify a domain');
});

test('explain prints each step with what decides it, and fails where the mail is stopped', async () => {
  const { say } = await start();
  const address = await say('explain', 'anybody@example.test');
  expect(address).toMatchObject({ code: 0, err: '' });
  expect(address.out).toMatch(
    /^Mail received for anybody@example\.test\n\+ domain +example\.test of the project site is verified\n/,
  );
  expect(address.out).toMatch(
    /\+ rule +\*@example\.test: ana@inbox\.test\n +\(the catch-all rule: the address has no rule of its own\)/,
  );
  expect(address.out).toMatch(/\nto ana@inbox\.test\n(.|\n)*\+ route +mx\.inbox\.test \[127\.0\.0\.1\]/);
  await say('queue', 'hold', 'inbox.test');
  const form = await say('explain', 'example.test/contact');
  expect(form.code).toBe(1);
  expect(form.out).toMatch(/x destination +mail to inbox\.test is held/);
  expect(JSON.parse((await say('explain', 'example.test/contact', '--json')).out)).toMatchObject({ kind: 'form' });
  const nothing = await say('explain', 'nonsense');
  expect(nothing.code).toBe(1);
  expect(nothing.err).toContain('neither an address nor a form');
});

test('trace prints what became of a request', async () => {
  const { world, say } = await start();
  const answer = await world.post('/example.test/contact', { message: 'Are you open on Friday?' });
  const request = answer.headers.get('x-request-id') ?? '';
  await until('it has arrived', async () => (await say('trace', request)).out.includes('owner@inbox.test delivered'));
  const { code, out } = await say('trace', request);
  expect(code).toBe(0);
  expect(out).toMatch(new RegExp(`^request +${request}\nsubmission  sub_\\S+\nmessages +msg_\\S+\n`));
  expect(out).toMatch(
    /Z {2}attempt +attempt 1 for owner@inbox\.test: delivered at mx\.inbox\.test \[127\.0\.0\.1\] over TLSv1\.3: 250 /,
  );
  expect(await say('trace', 'sub_nothing')).toMatchObject({ code: 1, err: expect.stringContaining('only in the log') });
});
