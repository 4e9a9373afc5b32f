/** The SMTP client alone: batches in, results out, over real sockets; DNS is a table. */
import { onTestFinished } from 'vitest';
import type { Answer, MxRecord, Resolver } from '../../src/dns/resolver.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { silentLog } from '../../src/lib/log.ts';
import { createSmtpClient, type SmtpClient } from '../../src/smtp-client/client.ts';
import type { Body, Opened, RecipientResult, Result } from '../../src/queue/transport.ts';
import { TIMEOUTS, type Timeouts } from '../../src/smtp-client/wire.ts';
import { configOf } from './queue.ts';

export interface Carrier {
  readonly client: SmtpClient;
  /** Hands over a message for these recipients of one destination. */
  carry(recipients: string | readonly string[], more?: CarryOptions): Promise<Result>;
}

export interface CarryOptions {
  readonly body?: Partial<Body>;
  readonly opened?: Opened;
  /** When the end of the try is on the disk; default: at once. */
  readonly settled?: Promise<void>;
}

export interface CarrierOptions {
  readonly port: number;
  /** Addresses of the MX hosts of every domain, best first; default: `127.0.0.1` alone. */
  readonly hosts?: readonly (readonly string[])[];
  readonly delivery?: object;
  readonly timeouts?: Partial<Timeouts>;
  readonly ca?: string;
  readonly mayLeave?: () => boolean;
  readonly isPressed?: () => boolean;
  /** The address of `localhost`, for smarthosts; default: none. */
  readonly localhost?: string;
}

export function startCarrier(options: CarrierOptions): Carrier {
  const { mayLeave = () => true, isPressed = () => false } = options;
  const { port, hosts = [['127.0.0.1']], delivery = {}, timeouts, ca } = options;
  const config = configOf({ port, delivery });
  const client = createSmtpClient({
    resolver: tableResolver(hosts, options.localhost),
    config: () => config,
    clock: systemClock,
    log: silentLog,
    random: () => 0,
    timeouts: { ...TIMEOUTS, ...timeouts },
    ...(ca === undefined ? {} : { ca }),
  });
  onTestFinished(() => client.stop(0));
  let number = 0;
  return {
    client,
    carry(recipients, { body, opened, settled = Promise.resolve() } = {}) {
      const list = [recipients].flat();
      const destination = list[0]?.split('@')[1] ?? '';
      const { promise, resolve } = Promise.withResolvers<Result>();
      const batch = {
        destination,
        recipients: list.map((address) => ({ id: `dlv_${number++}`, address, attempt: 1 })),
        isProven: false,
        isTlsReport: false,
        begin: () => Promise.resolve(true),
        isPressed,
        open: () => Promise.resolve(opened ?? bodyOf(`Subject: ${number}\r\n\r\nHello\r\n`, body)),
        mayLeave,
        done: (result: Result) => {
          resolve(result);
          return settled;
        },
      };
      client.send(destination, [batch]);
      return promise;
    },
  };
}

export function bodyOf(text: string, more: Partial<Body> = {}): Body {
  const content = [Buffer.from(text)];
  return {
    kind: 'ready',
    sender: 'b@mail.example.net',
    size: content[0]?.length ?? 0,
    encoding: '7bit',
    pieces: () => content,
    ...more,
  };
}

/** What each recipient was told, or why nobody was: `delivered: 250 ok`. */
export function told(result: Result): string | Record<string, string> {
  if (result.kind === 'unreachable') return `unreachable: ${result.reply}`;
  const said = ({ outcome, reply }: RecipientResult) => `${outcome}: ${reply}`;
  const [first] = result.recipients;
  if (first !== undefined && result.recipients.length === 1) return said(first);
  return Object.fromEntries(result.recipients.map((each) => [each.recipient.address, said(each)]));
}

/** Every domain has MX hosts `mx1`, `mx2`, … under itself. */
function tableResolver(hosts: readonly (readonly string[])[], localhost?: string): Resolver {
  const none: Answer<never> = { kind: 'nodata' };
  const resolver: Resolver = {
    txt: () => Promise.resolve(none),
    lookup: () => Promise.resolve(none),
    mx: (name) =>
      Promise.resolve<Answer<MxRecord>>({
        kind: 'found',
        records: hosts.map((_, i) => ({ preference: i, exchange: `mx${i + 1}.${name}` })),
      }),
    addresses: (name) => {
      if (name === 'localhost' && localhost !== undefined) {
        return Promise.resolve<Answer<string>>({ kind: 'found', records: [localhost] });
      }
      const records = hosts[Number(/^mx(\d+)\./.exec(name)?.[1] ?? 0) - 1];
      return Promise.resolve<Answer<string>>(records === undefined ? none : { kind: 'found', records });
    },
    fresh: () => resolver,
  };
  return resolver;
}
