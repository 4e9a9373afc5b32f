/** Whose mail it is: every form of From that a stranger may try, at a daemon whose forwarding would lend it our name. */
import { expect, test } from 'vitest';
import { startTestWorld } from '../harness/daemon.ts';
import { SmtpClient } from '../harness/inbound-smtp.ts';
import { ACCEPTED, REFUSED, REFUSED_HEADERS } from '../mail/author-forms.ts';

const PROJECT = `
project: { name: Site, slug: site, owner: owner@inbox.test }
domains:
  example.test:
    forwarding: { "info@example.test": ana@inbox.test }
`;
const ZONE = [
  { name: 'evil.test', type: 'TXT', value: 'v=spf1 ip4:127.0.0.1 -all' },
  { name: 'victim.test', type: 'TXT', value: 'v=spf1 ip4:127.0.0.1 -all' },
  { name: '_dmarc.victim.test', type: 'TXT', value: 'v=DMARC1; p=reject; sp=reject' },
] as const;

async function start(inbound: Record<string, unknown> = {}) {
  const world = await startTestWorld({
    projects: { 'site.yml': PROJECT },
    zone: ZONE,
    server: { inbound, limits: { smtp: { errors: 10_000 } } },
  });
  const port = world.daemon.smtp[0]?.port ?? 0;
  const client = await SmtpClient.open(port);
  /** A whole transaction, and the reply to the message. */
  function send(header: string, from: string, to = 'info@example.test') {
    return client.send(Buffer.from(`${header}Subject: x\r\n\r\nx`), { from, to: [to] });
  }
  return { ...world, send };
}

test('no form of From that readers take for different authors gets in', async () => {
  const { send, daemon } = await start();
  const replies: string[] = [];
  const headers = [...REFUSED.map((form) => `From: ${form}\r\n`), ...REFUSED_HEADERS];
  for (const header of headers) {
    const reply = await send(header, 'a@evil.test');
    if (!/^550 5\.7\.1 (?:the|a) (?:message|From)/.test(reply)) replies.push(`${JSON.stringify(header)}: ${reply}`);
  }
  expect(replies).toEqual([]);
  expect(await daemon.store.read.selectFrom('inbound').select('id').execute()).toEqual([]);
});

test('what big and small mailers write gets in where it is honest, and not where it is forged', async () => {
  const { send } = await start();
  const replies: string[] = [];
  for (const [form, address] of ACCEPTED) {
    const header = `From: ${form}\r\n`;
    const honest = await send(header, 'ceo@victim.test');
    if (!honest.startsWith('250')) replies.push(`${JSON.stringify(form)}: ${honest}`);
    const forged = await send(header, 'a@evil.test');
    const isRefused = forged.startsWith('550 5.7.1 rejected by the DMARC policy of');
    if (isRefused !== address.endsWith('victim.test')) replies.push(`forged ${JSON.stringify(form)}: ${forged}`);
  }
  expect(replies).toEqual([]);
});

test('where DMARC is only recorded, two authors are refused all the same', async () => {
  const { send } = await start({ dmarc: 'record' });
  expect(await send('From: <a@evil.test> <ceo@victim.test>\r\n', 'a@evil.test')).toMatch(
    /^550 5\.7\.1 the From header/,
  );
  expect(await send('From: ceo@victim.test\r\n', 'a@evil.test')).toMatch(/^250/);
});
