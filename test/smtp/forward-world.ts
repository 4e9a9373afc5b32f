/** Mail that came in already, and a queue that forwards it and tells its sender where it cannot: real store, DNS and sockets. */
import { createSecretKey } from 'node:crypto';
import { createKeyring } from '../../src/domains/dkim-keys.ts';
import { adoptHostKey } from '../../src/domains/rotation.ts';
import type { ServerConfig } from '../../src/config/schema.ts';
import { newId } from '../../src/lib/ids.ts';
import { silentLog } from '../../src/lib/log.ts';
import { writeAuthResults, type AuthResults } from '../../src/mail/auth-results.ts';
import { enqueue } from '../../src/queue/enqueue.ts';
import type { Source } from '../../src/queue/transport.ts';
import { createDsnSource, reportFailure } from '../../src/smtp/dsn.ts';
import { type ForwardSource, createForwardSource } from '../../src/smtp/forward-source.ts';
import { openSrsKeys } from '../../src/smtp/srs-keys.ts';
import { insertInbound, insertRawChunk, RAW_CHUNK_BYTES } from '../../src/store/inbound.ts';
import type { InboundRow } from '../../src/store/tables.ts';
import { testClock, type TestClock } from '../harness/clock.ts';
import { configOf, mailDomain, startQueue, type TestQueue } from '../harness/queue.ts';
import { startSmtpPeer, type PeerScript, type SmtpPeer } from '../harness/smtp-peer.ts';
import { openTestStore } from '../harness/store.ts';
import type { Store } from '../../src/store/store.ts';

export const HOSTNAME = 'mail.example.net';
export const TENANT = 'ten_a';

export const VERDICTS: AuthResults = {
  spf: { result: 'pass', domain: 'author.test' },
  dkim: [{ domain: 'author.test', selector: 's1', result: 'pass', aligned: true }],
  dmarc: { result: 'pass', policy: 'none', domain: 'author.test' },
  arc: { result: 'none', trusted: false },
  from: 'ana@author.test',
  vouched: true,
};

export const TRACE =
  'Received: from out.author.test ([192.0.2.1])\r\n by mail.example.net with ESMTP id inb_1;\r\n' +
  ' Tue, 14 Nov 2023 22:13:20 +0000\r\n' +
  'Authentication-Results: mail.example.net; spf=pass smtp.mailfrom=ana@author.test\r\n';

export const MAIL =
  'From: Ana <ana@author.test>\r\nTo: sales@example.com\r\nSubject: Hello\r\n' +
  'Date: Tue, 14 Nov 2023 22:13:20 +0000\r\nMessage-ID: <1@author.test>\r\n\r\n.Hi\r\n..\r\n';

export interface Taken {
  /** The message's bytes; default: MAIL. */
  readonly raw: string | Uint8Array;
  readonly sender: string;
  readonly original: string;
  /** Whose address that is. */
  readonly domain: string;
  readonly targets: readonly string[];
  readonly verdicts: AuthResults;
  readonly inbound: Partial<InboundRow>;
}

/** Writes down a message as the listener does, and answers the id of its forward. */
export async function take(store: Store, now: number, taken: Partial<Taken> = {}): Promise<string> {
  const { sender = 'ana@author.test', original = 'sales@example.com', targets = ['you@inbox.test'] } = taken;
  const { domain = 'example.com' } = taken;
  const { raw: given = MAIL } = taken;
  const raw = typeof given === 'string' ? Buffer.from(given) : given;
  const id = newId('inb', now);
  const source: ForwardSource = { inbound: id, original, sender };
  const message = { tenant: TENANT, kind: 'forward', submission: null, domain, source } as const;
  const forward = enqueue({ ...message, recipients: targets, ttl: 5 * 86_400_000 }, now);
  const row: InboundRow = {
    id,
    sender,
    recipients: JSON.stringify([original]),
    ip: '192.0.2.1',
    helo: 'out.author.test',
    tls: null,
    size: raw.length,
    encoding: '7bit',
    trace: TRACE,
    verdicts: writeAuthResults(taken.verdicts ?? VERDICTS),
    messages: JSON.stringify([forward.id]),
    created_at: now,
    ...taken.inbound,
  };
  for (let seq = 0; seq * RAW_CHUNK_BYTES < raw.length; seq++) {
    // A copy: of a view all that is behind it would go to the store thread, with each chunk.
    const bytes = Buffer.from(raw.subarray(seq * RAW_CHUNK_BYTES, (seq + 1) * RAW_CHUNK_BYTES));
    await store.write([insertRawChunk({ inbound: id, seq, bytes, created_at: now })]);
  }
  await store.write([insertInbound(row), ...forward.unit]);
  return forward.id;
}

/** The sources of forwards and of reports on this store. */
export async function sourcesOf(store: Store, clock: TestClock, config: ServerConfig = configOf({})) {
  const hostname = () => HOSTNAME;
  await adoptHostKey({ store, clock, log: silentLog }, HOSTNAME);
  const secret = createSecretKey(Buffer.alloc(32, 9));
  const signing = { keysOf: createKeyring({ store, clock, hostname }), secret, hostname, now: () => clock.now() };
  const srs = await openSrsKeys({ store, clock });
  const forwards = createForwardSource({ store, signing, srs, config: () => config });
  const reports = createDsnSource(signing);
  const source: Source = {
    prepare: (message, kept) => (message.kind === 'dsn' ? reports.prepare(message) : forwards.prepare(message, kept)),
  };
  return { source, srs };
}

export interface ForwardWorld extends TestQueue {
  readonly peer: SmtpPeer;
  take(taken?: Partial<Taken>): Promise<string>;
}

/** The queue with one server for `inbox.test` and `author.test`, which does as the script says. */
export async function openForwardWorld(script: PeerScript = {}, delivery: object = {}): Promise<ForwardWorld> {
  const store = await openTestStore();
  const clock = testClock();
  const peer = await startSmtpPeer({ script });
  const config = configOf({ port: peer.port, delivery });
  const { source } = await sourcesOf(store, clock, config);
  const queue = await startQueue({
    store,
    clock,
    source,
    port: peer.port,
    delivery,
    records: [...mailDomain('inbox.test'), ...mailDomain('author.test')],
    onFailure: (failure) => reportFailure(failure, { store, config: () => config }),
  });
  return {
    ...queue,
    peer,
    async take(taken) {
      const id = await take(store, clock.now(), taken);
      queue.worker.wake();
      return id;
    },
  };
}
