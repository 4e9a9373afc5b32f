import { createPrivateKey, createSecretKey } from 'node:crypto';
import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import { simpleParser } from 'mailparser';
import { expect, test } from 'vitest';
import { dkimRecordValue } from '../../src/dns/records.ts';
import { generateDkimKey } from '../../src/mail/dkim.ts';
import { createSystemSource, systemMail } from '../../src/queue/system-mail.ts';
import { openTestStore } from '../harness/store.ts';

test('mail of the server itself is plain text from postern@ its host name, signed by that name’s key', async () => {
  const store = await openTestStore();
  const letter = { tenant: 'ten_a', to: 'ana@example.org', subject: 'Bitte bestätigen', text: 'Hello Ana\nhttps://x' };
  await store.write(systemMail(letter, 'mail.example.net', 1_767_225_600_000));
  const message = await store.read.selectFrom('messages').selectAll().executeTakeFirstOrThrow();
  const { privateKey, publicKey } = await generateDkimKey('rsa');
  const key = { selector: 'postern', algorithm: 'rsa' as const, key: createPrivateKey(privateKey) };
  const source = createSystemSource({
    keysOf: (domain) => Promise.resolve([{ ...key, domain }]),
    secret: createSecretKey(Buffer.alloc(32, 9)),
    hostname: () => 'mail.example.net',
    now: () => 1_767_225_600_000,
  });
  const prepared = await source.prepare(message);
  if (prepared.kind !== 'ready') throw new Error(prepared.kind);
  const bytes = Buffer.concat(prepared.content);
  const mail = await simpleParser(bytes);
  expect(mail.from?.text).toBe('"Postern" <postern@mail.example.net>');
  expect([mail.subject, mail.text?.trim(), mail.html]).toEqual(['Bitte bestätigen', 'Hello Ana\nhttps://x', false]);
  expect(mail.headers.get('auto-submitted')).toBe('auto-generated');
  expect(mail.messageId).toBe(`<${message.id.slice(4)}@mail.example.net>`);
  expect(prepared.sender).toMatch(/^b\+[0-9a-z]{42}@mail\.example\.net$/);
  const record = dkimRecordValue('rsa', publicKey);
  const { results } = await dkimVerify(bytes, { resolver: () => Promise.resolve([[record]]) });
  expect(results.map(({ status }) => status.result)).toEqual(['pass']);
});
