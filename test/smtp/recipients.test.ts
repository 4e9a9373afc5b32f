/** What becomes of mail for an address, decided at RCPT. */
import { describe, expect, test } from 'vitest';
import type { Snapshot } from '../../src/config/snapshot.ts';
import { openReturnPath } from '../../src/mail/own-addresses.ts';
import { decideRecipient, type Decision, type Directory } from '../../src/smtp/recipients.ts';
import { insertDomain } from '../../src/store/domains.ts';
import type { DomainStatus } from '../../src/store/tables.ts';
import { HOSTNAME, RETURN_SECRET, inboundSnapshot, returnPathOf, startInboundSmtp } from '../harness/inbound-smtp.ts';
import { tenantRow } from '../harness/keys.ts';
import { insertTenant } from '../../src/store/tenants.ts';

const forwarding = {
  'info@example.test': 'ana@inbox.test',
  'team@example.test': ['ana@inbox.test', 'bob@inbox.test', 'ana@inbox.test'],
  'sales+vip@example.test': 'vip@inbox.test',
  'sales@example.test': 'bob@inbox.test',
  'gone@example.test': 'reject',
  'noreply@example.test': 'discard',
  'chain@example.test': 'info@example.test',
  'both@example.test': ['noreply@example.test', 'x@other.test'],
  'quiet@example.test': 'noreply@example.test',
  'away@example.test': 'nobody@example.test',
};
const domains = {
  'all.test': { forwarding: { '*@all.test': 'all@inbox.test', 'a!b@all.test': 'bang@inbox.test' } },
  'other.test': { forwarding: { 'x@other.test': 'x@inbox.test' } },
  'open.test': { forwarding: { 'info@open.test': 'x@inbox.test' } },
  'lost.test': { forwarding: { 'info@lost.test': 'x@inbox.test' } },
  'worn.test': { forwarding: { 'info@worn.test': 'x@inbox.test' } },
};
const status: Record<string, DomainStatus> = { 'open.test': 'pending', 'lost.test': 'failed', 'worn.test': 'degraded' };

function decide(address: string, given: Partial<Directory> & { sender?: string } = {}): Decision {
  const { sender = 'x@sender.test', ...directory } = given;
  return decideRecipient(address, sender, {
    snapshot: inboundSnapshot({ forwarding, domains }),
    status: (domain) => status[domain] ?? 'verified',
    openReturnPath: (text) => openReturnPath(text, RETURN_SECRET),
    openSrs: (text) => (text.startsWith('SRS0=good') ? 'author@sender.test' : undefined),
    openReply: ({ local }) => (local === 'reply+good' ? { message: 'msg_good', to: 'visitor' } : undefined),
    ...directory,
  });
}

/** In a line. */
function words(decision: Decision): string {
  switch (decision.kind) {
    case 'forward':
      return `→ ${decision.targets.join(' ')}`;
    case 'refuse':
      return `${decision.reply.slice(0, 9)} ${decision.reason}`;
    case 'bounce':
      return `bounce of ${decision.message}`;
    case 'srs':
      return `back to ${decision.sender}`;
    case 'reply':
      return `reply ${decision.ticket.message.slice('msg_'.length)}`;
    case 'discard':
      return 'discard';
    case 'report':
      return 'report';
  }
}

