/**
 * Who sent mail that we forwarded learns where it never arrives: one report for each destination's final word, committed
 * with that word. Only where SPF or DKIM vouched for the sender, or a stranger would get the answer to what he never sent
 * (backscatter); and never for reports and other automatic mail, so that no two machines answer each other.
 */
import { domainToUnicode } from 'node:url';
import { z } from 'zod';
import type { ServerConfig } from '../config/schema.ts';
import { asciiAddress, parseAddress, needsSmtpUtf8 } from '../lib/addresses.ts';
import { isAutomatic } from '../mail/automatic.ts';
import { fieldsOf, splitHeader, messageIdOf } from '../mail/header.ts';
import { readAuthResults } from '../mail/auth-results.ts';
import { signDkim, keysFor, type SigningContext } from '../mail/dkim.ts';
import { deliveryReport, DSN_SUBJECT } from '../mail/dsn.ts';
import { enqueue } from '../queue/enqueue.ts';
import type { Consequence, Failure, Source } from '../queue/transport.ts';
import { findInbound, rawChunks } from '../store/inbound.ts';
import type { Store } from '../store/store.ts';
import { readForward } from './forward-source.ts';

/** Header lines that a report carries at most, bytes. */
const MAX_HEADERS = 32 * 1024;

/** What follows from a failure; where it is one of forwarding, the events that tell of it say whether the sender was told. */
export async function reportFailure(
  { message, recipients, at }: Failure,
  { store, config }: { readonly store: Store; readonly config: () => ServerConfig },
): Promise<Consequence> {
  if (message.kind !== 'forward') return { unit: [], data: {} };
  const { inbound: id, original, sender } = readForward(message.source);
  const inbound = await findInbound(store, id);
  if (sender === '') return untold('null_sender');
  if (inbound === undefined || !readAuthResults(inbound.verdicts).vouched) return untold('not_vouched');
  const { header } = await splitHeader(rawChunks(store, id));
  if (isAutomatic(fieldsOf(header))) return untold('automatic');
  const { server, delivery } = config();
  const source: ReportSource = {
    to: sender,
    // Where mail is forwarded to is its owner's secret (RFC 3464 §4.2): the sender knows the address that he wrote to.
    failed: recipients.map(({ address, reply, host: remote }) => {
      return { address: original, reply: withoutTarget(reply, address, original), remote, at };
    }),
    arrived: inbound.created_at,
    headers: shortened(header),
  };
  const about = { tenant: message.tenant, submission: null, domain: server.hostname, subject: DSN_SUBJECT };
  const { unit } = enqueue({ ...about, kind: 'dsn', source, recipients: [sender], ttl: delivery.expire.dsn }, at);
  return { unit, data: { dsn: 'queued' } };
}

function untold(reason: string): Consequence {
  return { unit: [], data: { dsn: reason } };
}

/** How servers write the `@` of an address that they quote, by itself or in the encodings of URLs, xtext, QP and HTML. */
const AT = String.raw`\s{0,2}(?:@|[%+=]40|&#(?:64|x40);|[([{]at[)\]}]|\sat\s|=|#)\s{0,2}`;

/** A server's words with the address as the sender named it in the place of the one that it was forwarded to. */
function withoutTarget(reply: string, target: string, original: string): string {
  const { local, domain } = parseAddress(target) ?? { local: target, domain: '' };
  const [name = '', ascii = ''] = [original, asciiAddress(target)].map((text) => text.slice(0, text.lastIndexOf('@')));
  const locals = either(local, ascii, encodeURIComponent(local));
  const whole = new RegExp(`["']?${locals}["']?${AT}\\[?${either(domain, domainToUnicode(domain))}`, 'giu');
  // Alone it is told only where it cannot be taken for another word.
  const alone = new RegExp(
    `([<("'\\[])${locals}(?=[>)"'\\]])|(\\b(?:user|mailbox|recipient|account|address|login)(?:\\sname)?[:=]?\\s)${locals}(?![\\p{L}\\p{N}@])|(^|\\s)${locals}(?=:\\s)`,
    'giu',
  );
  return reply
    .replaceAll(whole, () => original)
    .replaceAll(alone, (_, ...before: (string | undefined)[]) => before.slice(0, 3).join('') + name);
}

/** A pattern for one of these. */
function either(...texts: readonly string[]): string {
  const distinct = [...new Set(texts.filter((text) => text !== ''))];
  return `(?:${distinct.map((text) => text.replaceAll(/[\\^$.*+?()[\]{}|/]/g, '\\$&')).join('|')})`;
}

/** Whole fields, as many as there is room for. */
function shortened(header: string): string {
  let text = '';
  for (const field of fieldsOf(header)) {
    if (text.length + field.text.length > MAX_HEADERS) break;
    text += field.text;
  }
  return text;
}

// Where the bytes of our own delivery reports come from: signed as mail of the server itself, with the null sender.

const report = z.object({
  to: z.string(),
  failed: z.array(z.object({ address: z.string(), reply: z.string(), remote: z.string().nullable(), at: z.int() })),
  arrived: z.int(),
  headers: z.string(),
});

/** `messages.source` of the kind `dsn`; mail/dsn.ts says what it means. */
export type ReportSource = z.output<typeof report>;

/** The same without the header lines of the message that it tells of. */
export function withoutHeaders(json: string): string {
  return JSON.stringify({ ...report.parse(JSON.parse(json)), headers: '' });
}

/** The source of messages of the kind `dsn`. */
export function createDsnSource(signing: SigningContext): Source {
  return {
    async prepare(message) {
      const { domain: hostname, created_at: date } = message;
      const what = report.parse(JSON.parse(message.source));
      const bytes = deliveryReport({ ...what, hostname, date, messageId: messageIdOf(message) });
      const signature = await signDkim([bytes], await keysFor(message, signing), signing.now());
      const size = signature.length + bytes.length;
      return { kind: 'ready', sender: '', content: [signature, bytes], size, smtpUtf8: needsSmtpUtf8(what.to) };
    },
  };
}
