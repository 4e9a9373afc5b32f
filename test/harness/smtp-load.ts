/**
 * Mail servers that all have mail for us at once, over kept connections, each message with a reference of its own. What
 * each was told is kept: that is what the daemon has promised. A daemon that is not there yet is tried again; a message
 * that got no answer is not.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Load } from './load.ts';
import { SmtpClient } from './inbound-smtp.ts';

export type MailKind = 'plain' | 'large' | 'to nobody' | 'with a bare newline';

export interface SmtpLoadOptions {
  /** On 127.0.0.1. */
  readonly port: number;
  readonly connections: number;
  /** An address that takes mail, and one that does not. */
  readonly to: string;
  readonly nobody: string;
  /** What the n-th message is. */
  readonly kind: (n: number) => MailKind;
  /** Of each server between two messages; default: none. */
  readonly pauseMs?: number;
}

/** What a message that is kept is answered with, and nothing else on the way there. */
const TAKEN = /^250 2\.0\.0 accepted as inb_/;
/** With what the listener answers a message to nobody (DATA without a recipient), and one that might be smuggled. */
export const REFUSALS: readonly number[] = [503, 554];

const SENDER = 'ann@sender.test';
/** Several of the pieces that the store takes. */
const LARGE = `${'x'.repeat(76)}\r\n`.repeat(5000);
let loads = 0;

/** Begins to send. */
export function startSmtpLoad({ port, connections, to, nobody, kind, pauseMs = 0 }: SmtpLoadOptions): Load {
  const name = `${Date.now().toString(36)}m${(loads++).toString(36)}`;
  const accepted = new Set<string>();
  const refused = new Map<string, number>();
  const unanswered = new Set<string>();
  let next = 0;
  let stopped = false;
  const done = Promise.all(Array.from({ length: connections }, visitor)).then(() => undefined);
  return {
    accepted,
    refused,
    unanswered,
    unknown: new Set(),
    done,
    stop() {
      stopped = true;
      return done;
    },
  };

  async function visitor(): Promise<void> {
    while (!stopped) {
      const client = await SmtpClient.open(port).catch(() => undefined);
      if (client === undefined) await sleep(50);
      else {
        await converse(client);
        client.close();
      }
    }
  }

  /** Message after message, until the connection is cut. */
  async function converse(client: SmtpClient): Promise<void> {
    while (!stopped) {
      const n = next++;
      const reference = `ref-${name}-${n}`;
      const what = kind(n);
      const recipient = what === 'to nobody' ? nobody : to;
      const reply = await client.send(mailOf(what, reference), { from: SENDER, to: [recipient] });
      if (TAKEN.test(reply)) accepted.add(reference);
      else if (reply === 'closed') return void unanswered.add(reference);
      else refused.set(reference, Number(reply.slice(0, 3)));
      if (pauseMs > 0) await sleep(pauseMs);
    }
  }
}

function mailOf(kind: MailKind, reference: string): string {
  const header = `From: ${SENDER}\r\nSubject: ${reference}\r\nMessage-ID: <${reference}@sender.test>\r\n\r\n`;
  switch (kind) {
    case 'plain':
    case 'to nobody':
      return `${header}Are you open on Friday?`;
    case 'large':
      return `${header}${LARGE}..`; // a line of one dot, stuffed
    case 'with a bare newline':
      return `${header}${LARGE}\nMAIL FROM:<>`;
  }
}
