import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { sealMessage } from 'mailauth/lib/arc/index.js';
import { authenticate, type Circumstances } from '../../src/mail/authenticate.ts';
import { signDkim } from '../../src/mail/dkim.ts';
import { fieldsOf } from '../../src/mail/header.ts';
import {
  authorRefusal,
  dmarcRefusal,
  needsFromRewrite,
  readAuthResults,
  writeAuthResults,
  type AuthResults,
} from '../../src/mail/auth-results.ts';
import { testClock } from '../harness/clock.ts';
import { message, testKey, type TestKey } from './dkim-corpus.ts';
import { stubDns } from './stub-dns.ts';

const AUTHOR = [
  'From: Alice <alice@example.com>',
  'To: bob@example.net',
  'Subject: hello',
  'Date: Sat, 21 Nov 2026 10:00:00 +0000',
  'Message-ID: <1@example.com>',
];
const REJECT = { 'TXT _dmarc.example.com': 'v=DMARC1; p=reject' };
const SPF = { 'TXT example.com': 'v=spf1 ip4:192.0.2.1 -all' };
const mail = message(AUTHOR, 'Hello\r\n');

let key: TestKey;
let published: Record<string, string>;
let signed: Buffer;

beforeAll(async () => {
  key = await testKey('rsa');
  published = { [`TXT ${key.record[0]}`]: key.record[1] };
  signed = Buffer.concat([await signDkim([mail], [key], Date.now() - 1000), mail]);
});

function judge(bytes: Buffer, records: Parameters<typeof stubDns>[0], more: Partial<Circumstances> = {}) {
  return authenticate([bytes], {
    ip: '192.0.2.1',
    helo: 'client.example.com',
    sender: 'alice@example.com',
    mta: 'mail.example.net',
    ask: stubDns(records).ask,
    clock: testClock(),
    timeoutMs: 10_000,
    trusted: [],
    ...more,
  });
}

async function found(...args: Parameters<typeof judge>): Promise<AuthResults> {
  return (await judge(...args)).verdicts;
}

describe('what is found', () => {
  test('of a message that is what it says', async () => {
    const { verdicts, headers } = await judge(signed, { ...SPF, ...REJECT, ...published });
    expect(verdicts).toEqual({
      spf: { result: 'pass', domain: 'example.com' },
      dkim: [{ domain: 'example.com', selector: 'rsa', result: 'pass', aligned: true }],
      dmarc: { result: 'pass', policy: 'reject', domain: 'example.com' },
      arc: { result: 'none', trusted: false },
      from: 'alice@example.com',
      vouched: true,
    });
    expect(readAuthResults(writeAuthResults(verdicts))).toEqual(verdicts);
    expect(fieldsOf(headers).map(({ name }) => name)).toEqual(['received-spf', 'authentication-results']);
    expect(headers).toMatch(/^Authentication-Results: mail\.example\.net;\r\n dkim=pass/m);
    expect(headers).toContain('spf=pass');
    expect(headers).toContain('dmarc=pass');
    expect(headers.endsWith('\r\n')).toBe(true);
  });

  test('does not depend on where the pieces break', async () => {
    const records = { ...SPF, ...REJECT, ...published };
    const whole = await judge(signed, records);
    for (const size of [1, 7, 100]) {
      const pieces = async function* () {
        for (let at = 0; at < signed.length; at += size) yield signed.subarray(at, at + size);
      };
      const circumstances = { ip: '192.0.2.1', helo: 'client.example.com', sender: 'alice@example.com' };
      const rest = { mta: 'mail.example.net', clock: testClock(), timeoutMs: 10_000, trusted: [] };
      const cut = await authenticate(pieces(), { ...circumstances, ...rest, ask: stubDns(records).ask });
      expect(cut).toEqual(whole);
    }
  });

  test('of a body that was changed on the way: the signature proves nothing', async () => {
    const changed = Buffer.from(signed.toString('latin1').replace('Hello\r\n', 'Hallo\r\n'), 'latin1');
    const verdicts = await found(changed, { ...REJECT, ...published });
    expect(verdicts.dkim[0]?.result).not.toBe('pass');
    expect(verdicts.dmarc.result).toBe('fail');
  });

  test('of nothing at all', async () => {
    const { verdicts } = await judge(Buffer.from(''), {}, { sender: '', helo: '' });
    expect(verdicts).toMatchObject({ dkim: [], from: '', vouched: false, dmarc: { result: 'none', domain: '' } });
  });

  test('is said in ASCII, whatever names a client gives itself', async () => {
    const odd = message(
      [
        'From: j\u00f6@example.com',
        'DKIM-Signature: v=1; a=rsa-sha256; d=ex\u00e4mple.com; s=\u00fc; h=from; bh=a; b=b',
      ],
      '\u00e9',
    );
    const { headers } = await judge(odd, {}, { sender: 'j\u00f6@example.com', helo: 'x y (\u00e9)\u0000' });
    expect(headers).toMatch(/^[\r\n\t -~]*$/);
    expect(fieldsOf(headers).map(({ name }) => name)).toEqual(['received-spf', 'authentication-results']);
  });

  test('a message whose pieces cannot be read is not judged', async () => {
    const broken = async function* () {
      yield signed.subarray(0, 900);
      throw new Error('no such piece');
    };
    const rest = {
      ip: '192.0.2.1',
      helo: 'x',
      sender: '',
      mta: 'm.example.net',
      clock: testClock(),
      timeoutMs: 1,
      trusted: [],
    };
    await expect(authenticate(broken(), { ...rest, ask: stubDns({}).ask })).rejects.toThrow('no such piece');
  });
});

