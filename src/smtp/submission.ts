/**
 * The submission ports (RFC 6409): a program that has an API key sends mail of its tenant's domains through the appliance,
 * over TLS alone. What it hands in enters the same queue as `/email/send`, and 250 is said after the same commit.
 */
import type { Authenticator, AuthFault } from '../accounts/authenticate.ts';
import type { AccountRequests } from '../accounts/plans.ts';
import { checkQuota } from '../accounts/message-limits.ts';
import { type Principal, decide } from '../accounts/principal.ts';
import type { FreeSpace } from '../store/sqlite.ts';
import type { Snapshot } from '../config/snapshot.ts';
import { parseAddress } from '../lib/addresses.ts';
import type { Refusal } from '../mail/auth-results.ts';
import { splitHeader } from '../mail/header.ts';
import { readSubmitted, type Submitted } from '../mail/submitted.ts';
import type { Enqueued } from '../queue/enqueue.ts';
import { insertInbound } from '../store/inbound.ts';
import { UnmetError } from '../store/store.ts';
import { inboundRow, policyBasis } from './accept.ts';
import type { Login } from './listener.ts';
import { createRecorder, type Chunks, type InboundMessage, type RecorderParts } from './receive.ts';
import type { Decision } from './recipients.ts';
import type { SmtpPolicy } from './session.ts';

/** A mail as it would be sent. */
export interface SubmittedMail extends Submitted {
  /** Where its bytes are (`inb_…`). */
  readonly raw: string;
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
  ): Promise<Enqueued | { readonly fault: string }>;
}

export interface SubmissionParts extends Omit<RecorderParts, 'counters'> {
  readonly snapshot: () => Snapshot;
  readonly freeSpace: FreeSpace;
  readonly authenticator: Pick<Authenticator, 'byKey'>;
  /** A mail counts as a request. */
  readonly requests: Pick<AccountRequests, 'take' | 'count'>;
  readonly submissions: Submissions;
  /** There is mail to send. */
  readonly wake: () => void;
}

const USER = 'apikey';
/** RFC 5322 §2.1.1: servers on the way cut longer lines, which breaks the signature. */
const MAX_LINE_BYTES = 998;

const NOT_YET = refusal('auth_required', '530 5.7.0 authentication required: use STARTTLS, then AUTH with an API key');

