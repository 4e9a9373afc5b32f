import { createPrivateKey } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { authenticate, type Authenticated } from '../../src/mail/authenticate.ts';
import { arcSeal, generateDkimKey, hashBody, parseFields, signDkim, type SigningKey } from '../../src/mail/dkim.ts';
import { splitHeader, fieldsOf, valueOf } from '../../src/mail/header.ts';
import { testClock } from '../harness/clock.ts';
import { corpus, message, testKey, type TestKey } from './dkim-corpus.ts';
import { stubDns } from './stub-dns.ts';

const NOW = Date.UTC(2026, 10, 21);
const mail = message(['From: alice@example.com', 'To: bob@example.net', 'Subject: hello', 'Date: x'], 'Hello\r\n');
let author: TestKey;
let records: Record<string, string>;
const hops = new Map<string, SigningKey>();

beforeAll(async () => {
  author = await testKey('rsa');
  records = { [`TXT ${author.record[0]}`]: author.record[1] };
  for (const domain of ['one.example', 'two.example', 'three.example']) {
    const { privateKey, publicKey } = await generateDkimKey('rsa');
    hops.set(domain, { domain, selector: 'arc', algorithm: 'rsa', key: createPrivateKey(privateKey) });
    records[`TXT arc._domainkey.${domain}`] = `v=DKIM1; k=rsa; p=${publicKey}`;
  }
});

function judge(bytes: Buffer, mta: string, more: Readonly<Record<string, string>> = {}): Promise<Authenticated> {
  const dns = stubDns({ ...records, ...more });
  const rest = { clock: testClock(), timeoutMs: 10_000, trusted: [] };
  return authenticate([bytes], {
    ip: '192.0.2.1',
    helo: 'x.example',
    sender: 'alice@example.com',
    mta,
    ask: dns.ask,
    ...rest,
  });
}

/** The message as this server forwards it. */
async function hop(bytes: Buffer, domain: string, more?: Readonly<Record<string, string>>): Promise<Buffer> {
  const key = hops.get(domain);
  if (key === undefined) throw new Error('no such hop');
  const { verdicts, headers } = await judge(bytes, `mail.${domain}`, more);
  const [results] = fieldsOf(headers)
    .filter(({ name }) => name === 'authentication-results')
    .map(valueOf);
  const out = Buffer.concat([Buffer.from(`Received: by mail.${domain}\r\n${headers}`), bytes]);
  const { header, body } = await splitHeader([out]);
  const fields = parseFields(header);
  const sealing = { chain: verdicts.arc.result, results: results ?? '', key, now: NOW };
  const seal = await arcSeal({ fields, bodyHash: await hashBody(body) }, sealing);
  return Buffer.concat([Buffer.from(seal, 'latin1'), out]);
}

async function chainOf(bytes: Buffer): Promise<string> {
  return (await judge(bytes, 'mail.next.example')).verdicts.arc.result;
}

function count(bytes: Buffer, tag: RegExp): number {
  return bytes.toString('latin1').match(new RegExp(tag, 'g'))?.length ?? 0;
}

describe('a message that we seal', () => {
  test.each(corpus)('holds at the next server: $name', async ({ bytes }) => {
    const sealed = await hop(bytes, 'one.example');
    expect(await chainOf(sealed)).toBe('pass');
    expect(sealed.subarray(-bytes.length)).toEqual(bytes);
  });

  test('tells what we saw', async () => {
    const signed = Buffer.concat([await signDkim([mail], [author], NOW), mail]);
    const text = (await hop(signed, 'one.example')).toString('latin1');
    expect(text).toMatch(/^ARC-Seal: i=1; a=rsa-sha256; t=1795219200; cv=none; d=one\.example; s=arc;\r\n b=/);
    expect(text).toMatch(/\r\nARC-Authentication-Results: i=1; mail\.one\.example;\r\n dkim=pass/);
    expect(text.split('\r\n').every((line) => line.length < 200)).toBe(true);
  });

  test('holds over three servers, and not with a byte changed', async () => {
    const three = await hop(await hop(await hop(mail, 'one.example'), 'two.example'), 'three.example');
    expect(await chainOf(three)).toBe('pass');
    expect(count(three, /ARC-Seal: i=[123]; .* cv=(?:none|pass)/)).toBe(3);
    for (const [from, to] of [
      ['Hello', 'Hallo'],
      ['Subject: hello', 'Subject: jello'],
      ['i=2; mail.two.example', 'i=2; mail.two.exampie'],
    ] as const) {
      const changed = Buffer.from(three.toString('latin1').replace(from, to), 'latin1');
      expect(changed).not.toEqual(three);
      expect(await chainOf(changed), to).toBe('fail');
    }
  });
});

describe('a chain that does not hold', () => {
  test('is sealed as failed, once, and never again', async () => {
    const broken = Buffer.from((await hop(mail, 'one.example')).toString('latin1').replace('Hello', 'Hallo'), 'latin1');
    const two = await hop(broken, 'two.example');
    expect(two.toString('latin1')).toMatch(/^ARC-Seal: i=2; .* cv=fail/);
    expect(await chainOf(two)).toBe('fail');
    const three = await hop(two, 'three.example');
    expect(count(three, /ARC-Seal: /)).toBe(2);
  });

  test('is left alone where DNS could not tell', async () => {
    const one = await hop(mail, 'one.example');
    const two = await hop(one, 'two.example', { 'TXT arc._domainkey.one.example': 'SERVFAIL' });
    expect(count(two, /ARC-Seal: /)).toBe(1);
    expect(await chainOf(two)).toBe('pass');
  });

  test('is full with fifty sets', async () => {
    const full = Buffer.concat([Buffer.from('ARC-Seal: i=50; cv=pass; b=x\r\n'), mail]);
    expect(count(await hop(full, 'one.example'), /ARC-Seal: /)).toBe(1);
  });
});

test('a key of another kind than RSA seals nothing', async () => {
  const { header, body } = await splitHeader([mail]);
  const fields = parseFields(header);
  const sealing = { chain: 'none', results: ' x', key: await testKey('ed25519'), now: NOW } as const;
  expect(await arcSeal({ fields, bodyHash: await hashBody(body) }, sealing)).toBe('');
});