describe('the forwarding map', () => {
  test.each([
    ['info@example.test', '→ ana@inbox.test'],
    ['INFO@Example.TEST', '→ ana@inbox.test'],
    ['info+news@example.test', '→ ana@inbox.test'],
    ['team@example.test', '→ ana@inbox.test bob@inbox.test'],
    ['sales+vip@example.test', '→ vip@inbox.test'],
    ['sales+else@example.test', '→ bob@inbox.test'],
    ['noreply@example.test', 'discard'],
    ['gone@example.test', '550 5.1.1 rejected'],
    ['nobody@example.test', '550 5.1.1 unknown_recipient'],
    ['anybody@all.test', '→ all@inbox.test'],
    ['anybody+tag@all.test', '→ all@inbox.test'],
    ['info@worn.test', '→ x@inbox.test'],
    ['info@open.test', '451 4.7.1 domain_not_verified'],
    ['nobody@open.test', '451 4.7.1 domain_not_verified'],
    ['info@lost.test', '451 4.7.1 domain_not_verified'],
    ['info@elsewhere.test', '550 5.7.1 relay_denied'],
  ])('%s: %s', (address, expected) => {
    expect(words(decide(address))).toBe(expected);
  });

  test('goes through domains of ours to the end', () => {
    expect(words(decide('chain@example.test'))).toBe('→ ana@inbox.test');
    expect(words(decide('both@example.test'))).toBe('→ x@inbox.test');
    expect(words(decide('quiet@example.test'))).toBe('discard');
    expect(words(decide('away@example.test'))).toBe('→ nobody@example.test');
  });

  test('keeps the address as it was written, for the one it goes to', () => {
    expect(decide('INFO+News@Example.TEST')).toMatchObject({
      original: 'INFO+News@example.test',
      domain: 'example.test',
      tenant: 'ten_operator',
    });
  });

  test('a domain whose configuration is broken keeps the sender waiting', () => {
    const snapshot: Snapshot = { ...inboundSnapshot(), unavailable: new Map([['broken.test', 'projects/broken.yml']]) };
    expect(words(decide('info@broken.test', { snapshot }))).toBe('451 4.3.5 domain_unavailable');
  });
});

describe('the address for reports at the host name', () => {
  test.each([
    [`reports@${HOSTNAME}`, 'report'],
    [`Reports@${HOSTNAME.toUpperCase()}`, 'report'],
    [`reports+x@${HOSTNAME}`, '550 5.1.1 unknown_recipient'],
    ['reports@example.test', '550 5.1.1 unknown_recipient'],
  ])('%s: %s', (address, expected) => {
    expect(words(decide(address))).toBe(expected);
  });

  test('goes where a rule of its owner says, if the host name is a domain with one', () => {
    const rule = { [`reports@${HOSTNAME}`]: 'ana@inbox.test' };
    const caught = { [`*@${HOSTNAME}`]: 'all@inbox.test' };
    const ruled = inboundSnapshot({ domains: { [HOSTNAME]: { forwarding: rule } } });
    expect(words(decide(`reports@${HOSTNAME}`, { snapshot: ruled }))).toBe('→ ana@inbox.test');
    const open = inboundSnapshot({ domains: { [HOSTNAME]: { forwarding: caught } } });
    expect(words(decide(`reports@${HOSTNAME}`, { snapshot: open }))).toBe('report');
  });
});

describe('postmaster and abuse', () => {
  test.each([
    ['postmaster', '→ ops@inbox.test'],
    ['PostMaster', '→ ops@inbox.test'],
    [`postmaster@${HOSTNAME}`, '→ ops@inbox.test'],
    ['postmaster@example.test', '→ owner@inbox.test'],
    ['Abuse@example.test', '→ owner@inbox.test'],
    ['abuse@all.test', '→ all@inbox.test'],
    [`abuse@${HOSTNAME}`, '550 5.1.1 unknown_recipient'],
  ])('%s: %s', (address, expected) => {
    expect(words(decide(address))).toBe(expected);
  });

  test('are reached whatever the map says of them or of all', () => {
    const rejecting = { '*@example.test': 'reject', 'abuse@example.test': 'discard' };
    const snapshot = inboundSnapshot({ forwarding: rejecting });
    expect(words(decide('postmaster@example.test', { snapshot }))).toBe('→ owner@inbox.test');
    expect(words(decide('abuse@example.test', { snapshot }))).toBe('→ owner@inbox.test');
  });
});

