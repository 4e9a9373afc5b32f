/**
 * Mail that comes back to an address which only we could have made. A report about what we forwarded goes on to the one who
 * sent that, with the null sender that it has, where SPF or DKIM had vouched for him; all else is kept in the unit that
 * takes it, to be read. Nothing answers it, whatever it is, so that no two servers talk to each other.
 *
 * Whoever gets forwarded mail learns the address, and may write to it: it takes reports alone, and a few a day.
 */
import type { Limits } from '../accounts/rate-limits.ts';
import { parseAddress } from '../lib/addresses.ts';
import { isReport } from '../mail/automatic.ts';
import { fieldsOf, splitHeader } from '../mail/header.ts';
import { MAX_REPORT_BYTES } from '../mail/report.ts';
import { SRS_VALID_MS } from '../mail/own-addresses.ts';
import { readAuthResults } from '../mail/auth-results.ts';
import { insertBounce, findInbound } from '../store/inbound.ts';

import { findMessage } from '../store/messages.ts';
import { OPERATOR } from '../store/tenants.ts';
import type { Store } from '../store/store.ts';
import type { MessageRow } from '../store/tables.ts';
import { readForward, type ForwardSource } from './forward-source.ts';
import { enqueued, type Intake, type IntakeResult } from './accept.ts';
import type { InboundMessage } from './receive.ts';
import { decideRecipient, type Directory } from './recipients.ts';

export interface BounceParts {
  readonly store: Store;
  /** Counts the reports for each sender. */
  readonly limits: Pick<Limits, 'take'>;
  /** As of now: a sender may be one of ours. */
  readonly directory: () => Directory;
  /** How long it is tried, ms. */
  readonly ttl: () => number;
}

export interface Bounces {
  readonly takeBounce: Intake<'bounce'>;
  readonly takeReturned: Intake<'srs'>;
}

const MAX_REPORTS = { count: 5, windowMs: 86_400_000 };

export function createBounces({ store, limits, directory, ttl }: BounceParts): Bounces {
  /** Where mail for this address is to be sent, and by whose word: it is ours to forward where the domain is. */
  function targetsOf(address: string): { readonly tenant: string; readonly recipients: readonly string[] } {
    const decision = decideRecipient(address, '', directory());
    if (decision.kind === 'forward') return { tenant: decision.tenant, recipients: decision.targets };
    const isForeign = decision.kind === 'refuse' && decision.domain === null && parseAddress(address) !== undefined;
    return { tenant: OPERATOR, recipients: isForeign ? [address] : [] };
  }

  async function passOn(mail: InboundMessage, original: string, sender: string): Promise<IntakeResult> {
    const { tenant, recipients } = targetsOf(sender);
    if (recipients.length === 0) return {};
    const { header } = await splitHeader(mail.pieces());
    if (mail.sender !== '' || !isReport(fieldsOf(header))) {
      const reply = '550 5.7.1 this address accepts only delivery reports from the null sender';
      return { refusal: { reply, reason: 'not_a_report' } };
    }
    const room = await limits.take(`returned:${sender.toLowerCase()}`, MAX_REPORTS);
    if (!room.allowed) {
      const reply = '550 5.7.1 too many delivery reports for this address today';
      return { refusal: { reply, reason: 'rate_limited' } };
    }
    const source: ForwardSource = { inbound: mail.id, original, sender: '' };
    const about = { tenant, submission: null, domain: directory().snapshot.server.server.hostname };
    const message = { ...about, kind: 'forward', source, recipients, ttl: ttl() } as const;
    return enqueued(message, mail.at);
  }

  /** The one who sent what is forwarded by this message, where he did. */
  async function vouchedSender({ source }: MessageRow): Promise<string | undefined> {
    const { inbound: id, sender } = readForward(source);
    const inbound = sender === '' ? undefined : await findInbound(store, id);
    return inbound !== undefined && readAuthResults(inbound.verdicts).vouched ? sender : undefined;
  }

  return {
    takeReturned: (mail, { original, sender }) => passOn(mail, original, sender),
    async takeBounce(mail, { message: id, original }) {
      const message = await findMessage(store, id);
      if (message === undefined) return {};
      if (message.kind === 'forward') {
        // It holds no longer than an SRS address.
        if (mail.at - message.created_at > SRS_VALID_MS) return {};
        // Of a sender whose address has no SRS form.
        const sender = await vouchedSender(message);
        if (sender !== undefined) return passOn(mail, original, sender);
      }
      const head = await headOf(mail);
      return {
        rows: [insertBounce({ inbound: mail.id, message: id, head, tries: 0, due: mail.at, created_at: mail.at })],
      };
    },
  };
}

async function headOf(mail: InboundMessage): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of mail.pieces()) {
    pieces.push(piece);
    size += piece.length;
    if (size >= MAX_REPORT_BYTES) break;
  }
  return Buffer.concat(pieces).subarray(0, MAX_REPORT_BYTES);
}
