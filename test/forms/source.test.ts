import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import { describe, expect, test } from 'vitest';
import { dkimRecordValue } from '../../src/dns/records.ts';
import { insertDkimKey } from '../../src/store/dkim-keys.ts';
import { insertDomain, updateDomain } from '../../src/store/domains.ts';
import { addressing, ana, makeKey, openMailWorld } from './mail-world.ts';
import { DOMAIN } from './world.ts';

test('both signatures verify with mailauth, over the same bytes at every try', async () => {
  const keys = await Promise.all([makeKey('rsa'), makeKey('ed25519')]);
  const world = await openMailWorld({ form: { uploads: {} } }, { keys });
  const id = await world.post(ana, [['ü.bin', 'application/x-thing', Buffer.from([0, 255, 13, 10, 46])]]);
  const first = await world.read(id);
  const records = new Map(
    keys.map(({ selector, algorithm, public_key }) => [
      `${selector}._domainkey.${DOMAIN}`,
      dkimRecordValue(algorithm, public_key),
    ]),
  );
  const { results } = await dkimVerify(first.bytes, {
    resolver: (name: string) => Promise.resolve([[records.get(name) ?? '']]),
  });
  expect(results.map(({ status }) => status.result)).toEqual(['pass', 'pass']);
  const second = await world.read(id);
  const body = (raw: string) => raw.slice(raw.indexOf('\r\nDate:'));
  expect(body(second.raw)).toBe(body(first.raw));
  expect(world.revisionOf).toHaveBeenCalledTimes(1);
});

describe('a lead is not lost to', () => {
  test('a template that fails at run time: it is logged and the built-in one is used', async () => {
    const loop = '{% for i in (1..100000000) %}{{ i }}{% endfor %}';
    const world = await openMailWorld({
      form: { template: 't', subject: loop },
      templates: { t: { text: loop, subject: 'T' } },
    });
    const { mail } = await world.read(await world.post(ana));
    expect(mail.text).toContain('Ana García');
    expect(mail.subject).toBe('contact: Ana García 田中');
    expect(world.error.mock.calls.map(([event]) => event)).toEqual(['template.failed', 'template.failed']);
  });

  test('a revision that cannot be read any more', async () => {
    const world = await openMailWorld({ form: { name: 'Contact us', to: 'a@example.org' } }, { revision: false });
    const got = await world.read(await world.post(ana));
    expect(addressing(got)).toMatchObject({
      from: '"Ana García 田中 via contact" <forms@example.com>',
      to: 'a@example.org',
      replyTo: '"Ana García 田中" <ana@example.org>',
    });
    expect(got.mail.text).toContain('Ana García');
    expect(world.error).toHaveBeenCalledWith('revision.missing', expect.anything());
  });

  test('a revision or a key that cannot be had for now: the message waits', async () => {
    const world = await openMailWorld({ form: {} });
    const id = await world.post(ana);
    world.revisionOf.mockRejectedValueOnce(new Error('database away'));
    await expect(world.read(id)).rejects.toThrow('database away');
    expect((await world.read(id)).mail.text).toContain('Ana García');

    const keyless = await openMailWorld({ form: {} }, { keys: [] });
    const waiting = await keyless.post(ana);
    await expect(keyless.read(waiting)).rejects.toThrow('there is no DKIM key for example.com');
    await keyless.store.write([insertDkimKey(await makeKey('ed25519'))]);
    expect((await keyless.read(waiting)).mail.text).toContain('Ana García');
  });

  test('a domain that has failed: its mail waits until the records are right', async () => {
    const world = await openMailWorld({ form: {} });
    const id = await world.post(ana);
    const names = { tenant: 'ten_operator', name: DOMAIN };
    const row = { ...names, project: 'site', token: 't', status: 'failed', next_check_at: 0, created_at: 0 } as const;
    await world.store.write([insertDomain(row)]);
    await expect(world.read(id)).rejects.toThrow('its mail waits');
    const checked = { records: null, checked_at: 1, verified_at: 1, broken_at: null, next_check_at: 2 };
    await world.store.write([updateDomain({ ...names, ...checked, was: 'failed', due: 0, status: 'verified' })]);
    expect((await world.read(id)).mail.text).toContain('Ana García');
  });

  test('but without its submission there is nothing to send', async () => {
    const world = await openMailWorld({ form: {} });
    const message = await world.messageOf(await world.post(ana), 'notification');
    expect(await world.source.prepare({ ...message, submission: 'sub_gone' })).toMatchObject({ kind: 'unrenderable' });
  });
});
