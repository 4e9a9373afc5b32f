/**
 * Where mail of the environment `test` ends: rendered and signed like any other, it is captured instead of sent. Addresses
 * at `sandbox.invalid`, a name that no DNS will ever know (RFC 6761 §6.4), end as their local part says, so that every
 * state can be tried out: `bounce@`, `defer@` (captured at its second try), `complain@`; a `+tag` makes each of them many.
 */
import { parseAddress } from '../lib/addresses.ts';
import {
  NOBODY,
  sameForAll,
  untouched,
  type Batch,
  type Recipient,
  type RecipientResult,
  type Result,
  type Transport,
} from './transport.ts';

/** The destination of all mail that is not to leave; it has no dot, so that no address can name it. */
export const SANDBOX = 'sandbox';
/** The domain of the addresses that play a part. */
export const SANDBOX_DOMAIN = 'sandbox.invalid';

const CAPACITY = 100;

/** The transport of mail that is not to leave. */
export function createSandbox(): Transport {
  const pending = new Set<Promise<void>>();

  return {
    send(_destination, batches) {
      for (const batch of batches) {
        const work = resultOf(batch)
          .then((result) => batch.done(result))
          .finally(() => pending.delete(work));
        pending.add(work);
      }
    },
    capacity: () => CAPACITY,
    async stop() {
      await Promise.all(pending);
    },
  };
}

async function resultOf(batch: Batch): Promise<Result> {
  if (!(await batch.begin())) return untouched(batch);
  const opened = await batch.open();
  switch (opened.kind) {
    case 'ready':
      return {
        kind: 'decided',
        recipients: batch.recipients.map((recipient): RecipientResult => {
          return { recipient, cause: 'reply', ...partOf(recipient), ...NOBODY };
        }),
      };
    case 'unrenderable':
      return sameForAll(batch, 'bounced', `550 5.6.0 ${opened.reason}`);
    case 'unavailable':
      return sameForAll(batch, opened.isPassing ? 'postponed' : 'deferred', `451 4.3.0 ${opened.reason}`);
  }
}

type Part = Pick<RecipientResult, 'outcome' | 'reply' | 'complained'>;

const CAPTURED: Part = { outcome: 'captured', reply: '250 2.0.0 captured: test mail is not sent' };

function partOf({ address, attempt }: Recipient): Part {
  const { local = '', domain } = parseAddress(address) ?? {};
  if (domain !== SANDBOX_DOMAIN) return CAPTURED;
  switch (local.toLowerCase().replace(/\+.*$/, '')) {
    case 'bounce':
      return { outcome: 'bounced', reply: '550 5.1.1 no such mailbox (simulated by the sandbox)' };
    case 'defer':
      if (attempt > 1) return CAPTURED;
      return { outcome: 'deferred', reply: '451 4.7.1 try again later (simulated by the sandbox)' };
    case 'complain':
      return { ...CAPTURED, complained: true };
    default:
      return CAPTURED;
  }
}
