/** Messages on which signers have failed, and the keys to sign them with. */
import { createPrivateKey } from 'node:crypto';
import { dkimRecordValue } from '../../src/dns/records.ts';
import { generateDkimKey, type DkimAlgorithm, type SigningKey } from '../../src/mail/dkim.ts';

export interface CorpusMessage {
  readonly name: string;
  readonly bytes: Buffer;
}

/** Headers that every message needs, without From. */
const HEADERS = [
  'To: bob@example.net',
  'Subject: a test',
  'Date: Tue, 14 Nov 2023 22:13:20 +0000',
  'Message-ID: <1@example.com>',
  'MIME-Version: 1.0',
  'Content-Type: text/plain; charset=utf-8',
];

const BODIES: readonly (readonly [name: string, body: string | Buffer])[] = [
  ['plain', 'Hello\r\nworld\r\n'],
  ['no body at all', ''],
  ['one empty line', '\r\n'],
  ['only empty lines', '\r\n\r\n\r\n'],
  ['only blanks and empty lines', ' \t\r\n  \r\n\t\r\n'],
  ['no final CRLF', 'Hello\r\nworld'],
  ['blank and no final CRLF', 'Hello \t'],
  ['empty lines at the end', 'Hello\r\n\r\n\r\n \r\n'],
  ['empty lines at the start', '\r\n\r\nHello\r\n'],
  ['blanks everywhere', '  a \t b  \t\r\n\t\tc  d\r\n   \r\n e\r\n'],
  ['no-break and ideographic spaces', 'a\u00a0 \u00a0b\u3000\r\n\u3000c \u2003\r\nd\u00a0\r\n\u3000\r\n'],
  ['form feed and vertical tab', 'a\f \vb\f\r\nc\v\r\n\f\r\n'],
  ['8-bit, not UTF-8', Buffer.from('caf\xe9 \xff\xfe\xa0 \xa0\r\n\x85\r\n\xa0\r\n', 'latin1')],
  ['control characters', '\u0001\u0007\u001b[31mred\u007f\r\n'],
  ['Japanese', '日本語のメール　本文\r\n'.repeat(20)],
  ['dots', '.\r\n..\r\n.x\r\n'],
  ['a line of 998', `${'x'.repeat(998)}\r\n`],
  ['a signature inside', 'DKIM-Signature: v=1; b=\r\n\r\nFrom: x@example.org\r\n'],
  ['64 KiB', 'The quick brown fox \t jumps over the lazy dog. \r\n'.repeat(1300)],
];

const HEADER_BLOCKS: readonly (readonly [name: string, lines: readonly (string | Buffer)[]])[] = [
  ['only From', ['From: alice@example.com']],
  ['folded', ['From: alice@example.com', ...HEADERS, 'Subject-X:\r\n\tfolded\r\n  twice ', 'X-A:\r\n b']],
  ['empty subject', ['From: alice@example.com', 'Subject:', 'To: bob@example.net']],
  ['blank subject', ['From: alice@example.com', 'Subject: \t ', 'To: bob@example.net']],
  ['folded subject', ['From: alice@example.com', 'Subject: one\r\n \t two \t\r\n  three\t', 'To: bob@example.net']],
  ['two To headers', ['From: alice@example.com', 'To: bob@example.net', 'X: y', 'To: carol@example.net']],
  ['odd case and blanks', ['fRoM:alice@example.com', 'SUBJECT:  x   y  ', 'to:\tbob@example.net']],
  ['UTF-8', ['From: "Ålice" <alice@example.com>', 'Subject: 日本語\u3000件名\u00a0', 'To: bob@example.net']],
  [
    '8-bit, not UTF-8',
    ['From: alice@example.com', Buffer.from('Subject: caf\xe9 \xa0', 'latin1'), 'To: bob@example.net'],
  ],
  [
    'all that is signed when present',
    [
      'From: alice@example.com',
      ...HEADERS,
      'Cc: carol@example.net',
      'Reply-To: dave@example.org',
      'In-Reply-To: <0@example.net>',
      'References: <0@example.net>\r\n <9@example.net>',
      'Content-Transfer-Encoding: 8bit',
      'List-Unsubscribe: <https://example.com/u>',
      'List-Unsubscribe-Post: List-Unsubscribe=One-Click',
    ],
  ],
];

export const corpus: readonly CorpusMessage[] = [
  ...BODIES.map(([name, body]) => ({
    name: `body: ${name}`,
    bytes: message(['From: alice@example.com', ...HEADERS], body),
  })),
  ...HEADER_BLOCKS.map(([name, lines]) => ({ name: `headers: ${name}`, bytes: message(lines, 'Hello\r\n') })),
];

/** A message of these header lines and this body. */
export function message(lines: readonly (string | Buffer)[], body: string | Buffer): Buffer {
  return Buffer.concat([
    ...lines.flatMap((line) => [Buffer.from(line), Buffer.from('\r\n')]),
    Buffer.from('\r\n'),
    Buffer.from(body),
  ]);
}

export interface TestKey extends SigningKey {
  /** The record's name and value. */
  readonly record: readonly [name: string, value: string];
}

/** A new key of example.com with the algorithm's name as its selector. */
export async function testKey(algorithm: DkimAlgorithm): Promise<TestKey> {
  const { privateKey, publicKey } = await generateDkimKey(algorithm);
  return {
    domain: 'example.com',
    selector: algorithm,
    algorithm,
    key: createPrivateKey(privateKey),
    record: [`${algorithm}._domainkey.example.com`, dkimRecordValue(algorithm, publicKey)],
  };
}