describe('a forgery', () => {
  const forged = { ip: '198.51.100.9', sender: 'x@attacker.example' };

  test('is refused where the policy says so, and only then', async () => {
    const verdicts = await found(mail, { ...SPF, ...REJECT }, forged);
    expect(verdicts.dmarc).toEqual({ result: 'fail', policy: 'reject', domain: 'example.com' });
    expect(dmarcRefusal(verdicts, 'enforce')).toEqual({
      reply: '550 5.7.1 rejected by the DMARC policy of example.com',
      reason: 'dmarc',
    });
    expect(dmarcRefusal(verdicts, 'record')).toBeUndefined();
    const softer = await found(mail, { 'TXT _dmarc.example.com': 'v=DMARC1; p=quarantine' }, forged);
    expect(softer.dmarc).toMatchObject({ result: 'fail', policy: 'quarantine' });
    expect(dmarcRefusal(softer, 'enforce')).toBeUndefined();
  });

  test('of a subdomain falls under sp=', async () => {
    const sub = message(['From: x@news.example.com', ...AUTHOR.slice(1)], '');
    const verdicts = await found(sub, { 'TXT _dmarc.example.com': 'v=DMARC1; p=reject; sp=none' }, forged);
    expect(verdicts.dmarc).toMatchObject({ result: 'fail', policy: 'none' });
  });

  test('is not let in by a signature of its own, or by its own SPF', async () => {
    const own = { ...(await testKey('ed25519')), domain: 'attacker.example', selector: 'own' };
    const bytes = Buffer.concat([await signDkim([mail], [own], Date.now() - 1000), mail]);
    const records = {
      ...REJECT,
      'TXT own._domainkey.attacker.example': own.record[1],
      'TXT attacker.example': 'v=spf1 +all',
    };
    const verdicts = await found(bytes, records, forged);
    expect(verdicts).toMatchObject({
      spf: { result: 'pass' },
      dkim: [{ result: 'pass', aligned: false }],
      vouched: true,
    });
    expect(dmarcRefusal(verdicts, 'enforce')?.reason).toBe('dmarc');
  });

  test.each([
    ['SERVFAIL', 'SERVFAIL'],
    ['silence', 'SILENCE'],
  ])('is not let in by %s of names in its own hands', async (_, answer) => {
    const clock = testClock();
    const signatures = Array.from(
      { length: 9 },
      (_, i) =>
        `DKIM-Signature: v=1; a=rsa-sha256; d=attacker.example; s=s${i}; h=from; bh=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=; b=aaaa`,
    );
    const last = signatures[0]?.replace('attacker.example', 'example.com') ?? '';
    const bytes = message([...signatures, last, ...AUTHOR], '');
    const names = Object.fromEntries(signatures.map((_, i) => [`TXT s${i}._domainkey.attacker.example`, answer]));
    const work = found(bytes, { ...REJECT, ...names, 'TXT attacker.example': answer }, { ...forged, clock });
    const verdicts = await (answer === 'SILENCE' ? until(work, clock, 10_000) : work);
    expect(verdicts.dmarc.result).toBe('fail');
    expect(dmarcRefusal(verdicts, 'enforce')?.reason).toBe('dmarc');
  });

  test('with two From headers, or a list of authors, is refused', async () => {
    const two = message(['From: a@attacker.example', ...AUTHOR], '');
    const list = message(['From: a@attacker.example, alice@example.com', ...AUTHOR.slice(1)], '');
    const same = message(['From: alice@example.com, carol@example.com', ...AUTHOR.slice(1)], '');
    const long = message([`From: ${'x '.repeat(10_000)}<alice@example.com>`, ...AUTHOR.slice(1)], '');
    const folded = message(['From\r\n : a@attacker.example', ...AUTHOR], '');
    for (const bytes of [two, list, same, long, folded]) {
      const { author, verdicts } = await judge(bytes, REJECT, forged);
      expect(verdicts).toMatchObject({ dmarc: { result: 'permerror' }, from: '' });
      expect(authorRefusal(author, { isReturned: true })?.reply).toMatch(/^550 5\.7\.1 /);
    }
  });
});

