import { createSecretKey } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { openReturnPath } from '../../src/mail/own-addresses.ts';
import { addressing, ana, openMailWorld, secret } from './mail-world.ts';

describe('an acknowledgment', () => {
  test('thanks the visitor and holds nothing that was typed', async () => {
    const form = { name: 'Contact us', to: 'a@example.org', from_name: '{{ form.name }}', acknowledgment: {} };
    const world = await openMailWorld({ form });
    const id = await world.post([
      ['name', 'BUY PILLS'],
      ['email', 'ana@example.org'],
      ['message', 'https://evil.example'],
      ['_subject', 'BUY'],
    ]);
    const got = await world.read(id, 'acknowledgment');
    expect(addressing(got)).toEqual({
      from: '"Contact us" <forms@example.com>',
      to: 'ana@example.org',
      cc: '',
      bcc: '',
      replyTo: 'a@example.org',
    });
    expect(got.mail.headers.get('auto-submitted')).toBe('auto-replied');
    expect(got.mail.subject).toBe('We have received your message');
    expect(got.raw + (got.mail.text ?? '') + String(got.mail.html)).not.toMatch(/PILLS|BUY|evil\.example/);
    expect(openReturnPath(got.sender, createSecretKey(secret))).toBe(got.message.id);
    expect(got.mail.attachments).toEqual([]);
  });

  test('has its own template, subject and reply address', async () => {
    const acknowledgment = { template: 'thanks', subject: 'Thank you, {{ form.name }}' };
    const thanks = { type: 'acknowledgment', text: 'Dear {{ form.name }}' };
    const world = await openMailWorld({ form: { replyTo: 'team@example.org', acknowledgment }, templates: { thanks } });
    const { mail } = await world.read(
      await world.post([
        ['name', 'Ana'],
        ['email', 'ana@example.org'],
      ]),
      'acknowledgment',
    );
    expect([mail.subject, mail.text?.trim(), mail.replyTo?.text]).toEqual([
      'Thank you, Ana',
      'Dear Ana',
      'team@example.org',
    ]);
  });

  test('falls back to the built-in template as well', async () => {
    const thanks = { type: 'acknowledgment', text: '{% for i in (1..100000000) %}x{% endfor %}' };
    const world = await openMailWorld({ form: { acknowledgment: { template: 'thanks' } }, templates: { thanks } });
    const { mail } = await world.read(await world.post(ana), 'acknowledgment');
    expect(mail.text).toContain('Thank you');
    expect(world.error).toHaveBeenCalledWith('template.failed', expect.objectContaining({ template: 'thanks' }));
  });
});
