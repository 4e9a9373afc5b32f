/** What the listener needs, put together: who is mail for, is there room, and what happens to a whole message. */
import { isServed } from '../access/tenants.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { FreeSpace } from '../store/free-space.ts';
import type { Store } from '../store/store.ts';
import { createAccept, type AcceptParts } from './accept.ts';
import { judgeInTurn } from './judge-in-turn.ts';
import { decideRecipient, type Decision, type Directory } from './recipients.ts';
import { createRecorder } from './record.ts';
import type { SmtpDoor } from './session-parts.ts';

export interface DoorParts extends Pick<
  AcceptParts,
  'judge' | 'received' | 'takeBounce' | 'takeReturned' | 'takeReply' | 'ttl' | 'wake'
> {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  /** As of now. */
  readonly directory: () => Directory;
  readonly freeSpace: FreeSpace;
}

export function createSmtpDoor(parts: DoorParts): SmtpDoor {
  const { store, clock, log, directory, freeSpace } = parts;
  const record = createRecorder({ store, clock, log });

  function limits() {
    return directory().snapshot.server.limits;
  }

  async function decide(address: string, sender: string): Promise<Decision> {
    const decision = decideRecipient(address, sender, directory());
    if (decision.kind === 'refuse' || (await isServed(store, decision.tenant))) return decision;
    const { domain, tenant } = decision;
    const reply = '451 4.7.1 mail for this address is not taken just now';
    return { kind: 'refuse', reply, reason: 'tenant_suspended', domain, tenant };
  }

  return {
    decide,
    record,
    receive: {
      store,
      clock,
      log,
      record,
      accept: createAccept({ ...parts, judge: judgeInTurn(parts.judge), record }),
      limits: () => ({ message: limits().message, hops: limits().smtp.hops }),
    },
    outage: () =>
      freeSpace.below(limits().free_disk)
        ? { reply: '452 4.3.1 there is no room for mail just now', reason: 'disk_full' }
        : undefined,
    mostRecipients: () => limits().smtp.recipients,
  };
}
