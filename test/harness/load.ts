/**
 * Visitors who all fill in the form at once, over kept connections, each submission with a reference of its own that shows
 * up in the mail. What each was told is kept: that is what the daemon has promised. A daemon that is not there yet is tried
 * again; a request that got no answer is not.
 */
import { Agent, request, type ClientRequest } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { codeOf } from '../../src/lib/errors.ts';

export type Kind = 'plain' | 'file' | 'without message' | 'file too big';

export interface LoadOptions {
  /** The form's address; of several one by turns, as daemons that share a database stand behind one name. */
  readonly url: string | readonly string[];
  readonly connections: number;
  /** So many, else until `stop`. */
  readonly count?: number;
  /** What the n-th submission is; default: `plain`. */
  readonly kind?: (n: number) => Kind;
  /** Of each visitor between two submissions; default: none. */
  readonly pauseMs?: number;
}

export interface Tally {
  /** References of those that were answered with 200. */
  readonly accepted: ReadonlySet<string>;
  /** Those that were answered with anything else, and with what. */
  readonly refused: ReadonlyMap<string, number>;
  /** Those that were answered with OUTCOME_UNKNOWN, and are not among the refused: nobody knows. */
  readonly unknown: ReadonlySet<string>;
  /** Those whose connection was cut before there was an answer: nothing was promised. */
  readonly unanswered: ReadonlySet<string>;
}

export interface Load extends Tally {
  /** Ends when `count` is reached, or after `stop`. */
  readonly done: Promise<void>;
  /** Sends no more and waits for the answers. */
  stop(): Promise<void>;
}

const REFERENCE = /ref-[0-9a-z]+-[0-9]+/;
let loads = 0;

/** The reference in a mail as it came over the wire; undefined where there is none. */
export function referenceIn(mail: string): string | undefined {
  return REFERENCE.exec(mail.replaceAll('=\r\n', ''))?.[0];
}

/** Begins to send. */
export function startLoad(options: LoadOptions): Load {
  const { url, connections, count = Infinity, kind = () => 'plain', pauseMs = 0 } = options;
  const urls = [url].flat();
  const name = `${Date.now().toString(36)}${(loads++).toString(36)}`;
  const agent = new Agent({ keepAlive: true, maxSockets: Infinity });
  const accepted = new Set<string>();
  const refused = new Map<string, number>();
  const unknown = new Set<string>();
  const unanswered = new Set<string>();
  let next = 0;
  let stopped = false;
  const done = Promise.all(Array.from({ length: connections }, visitor)).then(() => agent.destroy());

  return {
    accepted,
    refused,
    unknown,
    unanswered,
    done,
    stop() {
      stopped = true;
      return done;
    },
  };

  async function visitor(): Promise<void> {
    while (!stopped && next < count) {
      const n = next++;
      await submit(n);
      if (pauseMs > 0) await sleep(pauseMs);
    }
  }

  async function submit(n: number): Promise<void> {
    const reference = `ref-${name}-${n}`;
    const form = formOf(kind(n), reference);
    for (let tries = 0; ; tries++) {
      const answer = await post(urls[(n + tries) % urls.length] ?? '', form, agent);
      if (answer === 'nobody there') {
        if (stopped) return;
        await sleep(50);
      } else if (answer === 'cut') return void unanswered.add(reference);
      else if (answer === 'unknown') return void unknown.add(reference);
      else if (answer === 200) return void accepted.add(reference);
      else return void refused.set(reference, answer);
    }
  }
}

/** Sends so many and answers what came of them. */
export async function sendMany(options: LoadOptions & { readonly count: number }): Promise<Tally> {
  const load = startLoad(options);
  await load.done;
  return load;
}

interface FormData {
  readonly type: string;
  readonly body: Buffer;
}

type Answer = number | 'unknown' | 'cut' | 'nobody there';

function post(url: string, { type, body }: FormData, agent: Agent): Promise<Answer> {
  return new Promise((resolve) => {
    const headers = { Accept: 'application/json', 'Content-Type': type, 'Content-Length': body.length };
    const sent: ClientRequest = request(url, { method: 'POST', agent, headers }, (response) => {
      const { statusCode: status = 0 } = response;
      // The status line is the promise, however the rest ends; but for what a 503 means.
      if (status !== 503) resolve(status);
      let text = '';
      response.setEncoding('utf8');
      response.on('error', () => undefined);
      response.on('data', (part: string) => (text += part));
      response.on('close', () => resolve(text.includes('OUTCOME_UNKNOWN') ? 'unknown' : status));
    });
    sent.on('error', (error) => resolve(codeOf(error) === 'ECONNREFUSED' ? 'nobody there' : 'cut'));
    sent.end(body);
  });
}

function formOf(kind: Kind, reference: string): FormData {
  const fields: [string, string][] = [
    ['reference', reference],
    ['name', 'Ann Example'],
  ];
  if (kind !== 'without message') fields.push(['message', 'Are you open on Friday?']);
  switch (kind) {
    case 'plain':
    case 'without message':
      return {
        type: 'application/x-www-form-urlencoded',
        body: Buffer.from(new URLSearchParams(fields).toString()),
      };
    case 'file':
      return multipart(fields, FILE);
    case 'file too big':
      return multipart(fields, FILE_TOO_BIG);
  }
}

/** More than the store takes in one piece. */
const FILE = Buffer.from(Array.from({ length: 300_000 }, (_, i) => (i * 7919) % 251));
/** More than the form of `binary.ts` allows. */
const FILE_TOO_BIG = Buffer.alloc(600_000, 'x');

function multipart(fields: readonly (readonly [string, string])[], file: Buffer): FormData {
  const boundary = 'x-boundary-of-the-test';
  const parts = fields.map(
    ([name, value]) => `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
  );
  const head =
    `--${boundary}\r\nContent-Disposition: form-data; name="plan"; filename="plan.bin"\r\n` +
    'Content-Type: application/octet-stream\r\n\r\n';
  return {
    type: `multipart/form-data; boundary=${boundary}`,
    body: Buffer.concat([Buffer.from(parts.join('') + head), file, Buffer.from(`\r\n--${boundary}--\r\n`)]),
  };
}
