/**
 * The submission ports (RFC 6409): a program that has an API key sends mail of its tenant's domains through the appliance,
 * over TLS alone. What it hands in enters the same queue as `/email/send`, and 250 is said after the same commit.
 */
import type { Authenticator, AuthFault } from '../accounts/authenticate.ts';
import type { Verdict } from '../accounts/rate-limits.ts';


import type { MessageLimits } from '../accounts/message-limits.ts';
import { type Principal, decide } from '../accounts/principal.ts';
import type { Snapshot } from '../config/snapshot.ts';
import { parseAddress, type Mailbox } from '../lib/addresses.ts';
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import { createGarbage } from '../lib/gc.ts';
import { newId } from '../lib/ids.ts';
import type { Log } from '../lib/log.ts';
import { splitHeader } from '../mail/header-block.ts';
import { readSubmitted, type Submitted } from '../mail/submitted.ts';
import { noteDue } from '../store/destinations.ts';
import type { FreeSpace } from '../store/database.ts';
import { insertInbound, insertInboundLog } from '../store/inbound.ts';
import type { Statement } from '../store/statement.ts';
import { UnmetError, type Store } from '../store/store.ts';
import { isDroppable, storeRefusal } from './accept.ts';
import type { Refusal } from './header-check.ts';
import type { InboundMessage } from './interfaces.ts';
import type { Login } from './listener.ts';
import type { SmtpPolicy } from './session.ts';
import type { Chunks } from './chunks.ts';
import type { Decision } from './recipients.ts';
import type { Recorder } from './record.ts';

/** A mail as it would be sent. */
export interface SubmittedMail extends Submitted {
  /** Where its bytes are (`inb_…`). */
  readonly raw: string;
  readonly from: Mailbox;
  /** Of the envelope. */
  readonly recipients: readonly string[];
}

/** The rules of mail that programs send, and the way into the queue. */
export interface Submissions {
  /** In words why mail of the principal cannot be from this address, or nothing. */
  objectToSender(address: string, principal: Principal): Promise<string | undefined>;
  objectToRecipient(address: string, principal: Principal): string | undefined;
  /** What sending it would commit, or the fault in words. */
  plan(
    mail: SubmittedMail,
    asker: { readonly principal: Principal; readonly snapshot: Snapshot; readonly now: number },
  ): Promise<
    | {
        readonly id: string;
        readonly recipients: number;
        readonly rows: readonly Statement[];
        readonly dues: readonly { readonly name: string; readonly due: number }[];
      }
    | { readonly fault: string }
  >;
}

export interface SubmissionParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly snapshot: () => Snapshot;
  readonly freeSpace: FreeSpace;
  readonly authenticator: Pick<Authenticator, 'byKey'>;
  /** Counts a mail against the account and its key. */
  readonly takeAccount: (principal: Principal) => Promise<Verdict | undefined>;
  readonly messages: Pick<MessageLimits, 'roomFor'>;
  /** Counts what became of it, as an HTTP status. */
  readonly used: (principal: Principal, status: number) => void;
  readonly submissions: Submissions;
  /** There is mail to send. */
  readonly wake: () => void;
}

export interface Submission {
  /** Until a client has authenticated: nothing. */
  readonly policy: SmtpPolicy;
  readonly login: Login;
}

const USER = 'apikey';
/** RFC 5322 §2.1.1: servers on the way cut longer lines, which breaks the signature. */
const MAX_LINE_BYTES = 998;

const NOT_YET: Refusal = {
  reply: '530 5.7.0 STARTTLS first where this is clear text, then AUTH with an API key',
  reason: 'auth_required',
};

