/** Mail that would go round for ever ends, and nobody gets more of it than one report: the whole daemon, and two of them. */
import nodemailer from 'nodemailer';
import { expect, onTestFinished, test } from 'vitest';
import { freePort } from '../harness/child.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { startSmtpPeer } from '../harness/smtp-peer.ts';

const AUTHOR = [
  { name: 'author.test', type: 'MX', value: '10 mx.inbox.test' },
  { name: 'author.test', type: 'TXT', value: 'v=spf1 ip4:127.0.0.1 -all' },
] as const;

function site(domain: string, forwarding: Record<string, string>): string {
  return `
project: { name: Site, slug: site, owner: owner@inbox.test }
domains: { ${domain}: { forwarding: ${JSON.stringify(forwarding)} } }
`;
}

function transportTo(port: number) {
  return nodemailer.createTransport({ host: '127.0.0.1', port, ignoreTLS: true });
}

/** Resolves when every delivery has its end, and answers how many there were of each kind of message. */
async function settled({ daemon, queue }: TestWorld): Promise<Record<string, number>> {
  await expect.poll(async () => (await queue()).every(({ settled_at }) => settled_at !== null)).toBe(true);
  const kinds = (await daemon.store.read.selectFrom('messages').select('kind').execute()).map(({ kind }) => kind);
  return Object.fromEntries([...new Set(kinds)].map((kind) => [kind, kinds.filter((each) => each === kind).length]));
}

test.each([
  { what: 'one address', local: 'info', ends: [{ forward: 2 }, { forward: 1, dsn: 1 }] },
  // A round more, as nobody has seen `info` before.
  { what: 'everything', local: '*', ends: [{ forward: 3, dsn: 1 }, { forward: 2 }] },
])('two servers that forward $what to each other: the author gets one report', async ({ local, ends }) => {
  const ports = { one: await freePort(), two: await freePort() };
  const caught = await startSmtpPeer();

  function start(name: 'one' | 'two', other: 'one' | 'two'): Promise<TestWorld> {
    return startTestWorld({
      projects: { 'site.yml': site(`${name}.test`, { [`${local}@${name}.test`]: `info@${other}.test` }) },
      server: {
        server: { hostname: `mail.${name}.test`, smtp: { listen: [`127.0.0.1:${ports[name]}`] } },
        delivery: {
          port: caught.port,
          routes: {
            [`${other}.test`]: `127.0.0.1:${ports[other]}`,
            [`mail.${other}.test`]: `127.0.0.1:${ports[other]}`,
          },
        },
      },
      zone: [
        ...AUTHOR,
        ...['one', 'two'].flatMap((host) => [
          { name: `mail.${host}.test`, type: 'A' as const, value: '127.0.0.1' },
          { name: `mail.${host}.test`, type: 'TXT' as const, value: 'v=spf1 ip4:127.0.0.1 -all' },
        ]),
      ],
    });
  }

  const [one, two] = await Promise.all([start('one', 'two'), start('two', 'one')]);
  await transportTo(ports.one).sendMail({
    from: 'ann@author.test',
    to: local === '*' ? 'hello@one.test' : 'info@one.test',
    subject: 'round',
    text: 'x',
  });
  await expect.poll(() => caught.messages.length).toBe(1);
  // There, and the report that goes back by the address it came from.
  expect([await settled(one), await settled(two)]).toEqual(ends);
  expect(caught.messages).toMatchObject([{ from: '', to: ['ann@author.test'] }]);
  expect(caught.messages[0]?.data).toMatch(/^Status: 5\.4\.6\r$/m);
});

test('a catch-all whose mail comes back under ever other names ends', async () => {
  const world = await startTestWorld({
    asInProduction: true,
    projects: { 'site.yml': site('example.test', { '*@example.test': 'box@inbox.test' }) },
    server: { limits: { smtp: { hops: 6 } } },
    zone: AUTHOR,
  });
  const transport = transportTo(world.daemon.smtp[0]?.port ?? 0);
  await transport.sendMail({ from: 'ann@author.test', to: 'a0@example.test', subject: 'round', text: 'x' });
  let refusal = '';
  for (let round = 1; refusal === ''; round++) {
    const mails = await world.caught(round);
    const [mail] = mails.list().toSorted((a, b) => b.at - a.at);
    if (mail === undefined || round > 20) throw new Error('it never ends');
    const raw = Buffer.concat([Buffer.from('Received: from us by mx.inbox.test\r\n'), await mails.source(mail)]);
    const envelope = { from: mail.envelope.from, to: `a${round}@example.test` };
    await transport.sendMail({ envelope, raw }).catch((error: Error) => (refusal = error.message));
  }
  expect(refusal).toMatch(/554 5\.4\.6/);
  // Under one name it ends at once.
  const [mail] = world.mx.mails.list();
  if (mail === undefined) throw new Error('nothing arrived');
  const raw = await world.mx.mails.source(mail);
  const same = transport.sendMail({ envelope: { from: 'x@author.test', to: 'a0@example.test' }, raw });
  await expect(same).rejects.toThrow('554 5.4.6');
  expect((await settled(world))['dsn']).toBeUndefined();
});

test('a bounce of a bounce ends, and so does the report that nobody takes', async () => {
  const refusing = await startSmtpPeer({ script: { rcpt: '550 5.1.1 no such user' } });
  onTestFinished(() => refusing.down());
  const world = await startTestWorld({
    projects: { 'site.yml': site('example.test', { 'info@example.test': 'gone@inbox.test' }) },
    server: { delivery: { port: refusing.port } },
    zone: AUTHOR,
  });
  const transport = transportTo(world.daemon.smtp[0]?.port ?? 0);
  await transport.sendMail({ from: 'ann@author.test', to: 'info@example.test', subject: 'x', text: 'x' });
  expect(await settled(world)).toEqual({ forward: 1, dsn: 1 });

  const [, srs = ''] = /^MAIL FROM:<(SRS0=[^>]*)>/m.exec(refusing.lines.join('\n')) ?? [];
  await transport.sendMail({ envelope: { from: '', to: srs }, raw: 'From: <>\r\nSubject: gone\r\n\r\nx\r\n' });
  await transport.sendMail({
    envelope: { from: '', to: 'info@example.test' },
    raw: 'From: MAILER-DAEMON@author.test\r\nSubject: gone\r\n\r\nx\r\n',
  });
  expect(await settled(world)).toEqual({ forward: 3, dsn: 1 });
  expect(refusing.lines.filter((line) => line.startsWith('RCPT')).length).toBe(4);
});

test('an owner and an operator whose domain is forwarded here get what is for the postmaster', async () => {
  const world = await startTestWorld({
    asInProduction: true,
    projects: {
      'site.yml': site('example.test', { 'info@example.test': 'ana@inbox.test' }).replace(
        'owner@inbox',
        'info@example',
      ),
    },
    server: { server: { operator: 'info@example.test' } },
    zone: AUTHOR,
  });
  const transport = transportTo(world.daemon.smtp[0]?.port ?? 0);
  for (const to of ['postmaster@example.test', 'postmaster@mail.postern.test'])
    await transport.sendMail({ from: 'ann@author.test', text: 'x', subject: 'to the postmaster', to });
  const mails = (await world.caught(2)).list();
  expect(mails.map(({ envelope }) => envelope.to)).toEqual([['ana@inbox.test'], ['ana@inbox.test']]);
  expect(await settled(world)).toEqual({ forward: 2 });
});
