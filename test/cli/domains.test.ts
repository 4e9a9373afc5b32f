import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { cliWorld, HTML, person, YAML, type CliWorld } from './cli-world.ts';
import type { TestKeySettings } from '../harness/keys.ts';

async function shop(key: TestKeySettings = {}, yaml = YAML): Promise<CliWorld> {
  const world = await cliWorld(key);
  await world.write('postern.yml', yaml);
  await world.write('templates/mine.html', HTML);
  expect((await world.say(['push', '--yes'])).code).toBe(0);
  return world;
}

interface Shown {
  readonly status: string;
  readonly records: readonly { purpose: string; name: string; value: string; status: string }[];
}

describe('domains setup', () => {
  test('prints every record in rows that can be copied, with what stands there today', async () => {
    const world = await shop();
    const { records } = JSON.parse((await world.say(['domains', 'setup', 'shop.test', '--json'])).out) as Shown;
    const [ownership, dkim] = records;
    world.dns.set([
      ...world.publicZone,
      { name: 'shop.test', type: 'TXT', value: 'v=spf1 ip4:192.0.2.9 -all' },
      { name: '_dmarc.shop.test', type: 'TXT', value: 'v=DMARC1; p=reject' },
      { name: 'postern._domainkey.shop.test', type: 'TXT', value: 'v=DKIM1; p=' },
    ]);
    const { code, out } = await world.say(['domains', 'setup', 'Shop.Test']);
    expect(code).toBe(0);
    expect(out).toMatch(/^shop\.test is pending: 0 of 2 required records found \(checked \S+Z\)\.\n/);
    expect(out).toContain(`
Ownership: missing
  There is no such record yet.
  type   TXT
  name   _postern   (full name: _postern.shop.test)
  value  ${ownership?.value}
  TTL    3600
`);
    expect(out).toMatch(/DKIM: wrong\n {2}\S.*revoked.*\n {2}found {2}v=DKIM1; p=\n/);
    expect(out).toContain(`  value  ${dkim?.value}\n`);
    expect(out).toMatch(
      /SPF \(recommended\): wrong\n[^]*found {2}v=spf1 ip4:192\.0\.2\.9 -all\n[^]*name {3}@ {3}\(full name: shop\.test\)\n/,
    );
    expect(out).toMatch(/value {2}v=spf1 .*ip4:192\.0\.2\.9.* -all\n/);
    expect(out).toContain('DMARC (recommended): OK  _dmarc.shop.test\n');
    expect(out).toContain('then run: postern domains verify shop.test --wait\n');
  });

  test('--zone prints what a name server reads, but nothing that stands', async () => {
    const world = await shop();
    await world.publish('shop.test');
    const { out } = await world.say(['domains', 'setup', 'shop.test', '--zone']);
    const lines = out.split('\n').filter((line) => line !== '' && !line.startsWith(';'));
    expect(lines).toEqual([
      expect.stringMatching(/^shop\.test\. 3600 IN TXT "v=spf1 /),
      expect.stringMatching(/^_dmarc\.shop\.test\. 3600 IN TXT "v=DMARC1;/),
    ]);
    expect(out).toMatch(/^; postern\._domainkey\.shop\.test\. 3600 IN TXT "v=DKIM1;[^"]{240,}" "[^"]+"$/m);
  });

  test('publishes nothing in place of what DNS did not tell', async () => {
    const world = await shop();
    world.dns.set([...world.publicZone, { name: 'shop.test', fault: 'SERVFAIL' }]);
    const { out } = await world.say(['domains', 'setup', 'shop.test']);
    expect(out).toMatch(
      /SPF \(recommended\): unknown\n {2}DNS did not answer: .*\n {2}type {3}TXT\n {2}name {3}@ .*\n {2}The value is not known yet\. Do not add this record; run the command again later\.\n/,
    );
    expect(out).not.toContain('v=spf1');
    const zone = (await world.say(['domains', 'setup', 'shop.test', '--zone'])).out;
    expect(zone).not.toMatch(/^shop\.test/m);
    expect(zone).toMatch(/^_postern\.shop\.test\. 3600 IN TXT/m);
  });

  test('of a domain that is not there says what comes first', async () => {
    const world = await shop();
    const { code, err } = await world.say(['domains', 'setup', 'other.test']);
    expect(code).toBe(1);
    expect(err).toBe(
      'There is no domain other.test in this account. Add it to postern.yml and run postern push, or run: postern domains add other.test --project <project>\n',
    );
    expect(await world.say(['domains', 'setup', 'no domain'])).toMatchObject({ code: 2 });
  });

  test('shows what was found last to a key that may only read', async () => {
    const world = await cliWorld({ permissions: ['projects', 'domains.read'] });
    await world.write('postern.yml', YAML);
    await world.write('templates/mine.html', HTML);
    await world.say(['push', '--yes']);
    const { code, out } = await world.say(['domains', 'setup', 'shop.test']);
    expect([code, out]).toEqual([0, expect.stringMatching(/^shop\.test is pending: 0 of 2/)]);
    expect(await world.say(['domains', 'verify', 'shop.test'])).toMatchObject({ code: 1, out: '' });
  });
});

describe('domains verify', () => {
  test('ends with 1 and says which record is not right, with 0 once all stand', async () => {
    const world = await shop();
    const before = await world.say(['domains', 'verify', 'shop.test']);
    expect(before.code).toBe(1);
    expect(before.out).toContain('\n  Ownership _postern.shop.test: missing. There is no such record yet.\n');
    expect(before.out).toContain('\n  recommended: SPF shop.test: missing');
    expect(before.out).toContain('To see the records to add, run: postern domains setup shop.test\n');
    await world.publish('shop.test');
    const after = await world.say(['domains', 'verify', 'shop.test']);
    expect([after.code, after.out]).toEqual([
      0,
      expect.stringMatching(/^shop\.test is verified: 2 of 2 required records found/),
    ]);
    world.dns.set([...world.publicZone]);
    const broken = await world.say(['domains', 'verify', 'shop.test', '--json']);
    expect([broken.code, JSON.parse(broken.out)]).toEqual([1, expect.objectContaining({ status: 'degraded' })]);
  });

  test.each([['--wait'], ['--timeout', '300']])('%s looks until they stand', async (...flags) => {
    const world = await shop();
    const waiting = world.say(['domains', 'verify', 'shop.test', ...flags]);
    await world.publish('shop.test');
    expect(await waiting).toMatchObject({ code: 0, out: expect.stringContaining('shop.test is verified') });
  });

  test('--wait ends when patience does', async () => {
    const world = await shop();
    const { code, out } = await world.say(['domains', 'verify', 'shop.test', '--wait', '--timeout', '1']);
    expect([code, out]).toEqual([1, expect.stringContaining('shop.test is pending')]);
    expect(await world.say(['domains', 'verify', 'shop.test', '--wait', '--timeout', '0'])).toMatchObject({ code: 2 });
  });
});

describe('domains', () => {
  test('status shows a line for each, or all of one', async () => {
    const world = await cliWorld();
    expect((await world.say(['domains', 'status'])).out).toContain('No domains found');
    await world.write('postern.yml', YAML.replace('domains:\n', 'domains:\n  other.test: {}\n'));
    await world.write('templates/mine.html', HTML);
    await world.say(['push', '--yes']);
    const { out } = await world.say(['domains', 'status'], { width: 100 });
    expect(out).toMatch(
      /^DOMAIN +STATUS +PROJECT +REQUIRED RECORDS +LAST CHECK\nother\.test +pending +shop +0 of 2 +\S+\nshop\.test +pending/,
    );
    expect((await world.say(['domains', 'status', 'shop.test'])).out).toContain('Ownership: ');
    expect(JSON.parse((await world.say(['domains', 'status', '--json'])).out)).toMatchObject({ count: 2 });
    expect(await world.say(['domains', 'status', 'none.test'])).toMatchObject({
      code: 1,
      err: expect.stringContaining('Add it to postern.yml'),
    });
  });

  test('are added to a project of the API, and removed', async () => {
    const world = await cliWorld();
    const made = await fetch(`${world.url}/projects`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${world.env['POSTERN_API_KEY']}`, 'Content-Type': 'application/json' },
      body: '{"name":"Api"}',
    });
    expect(made.status).toBe(200);
    expect(await world.say(['domains', 'add', 'new.test'])).toMatchObject({
      code: 2,
      err: expect.stringContaining('--project'),
    });
    const { out } = await world.say(['domains', 'add', 'New.test', '--project', 'api']);
    expect(out).toBe(
      'Added new.test to api (pending). To see the DNS records to add, run: postern domains setup new.test\n',
    );
    expect(await world.say(['domains', 'add', 'new.test', '--project', 'none'])).toMatchObject({ code: 1 });
    expect(await world.say(['domains', 'remove', 'new.test'])).toMatchObject({
      code: 2,
      err: expect.stringContaining('--yes'),
    });
    expect((await world.say(['domains', 'remove', 'new.test'], { answers: ['y'] })).out).toContain(
      'Removed new.test. You can delete its DNS records now.',
    );
    await world.say(['domains', 'add', 'new.test', '--project', 'api']);
    await world.publish('new.test');
    expect((await world.say(['domains', 'verify', 'new.test'])).code).toBe(0);
    const removed = await world.say(['domains', 'remove', 'new.test'], { answers: ['y'] });
    expect(removed).toMatchObject({
      out: expect.stringContaining('Keep its DKIM records in DNS until the queued mail has been delivered'),
      err: expect.stringContaining('Queued mail is still signed and sent'),
    });
    expect((await world.say(['domains', 'remove', 'new.test', '--yes'])).code).toBe(1);
  });

  test('of a configuration are removed from it, and moved to another account by the operator', async () => {
    const world = await shop();
    const socket = world.daemon.addresses?.socket ?? '';
    const move = ['domains', 'move', 'shop.test', 'ten_none', '--config', join(dirname(socket), 'server.yml')];
    expect(await world.say(move)).toMatchObject({
      code: 1,
      err: expect.stringContaining('The account ten_none has no domain shop.test.'),
    });
    const { code, out } = await world.say(move.with(3, world.tenant));
    expect([code, out]).toEqual([0, expect.stringMatching(/^shop\.test is now owned by ten_\w+ \(project shop\)\. /)]);
    expect(await world.say(['domains', 'remove', 'shop.test', '--yes'])).toMatchObject({ code: 0 });
    expect((await world.say(['projects', 'show', 'shop'])).out).toMatch(/^domains +-$/m);
  });
});

test('domains list shows the operator the domains of all accounts, and nobody else', async () => {
  const world = await shop();
  const root = await person();
  const list = (...args: string[]) =>
    root.say(['domains', 'list', ...args, '--url', `unix:${world.daemon.addresses?.socket}`]);
  const { out } = await list();
  expect(out).toMatch(/^example\.test\tverified\tten_operator\tsite\t\S+Z\t-$/m);
  expect(out).toMatch(new RegExp(`^shop\\.test\\tpending\\t${world.tenant}\\tshop\\t`, 'm'));
  expect((await list('--tenant', world.tenant)).out).toMatch(/^shop\.test\t[^\n]*\n$/);
  expect((await list('--status', 'failed')).err).toBe('No matching domains.\n');
  const first = JSON.parse((await list('--limit', '1', '--json')).out) as { count: number; next_cursor: string };
  expect(first.count).toBe(2);
  expect((await list('--cursor', first.next_cursor)).out).toMatch(/^shop\.test\t/);
  expect((await world.say(['domains', 'list', '--url', world.url])).code).toBe(1);
});
