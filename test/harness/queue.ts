/**
 * The queue as the daemon composes it, on a real store, a real DNS server and real sockets; time is the test's. Messages
 * bring their own bytes: rendering is somebody else's.
 */
import { expect, onTestFinished } from 'vitest';
import type { ServerConfig } from '../../src/config/schema.ts';
import { serverSchema } from '../../src/config/schema-server.ts';
import type { Dnssec } from '../../src/dns/dnssec.ts';
import type { Resolver } from '../../src/dns/resolver.ts';
import type { Fields, Log } from '../../src/lib/log.ts';
import { createSmtpClient, type SmtpClientOptions } from '../../src/smtp-client/client.ts';
import { MtaSts, type MtaStsOptions } from '../../src/smtp-client/route.ts';
import { enqueue, type NewMessage } from '../../src/queue/enqueue.ts';
import type { Transport, OnFailure, Prepared, Source } from '../../src/queue/transport.ts';
import { showMessage } from '../../src/queue/operate.ts';
import { TIMEOUTS, type Timeouts } from '../../src/smtp-client/wire.ts';
import { Worker } from '../../src/queue/worker.ts';
import type { Store } from '../../src/store/store.ts';
import type { AttemptRow, DeliveryRow } from '../../src/store/tables.ts';
import { testClock, type TestClock } from './clock.ts';
import { startTestDns } from './dns.ts';
import type { DnsServer, ZoneRecord } from '../../src/dev/dns-server.ts';
import { openTestStore } from './store.ts';

export interface LogLine {
  readonly level: string;
  readonly event: string;
  readonly fields: Fields;
}

export interface QueueOptions {
  readonly records?: readonly ZoneRecord[];
  readonly delivery?: object;
  readonly port?: number;
  readonly timeouts?: Partial<Timeouts>;
  readonly source?: Source;
  readonly ca?: string;
  /** A store that lives on, for a second start. */
  readonly store?: Store;
  readonly clock?: TestClock;
  readonly resolver?: Resolver;
  /** Default: 0.5, no jitter. */
  readonly random?: () => number;
  readonly ownAddresses?: SmtpClientOptions['ownAddresses'];
  readonly owner?: string;
  /** How MTA-STS policies are fetched; without it no domain has one. */
  readonly fetchPolicy?: MtaStsOptions['fetchPolicy'] | undefined;
  /** Without it no host has DANE. */
  readonly dnssec?: Dnssec;
  /** In the place of the real one. */
  readonly transport?: Transport;
  readonly onFailure?: OnFailure;
  /** Default: none. */
  readonly webhooks?: Transport;
  /** Default: there are none. */
  readonly hasOthers?: () => boolean;
  readonly onNoRoute?: (reply: string) => void;
}

export interface TestQueue {
  readonly store: Store;
  readonly clock: TestClock;
  readonly worker: Worker;
  readonly dns: DnsServer;
  readonly log: readonly LogLine[];
  readonly mtaSts: MtaSts | undefined;
  /** Commits a message and wakes the worker. Answers the message's id. */
  send(recipients: string | readonly string[], more?: Partial<NewMessage>): Promise<string>;
  /** The message's deliveries, by recipient. */
  deliveries(message: string): Promise<Record<string, DeliveryRow & { tries: readonly AttemptRow[] }>>;
  /** Waits until all deliveries of the message are in this state; answers the first with its attempts. */
  reaches(message: string, state: DeliveryRow['state']): Promise<DeliveryRow & { tries: readonly AttemptRow[] }>;
  /** Types of the message's events, sorted. */
  events(message: string): Promise<string[]>;
  /** Lets time pass, and the worker look at the queue after it. */
  pass(ms: number): void;
  /** Lets time pass until the message is due. */
  whenDue(message: string): Promise<void>;
}

/** Short enough for a test, long enough for a busy machine. */
const SHORT: Partial<Timeouts> = { idle: 1000 };

