/**
 * Who sent mail that we forwarded learns where it never arrives: one report for each destination's final word, committed
 * with that word. Only where SPF or DKIM vouched for the sender, or a stranger would get the answer to what he never sent
 * (backscatter); and never for reports and other automatic mail, so that no two machines answer each other.
 */
import type { ServerConfig } from '../config/schema.ts';
import { isAutomatic } from '../mail/automatic.ts';
import { fieldsOf, splitHeader } from '../mail/header-block.ts';
import { readVerdicts } from '../mail/verdicts.ts';
import { enqueue } from '../queue/enqueue.ts';
import type { Consequence, FailedRecipient, Failure } from '../queue/interfaces.ts';
import { findInbound, rawPieces } from '../store/inbound.ts';
import type { Store } from '../store/store.ts';
import type { ReportSource } from './dsn-source.ts';
import { readForward } from './forward-shapes.ts';

export interface ReportParts {
  readonly store: Store;
  readonly config: () => ServerConfig;
}

/** Header lines that a report carries at most, bytes. */
const MOST_HEADERS = 32 * 1024;

/** What follows from a failure; where it is one of forwarding, the events that tell of it say whether the sender was told. */
export async function reportFailure(failure: Failure, { store, config }: ReportParts): Promise<Consequence> {
  const { message, recipients, at } = failure;
  if (message.kind !== 'forward') return { unit: [], data: {} };
  const { inbound: id, original, sender } = readForward(message.source);
  const inbound = await findInbound(store, id);
  if (sender === '') return untold('null_sender');
  if (inbound === undefined || !readVerdicts(inbound.verdicts).vouched) return untold('not_vouched');
  const { header } = await splitHeader(rawPieces(store, id));
  if (isAutomatic(fieldsOf(header))) return untold('automatic');
  const { server, delivery } = config();
  const source: ReportSource = {
    to: sender,
    failed: recipients.map((recipient) => shown(recipient, original, at)),
    arrived: inbound.created_at,
    headers: shortened(header),
  };
  const about = { tenant: message.tenant, submission: null, domain: server.hostname };
  const { unit } = enqueue({ ...about, kind: 'dsn', source, recipients: [sender], ttl: delivery.expire.dsn }, at);
  return { unit, data: { dsn: 'queued' } };
}

function untold(reason: string): Consequence {
  return { unit: [], data: { dsn: reason } };
}

/** Where mail is forwarded to is its owner's secret (RFC 3464 §4.2): the sender knows the address that he wrote to. */
function shown(
  { address, reply, host }: FailedRecipient,
  original: string,
  at: number,
): ReportSource['failed'][number] {
  const target = new RegExp(address.replaceAll(/[\\^$.*+?()[\]{}|/]/g, '\\$&'), 'giu');
  return { address: original, reply: reply.replaceAll(target, () => original), remote: host, at };
}

/** Whole fields, as many as there is room for. */
function shortened(header: string): string {
  let text = '';
  for (const field of fieldsOf(header)) {
    if (text.length + field.text.length > MOST_HEADERS) break;
    text += field.text;
  }
  return text;
}
