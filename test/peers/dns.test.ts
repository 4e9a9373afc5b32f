/** What the daemon says of domains that a real name server answers for, with every fault that owners make. */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { OPERATOR } from '../../src/store/tenants.ts';
import { apiClient, type Client } from '../harness/api.ts';
import { freePort } from '../harness/child.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { startNsd, txtRecord, type Nsd } from '../harness/nsd.ts';

const answer = z.object({
  status: z.string(),
  verified: z.boolean(),
  records: z.array(
    z.object({
      purpose: z.string(),
      type: z.string(),
      name: z.string(),
      value: z.string(),
      status: z.string(),
      found: z.array(z.string()),
      problem: z.string().optional(),
      note: z.string().optional(),
    }),
  ),
});
type Shown = z.output<typeof answer>;

const DOMAINS = [
  'right',
  'split',
  'alias',
  'twospf',
  'eleven',
  'gone',
  'wrongkey',
  'twokeys',
  'empty',
  'broken',
  'mail',
].map((label) => `${label}.test`);

const PROJECT = `
project: { name: Site, slug: site, owner: owner@inbox.test }
domains:
${DOMAINS.map((name) => `  ${name}: { ${name === 'mail.test' ? 'forwarding: { info@mail.test: ana@inbox.test }' : ''} }`).join('\n')}
`;

interface Setting {
  readonly world: TestWorld;
  readonly client: Client;
  readonly port: number;
  show(domain: string): Promise<Shown>;
  verify(domain: string): Promise<Shown>;
  /** NSD with the zones below. */
  serve(): Promise<Nsd>;
}

async function setUp(): Promise<Setting> {
  const port = await freePort();
  const world = await startTestWorld({
    projects: { 'site.yml': PROJECT },
    unverified: DOMAINS,
    server: { server: { public_ips: ['192.0.2.1'] }, dns: { servers: [`127.0.0.1:${port}`] } },
  });
  const client = await apiClient(world, { tenant: OPERATOR });
  async function ask(method: string, path: string): Promise<Shown> {
    const { status, body } = await client.ask(method, path);
    expect(status).toBe(200);
    return answer.parse(body);
  }
  const show = (domain: string) => ask('GET', `/domains/${domain}`);
  return {
    world,
    client,
    port,
    show,
    verify: (domain) => ask('POST', `/domains/${domain}/verify`),
    async serve() {
      const wanted = new Map<string, Shown>();
      for (const domain of DOMAINS) wanted.set(domain, await show(domain));
      const nsd = await startNsd({ port, zones: { test: records(wanted) }, expired: ['broken.test'] });
      onTestFinished(() => nsd.close());
      return nsd;
    },
  };
}

/** All of the zone `test`. */
function records(wanted: ReadonlyMap<string, Shown>): string[] {
  function of(domain: string, purpose: string): { name: string; value: string } {
    const record = wanted.get(`${domain}.test`)?.records.find((each) => each.purpose === purpose);
    if (record === undefined) throw new Error(`${domain} wants no ${purpose}`);
    return { name: `${record.name}.`, value: record.value };
  }
  function as(domain: string, purpose: string, change: (value: string) => string = (value) => value, size = 255) {
    const { name, value } = of(domain, purpose);
    return txtRecord(name, change(value), size);
  }
  const key = (domain: string) => of(domain, 'dkim').name;
  const elevens = Array.from({ length: 11 }, (_, i) => `s${i}`);
  return [
    'mail.postern A 192.0.2.1',
    ...['right', 'split', 'alias', 'twospf', 'eleven', 'wrongkey', 'twokeys', 'mail'].map((name) =>
      as(name, 'ownership'),
    ),
    ...['right', 'twospf', 'eleven', 'mail'].map((name) => as(name, 'dkim')),
    txtRecord('right', 'v=spf1 include:spf.right.test -all'),
    txtRecord('spf.right', 'v=spf1 ip4:192.0.2.0/28 -all'),
    txtRecord('_dmarc.right', 'v=DMARC1; p=reject'),
    // Cut where a console cuts, without its last tag's end, in another order.
    as('split', 'dkim', (value) => `${value.replace('k=rsa; ', '')}; k=rsa`, 60),
    txtRecord('_dmarc.split', 'v=DMARC1; p=nothing'),
    `${key('alias')} CNAME k1.keys.test.`,
    txtRecord('k1.keys', of('alias', 'dkim').value),
    txtRecord('twospf', 'v=spf1 ip4:198.51.100.7 -all'),
    txtRecord('twospf', 'v=spf1 mx ~all'),
    txtRecord(
      'eleven',
      `v=spf1 a:mail.postern.test ${elevens
        .slice(1)
        .map((name) => `include:${name}.eleven.test`)
        .join(' ')} -all`,
    ),
    ...elevens.map((name) => txtRecord(`${name}.eleven`, 'v=spf1 ip4:198.51.100.7 -all')),
    as('wrongkey', 'dkim', (value) => value.replace(/p=.{40}/, `p=${'A'.repeat(40)}`)),
    as('twokeys', 'dkim'),
    txtRecord(key('twokeys'), 'v=DKIM1; k=rsa; p=AAAA'),
    'empty A 192.0.2.9',
    'mail MX 10 mx.elsewhere.test.',
    'mx.elsewhere A 198.51.100.7',
  ];
}