/** Moves the clock on once all else waits. */
async function until<T>(work: Promise<T>, clock: ReturnType<typeof testClock>, ms: number): Promise<T> {
  for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve));
  clock.advance(ms);
  return work;
}

describe('DNS that does not answer', () => {
  const elsewhere = { ip: '198.51.100.9', sender: 'list@lists.example' };

  test('about the author proves nothing: the message is let in', async () => {
    const name = `TXT ${key.record[0]}`;
    for (const answer of ['SERVFAIL', 'SILENCE']) {
      const clock = testClock();
      const work = found(signed, { ...REJECT, [name]: answer }, { ...elsewhere, clock });
      const verdicts = await until(work, clock, 10_000);
      expect(verdicts.dkim[0]?.result).toBe('temperror');
      expect(verdicts.dmarc.result).toBe('temperror');
      expect(dmarcRefusal(verdicts, 'enforce')).toBeUndefined();
      expect(needsFromRewrite(verdicts)).toBe(false);
    }
  });

  test('about the SPF of the author proves nothing either', async () => {
    const verdicts = await found(mail, { ...REJECT, 'TXT example.com': 'SERVFAIL' }, { ip: '198.51.100.9' });
    expect(verdicts).toMatchObject({ spf: { result: 'temperror' }, dmarc: { result: 'temperror' }, vouched: false });
    expect(dmarcRefusal(verdicts, 'enforce')).toBeUndefined();
  });

  test('about the policy: there is none', async () => {
    const verdicts = await found(mail, { 'TXT _dmarc.example.com': 'SERVFAIL' }, elsewhere);
    expect(verdicts.dmarc).toMatchObject({ result: 'temperror', policy: 'none' });
    expect(dmarcRefusal(verdicts, 'enforce')).toBeUndefined();
  });

  test('to anything ends at the deadline, and half as late again for policies', async () => {
    const clock = testClock();
    const silent = () => new Promise<string[]>(() => undefined);
    const work = found(signed, {}, { ask: silent, clock });
    await until(Promise.resolve(), clock, 10_000);
    const verdicts = await until(work, clock, 5000);
    expect(verdicts).toMatchObject({
      spf: { result: 'temperror' },
      dkim: [{ result: 'temperror' }],
      dmarc: { result: 'temperror' },
      vouched: false,
    });
  });
});

