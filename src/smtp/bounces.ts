/**
 * Mail that comes back to an address which only we could have made. What we forwarded goes on to the one who sent it, with
 * the null sender that it has; what was ours is kept in the unit that takes it, to be read. Nothing answers it, whatever
 * it is, so that no two servers talk to each other.
 */
import { parseAddress } from '../lib/addresses.ts';
import { MOST_REPORT_BYTES } from '../mail/report.ts';
import { SRS_VALID_MS } from '../mail/srs.ts';
import { enqueue } from '../queue/enqueue.ts';
import { insertBounce } from '../store/bounces.ts';
import { findMessage } from '../store/messages.ts';
import { OPERATOR } from '../store/revisions.ts';
import type { Store } from '../store/store.ts';
import { readForward, type ForwardSource } from './forward-shapes.ts';
import type { Handled, Incoming, Intake } from './interfaces.ts';
import { decideRecipient, type Directory } from './recipients.ts';

export interface BounceParts {
  readonly store: Store;
  /** As of now: a sender may be one of ours. */
  readonly directory: () => Directory;
  /** How long it is tried, ms. */
  readonly ttl: () => number;
}

export interface Bounces {
  readonly takeBounce: Intake<'bounce'>;
  readonly takeReturned: Intake<'srs'>;
}

const NOTHING: Handled = { rows: [] };

export function createBounces({ store, directory, ttl }: BounceParts): Bounces {
  /** Where mail for this address is to be sent, and by whose word: it is ours to forward where the domain is. */
  function targetsOf(address: string): { readonly tenant: string; readonly recipients: readonly string[] } {
    const decision = decideRecipient(address, '', directory());
    if (decision.kind === 'forward') return { tenant: decision.tenant, recipients: decision.targets };
    const isForeign = decision.kind === 'refuse' && decision.domain === null && parseAddress(address) !== undefined;
    return { tenant: OPERATOR, recipients: isForeign ? [address] : [] };
  }

  function passOn(mail: Incoming, original: string, sender: string): Handled {
    // Whoever does not bounce would have found a way to write to a stranger through us.
    const { tenant, recipients } = mail.sender === '' ? targetsOf(sender) : { tenant: OPERATOR, recipients: [] };
    if (recipients.length === 0) return NOTHING;
    const source: ForwardSource = { inbound: mail.id, original, sender: '' };
    const about = { tenant, submission: null, domain: directory().snapshot.server.server.hostname };
    const message = { ...about, kind: 'forward', source, recipients, ttl: ttl() } as const;
    const { id, rows, dues } = enqueue(message, mail.at);
    return { rows, dues, messages: [id] };
  }

  return {
    takeReturned: (mail, { original, sender }) => Promise.resolve(passOn(mail, original, sender)),
    async takeBounce(mail, { message: id, original }) {
      const message = await findMessage(store, id);
      if (message === undefined) return NOTHING;
      // Of a sender whose address has no SRS form; it holds no longer than one.
      if (message.kind === 'forward') {
        const isOver = mail.at - message.created_at > SRS_VALID_MS;
        return isOver ? NOTHING : passOn(mail, original, readForward(message.source).sender);
      }
      const head = await headOf(mail);
      return {
        rows: [insertBounce({ inbound: mail.id, message: id, head, tries: 0, due: mail.at, created_at: mail.at })],
      };
    },
  };
}

async function headOf(mail: Incoming): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of mail.pieces()) {
    pieces.push(piece);
    size += piece.length;
    if (size >= MOST_REPORT_BYTES) break;
  }
  return Buffer.concat(pieces).subarray(0, MOST_REPORT_BYTES);
}
