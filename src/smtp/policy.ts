/** The policy of port 25: whom mail is accepted for, whether there is disk space, and what becomes of a message. */
import { isServed } from '../accounts/tenants.ts';
import { parseAddress } from '../lib/addresses.ts';
import type { Clock } from '../lib/clock.ts';
import { createGarbage } from '../lib/gc.ts';
import type { Log } from '../lib/log.ts';
import { isDomainServed } from '../store/domains.ts';
import type { FreeSpace } from '../store/database.ts';
import type { Store } from '../store/store.ts';
import { createAccept, type AcceptParts } from './accept.ts';
import { decideRecipient, type Decision, type Directory, type Refused } from './recipients.ts';
import { createRecorder } from './record.ts';
import type { MailAuthenticator } from './interfaces.ts';
import type { SmtpPolicy } from './session.ts';
import { RAW_CHUNK_BYTES } from '../store/inbound.ts';

export interface SmtpPolicyParts extends Pick<
  AcceptParts,
  'authenticate' | 'received' | 'counters' | 'takeBounce' | 'takeReturned' | 'takeReply' | 'ttl' | 'ask' | 'wake'
> {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  /** As of now. */
  readonly directory: () => Directory;
  readonly freeSpace: FreeSpace;
}

/** What becomes of mail for the address as it stands in RCPT: by the directory, and by whether its account is served. */
export async function decideServed(
  { address, sender }: { readonly address: string; readonly sender: string },
  directory: Directory,
  store: Store,
): Promise<Decision> {
  const decision = decideRecipient(address, sender, directory);
  if (decision.kind === 'refuse' && decision.reason === 'relay_denied') {
    return (await isServedElsewhere(address, directory, store)) ? notServedHere(decision) : decision;
  }
  if (decision.kind === 'refuse' || (await isServed(store, decision.tenant))) return decision;
  const { domain, tenant } = decision;
  const reply = '451 4.7.1 mail for this address is not taken just now';
  return { kind: 'refuse', reply, reason: 'tenant_suspended', domain, tenant };
}

/** Whether the domain is one that the database knows and this daemon cannot serve: its configuration lacks it as yet. */
async function isServedElsewhere(address: string, { snapshot }: Directory, store: Store): Promise<boolean> {
  const domain = parseAddress(address)?.domain;
  return domain !== undefined && !snapshot.domains.has(domain) && (await isDomainServed(store, domain));
}

function notServedHere(refused: Refused): Refused {
  const reply = '451 4.3.5 this server cannot serve the domain just now: its configuration lacks it';
  return { ...refused, reply, reason: 'domain_not_loaded' };
}

export function createSmtpPolicy(parts: SmtpPolicyParts): SmtpPolicy {
  const { store, clock, log, directory, freeSpace } = parts;
  const record = createRecorder(parts);

  function limits() {
    return directory().snapshot.server.limits;
  }

  return {
    decide: (address, sender) => decideServed({ address, sender }, directory(), store),
    record,
    receive: {
      store,
      clock,
      log,
      record,
      garbage: createGarbage(),
      accept: createAccept({ ...parts, authenticate: limitConcurrency(parts.authenticate), record }),
      limits: () => ({ message: limits().message, hops: limits().smtp.hops }),
    },
    outage: () =>
      freeSpace.below(limits().free_disk)
        ? { reply: '452 4.3.1 there is no room for mail just now', reason: 'disk_full' }
        : undefined,
    maxRecipients: () => limits().smtp.recipients,
  };
}

/** Large messages are read back from the store to be authenticated: so many at a time, so that memory stays bounded. Enough that DNS servers which take their time hold up nobody for long. */
const MAX_AT_ONCE = 16;

/** At most MAX_AT_ONCE messages at a time; one of a single chunk never waits. */
export function limitConcurrency(authenticate: MailAuthenticator): MailAuthenticator {
  const waiting: (() => void)[] = [];
  let active = 0;

  async function turn(): Promise<void> {
    if (active < MAX_AT_ONCE) active++;
    // Whoever ends hands its turn on.
    else await new Promise<void>((resolve) => waiting.push(resolve));
  }

  return async (mail) => {
    if (mail.size <= RAW_CHUNK_BYTES) return authenticate(mail);
    await turn();
    try {
      return await authenticate(mail);
    } finally {
      const next = waiting.shift();
      if (next === undefined) active--;
      else next();
    }
  };
}