function of(shown: Shown, purpose: string) {
  return shown.records.find((record) => record.purpose === purpose);
}

test('every verdict, of a name server that shares no code with us', async () => {
  const { verify, serve } = await setUp();
  const nsd = await serve();

  const right = await verify('right.test');
  expect(right).toMatchObject({ status: 'verified', verified: true });
  expect(right.records.map(({ purpose, status }) => [purpose, status])).toEqual([
    ['ownership', 'ok'],
    ['dkim', 'ok'],
    ['spf', 'ok'],
    ['dmarc', 'ok'],
  ]);

  const split = await verify('split.test');
  expect(split.status).toBe('verified');
  expect(of(split, 'dkim')).toMatchObject({ status: 'ok' });
  expect(of(split, 'spf')).toMatchObject({ status: 'missing', value: 'v=spf1 a:mail.postern.test ~all' });
  expect(of(split, 'dmarc')).toMatchObject({
    status: 'wrong',
    problem: expect.stringContaining('p=nothing is not valid'),
    value: '',
  });

  const alias = await verify('alias.test');
  expect(alias.status).toBe('verified');
  expect(of(alias, 'dkim')).toMatchObject({ status: 'ok', note: expect.stringContaining('CNAME to k1.keys.test') });

  const twice = of(await verify('twospf.test'), 'spf');
  expect(twice).toMatchObject({ status: 'duplicate' });
  expect(twice?.found).toHaveLength(2);
  expect(twice?.value).toMatch(
    /^v=spf1 a:mail\.postern\.test (ip4:198\.51\.100\.7 mx|mx ip4:198\.51\.100\.7) [-~]all$/,
  );

  expect(of(await verify('eleven.test'), 'spf')).toMatchObject({
    status: 'wrong',
    problem: 'It needs 11 DNS lookups, but receivers stop at 10.',
    value: expect.stringMatching(/^v=spf1 ip4:192\.0\.2\.1 include:/),
  });

  for (const [domain, why] of [
    ['gone.test', 'the name is not there'],
    ['empty.test', 'the name has other records'],
  ] as const) {
    const missing = await verify(domain);
    expect(missing.status, why).toBe('pending');
    expect(missing.records.map(({ status }) => status)).toEqual(['missing', 'missing', 'missing', 'missing']);
  }

  const wrong = await verify('wrongkey.test');
  expect(wrong.status).toBe('pending');
  expect(of(wrong, 'dkim')).toMatchObject({ status: 'wrong', problem: 'The key in p= is a different key.' });

  const doubled = await verify('twokeys.test');
  expect(doubled.status).toBe('pending');
  expect(of(doubled, 'dkim')).toMatchObject({ status: 'duplicate' });

  const broken = await verify('broken.test');
  expect(broken.status).toBe('pending');
  expect(broken.records.map(({ status }) => status)).toEqual(['unknown', 'unknown', 'unknown', 'unknown']);
  expect(of(broken, 'dkim')?.problem).toContain('the DNS server answered SERVFAIL');

  expect(of(await verify('mail.test'), 'inbound')).toMatchObject({
    type: 'MX',
    value: '10 mail.postern.test.',
    status: 'wrong',
    found: ['10 mx.elsewhere.test.'],
    problem: expect.stringContaining('Mail for the domain goes to mx.elsewhere.test.'),
  });
  await nsd.close();
});

test('a DNS outage, whether refused or silent, un-verifies nothing', async () => {
  const { verify, serve, port, world } = await setUp();
  const nsd = await serve();
  expect((await verify('right.test')).status).toBe('verified');
  await nsd.close();
  const refused = await verify('right.test');
  expect(refused).toMatchObject({ status: 'verified', verified: true });
  expect(of(refused, 'dkim')).toMatchObject({ status: 'unknown', problem: expect.stringContaining('no DNS server') });

  const silent = createSocket('udp4').bind(port, '127.0.0.1');
  await once(silent, 'listening');
  const unanswered = await verify('right.test');
  expect(unanswered).toMatchObject({ status: 'verified', verified: true });
  expect(of(unanswered, 'dkim')).toMatchObject({ status: 'unknown', problem: expect.stringContaining('in time') });
  silent.close();
  await once(silent, 'close');

  await serve();
  expect((await verify('right.test')).records.map(({ status }) => status)).toEqual(['ok', 'ok', 'ok', 'ok']);
  const events = await world.daemon.store.read
    .selectFrom('events')
    .select('type')
    .where('domain', '=', 'right.test')
    .execute();
  expect(events).toEqual([{ type: 'domain.verified' }]);
});
