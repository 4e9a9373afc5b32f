/** Mail of ours that a server takes and then sends back: the whole daemon. */
import nodemailer from 'nodemailer';
import { expect, test } from 'vitest';
import { OPERATOR } from '../../src/store/tenants.ts';
import { apiClient } from '../harness/api.ts';
import { startTestWorld } from '../harness/daemon.ts';
import { EXIM, POSTFIX } from '../mail/report-fixtures.ts';

async function start() {
  const world = await startTestWorld();
  const port = world.daemon.smtp[0]?.port ?? 0;
  return { ...world, transport: nodemailer.createTransport({ host: '127.0.0.1', port, ignoreTLS: true }) };
}

test('a bounce to the return path is shown by the API, told, and ends the mail to the address', async () => {
  const world = await start();
  const client = await apiClient(world, { tenant: OPERATOR });
  const mail = { from: 'hello@example.test', to: 'ana@inbox.test', subject: 'x', text: 'x' };
  const { body } = await client.ask('POST', '/email/send', mail);
  const { id } = body as { id: string };
  const [sent] = (await world.caught(1)).list();
  const path = sent?.envelope.from ?? '';
  const bounce = POSTFIX.replaceAll('ana@example.org', 'ana@inbox.test');
  const show = async () => (await client.ask('GET', `/email/${id}`)).body as { status: string };
  await expect.poll(async () => (await show()).status).toBe('delivered');

  const forged = { from: '', to: path.replace(/^b\+./, 'b+7') };
  await expect(world.transport.sendMail({ envelope: forged, raw: bounce })).rejects.toThrow(/550 5\.1\.1/);
  const { response } = await world.transport.sendMail({ envelope: { from: '', to: path }, raw: bounce });
  expect(response).toMatch(/^250 2\.0\.0/);

  // A job reads it, every ten seconds.
  await expect.poll(async () => (await show()).status, { interval: 250 }).toBe('bounced');
  expect(await show()).toMatchObject({
    recipients: [
      {
        address: 'ana@inbox.test',
        state: 'bounced',
        reply: expect.stringMatching(/^550 5\.1\.1 /) as string,
        attempts: [
          { outcome: 'delivered' },
          { outcome: 'bounced', host: 'store.example.org', reply: expect.stringMatching(/User unknown/) as string },
        ],
      },
    ],
  });
  const { body: list } = await client.ask('GET', '/suppressions');
  expect(list).toMatchObject({ suppressions: [{ address: 'ana@inbox.test', reason: 'bounce' }] });
  const { body: events } = await client.ask('GET', '/events?type=email.bounced');
  expect(events).toMatchObject({ events: [{ message: id, data: { recipient: 'ana@inbox.test', late: true } }] });

  const { body: again } = await client.ask('POST', '/email/send', mail);
  const second = (again as { id: string }).id;
  await expect
    .poll(async () => ((await client.ask('GET', `/email/${second}`)).body as { status: string }).status)
    .toBe('suppressed');
  expect(world.mx.mails.list()).toHaveLength(1);
});

test('a bounce to an SRS address goes back to the author of what was forwarded, with the null sender', async () => {
  const world = await startTestWorld({
    projects: {
      'site.yml': `
project: { name: Site, slug: site, owner: owner@inbox.test }
domains: { example.test: { forwarding: { "info@example.test": ana@inbox.test } } }
`,
    },
    zone: [
      { name: 'author.test', type: 'MX', value: '10 mx.inbox.test' },
      { name: 'author.test', type: 'TXT', value: 'v=spf1 ip4:127.0.0.1 -all' },
    ],
  });
  const port = world.daemon.smtp[0]?.port ?? 0;
  const transport = nodemailer.createTransport({ host: '127.0.0.1', port, ignoreTLS: true });
  const raw = 'From: ann@author.test\r\nSubject: hello\r\n\r\nhello\r\n';
  await transport.sendMail({ envelope: { from: 'ann@author.test', to: 'info@example.test' }, raw });
  const [forwarded] = (await world.caught(1)).list();
  const srs = forwarded?.envelope.from ?? '';
  expect(srs).toMatch(/^SRS0=.*=author\.test=ann@mail\.postern\.test$/);

  const forged = { from: '', to: srs.replace(/^SRS0=./, (start) => (start.endsWith('a') ? 'SRS0=b' : 'SRS0=a')) };
  await expect(transport.sendMail({ envelope: forged, raw: EXIM })).rejects.toThrow(/550 5\.1\.1/);
  const stranger = { from: 'x@author.test', to: srs };
  await expect(transport.sendMail({ envelope: stranger, raw: EXIM })).rejects.toThrow(/550 5\.1\.1/);
  // Some servers change the case of what they send back.
  await transport.sendMail({ envelope: { from: '', to: srs.toLowerCase() }, raw: EXIM });
  const mails = await world.caught(2);
  const returned = mails.list().find(({ id }) => id !== forwarded?.id);
  expect(returned?.envelope).toMatchObject({ from: '', to: ['ann@author.test'] });
  if (returned === undefined) throw new Error('nothing came back');
  expect((await mails.source(returned)).toString().endsWith(EXIM)).toBe(true);
});

test('a forged sender gets nothing through a forward of ours, and the domain’s owner sees that it came back', async () => {
  const world = await startTestWorld({
    projects: {
      'site.yml': `
project: { name: Site, slug: site, owner: owner@inbox.test }
domains: { example.test: { forwarding: { "info@example.test": ana@inbox.test } } }
`,
    },
    zone: [
      { name: 'victim.test', type: 'MX', value: '10 mx.inbox.test' },
      { name: 'victim.test', type: 'TXT', value: 'v=spf1 ip4:192.0.2.1 -all' },
      { name: 'spam.test', type: 'TXT', value: 'v=spf1 ip4:127.0.0.1 -all' },
    ],
    server: { limits: { smtp: { errors: 1000 } } },
  });
  const port = world.daemon.smtp[0]?.port ?? 0;
  const transport = nodemailer.createTransport({ host: '127.0.0.1', port, ignoreTLS: true });
  const spam = 'From: Shop <shop@spam.test>\r\nSubject: buy\r\n\r\nbuy\r\n';
  await transport.sendMail({ envelope: { from: 'ceo@victim.test', to: 'info@example.test' }, raw: spam });
  const [forwarded] = (await world.caught(1)).list();
  const path = forwarded?.envelope.from ?? '';
  expect(path).toMatch(/^b\+[0-9a-z]{42}@mail\.postern\.test$/);

  const report = EXIM.replaceAll('ana@example.org', 'ana@inbox.test');
  await transport.sendMail({ envelope: { from: '', to: path }, raw: report });
  for (let i = 0; i < 20; i++) await transport.sendMail({ envelope: { from: '', to: path }, raw: spam });
  const operator = await apiClient(world, { tenant: OPERATOR });
  await expect
    .poll(async () => (await operator.ask('GET', '/events?type=email.bounced')).body, {
      interval: 250,
    })
    .toMatchObject({ events: [{ domain: 'example.test', data: { recipient: 'ana@inbox.test' } }] });
  expect(world.mx.mails.list()).toHaveLength(1);
});
