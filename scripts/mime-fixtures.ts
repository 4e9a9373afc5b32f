/**
 * `sh bin/run scripts/mime-fixtures.ts FOLDER…`: every message below the folders (the fixtures of MIME parsers, say, which
 * hold what nobody would make up) goes through the real daemon to a mail server, which must get it byte for byte behind
 * header lines of ours. Files get the line ends that SMTP has; an mbox is taken apart. What has a bare CR or a NUL must be
 * refused. Says what was refused and why; ends with 1 where a message was changed, lost, or taken against the rules.
 */
import { once } from 'node:events';
import { glob, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { SMTPServerDataStream } from 'smtp-server';
import { FORWARDED, startPostern } from '../bench/lib/postern.ts';
import { sendMail } from '../bench/lib/smtp-client.ts';
import { PromptServer } from '../src/dev/catching-mx.ts';

interface Message {
  readonly name: string;
  readonly bytes: Buffer;
}

const OURS =
  /^(?:(?:ARC-(?:Seal|Message-Signature|Authentication-Results)|X-Forwarded-To|Delivered-To|Received(?:-SPF)?|Authentication-Results):.*\r\n(?:[ \t].*\r\n)*)+$/;

const caught: Buffer[] = [];
const catcher = await startCatcher();
const daemon = await startPostern({ takesMail: true, deliverTo: catcher.port });
await until(() => caught.length > 0); // the mail of the daemon's own trial post
const counts = new Map<string, number>();
let wrong = 0;
for await (const message of messagesBelow(process.argv.slice(2))) {
  const { outcome, isRight } = await tryOne(message);
  counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
  if (!isRight) wrong++;
  if (!isRight || outcome !== 'byte for byte')
    console.log(`${isRight ? '     ' : 'WRONG'} ${message.name}: ${outcome}`);
}
for (const [outcome, count] of counts) console.log(`${String(count).padStart(5)}  ${outcome}`);
await daemon.close();
catcher.stop();
process.exitCode = wrong > 0 || counts.size === 0 ? 1 : 0;

async function tryOne({ bytes }: Message): Promise<{ readonly outcome: string; readonly isRight: boolean }> {
  const before = caught.length;
  const reply = await sendMail({ port: daemon.smtpPort, to: FORWARDED, bytes });
  const mustRefuse = /\0|\r(?!\n)/.test(bytes.toString('latin1'));
  if (!reply.startsWith('250')) return { outcome: reply, isRight: mustRefuse === reply.startsWith('554 5.6.0') };
  if (mustRefuse) return { outcome: 'taken with a bare CR or a NUL', isRight: false };
  if (!(await until(() => caught.length > before))) return { outcome: 'did not arrive', isRight: false };
  const arrived = caught.at(-1) ?? Buffer.alloc(0);
  const lines = arrived.subarray(0, arrived.length - bytes.length);
  const isWhole = arrived.subarray(lines.length).equals(bytes) && OURS.test(lines.toString('latin1'));
  return { outcome: isWhole ? 'byte for byte' : 'changed', isRight: isWhole };
}

async function* messagesBelow(folders: readonly string[]): AsyncGenerator<Message> {
  for (const folder of folders) {
    for await (const name of glob('**/*.{eml,msg,txt,mbox}', { cwd: folder })) {
      const text = await readFile(join(folder, name), 'latin1');
      const all = /^From .*\n/.test(text) ? text.split(/^From .*\n/m).slice(1) : [text];
      for (const [i, each] of all.entries())
        yield { name: all.length === 1 ? name : `${name} (${i + 1})`, bytes: asMail(each) };
    }
  }
}

function asMail(text: string): Buffer {
  const mail = text.replaceAll(/\r?\n/g, '\r\n');
  return Buffer.from(mail.endsWith('\r\n') ? mail : `${mail}\r\n`, 'latin1');
}

async function startCatcher(): Promise<{ readonly port: number; stop(): void }> {
  const server = new PromptServer({
    name: 'mx.owner.test',
    logger: false,
    disabledCommands: ['AUTH', 'STARTTLS'],
    disableReverseLookup: true,
    onData(stream: SMTPServerDataStream, _session, done: () => void) {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', () => {
        caught.push(Buffer.concat(chunks));
        done();
      });
    },
  });
  server.listen(0, '127.0.0.1');
  await once(server.server, 'listening');
  const bound = server.server.address();
  if (bound === null || typeof bound === 'string') throw new Error('the mail server has no port');
  return {
    port: bound.port,
    stop() {
      server.cut();
      server.server.close();
    },
  };
}

/** Whether it has come true within half a minute. */
async function until(isTrue: () => boolean): Promise<boolean> {
  for (let tries = 0; tries < 3000 && !isTrue(); tries++) await new Promise((resolve) => setTimeout(resolve, 10));
  return isTrue();
}