describe('work that a message can make us do has an end', () => {
  test('300 signatures are ten, and questions at most a hundred', async () => {
    const signatures = Array.from(
      { length: 300 },
      (_, i) =>
        `DKIM-Signature: v=1; a=rsa-sha256; d=d${i}.example; s=s; h=from; l=${i}; bh=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=; b=aaaa`,
    );
    const include = Object.fromEntries(
      Array.from({ length: 10 }, (_, i) => [
        `MX mx${i}.example`,
        Array.from({ length: 10 }, (_, j) => `h${i}-${j}.example`),
      ]),
    );
    const spf = `v=spf1 ${Array.from({ length: 10 }, (_, i) => `mx:mx${i}.example`).join(' ')} -all`;
    const dns = stubDns({ ...REJECT, ...include, 'TXT attacker.example': spf });
    const more = { ask: dns.ask, ip: '198.51.100.9', sender: 'x@attacker.example' };
    const verdicts = await found(message([...signatures, ...AUTHOR], 'x\r\n'), {}, more);
    expect(verdicts.dkim).toHaveLength(10);
    expect(dns.asked.length).toBeLessThan(100);
    expect(dmarcRefusal(verdicts, 'enforce')?.reason).toBe('dmarc');
  });

  test('a signature with hundreds of blanks in a row is none: to read it takes as long as a hundred others', async () => {
    const blanks = `DKIM-Signature: v=1; a=rsa-sha256; d=example.com; s=s; h=from:a${' '.repeat(300)}b; bh=x; b=y`;
    const few = blanks.replace(' '.repeat(300), ' '.repeat(100));
    const { dkim } = await found(message([blanks, few, blanks, ...AUTHOR], 'x\r\n'), {});
    expect(dkim).toHaveLength(1);
  });

  test.each([
    ['authors', `From: ${'a@b.c, '.repeat(14_000)}a@b.c`],
    ['angles', `From: ${'<'.repeat(100_000)}`],
    [
      'names to sign',
      `DKIM-Signature: v=1; a=rsa-sha256; d=x.y; s=z; h=from${':a'.repeat(45_000)}; bh=x; b=y\r\n${'b:\r\n'.repeat(800)}From: a@b.c`,
    ],
    ['blanks', `DKIM-Signature: v=1;${' '.repeat(100_000)}; d=x.y\r\nFrom: a@b.c`],
    ['folds', `X: ${'a\r\n '.repeat(990)}\r\nFrom: a@b.c`],
    ['comments', `ARC-Authentication-Results: i=1; ${'('.repeat(100_000)}\r\nFrom: a@b.c`],
    ['results', `ARC-Authentication-Results: i=1; x;${'dkim=pass;'.repeat(10_000)}\r\nFrom: a@b.c`],
    ['hops', `${'Received: from (((((((((((((((((((((((((((((((\r\n'.repeat(990)}From: a@b.c`],
  ])('100 KiB of %s', async (_, header) => {
    const before = process.threadCpuUsage();
    await judge(Buffer.from(`${header}\r\n\r\n`), {});
    expect(process.threadCpuUsage(before).user / 1e6).toBeLessThan(1.5);
  });
});