describe('addresses that we made', () => {
  const path = returnPathOf('msg_01hzzzzzzzzzzzzzzzzzzzzzzz');

  test.each([
    [path, '', 'bounce of msg_01hzzzzzzzzzzzzzzzzzzzzzzz'],
    [path.toUpperCase(), 'x@sender.test', 'bounce of msg_01hzzzzzzzzzzzzzzzzzzzzzzz'],
    [path.replace('b+01h', 'b+01j'), '', '550 5.1.1 invalid_return_path'],
    [`b+@${HOSTNAME}`, '', '550 5.1.1 invalid_return_path'],
    [`SRS0=good=AA=sender.test=author@${HOSTNAME}`, '', 'back to author@sender.test'],
    [`SRS0=good=AA=sender.test=author@${HOSTNAME}`, 'x@sender.test', '550 5.1.1 invalid_srs'],
    [`srs0=evil=AA=sender.test=author@${HOSTNAME}`, '', '550 5.1.1 invalid_srs'],
    ['SRS0=good=AA=sender.test=author@elsewhere.test', '', '550 5.7.1 relay_denied'],
    [`anybody@${HOSTNAME}`, '', '550 5.1.1 unknown_recipient'],
    ['reply+good@example.test', 'x@sender.test', 'reply good'],
    ['reply+evil@example.test', 'x@sender.test', '550 5.1.1 unknown_recipient'],
  ])('%s from <%s>: %s', (address, sender, expected) => {
    expect(words(decide(address, { sender }))).toBe(expected);
  });
});

/** Each of them has made some server pass mail on to where it pleased. */
const TRICKS = [
  'victim%elsewhere.test@example.test',
  'victim%elsewhere.test@all.test',
  'elsewhere.test!victim@all.test',
  'elsewhere.test!victim@example.test',
  'victim@elsewhere.test@example.test',
  '"victim@elsewhere.test"@all.test',
  '"victim"@all.test',
  '"info"@example.test',
  'victim@[127.0.0.1]',
  'victim@[IPv6:::1]',
  'victim@127.0.0.1',
  'info@example.test.',
  'info@example.test..',
  'info@.example.test',
  'victim@elsewhere.test.',
  'victim%elsewhere.test',
  'elsewhere.test!victim',
  'victim@localhost',
  `victim%elsewhere.test@${HOSTNAME}`,
  'info@example.test\0@elsewhere.test',
  'info@example.test,victim@elsewhere.test',
  'info@example.test victim@elsewhere.test',
  '<victim@elsewhere.test>@all.test',
  'info(comment)@example.test',
  'info @example.test',
];

describe('no trick makes it relay', () => {
  test.each(TRICKS)('%j', (address) => {
    const decision = decide(address);
    expect(words(decision)).toMatch(/^550 5\.(?:7\.1 relay_denied|1\.1 unknown_recipient)/);
  });

  test('what a map names is not a trick', () => {
    expect(words(decide('a!b@all.test'))).toBe('→ bang@inbox.test');
  });

  test('nor does it at the listener, and each is written down', async () => {
    const listener = await startInboundSmtp({ forwarding, domains, limits: { smtp: { errors: 1000 } } });
    const client = await listener.client();
    await client.say('EHLO client.test');
    await client.say('MAIL FROM:<x@sender.test>');
    const tricks = TRICKS.filter((address) => !address.includes('\0') && !address.startsWith('<'));
    for (const address of tricks) expect(await client.say(`RCPT TO:<${address}>`)).toMatch(/^550 5\.[17]\.1/);
    for (const path of ['<@example.test:victim@elsewhere.test>', '<@example.test,@all.test:victim@elsewhere.test>'])
      expect(await client.say(`RCPT TO:${path}`)).toMatch(/^550 5\.7\.1/);
    expect(await client.say('RCPT TO:<@elsewhere.test:info@example.test>')).toMatch(/^250/);
    const written = (await listener.log()).filter(({ outcome }) => outcome === 'rejected');
    expect(written).toHaveLength(tricks.length + 2);
    expect(new Set(written.map(({ reason }) => reason))).toEqual(new Set(['relay_denied', 'unknown_recipient']));
  });
});

