/**
 * Mutated SMTP sessions against the real program: forwarding, bounces to a real return path, odd MIME. 50,000 of them
 * (`npm run fuzz`), or as many as `FUZZ_SECONDS` allow; `FUZZ_SEED` repeats a run.
 */
import { connect, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { until } from '../harness/child.ts';
import { mutate, pick, randomOf, type Random } from './mutate.ts';
import { ALIAS, budget, clientAddress, startFuzzWorld, type FuzzWorld } from './world.ts';

const SESSIONS = 50_000;
const CONNECTIONS = 32;
const PATIENCE_MS = 20_000;
const STEP_MS = 50;

interface Session {
  readonly commands: readonly string[];
  readonly message: string;
}

test('mutated sessions end no daemon and stop no other client', { timeout: 3_600_000 }, async () => {
  const world = await startFuzzWorld();
  const { isOver, seed } = budget(0.4);
  const { smtpPort: port } = world.appliance;
  const sessions = sessionsFor(await returnPath(world));
  const others = sessions.flatMap(({ commands, message }) => [
    Buffer.from(commands.join('\r\n')),
    Buffer.from(message),
  ]);
  const replies = new Map<string, number>();
  const findings: string[] = [];
  let sent = 0;

  async function client(): Promise<void> {
    while (!isOver(sent, SESSIONS) && findings.length < 10) {
      const n = sent++;
      const random = randomOf(seed, n);
      const pieces = piecesOf(pick(random, sessions), random, others);
      const answer = await converse(port, pieces, { localAddress: clientAddress(n), atOnce: random() < 0.5 });
      for (const [, code = ''] of answer.matchAll(/^(\d{3}) /gm)) replies.set(code, (replies.get(code) ?? 0) + 1);
      if (answer.endsWith('no answer'))
        findings.push(
          `seed ${seed}, session ${n}: ${answer}\n${Buffer.concat(pieces).toString('latin1').slice(0, 1500)}`,
        );
    }
  }

  await Promise.all(Array.from({ length: CONNECTIONS }, client));
  const counts = Array.from(replies, ([code, count]) => `${code}: ${count}`).toSorted();
  process.stdout.write(`${sent} sessions, seed ${seed}; ${counts.join(', ')}\n`);
  expect(findings.join('\n\n')).toBe('');
  // Some of the messages are taken, whatever was done to them.
  expect(world.catcher.mails.length).toBeGreaterThan(sent / 200);
  await world.expectUnharmed('SMTP');
});

/** The envelope sender of a notification: where its bounce would come. */
async function returnPath({ appliance, catcher }: FuzzWorld): Promise<string> {
  const body = new URLSearchParams({ name: 'Ann', message: 'Are you open on Friday?' });
  const answer = await fetch(appliance.formUrl, { method: 'POST', body, headers: { Accept: 'application/json' } });
  expect(answer.status).toBe(200);
  await until('the notification came', () => catcher.mails.length > 0);
  return catcher.mails[0]?.sender ?? '';
}

function sessionsFor(bounceTo: string): Session[] {
  const header =
    'From: Ann <ann@sender.test>\r\nTo: info@forms.test\r\nSubject: Hello\r\nMessage-ID: <1@sender.test>\r\n';
  const plain = `${header}Date: Sun, 22 Nov 2026 10:00:00 +0000\r\n\r\nHello.\r\n..stuffed\r\nBye.\r\n`;
  const mime =
    `${header}MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary="b"\r\n\r\n--b\r\nContent-Type: text/html; charset=utf-8\r\n` +
    'Content-Transfer-Encoding: base64\r\n\r\nPGI+aGk8L2I+\r\n--b\r\nContent-Type: message/rfc822\r\n\r\nFrom: a@b.test\r\n\r\nx\r\n--b--\r\n';
  const signed =
    'DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=sender.test; s=x; h=from:to:subject; bh=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=; b=AAAA\r\n' +
    'Received: from a by b; Sun, 22 Nov 2026 10:00:00 +0000\r\nARC-Seal: i=1; a=rsa-sha256; cv=none; d=sender.test; s=x; b=AAAA\r\n' +
    plain;
  const report =
    `From: MAILER-DAEMON@inbox.test\r\nTo: <${bounceTo}>\r\nSubject: Undelivered\r\nMIME-Version: 1.0\r\nAuto-Submitted: auto-replied\r\n` +
    'Content-Type: multipart/report; report-type=delivery-status; boundary="r"\r\n\r\n--r\r\n\r\nIt failed.\r\n--r\r\nContent-Type: message/delivery-status\r\n\r\n' +
    'Reporting-MTA: dns; mx.inbox.test\r\n\r\nFinal-Recipient: rfc822; owner@inbox.test\r\nAction: failed\r\nStatus: 5.1.1\r\n' +
    'Diagnostic-Code: smtp; 550 5.1.1 no such user\r\n\r\n--r\r\nContent-Type: text/rfc822-headers\r\n\r\nSubject: x\r\n\r\n--r--\r\n';
  const mail = (to: string, from = 'ann@sender.test'): string[] => [
    `MAIL FROM:<${from}> SIZE=2000`,
    `RCPT TO:<${to}>`,
    'DATA',
  ];
  return [
    ...[plain, plain, mime, signed].map((message) => ({ commands: mail(ALIAS), message })),
    { commands: mail(bounceTo, ''), message: report },
    { commands: mail(bounceTo, ''), message: report },
    {
      commands: [
        `MAIL FROM:<\u00fc@sender.test> BODY=8BITMIME SMTPUTF8`,
        `RCPT TO:<${ALIAS}>`,
        `RCPT TO:<nobody@forms.test>`,
        'DATA',
      ],
      message: mime,
    },
    {
      commands: ['HELP', 'NOOP', 'VRFY x', 'EXPN y', 'RSET', 'MAIL FROM:<>', 'RCPT TO:<postmaster>', 'DATA'],
      message: plain,
    },
    { commands: ['STARTTLS'], message: plain },
    { commands: ['AUTH PLAIN AGEAYg==', ...mail('a@elsewhere.test')], message: plain },
  ];
}

/** EHLO, the commands and the message, each changed now and then. */
function piecesOf({ commands, message }: Session, random: Random, others: readonly Buffer[]): Buffer[] {
  const changed = (text: string, chance: number): Buffer => {
    const bytes = Buffer.from(text);
    return random() < chance ? mutate(bytes, random, others) : bytes;
  };
  return [
    changed('EHLO client.test\r\n', 0.05),
    ...commands.map((command) => changed(`${command}\r\n`, 0.15)),
    Buffer.concat([changed(message, 0.85), changed('\r\n.\r\n', 0.05)]),
    changed('QUIT\r\n', 0.05),
  ];
}

interface Conversation {
  readonly localAddress: string;
  /** All after EHLO without waiting for replies. */
  readonly atOnce: boolean;
}

/** Says the pieces, each after a reply or a moment, and answers all that came back. */
async function converse(
  port: number,
  pieces: readonly Buffer[],
  { localAddress, atOnce }: Conversation,
): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1', localAddress });
  let heard = '';
  socket.setEncoding('latin1').on('data', (text: string) => (heard = (heard + text).slice(-20_000)));
  socket.on('error', () => undefined); // a server may hang up in the middle
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  await reply(socket, PATIENCE_MS);
  for (const [at, piece] of pieces.entries()) {
    if (socket.destroyed) break;
    socket.write(piece);
    if (at === 0 || !atOnce) await reply(socket, at === 0 ? PATIENCE_MS : STEP_MS);
  }
  socket.end();
  const timer = setTimeout(() => {
    heard += 'no answer';
    socket.destroy();
  }, PATIENCE_MS);
  await closed;
  clearTimeout(timer);
  return heard;
}

/** Waits for some bytes, the end, or `ms`. */
function reply(socket: Socket, ms: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    socket.once('data', done);
    socket.once('close', done);
    function done(): void {
      clearTimeout(timer);
      socket.off('data', done);
      socket.off('close', done);
      resolve();
    }
  });
}