describe('the envelope sender is vouched for', () => {
  test.each([
    ['by SPF', mail, { ...SPF }, {}, true],
    ['by a signature of its domain', 'signed', {}, { ip: '198.51.100.9' }, true],
    ['by a signature of the domain above', 'signed', {}, { ip: '198.51.100.9', sender: 'b@bounces.example.com' }, true],
    ['not by a signature of another, whoever the author is', 'signed', {}, { sender: 'victim@victim.example' }, false],
    ['not by SPF that fails', mail, { ...SPF }, { ip: '198.51.100.9' }, false],
    ['by ourselves', mail, { ...SPF }, { ip: '127.0.0.1', isOwn: true }, true],
    ['not where there is none', 'signed', { 'TXT client.example.com': 'v=spf1 +all' }, { sender: '' }, false],
  ])('%s', async (_, bytes, records, more, vouched) => {
    const verdicts = await found(typeof bytes === 'string' ? signed : bytes, { ...records, ...published }, more);
    expect(verdicts.vouched).toBe(vouched);
  });
});

test('of our own mail SPF says nothing, and DKIM all that it does of others', async () => {
  const own = { ip: '127.0.0.1', sender: 'b@mail.example.net', isOwn: true };
  const { verdicts, headers } = await judge(
    signed,
    { 'TXT mail.example.net': 'v=spf1 -all', ...REJECT, ...published },
    own,
  );
  expect(verdicts).toMatchObject({
    spf: { result: 'none' },
    dkim: [{ result: 'pass', domain: 'example.com', aligned: true }],
    dmarc: { result: 'pass', policy: 'reject' },
  });
  expect(headers).toMatch(/^Authentication-Results: mail\.example\.net;\r\n auth=pass;\r\n dkim=pass /);
  expect(headers).not.toMatch(/spf/i);
});

describe('an ARC chain', () => {
  /** As a mailing list changes and seals it; its name for DKIM, ARC and results is `d`. */
  async function throughList(
    bytes: Buffer,
    { results = 'dmarc=pass header.from=example.com', d = 'lists.example', i = 1 } = {},
  ): Promise<Buffer> {
    const changed = Buffer.from(bytes.toString('latin1').replace(/^Subject: /m, 'Subject: [list] '), 'latin1');
    const seal = await sealMessage(changed, {
      signingDomain: d,
      selector: 'arc',
      privateKey: String(key.key.export({ type: 'pkcs8', format: 'pem' })),
      cv: i === 1 ? 'none' : 'pass',
      authResults: `mx.${d}; ${results}`,
    });
    return Buffer.concat([seal, changed]);
  }
  const hop = { ip: '198.51.100.9', sender: 'list@lists.example' };
  let records: Record<string, string>;

  beforeAll(() => {
    records = {
      ...REJECT,
      ...published,
      'TXT arc._domainkey.lists.example': key.record[1],
      'TXT arc._domainkey.other.example': key.record[1],
    };
  });

  test('lets a message in that a list of ours saw pass, and no stranger', async () => {
    const bytes = await throughList(signed);
    const believed = await found(bytes, records, { ...hop, trusted: ['lists.example'] });
    expect(believed).toMatchObject({
      dmarc: { result: 'fail', policy: 'reject' },
      arc: { result: 'pass', trusted: true },
    });
    expect(dmarcRefusal(believed, 'enforce')).toBeUndefined();
    const stranger = await found(bytes, records, hop);
    expect(stranger.arc).toEqual({ result: 'pass', trusted: false });
    expect(dmarcRefusal(stranger, 'enforce')?.reason).toBe('dmarc');
  });

  test.each([
    ['did not pass there', 'dmarc=fail header.from=example.com'],
    ['was of another author there', 'dmarc=pass header.from=attacker.example'],
    ['only says so in a string', 'spf=pass smtp.mailfrom="x; dmarc=pass header.from=example.com"'],
  ])('does not let in what %s', async (_, results) => {
    const verdicts = await found(await throughList(signed, { results }), records, {
      ...hop,
      trusted: ['lists.example'],
    });
    expect(verdicts.arc).toEqual({ result: 'pass', trusted: false });
  });

  test('is believed as far back as its seals are', async () => {
    const first = await throughList(signed);
    const second = await throughList(first, {
      d: 'other.example',
      i: 2,
      results: 'arc=pass; dmarc=fail header.from=example.com',
    });
    const both = await found(second, records, { ...hop, trusted: ['lists.example', 'other.example'] });
    expect(both.arc).toEqual({ result: 'pass', trusted: true });
    expect((await found(second, records, { ...hop, trusted: ['lists.example'] })).arc.trusted).toBe(false);
    expect((await found(second, records, { ...hop, trusted: ['other.example'] })).arc.trusted).toBe(false);
  });

  test('that is broken has failed, and one of which a key is out of reach may not have', async () => {
    const bytes = await throughList(signed);
    const broken = Buffer.from(bytes.toString('latin1').replace('[list]', '[liar]'), 'latin1');
    expect((await found(broken, records, { ...hop, trusted: ['lists.example'] })).arc).toEqual({
      result: 'fail',
      trusted: false,
    });
    const silent = { ...records, 'TXT arc._domainkey.lists.example': 'SERVFAIL' };
    expect((await found(bytes, silent, hop)).arc.result).toBe('temperror');
  });
});

