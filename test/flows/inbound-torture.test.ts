/** Whatever a message is made of, it goes on byte for byte behind our own header lines: the whole daemon, from DATA to DATA. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { startTestWorld } from '../harness/daemon.ts';
import { SmtpClient } from '../harness/inbound-smtp.ts';

const SITE = `
project: { name: Site, slug: site, owner: owner@inbox.test }
domains: { example.test: { forwarding: { "info@example.test": ana@inbox.test } } }
`;
/** The longest line (RFC 5322 §2.1.1), without its CRLF. */
const LONGEST = 998;
const ROUNDS = 12;
const TOGETHER = 12;

/** A line without its CRLF; one character is one byte. */
const line = fc.oneof(
  fc.constantFrom('', '.', '..', '...', '. ', '.x', ' ', '\t', '--', '---', '-- ', '>From x', 'From x', '=', '=\t'),
  fc.constantFrom('.'.repeat(LONGEST), 'x'.repeat(LONGEST), ' '.repeat(LONGEST), '\xff'.repeat(LONGEST)),
  fc.constantFrom('MAIL FROM:<x@y.test>', 'DATA', 'QUIT', 'Subject: not one', 'Content-Type: multipart/mixed'),
  bytes({ maxLength: 120 }),
  bytes({ minLength: 900, maxLength: LONGEST }),
);

function bytes(length: { minLength?: number; maxLength: number }): fc.Arbitrary<string> {
  return fc
    .array(
      fc.integer({ min: 1, max: 255 }).filter((byte) => byte !== 0x0a && byte !== 0x0d),
      length,
    )
    .map((codes) => String.fromCharCode(...codes));
}

const text = fc.array(line, { maxLength: 12 }).map((lines) => lines.map((each) => `${each}\r\n`).join(''));

const boundary = fc.oneof(
  fc.constantFrom('x', '--', '=_', "'()+_,-./:=?", 'with blanks in it', 'a'.repeat(70), '', '\xe4'),
  fc.stringMatching(/^[0-9A-Za-z'()+_,./:=?-]{1,70}$/),
);

const media = fc.constantFrom(
  'text/plain',
  'text/html; charset="koi8-r"',
  'TEXT/PLAIN;\r\n\tcharset=utf-8 ; x="\\"; y="',
  'application/octet-stream; name*0*=iso-8859-1\'\'%e4; name*1="b"',
  'message/rfc822',
  'message/delivery-status',
  '',
  ';',
);

const field = fc.oneof(
  fc.constantFrom(
    'Content-Transfer-Encoding: base64\r\n',
    'Content-Transfer-Encoding:\tBINARY\r\n',
    'Content-Disposition: attachment;\r\n filename="a\\"b.txt"\r\n',
    'Subject:\r\n \r\n\t\r\n x\r\n',
    'Subject: =?utf-8?B?w6Q?= =?x-none?Q?=FF?=\r\n',
    'X-Empty:\r\n',
    'X-Blank : \t \r\n',
    'To: undisclosed-recipients:;\r\n',
    'Cc: (a (comment)) "a, b" <a@b.test>,\r\n , c@d.test\r\n',
    'DKIM-Signature: v=1; a=rsa-sha256; d=author.test; s=x; h=from; bh=; b=\r\n',
    'ARC-Seal: i=1; a=rsa-sha256; cv=none; d=author.test; s=x; b=\r\n',
    'Return-Path: <x@y.test>\r\n',
    'Received: by nowhere\r\n',
    `X-Long: ${'x'.repeat(LONGEST - 8)}\r\n`,
  ),
  bytes({ maxLength: 80 }).map((value) => `X-Bytes: ${value}\r\n`),
);

/** Parts in parts; some lack their end, some hold their parent's boundary, some have text before and after. */
const { part } = fc.letrec<{ part: string }>((tie) => ({
  part: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc
      .tuple(media, fc.array(field, { maxLength: 2 }), text)
      .map(([type, fields, body]) => `Content-Type: ${type}\r\n${fields.join('')}\r\n${body}`),
    fc
      .record({
        kind: fc.constantFrom('mixed', 'alternative', 'related', 'signed', 'MIXED', ''),
        boundary,
        before: text,
        parts: fc.array(tie('part'), { maxLength: 3 }),
        isEnded: fc.boolean(),
        after: text,
      })
      .map(
        ({ kind, boundary: mark, before, parts, isEnded, after }) =>
          `Content-Type: multipart/${kind}; boundary="${mark}"\r\n\r\n${before}${parts
            .map((each) => `--${mark}\r\n${each}\r\n`)
            .join('')}${isEnded ? `--${mark}--\r\n` : ''}${after}`,
      ),
  ),
}));

/** With its empty lines at the end; some have no body at all, not even the line before it. */
const message = fc
  .record({
    above: fc.array(field, { maxLength: 4 }),
    below: fc.array(field, { maxLength: 4 }),
    rest: fc.oneof({ arbitrary: part, weight: 6 }, fc.constantFrom('', '\r\n', '\r\n\r\n\r\n', '\r\n.\r\n')),
    trailing: fc.constantFrom('', '', '\r\n', '\r\n\r\n\r\n', ' \r\n\t\r\n', '.\r\n'),
  })
  .map(
    ({ above, below, rest, trailing }) =>
      `${above.join('')}From: Ann <ann@author.test>\r\n${below.join('')}${rest}${rest === '' ? '' : trailing}`,
  );

test('what goes out ends with what came in', async () => {
  const world = await startTestWorld({ projects: { 'site.yml': SITE } });
  const client = await SmtpClient.open(world.daemon.smtp[0]?.port ?? 0);
  let count = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(message, { minLength: TOGETHER, maxLength: TOGETHER }), async (messages) => {
      const known = new Set(world.mx.mails.list().map(({ id }) => id));
      const marked = messages.map((each) => `X-Mark: ${count++}\r\n${each}`);
      for (const each of marked) {
        await client.say('EHLO client.test');
        await client.say('MAIL FROM:<ann@author.test> BODY=8BITMIME');
        await client.say('RCPT TO:<info@example.test>');
        await client.say('DATA');
        client.write(`${each.replaceAll(/^\./gm, '..')}.\r\n`);
        expect(await client.reply()).toMatch(/^250/);
      }
      const mails = await world.caught(known.size + marked.length);
      const arrived = await Promise.all(
        mails
          .list()
          .filter(({ id }) => !known.has(id))
          .map(async (mail) => (await mails.source(mail)).toString('latin1')),
      );
      const theirs = arrived.map((whole) => whole.slice(whole.indexOf('X-Mark: ')));
      expect(theirs.toSorted()).toEqual(marked.toSorted());
    }),
    { numRuns: ROUNDS, endOnFailure: true },
  );
});