export function createSubmission(parts: SubmissionParts): { readonly policy: SmtpPolicy; readonly login: Login } {
  const { clock, log, submissions, snapshot } = parts;
  const basis = policyBasis(parts, () => snapshot().server.limits);

  async function decideFor(principal: Principal, address: string, sender: string): Promise<Decision> {
    const { id: tenant } = principal.tenant;
    const parsed = parseAddress(address);
    const domain = parseAddress(sender)?.domain ?? null;
    function refuse(reply: string, reason: string) {
      return { kind: 'refuse', reply, reason, domain, tenant } as const;
    }
    if (parsed === undefined) return refuse('553 5.1.3 the recipient is not a valid address', 'invalid_recipient');
    const wrongSender = await submissions.objectToSender(sender, principal);
    if (wrongSender !== undefined) return refuse(`550 5.7.1 ${wrongSender}`, 'sender_not_allowed');
    const { address: original } = parsed;
    const wrong = submissions.objectToRecipient(original, principal);
    if (wrong !== undefined) return refuse(`550 5.7.1 ${wrong}`, 'recipient_not_allowed');
    return { kind: 'forward', original, domain: domain ?? '', tenant, targets: [original] };
  }

  /** The key is looked up anew, so that it can be revoked. */
  async function accept(key: string, mail: InboundMessage, chunks: Chunks): Promise<string | Refusal> {
    const principal = await admit(parts.authenticator, key, mail.ip);
    if ('reply' in principal) return principal;
    try {
      const done = await take(principal, mail, chunks);
      if (typeof done === 'string') parts.wake();
      parts.requests.count(principal, typeof done === 'string' ? 200 : done.reply.startsWith('4') ? 429 : 400);
      return done;
    } catch (error) {
      parts.requests.count(principal, 429);
      throw error;
    }
  }

  async function take(principal: Principal, mail: InboundMessage, chunks: Chunks): Promise<string | Refusal> {
    const verdict = await parts.requests.take(principal);
    if (verdict?.allowed === false) {
      return refusal('rate_limited', '451 4.7.1 this account has reached its rate limit, try again later');
    }
    const { header } = await splitHeader(mail.pieces());
    const read = readSubmitted(header);
    if ('fault' in read) return refusal('invalid_header', `550 5.6.0 ${read.fault}`);
    const wrong = read.sender === undefined ? undefined : await submissions.objectToSender(read.sender, principal);
    if (wrong !== undefined) return refusal('sender_not_allowed', `550 5.7.1 Sender header: ${wrong}`);
    const longest = await longestLine(mail.pieces());
    if (longest > MAX_LINE_BYTES) {
      const words = `a line has ${longest} bytes, the limit is ${MAX_LINE_BYTES}: encode the body as quoted-printable or base64`;
      return refusal('line_too_long', `550 5.6.0 ${words}`);
    }
    const recipients = mail.recipients.map(({ original }) => original);
    const asker = { principal, snapshot: snapshot(), now: clock.now() };
    const plan = await submissions.plan({ ...read, raw: mail.id, recipients }, asker);
    if ('fault' in plan) return refusal('sender_not_allowed', `550 5.7.1 ${plan.fault}`);
    const quota = await checkQuota(principal, plan.recipients, {
      store: parts.store,
      clock,
      config: asker.snapshot.server,
    });
    if (quota.kind === 'never') return refusal('plan_limit', `550 5.7.1 ${quota.message}`);
    if (quota.kind === 'later') return refusal('plan_limit', `450 4.7.1 ${quota.message}`);
    const unit = [
      ...quota.unit,
      insertInbound(inboundRow(mail, { trace: '', verdicts: '{}', messages: [plan.id] })),
      ...chunks.last(),
      ...plan.unit,
    ];
    try {
      await parts.store.write(unit);
    } catch (error) {
      if (!(error instanceof UnmetError)) throw error;
      return refusal('plan_limit', '450 4.7.1 The account has sent as much as its plan allows. Try again later.');
    }
    log.info('submission.accepted', { message: plan.id, tenant: principal.tenant.id, ip: mail.ip, size: mail.size });
    return `250 2.0.0 queued as ${plan.id}`;
  }

  const record = createRecorder(parts, 'submission');
  /** Until a client has authenticated: nothing. */
  const policy: SmtpPolicy = {
    ...basis,
    name: 'submission',
    record,
    decide: () => Promise.resolve({ kind: 'refuse', ...NOT_YET, domain: null, tenant: null }),
    accept: () => Promise.resolve(NOT_YET),
    outage: () => NOT_YET,
    maxRecipients: () => snapshot().server.limits.recipients,
  };
  return {
    policy,
    async login({ user, password, ip, helo }) {
      const principal =
        user === USER
          ? await admit(parts.authenticator, password, ip)
          : refusal('auth_invalid', `535 5.7.8 the user name must be ${USER} and the password an API key`);
      if ('reply' in principal) {
        record([{ ip, helo, sender: '', recipient: '', tenant: null, domain: null, ...principal }]);
        return principal;
      }
      return {
        ...policy,
        record: createRecorder(parts, 'submission', principal.tenant.id),
        decide: (address, sender) => decideFor(principal, address, sender),
        accept: (mail, chunks) => accept(password, mail, chunks),
        outage: basis.outage,
      };
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

const KEY_FAULTS: Readonly<Record<AuthFault, Refusal>> = {
  AUTH_INVALID_KEY: refusal('auth_invalid', '535 5.7.8 invalid API key'),
  AUTH_EXPIRED_KEY: refusal('auth_expired', '535 5.7.8 this API key has expired'),
  AUTH_REVOKED_KEY: refusal('auth_revoked', '535 5.7.8 this API key was revoked'),
  TENANT_SUSPENDED: refusal('tenant_suspended', '535 5.7.8 the account of this API key is suspended'),
  TENANT_UNCONFIRMED: refusal('tenant_unconfirmed', '535 5.7.8 the account of this API key is not confirmed'),
};

function refusal(reason: string, reply: string): Refusal {
  return { reply, reason };
}

/** Whose key this is, if it may send from there. */
async function admit(authenticator: SubmissionParts['authenticator'], key: string, ip: string) {
  const known = await authenticator.byKey(key, ip);
  if (typeof known === 'string') return KEY_FAULTS[known];
  const denial = decide(known, { permission: 'email.send', domain: 'narrowed', ip });
  if (denial === undefined) return known;
  return denial === 'AUTH_IP_NOT_ALLOWED'
    ? refusal('auth_ip_not_allowed', '535 5.7.8 this API key may not be used from your IP address')
    : refusal('auth_forbidden', '535 5.7.8 this API key lacks the permission email.send');
}