test.each([
  ['no policy', 'v=DMARC1; p=none', false, false],
  ['a policy and a signature that survives', 'v=DMARC1; p=reject', true, false],
  ['quarantine, and SPF alone', 'v=DMARC1; p=quarantine', false, true],
  ['reject, and SPF alone', 'v=DMARC1; p=reject', false, true],
  ['a policy on trial', 'v=DMARC1; p=quarantine; t=y', false, false],
])('a From is rewritten where DMARC would fail downstream: %s', async (_, policy, isSigned, rewritten) => {
  const verdicts = await found(isSigned ? signed : mail, { ...SPF, ...published, 'TXT _dmarc.example.com': policy });
  expect(verdicts.dmarc.result).toBe('pass');
  expect(needsFromRewrite(verdicts)).toBe(rewritten);
});

test('whatever a message holds, it is judged, in two fields of ASCII', async () => {
  const piece = fc.constantFrom(
    'From: ',
    'DKIM-Signature: ',
    'ARC-Seal: ',
    'ARC-Message-Signature: ',
    'ARC-Authentication-Results: ',

    'Content-Type: ',
    'Return-Path: ',
    'Received: ',
    '\r\n',
    '\r\n ',
    '\r\n',
    'i=1; ',
    'a=rsa-sha256; ',
    'd=example.com; ',

    's=rsa; ',
    'h=from; ',
    'b=',
    'bh=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=; ',
    'l=-1; ',
    't=99999999999999999999; ',
    'cv=pass; ',

    '<',
    '>',
    '"',
    '(',
    ')',
    '\\',
    '@',
    ',',
    ';',
    ':',
    '=',
    '__proto__',
    '\u0000',
    '\n',
    '\r',
    '\xff',
    '=?utf-8?q?=?=',
    ' ',
    'a@b.c',
  );
  const text = fc.array(piece, { maxLength: 60 }).map((parts) => parts.join(''));
  const word = fc.string({ unit: 'binary', maxLength: 30 });
  await fc.assert(
    fc.asyncProperty(text, word, word, async (text, helo, sender) => {
      const { verdicts, headers } = await judge(
        Buffer.from(text, 'latin1'),
        { ...REJECT, ...published },
        { helo, sender },
      );
      expect(readAuthResults(writeAuthResults(verdicts))).toEqual(verdicts);
      expect(fieldsOf(headers).map(({ name }) => name)).toEqual(['received-spf', 'authentication-results']);
      expect(headers).toMatch(/^[\r\n\t -~]*\r\n$/);
      expect(headers.split('\r\n').every((line) => line.length <= 998)).toBe(true);
    }),
    { numRuns: 1500 },
  );
});