export async function startQueue(options: QueueOptions = {}): Promise<TestQueue> {
  const clock = options.clock ?? testClock();
  const store = options.store ?? (await openTestStore());
  const { server: dns, resolver } = await startTestDns(options.records ?? [], { clock });
  const log: LogLine[] = [];
  const config = configOf(options);
  const { fetchPolicy } = options;
  const parts = { store, clock, log: recordingLog(log), resolver: options.resolver ?? resolver };
  const mtaSts = fetchPolicy && new MtaSts({ ...parts, fetchPolicy });
  const mail =
    options.transport ??
    createSmtpClient({
      resolver: options.resolver ?? resolver,
      config: () => config,
      clock,
      log: recordingLog(log),
      random: options.random ?? (() => 0.5),
      timeouts: { ...TIMEOUTS, ...SHORT, ...options.timeouts },
      mtaSts,
      dnssec: options.dnssec,
      ...(options.ca === undefined ? {} : { ca: options.ca }),
      ...(options.ownAddresses === undefined ? {} : { ownAddresses: options.ownAddresses }),
    });
  const worker = new Worker({
    store,
    clock,
    log: recordingLog(log),
    source: options.source ?? plainSource(),
    transports: { mail, webhooks: options.webhooks ?? mail },
    config: () => config,
    owner: options.owner ?? 'test',
    random: options.random ?? (() => 0.5),
    ...(options.onFailure === undefined ? {} : { onFailure: options.onFailure }),
    ...(options.hasOthers === undefined ? {} : { hasOthers: options.hasOthers }),
    ...(options.onNoRoute === undefined ? {} : { onNoRoute: options.onNoRoute }),
  });
  onTestFinished(() => worker.stop(0));

  async function deliveries(message: string) {
    const shown = await showMessage(store, message);
    return Object.fromEntries((shown?.deliveries ?? []).map((row) => [row.recipient, row]));
  }

  /** A worker that is just looking would else sleep on from the new time. */
  function pass(ms: number): void {
    clock.advance(ms);
    worker.wake();
  }

  return {
    store,
    clock,
    worker,
    pass,
    dns,
    log,
    mtaSts,
    deliveries,
    async send(recipients, more) {
      const { id, unit } = enqueue(newMessage(recipients, more), clock.now());
      await store.write(unit);
      worker.wake();
      return id;
    },
    async reaches(message, state) {
      let rows: (DeliveryRow & { tries: readonly AttemptRow[] })[] = [];
      await expect
        .poll(
          async () => {
            rows = Object.values(await deliveries(message));
            return rows.map((row) => row.state);
          },
          { interval: 5 },
        )
        .toSatisfy((states: readonly string[]) => states.every((each) => each === state));
      const [first] = rows;
      if (first === undefined) throw new Error('no such message');
      return first;
    },
    async events(message) {
      const rows = await store.read.selectFrom('events').select('type').where('message', '=', message).execute();
      return rows.map(({ type }) => type).sort();
    },
    async whenDue(message) {
      const due = Object.values(await deliveries(message)).map((row) => row.next_attempt_at ?? 0);
      pass(Math.min(...due) - clock.now());
    },
  };
}

/** The configuration of a server that may deliver to loopback. */
export function configOf({ delivery, port }: Pick<QueueOptions, 'delivery' | 'port'>): ServerConfig {
  return serverSchema.parse({
    server: { hostname: 'mail.example.net', operator: 'ops@example.net' },
    delivery: { port: port ?? 25, allow_private_networks: true, ...delivery },
  });
}

/** A message for these recipients that says so. */
export function newMessage(recipients: string | readonly string[], more: Partial<NewMessage> = {}): NewMessage {
  return {
    tenant: 'ten_a',
    kind: 'notification',
    submission: null,
    domain: 'example.com',
    source: { text: 'Hello' },
    recipients: [recipients].flat(),
    ttl: 5 * 86_400_000,
    ...more,
  };
}

/** Bytes that are new each time they are made, so that a test sees which were sent. */
export function plainSource(prepared: Partial<Extract<Prepared, { kind: 'ready' }>> = {}): Source & { made: number } {
  const source = {
    made: 0,
    prepare: (message: { id: string }): Promise<Prepared> => {
      source.made += 1;
      const text = `Subject: ${message.id}\r\nX-Rendering: ${source.made}\r\n\r\n.Hello\r\n..\r\n`;
      const content = prepared.content ?? [Buffer.from(text)];
      const size = content.reduce((sum, { length }) => sum + length, 0);
      return Promise.resolve({
        kind: 'ready',
        sender: 'b+1@mail.example.net',
        smtpUtf8: false,
        ...prepared,
        content,
        size,
      });
    },
  };
  return source;
}

/** MX and address records of a mail domain on loopback. */
export function mailDomain(name: string, address = '127.0.0.1'): ZoneRecord[] {
  return [
    { name, type: 'MX', value: `10 mx.${name}` },
    { name: `mx.${name}`, type: 'A', value: address },
  ];
}

function recordingLog(lines: LogLine[]): Log {
  const at =
    (level: string) =>
    (event: string, fields: Fields = {}) =>
      void lines.push({ level, event, fields });
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}
