import { createPrivateKey, createSecretKey } from 'node:crypto';
import { simpleParser } from 'mailparser';
import { expect, test } from 'vitest';
import { generateDkimKey } from '../../src/mail/dkim.ts';
import { enqueue } from '../../src/queue/enqueue.ts';
import { dropAttachments, keepAttachments, findMessage } from '../../src/store/messages.ts';
import { insertDomain, updateDomain } from '../../src/store/domains.ts';
import type { KeptEmail } from '../../src/transactional/email.ts';
import { createSubmittedSource } from '../../src/smtp/forward-source.ts';
import { createTransactionalSource } from '../../src/transactional/source.ts';
import { openTestStore } from '../harness/store.ts';

const NOW = Date.UTC(2026, 0, 1);
const EMAIL: KeptEmail = {
  from: { name: 'Shop, Inc.', address: 'hello@shop.example' },
  to: [{ address: 'ana@x.example' }],
  cc: [],
  bcc: [{ address: 'secret@x.example' }],
  reply_to: [],
  subject: 'Grüße',
  text: 'Hello',
  headers: [['X-Order', '7']],
  attachments: [{ filename: 'a.txt', content_type: 'text/plain', size: 3 }],
  tags: [],
};

async function openSource(email: Partial<KeptEmail> = {}) {
  const store = await openTestStore();
  const names = { tenant: 'ten_a', name: 'shop.example' };
  await store.write([
    insertDomain({ ...names, project: 'shop', token: 't', status: 'verified', next_check_at: 0, created_at: 0 }),
  ]);
  const { privateKey } = await generateDkimKey('ed25519');
  const key = { selector: 's', algorithm: 'ed25519' as const, key: createPrivateKey(privateKey) };
  const signing = {
    keysOf: (domain: string) => Promise.resolve([{ ...key, domain }]),
    secret: createSecretKey(Buffer.alloc(32, 9)),
    hostname: () => 'mail.example.net',
    now: () => NOW,
  };
  const source = createTransactionalSource({ store, signing, submitted: createSubmittedSource({ store, signing }) });
  const { id, rows, dues } = enqueue(
    {
      tenant: 'ten_a',
      kind: 'transactional',
      submission: null,
      domain: 'shop.example',
      source: { ...EMAIL, ...email },
      recipients: ['ana@x.example', 'secret@x.example'],
      ttl: 1000,
    },
    NOW,
  );
  expect(dues).toEqual([{ name: 'x.example', due: NOW }]);
  await store.write([...rows, ...keepAttachments(id, [[{ bytes: Buffer.from('abc') }]])]);
  const message = await findMessage(store, id);
  if (message === undefined) throw new Error('no such message');
  return { store, source, message, names };
}

test('a mail is what was asked for, and no header names who gets it in secret', async () => {
  const { source, message } = await openSource({ send_at: NOW + 60_000 });
  const prepared = await source.prepare(message);
  if (prepared.kind !== 'ready') throw new Error(prepared.kind);
  const bytes = Buffer.concat(prepared.content);
  const mail = await simpleParser(bytes);
  expect(bytes.toString()).not.toContain('secret');
  expect([mail.from?.text, mail.subject, mail.messageId]).toEqual([
    '"Shop, Inc." <hello@shop.example>',
    'Grüße',
    `<${message.id.slice(4)}@shop.example>`,
  ]);
  expect(mail.date).toEqual(new Date(NOW + 60_000));
  expect(mail.attachments[0]?.content.toString()).toBe('abc');
  expect(mail.headers.get('x-order')).toBe('7');
});

test('it waits where an attachment is not there, or the domain has failed', async () => {
  const { store, source, message, names } = await openSource();
  const checked = { records: null, checked_at: 1, verified_at: 1, broken_at: 1, next_check_at: 2 };
  await store.write([updateDomain({ ...names, ...checked, status: 'failed', was: 'verified', due: 0 })]);
  await expect(source.prepare(message)).rejects.toThrow('its mail waits');
  await store.write([updateDomain({ ...names, ...checked, status: 'verified', was: 'failed', due: 0 })]);
  expect((await source.prepare(message)).kind).toBe('ready');
  await store.write([dropAttachments({ message: message.id })]);
  await expect(source.prepare(message)).rejects.toThrow('is not there');
});