test('forwarding is followed within an account: another account’s map speaks for that account alone', () => {
  const snapshot = inboundSnapshot({
    forwarding: { 'a@example.test': 'b@own.test', 'c@example.test': 'd@theirs.test' },
    domains: {
      'own.test': { forwarding: { 'b@own.test': 'end@elsewhere.test' } },
      'theirs.test': { forwarding: { 'd@theirs.test': 'victim@elsewhere.test' } },
    },
  });
  const theirs = snapshot.domains.get('theirs.test');
  if (theirs === undefined) throw new Error('no domain');
  const domains = new Map(snapshot.domains).set('theirs.test', {
    ...theirs,
    project: { ...theirs.project, tenant: 'ten_other' },
  });
  const none = () => undefined;
  const openings = { openReturnPath: none, openSrs: none, openReply: none };
  const directory: Directory = { snapshot: { ...snapshot, domains }, status: () => 'verified', ...openings };
  const targets = (address: string) => {
    const decision = decideRecipient(address, 'x@sender.test', directory);
    return decision.kind === 'forward' ? [decision.tenant, ...decision.targets] : decision.kind;
  };
  expect(targets('a@example.test')).toEqual(['ten_operator', 'end@elsewhere.test']);
  expect(targets('c@example.test')).toEqual(['ten_operator', 'd@theirs.test']);
  expect(targets('d@theirs.test')).toEqual(['ten_other', 'victim@elsewhere.test']);
});

test('a suspended tenant’s mail waits at its sender', async () => {
  const snapshot = inboundSnapshot({ forwarding });
  const [domain] = snapshot.domains.values();
  if (domain === undefined) throw new Error('no domain');
  const project = { ...domain.project, tenant: 'ten_other' };
  const theirs = { ...snapshot, domains: new Map([[domain.name, { ...domain, project }]]) };
  const listener = await startInboundSmtp({ directory: { snapshot: theirs } });
  await listener.store.write([insertTenant(tenantRow({ id: 'ten_other', suspended: 1 }))]);
  const client = await listener.client();
  await client.say('EHLO client.test');
  await client.say('MAIL FROM:<x@sender.test>');
  expect(await client.say('RCPT TO:<info@example.test>')).toMatch(/^451 4\.7\.1/);
  expect(await listener.log()).toEqual([
    {
      recipient: 'info@example.test',
      outcome: 'deferred',
      reply: expect.stringMatching(/^451/),
      reason: 'tenant_suspended',
      tenant: 'ten_other',
    },
  ]);
});

test('refusals of somebody’s address are events of theirs', async () => {
  const listener = await startInboundSmtp({ forwarding });
  const client = await listener.client();
  await client.say('EHLO client.test');
  await client.say('MAIL FROM:<x@sender.test>');
  await client.say('RCPT TO:<nobody@example.test>');
  await client.say('RCPT TO:<victim@elsewhere.test>');
  await listener.log();
  const events = await listener.store.read.selectFrom('events').select(['type', 'domain', 'data']).execute();
  expect(events.map(({ type, domain, data }) => [type, domain, JSON.parse(data)])).toEqual([
    [
      'inbound.rejected',
      'example.test',
      expect.objectContaining({ from: 'x@sender.test', to: 'nobody@example.test', reason: 'unknown_recipient' }),
    ],
  ]);
});

test.for([
  ['verified', /^451 4\.3\.5/],
  ['degraded', /^451 4\.3\.5/],
  ['pending', /^550 5\.7\.1/],
  ['failed', /^550 5\.7\.1/],
] as const)('a domain that the database knows as %s and the configuration here lacks', async ([state, reply]) => {
  const listener = await startInboundSmtp();
  const row = { name: 'elsewhere.test', tenant: 'ten_operator', project: 'prj_1', token: 't' };
  await listener.store.write([insertDomain({ ...row, status: state, next_check_at: 1, created_at: 1 })]);
  const client = await listener.client();
  await client.say('EHLO client.test');
  await client.say('MAIL FROM:<x@sender.test>');
  expect(await client.say('RCPT TO:<info@elsewhere.test>')).toMatch(reply);
  expect(await client.say('RCPT TO:<info@stranger.test>')).toMatch(/^550 5\.7\.1/);
});