export function createSubmission(parts: SubmissionParts): Submission {
  const { store, clock, log, submissions, snapshot } = parts;
  const admit = createAdmission(parts.authenticator);
  const garbage = createGarbage();

  function recorder(tenant: string | null): Recorder {
    return (said) => {
      const at = clock.now();
      const unit = said.map(({ ip, helo, sender, recipient, domain, reply, reason }) => {
        const outcome = reply.startsWith('4') ? 'deferred' : 'rejected';
        log.info(`submission.${outcome}`, { ip, tenant, sender, recipient, reply, reason });
        const told = { ip, tenant, domain, helo, sender, recipient, outcome, reply, reason, inbound: null } as const;
        return insertInboundLog({ ...told, id: newId('inl', at), created_at: at });
      });
      store.write(unit).catch((error: unknown) => log.error('submission.log_failed', errorFields(error)));
    };
  }

  async function decideFor(principal: Principal, address: string, sender: string): Promise<Decision> {
    const { id: tenant } = principal.tenant;
    const parsed = parseAddress(address);
    const domain = parseAddress(sender)?.domain ?? null;
    if (parsed === undefined) {
      const reply = '553 5.1.3 the recipient is no address that mail could go to';
      return { kind: 'refuse', reply, reason: 'invalid_recipient', domain, tenant };
    }
    const wrongSender = await submissions.objectToSender(sender, principal);
    if (wrongSender !== undefined) {
      return { kind: 'refuse', reply: `550 5.7.1 ${wrongSender}`, reason: 'sender_not_allowed', domain, tenant };
    }
    const wrong = submissions.objectToRecipient(parsed.address, principal);
    if (wrong !== undefined) {
      return { kind: 'refuse', reply: `550 5.7.1 ${wrong}`, reason: 'recipient_not_allowed', domain, tenant };
    }
    const { address: original } = parsed;
    return { kind: 'forward', original, domain: domain ?? '', tenant, targets: [original] };
  }

  /** The reply to a whole message. Never rejects. */
  async function accept(key: string, mail: InboundMessage, pieces: Chunks): Promise<string> {
    let principal: Principal | Refusal | undefined;
    try {
      principal = await admit(key, mail.ip);
      const done = 'reply' in principal ? principal : await take(principal, mail, pieces);
      if (typeof done === 'string') {
        parts.wake();
        return done;
      }
      return await refuse(principal, { mail, pieces, refusal: done });
    } catch (error) {
      log.error('submission.failed', { inbound: mail.id, ...errorFields(error) });
      return refuse(principal, { mail, pieces, refusal: storeRefusal(error) });
    }
  }

  async function take(principal: Principal, mail: InboundMessage, pieces: Chunks): Promise<string | Refusal> {
    const verdict = await parts.takeAccount(principal);
    if (verdict?.allowed === false) {
      return { reply: '451 4.7.1 this account has sent as much as it may for now', reason: 'rate_limited' };
    }
    const { header } = await splitHeader(mail.pieces());
    const read = readSubmitted(header);
    if ('fault' in read) return { reply: `550 5.6.0 ${read.fault}`, reason: 'invalid_header' };
    const senderFault =
      read.sender === undefined ? undefined : await submissions.objectToSender(read.sender, principal);
    if (senderFault !== undefined) {
      return { reply: `550 5.7.1 Sender header: ${senderFault}`, reason: 'sender_not_allowed' };
    }
    const longest = await longestLine(mail.pieces());
    if (longest > MAX_LINE_BYTES) {
      const words = `a line has ${longest} bytes, ${MAX_LINE_BYTES} is the limit: send the body as quoted-printable or base64`;
      return { reply: `550 5.6.0 ${words}`, reason: 'line_too_long' };
    }
    const recipients = mail.recipients.map(({ original }) => original);
    const asker = { principal, snapshot: snapshot(), now: clock.now() };
    const plan = await submissions.plan({ ...read, raw: mail.id, recipients }, asker);
    if ('fault' in plan) return { reply: `550 5.7.1 ${plan.fault}`, reason: 'sender_not_allowed' };
    const room = await parts.messages.roomFor(principal, plan.recipients);
    if (room.kind === 'never') return { reply: `550 5.7.1 ${room.message}`, reason: 'plan_limit' };
    if (room.kind === 'later') return { reply: `450 4.7.1 ${room.message}`, reason: 'plan_limit' };
    const unit = [
      ...room.unit,
      insertInbound({
        id: mail.id,
        sender: mail.sender,
        recipients: JSON.stringify(recipients),
        ip: mail.ip,
        helo: mail.helo,
        tls: mail.tls,
        size: mail.size,
        encoding: mail.encoding,
        trace: '',
        verdicts: '{}',
        messages: JSON.stringify([plan.id]),
        created_at: mail.at,
      }),
      ...pieces.last(),
      ...plan.rows,
      ...plan.dues.map((due) => noteDue(due)),
    ];
    try {
      await store.write(unit);
    } catch (error) {
      if (!(error instanceof UnmetError)) throw error;
      return {
        reply: '450 4.7.1 The account has sent as much as its plan allows. Try again later.',
        reason: 'plan_limit',
      };
    }
    parts.used(principal, 200);
    log.info('submission.accepted', { message: plan.id, tenant: principal.tenant.id, ip: mail.ip, size: mail.size });
    return `250 2.0.0 queued as ${plan.id}`;
  }

  interface Refused {
    readonly mail: InboundMessage;
    readonly pieces: Chunks;
    readonly refusal: Refusal;
  }

  async function refuse(
    principal: Principal | Refusal | undefined,
    { mail, pieces, refusal }: Refused,
  ): Promise<string> {
    const known = principal !== undefined && 'tenant' in principal ? principal : undefined;
    const { ip, helo, sender } = mail;
    const tenant = known?.tenant.id ?? null;
    const whole = { ip, helo, sender, tenant, ...refusal };
    recorder(tenant)(mail.recipients.map(({ original: recipient, domain }) => ({ ...whole, recipient, domain })));
    if (known !== undefined) parts.used(known, refusal.reply.startsWith('4') ? 429 : 400);
    const unit = isDroppable(refusal) ? pieces.dropped() : [];
    if (unit.length > 0) {
      // What cannot be dropped now is swept later.
      await store.write(unit).catch((error: unknown) => log.warn('submission.cleanup_failed', errorFields(error)));
    }
    return refusal.reply;
  }

  function limits(): Snapshot['server']['limits'] {
    return snapshot().server.limits;
  }

  function policyFor(key: string, principal: Principal): SmtpPolicy {
    const record = recorder(principal.tenant.id);
    return {
      decide: (address, sender) => decideFor(principal, address, sender),
      record,
      receive: {
        store,
        clock,
        log,
        record,
        garbage,
        accept: (mail, pieces) => accept(key, mail, pieces),
        limits: () => ({ message: limits().message, hops: limits().smtp.hops }),
      },
      outage: () =>
        parts.freeSpace.below(limits().free_disk)
          ? { reply: '452 4.3.1 there is no room for mail just now', reason: 'disk_full' }
          : undefined,
      maxRecipients: () => limits().recipients,
    };
  }

  const record = recorder(null);
  return {
    policy: {
      decide: () => Promise.resolve({ kind: 'refuse', ...NOT_YET, domain: null, tenant: null }),
      record,
      receive: {
        store,
        clock,
        log,
        record,
        garbage,
        accept: () => Promise.resolve(NOT_YET.reply),
        limits: () => ({ message: 0, hops: 0 }),
      },
      outage: () => NOT_YET,
      maxRecipients: () => 0,
    },
    async login({ user, password, ip, helo }) {
      const principal =
        user === USER
          ? await admit(password, ip)
          : { reply: `535 5.7.8 the user name is ${USER}, and the password an API key`, reason: 'auth_invalid' };
      if (!('reply' in principal)) return policyFor(password, principal);
      record([{ ip, helo, sender: '', recipient: '', tenant: null, domain: null, ...principal }]);
      return principal;
    },
  };
}

