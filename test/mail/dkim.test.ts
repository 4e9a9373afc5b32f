import * as fc from 'fast-check';
import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import { beforeAll, describe, expect, test } from 'vitest';
import { dkimRecordValue } from '../../src/dns/records.ts';
import { generateDkimKey, signDkim } from '../../src/mail/dkim.ts';
import { corpus, message, testKey, type TestKey } from './dkim-corpus.ts';

const NOW = Date.UTC(2024, 0, 2, 3, 4, 5);
let rsa: TestKey;
let ed25519: TestKey;

beforeAll(async () => {
  rsa = await testKey('rsa');
  ed25519 = await testKey('ed25519');
});

/** mailauth's verdict on each signature, in their order. */
async function verdicts(bytes: Buffer): Promise<string[]> {
  const records = new Map([rsa.record, ed25519.record]);
  const { results } = await dkimVerify(bytes, {
    resolver: (name: string) => {
      const value = records.get(name);
      if (value === undefined) throw Object.assign(new Error(`no ${name}`), { code: 'ENOTFOUND' });
      return Promise.resolve([[value]]);
    },
  });
  return results.map(({ status }) => status.result);
}

async function signed(bytes: Buffer, keys: readonly TestKey[]): Promise<Buffer> {
  return Buffer.concat([await signDkim([bytes], keys, NOW), bytes]);
}

