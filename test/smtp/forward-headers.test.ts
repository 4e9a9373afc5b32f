/** What the next server finds: mailauth judges what was forwarded, as it judges what comes in. */
import { beforeAll, describe, expect, test } from 'vitest';
import { serverSchema } from '../../src/config/schema-server.ts';
import { dkimRecordValue } from '../../src/dns/records.ts';
import { authenticate } from '../../src/mail/authenticate.ts';
import { generateDkimKey, signDkim } from '../../src/mail/dkim.ts';
import type { AuthResults } from '../../src/mail/auth-results.ts';
import { insertDkimKey } from '../../src/store/dkim-keys.ts';
import { findMessage } from '../../src/store/messages.ts';
import { testClock } from '../harness/clock.ts';
import { openTestStore } from '../harness/store.ts';
import { testKey, type TestKey } from '../mail/dkim-corpus.ts';
import { stubDns } from '../mail/stub-dns.ts';
import { sourcesOf, take, TENANT, TRACE, VERDICTS, type Taken } from './forward-world.ts';

const HEADER =
  'From: Alice <alice@example.com>\r\nTo: sales@shop.test\r\nSubject: Hello\r\n' +
  'Date: Tue, 14 Nov 2023 22:13:20 +0000\r\nMessage-ID: <1@example.com>\r\n';
const BODY = '\r\n.Hi\r\n..\r\n \r\n';
const UNSIGNED: AuthResults = {
  ...VERDICTS,
  dkim: [],
  dmarc: { result: 'fail', policy: 'reject', domain: 'example.com' },
};

let author: TestKey;
let signed: Buffer;

beforeAll(async () => {
  author = await testKey('rsa');
  const mail = Buffer.from(HEADER + BODY);
  signed = Buffer.concat([await signDkim([mail], [author], Date.UTC(2023, 10, 14)), mail]);
});

/** A message that is forwarded by `shop.test`, and what the next server finds of it. */
async function forward(taken: Partial<Taken>, inbound: object = {}) {
  const store = await openTestStore();
  const clock = testClock();
  const { privateKey, publicKey } = await generateDkimKey('rsa');
  const key = {
    domain: 'shop.test',
    tenant: TENANT,
    selector: 's1',
    base: 's1',
    state: 'active',
    algorithm: 'rsa',
  } as const;
  await store.write([insertDkimKey({ ...key, private_key: privateKey, public_key: publicKey, created_at: 1 })]);
  const server = { hostname: 'mail.example.net', operator: 'ops@example.net' };
  const { source } = await sourcesOf(store, clock, serverSchema.parse({ server, inbound }));
  const id = await take(store, clock.now(), { domain: 'shop.test', original: 'sales@shop.test', ...taken });
  const message = await findMessage(store, id);
  const prepared = message && (await source.prepare(message));
  if (prepared?.kind !== 'streamed') throw new Error(prepared?.kind);
  const pieces: Uint8Array[] = [prepared.prefix];
  for await (const piece of prepared.pieces()) pieces.push(piece);
  const bytes = Buffer.concat(pieces);
  expect(bytes).toHaveLength(prepared.size);

  const keys = await store.read.selectFrom('dkim_keys').selectAll().execute();
  const { ask } = stubDns({
    [`TXT ${author.record[0]}`]: author.record[1],
    'TXT _dmarc.example.com': 'v=DMARC1; p=reject',
    'TXT _dmarc.shop.test': 'v=DMARC1; p=reject; adkim=s',
    ...Object.fromEntries(
      keys.map((row) => [
        `TXT ${row.selector}._domainkey.${row.domain}`,
        dkimRecordValue(row.algorithm, row.public_key),
      ]),
    ),
  });
  const { verdicts } = await authenticate([bytes], {
    ip: '192.0.2.2',
    helo: 'mail.example.net',
    sender: prepared.sender,
    mta: 'mx.next.test',
    ask,
    clock,
    timeoutMs: 10_000,
    trusted: ['mail.example.net'],
  });
  return { text: bytes.toString('latin1'), verdicts };
}

describe('the next server', () => {
  test('finds the author’s signature whole, and our seal', async () => {
    const trace = TRACE.replace('; spf', '; dmarc=pass header.from=example.com; spf');
    const { text, verdicts } = await forward({ raw: signed, inbound: { trace } });
    expect(verdicts).toMatchObject({
      dkim: [{ domain: 'example.com', result: 'pass', aligned: true }],
      dmarc: { result: 'pass' },
      arc: { result: 'pass', trusted: true },
      from: 'alice@example.com',
    });
    expect(text.endsWith(signed.toString('latin1'))).toBe(true);
    const names = Array.from(text.matchAll(/^([\w-]+):/gm), ([, name]) => name);
    expect(names.slice(0, 7)).toEqual([
      'ARC-Seal',
      'ARC-Message-Signature',
      'ARC-Authentication-Results',
      'X-Forwarded-To',
      'Delivered-To',
      'Received',
      'Authentication-Results',
    ]);
  });

  test('finds mail whose DMARC would fail to be ours, signed by our domain, with the same body', async () => {
    const { text, verdicts } = await forward({ raw: HEADER + BODY, verdicts: UNSIGNED });
    expect(verdicts).toMatchObject({
      dkim: [{ domain: 'shop.test', result: 'pass', aligned: true }],
      dmarc: { result: 'pass', domain: 'shop.test' },
      arc: { result: 'pass' },
      from: 'forwarded@shop.test',
    });
    expect(text).toContain('From: "Alice via shop.test" <forwarded@shop.test>\r\n');
    expect(text).toContain('Reply-To: Alice <alice@example.com>\r\n');
    expect(text.endsWith(`${HEADER.slice(HEADER.indexOf('To:'))}${BODY}`)).toBe(true);
  });

  test.each([
    ['never', UNSIGNED, { from_rewrite: 'never' }],
    ['where nobody asks for it', { ...UNSIGNED, dmarc: { ...UNSIGNED.dmarc, policy: 'none' } } as const, {}],
    ['where the author’s signature holds', { ...VERDICTS, dmarc: UNSIGNED.dmarc }, {}],
  ])('finds the author as it was: %s', async (_, verdicts, inbound) => {
    const { text } = await forward({ raw: HEADER + BODY, verdicts }, inbound);
    expect(text.endsWith(HEADER + BODY)).toBe(true);
  });

  test('finds no seal where none is wanted, or could be read in one way', async () => {
    const plain = await forward({ raw: signed }, { arc: { seal: false } });
    expect(plain.text).toMatch(/^X-Forwarded-To: /);
    const odd = await forward({ raw: `this is no header\r\n${HEADER}${BODY}`, verdicts: UNSIGNED });
    expect(odd.text).not.toContain('ARC-Seal');
  });

  test('finds no results that somebody else claims in our name', async () => {
    const forged = 'Authentication-Results: mail.example.net; dmarc=pass\r\n';
    const { text, verdicts } = await forward({ raw: forged + signed.toString('latin1') });
    expect(text).not.toContain(forged);
    expect(text.endsWith(signed.toString('latin1'))).toBe(true);
    expect(verdicts.arc.result).toBe('pass');
  });
});