/** Bytes of the longest line, without its CRLF. */
async function longestLine(pieces: AsyncIterable<Uint8Array>): Promise<number> {
  let longest = 0;
  let line = 0;
  for await (const piece of pieces) {
    let at = 0;
    for (let end = piece.indexOf(LF); end !== -1; end = piece.indexOf(LF, at)) {
      // The wire lets no LF in without its CR.
      longest = Math.max(longest, line + end - at - 1);
      line = 0;
      at = end + 1;
    }
    line += piece.length - at;
  }
  return Math.max(longest, line);
}

const LF = 0x0a;

// Keys of clients that submit mail: who may send, and in words why not.

/** Whose key this is, if it may send from there; looked up each time anew, so that a key can be revoked. */
export type Admission = (key: string, ip: string) => Promise<Principal | Refusal>;

function createAdmission(authenticator: Pick<Authenticator, 'byKey'>): Admission {
  return async (key, ip) => {
    const known = await authenticator.byKey(key, ip);
    if (typeof known === 'string') return refuseKey(known);
    const denial = decide(known, { permission: 'email.send', domain: 'narrowed', ip });
    switch (denial) {
      case undefined:
        return known;
      case 'AUTH_IP_NOT_ALLOWED':
        return { reply: '535 5.7.8 this API key may not be used from your address', reason: 'auth_ip_not_allowed' };
      case 'AUTH_FORBIDDEN':
      case 'AUTH_TEST_KEY':
      case 'AUTH_DOMAIN_NOT_ALLOWED':
        return { reply: '535 5.7.8 this API key lacks the permission email.send', reason: 'auth_forbidden' };
    }
  };
}

function refuseKey(fault: AuthFault): Refusal {
  switch (fault) {
    case 'AUTH_INVALID_KEY':
      return { reply: '535 5.7.8 this is no API key of this server', reason: 'auth_invalid' };
    case 'AUTH_EXPIRED_KEY':
      return { reply: '535 5.7.8 this API key has expired', reason: 'auth_expired' };
    case 'AUTH_REVOKED_KEY':
      return { reply: '535 5.7.8 this API key was revoked', reason: 'auth_revoked' };
    case 'TENANT_SUSPENDED':
      return { reply: '535 5.7.8 the account of this API key is suspended', reason: 'tenant_suspended' };
    case 'TENANT_UNCONFIRMED':
      return { reply: '535 5.7.8 the account of this API key is not confirmed yet', reason: 'tenant_unconfirmed' };
  }
}