describe('a signature verifies with mailauth', () => {
  test.each(corpus)('$name', async ({ bytes }) => {
    expect(await verdicts(await signed(bytes, [rsa, ed25519]))).toEqual(['pass', 'pass']);
  });

  test('whatever the body and the headers hold, and wherever the chunks break', async () => {
    const byte = fc.oneof(
      fc.constantFrom(...Buffer.from(' \t.aF=\xa0\xe3\x80\r\n', 'latin1')),
      fc.integer({ min: 1, max: 255 }),
    );
    const line = fc
      .array(byte, { maxLength: 30 })
      .map((bytes) => Buffer.from(bytes.filter((b) => b !== 10 && b !== 13)));
    const body = fc
      .array(line, { maxLength: 8 })
      .map((lines) => Buffer.concat(lines.flatMap((l) => [l, Buffer.from('\r\n')])));
    const value = line.map((bytes) => Buffer.concat([Buffer.from('Subject: x'), bytes]));
    const cuts = fc.array(fc.nat(400), { maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(body, value, line, cuts, async (body, subject, folded, cuts) => {
        const bytes = message(
          ['From: alice@example.com', subject, Buffer.concat([Buffer.from('To: bob@example.net,\r\n '), folded])],
          body,
        );
        const ends = [...cuts.filter((cut) => cut < bytes.length).sort((a, b) => a - b), bytes.length];
        const chunks = ends.map((end, i) => bytes.subarray(ends[i - 1] ?? 0, end));
        const header = await signDkim(chunks, [ed25519], NOW);
        expect(await verdicts(Buffer.concat([header, bytes]))).toEqual(['pass']);
      }),
      { numRuns: 300 },
    );
  });

  test('with 80,000 empty lines, blanks or both, in a body or a header', async () => {
    // A quadratic signer or folder takes seconds for each.
    for (const filler of ['\r\n'.repeat(80_000), ' '.repeat(80_000), ' \t\r\n'.repeat(80_000)]) {
      const bytes = message(['From: alice@example.com'], `a${filler}b${filler}`);
      expect(await verdicts(await signed(bytes, [ed25519]))).toEqual(['pass']);
    }
    const header = message(
      ['From: alice@example.com', `Subject: a${' '.repeat(80_000)}b${'\t'.repeat(80_000)}`],
      'x\r\n',
    );
    expect(await verdicts(await signed(header, [ed25519]))).toEqual(['pass']);
  });

  test('in linear time, in one-byte chunks too', async () => {
    const headers = Array.from(
      { length: 4000 },
      (_, i) => `X-${i}:${' \t'.repeat(20)}${'x'.repeat(50)}${' \t'.repeat(20)}`,
    );
    const bytes = message(['From: alice@example.com', ...headers], '\t \r\n'.repeat(50_000));
    const chunks = Array.from({ length: bytes.length }, (_, i) => bytes.subarray(i, i + 1));
    const header = await signDkim(chunks, [ed25519], NOW);
    expect(await verdicts(Buffer.concat([header, bytes]))).toEqual(['pass']);
  });
});

describe('what a signature covers', () => {
  const lines = ['From: alice@example.com', 'To: bob@example.net', 'Subject: hello', 'X-Other: 1'];

  test.each([
    ['From: mallory@example.com'],
    ['To: x@example.net'],
    ['Subject: other'],
    ['Date: Tue, 14 Nov 2023 22:13:20 +0000'],
    ['Reply-To: mallory@example.org'],
    ['MIME-Version: 1.0'],
    ['Content-Type: text/html'],
  ])('nobody can add %s', async (line) => {
    const bytes = await signed(message(lines, 'x\r\n'), [rsa]);
    expect(await verdicts(bytes)).toEqual(['pass']);
    const verdict = await verdicts(Buffer.concat([Buffer.from(`${line}\r\n`), bytes]));
    expect(verdict).not.toContain('pass');
  });

  test.each([
    'Message-ID: <1@example.com>',
    'Cc: carol@example.net',
    'In-Reply-To: <0@example.net>',
    'References: <0@example.net>',
    'Content-Transfer-Encoding: 7bit',
    'List-Unsubscribe: <https://example.com/u>',
    'List-Unsubscribe-Post: List-Unsubscribe=One-Click',
  ])('nobody can change %s', async (line) => {
    const bytes = await signed(message([...lines, line], 'x\r\n'), [rsa]);
    expect(await verdicts(bytes)).toEqual(['pass']);
    const changed = bytes.toString('latin1').replace(`${line}\r\n`, `${line}x\r\n`);
    expect(await verdicts(Buffer.from(changed, 'latin1'))).not.toContain('pass');
  });

  test('a byte more in the body breaks it: there is no l=', async () => {
    const bytes = await signed(message(lines, 'x\r\n'), [rsa]);
    expect(bytes.toString()).not.toMatch(/\bl=/);
    expect(await verdicts(Buffer.concat([bytes, Buffer.from('y\r\n')]))).not.toContain('pass');
  });

  test('a header that is not signed may be added', async () => {
    const bytes = await signed(message(lines, 'x\r\n'), [rsa]);
    expect(await verdicts(Buffer.concat([Buffer.from('Received: by mx.example.net\r\n'), bytes]))).toEqual(['pass']);
  });
});

describe('the header', () => {
  test('has the time, the domain, the selector and both line forms, in lines of at most 78 characters', async () => {
    const long = { ...rsa, domain: `${'sub.'.repeat(12)}example.com`, selector: 's'.repeat(40) };
    const header = await signDkim(
      [message(['From: alice@example.com', 'To: b@example.net'], 'x\r\n')],
      [rsa, long],
      NOW,
    );
    const text = header.toString();
    expect(text).toMatch(
      /^DKIM-Signature: v=1; a=rsa-sha256; c=relaxed\/relaxed; d=example\.com; s=rsa;\r\n t=1704164645; bh=/,
    );
    expect(text.endsWith('\r\n')).toBe(true);
    for (const line of text.split('\r\n')) expect(line.length).toBeLessThanOrEqual(78);
    expect(text.replaceAll(/\r\n[ \t]/g, '').split('\r\n')).toHaveLength(3);
  });
});

describe('what is refused', () => {
  const from = 'From: alice@example.com';
  test.each<[string, (string | Buffer)[], string | Buffer]>([
    ['two From headers', [from, 'from: mallory@example.com'], 'x\r\n'],
    ['no From header', ['To: bob@example.net'], 'x\r\n'],
    ['a bare LF in the body', [from], 'a\nb\r\n'],
    ['a bare CR in the body', [from], 'a\rb\r\n'],
    ['a CR at the end of the body', [from], 'a\r\n\r'],
    ['a NUL in the body', [from], 'a\0b\r\n'],
    ['a bare LF in a header', [from, 'Subject: a\nBcc: x@example.org'], 'x\r\n'],
    ['a bare CR in a header', [from, 'Subject: a\rb'], 'x\r\n'],
    ['a NUL in a header', [from, 'Subject: a\0b'], 'x\r\n'],
    ['a header line without a name', [from, 'what is this'], 'x\r\n'],
    ['a blank before the colon', [from, 'Subject : x'], 'x\r\n'],
    ['a continuation without a header', [' continued', from], 'x\r\n'],
  ])('%s', async (_, lines, body) => {
    await expect(signDkim([message(lines, body)], [rsa], NOW)).rejects.toThrow(/not signed/);
  });
});

describe('keys', () => {
  test('are told apart by their records', async () => {
    const { publicKey } = await generateDkimKey('ed25519');
    expect(Buffer.from(publicKey, 'base64')).toHaveLength(32);
    expect(dkimRecordValue('ed25519', publicKey)).toBe(`v=DKIM1; k=ed25519; p=${publicKey}`);
    expect(rsa.record[1]).toMatch(/^v=DKIM1; k=rsa; p=MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A[A-Za-z0-9+/]{360}$/);
    expect(rsa.key.asymmetricKeyDetails?.modulusLength).toBe(2048);
  });
});
