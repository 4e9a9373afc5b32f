/**
 * Consent: an address that a tenant names agrees once to get its mail, by a link that the operator mails. The mail is the
 * operator's, so that no tenant can read its token; nothing in it but the bounded name of the account is the tenant's; and
 * it offers to get nothing more from this server, ever. What waits for an answer is parked in the queue (store/consents).
 *
 * A mailed link lets whoever reads the mail confirm one thing. Only a hash of its token is kept; it works until it ends, and
 * a thing that is confirmed stays confirmed however often it is done.
 */
import { createHash, randomBytes } from 'node:crypto';
import { baseUrlOf } from '../config/schema-server.ts';
import type { ServerConfig } from '../config/schema.ts';
import type { Form } from '../config/snapshot.ts';
import type { Clock } from '../lib/clock.ts';
import type { Statement } from '../store/statement.ts';
import { type Store, writeIfMet } from '../store/store.ts';
import type { TokenRow, TenantRow } from '../store/tables.ts';
import { findTokenByHash, forgetTokens, insertToken, forgetTokensOf } from '../store/secrets.ts';
import { OPERATOR, forgetUnconfirmed, findTenant } from '../store/tenants.ts';
import { type Language, type Localized, message } from '../languages/languages.ts';
import { canonicalMailbox } from '../lib/addresses.ts';
import { inRounds } from '../lib/batch.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import {
  confirmRecipient,
  lastAsked,
  noteAsked,
  recipientStatuses,
  refuseMailbox,
  releaseParked,
  type RecipientStatuses,
} from '../store/consents.ts';
import type { Limits, Limit, Verdict } from './rate-limits.ts';

/** What is shown before, and after. */
export interface Words {
  readonly heading: Localized;
  /** Paragraphs. */
  readonly text: readonly Localized[];
}

/** A thing that a token confirms, as it stands now. */
export interface Confirmable {
  /** Of the page; the reader's where nothing says it. */
  readonly language?: Language | undefined;
  /** Whose theme the page has; the server's own where it is about no form. */
  readonly form?: Form | undefined;
  readonly question: Words & { readonly button: Localized };
  readonly done: Words;
  readonly isDone: boolean;
  /** Does it; harmless where it is done. */
  confirm(): Promise<void>;
  /** The mailbox wants no mail of this server any more. */
  readonly isRefused: boolean;
  readonly refused: Words;
  /** Notes that, for good; harmless where it is known. */
  refuse(): Promise<void>;
}

/** The thing behind a token of one kind; undefined where it is gone. */
export type ConfirmKind = (token: TokenRow) => Promise<Confirmable | undefined>;

/** By the kinds of tokens. */
export type ConfirmKinds = Readonly<Record<TokenRow['kind'], ConfirmKind>>;

/** How long a link works, days. */
export const LINK_DAYS = 7;

/** The same, ms. */
export const LINK_LIFE_MS = LINK_DAYS * 86_400_000;

/** A new token, the statement that keeps it, and the link for the mail. */
export function newToken(
  { kind, tenant, subject }: Pick<TokenRow, 'kind' | 'tenant' | 'subject'>,
  config: Pick<ServerConfig, 'server' | 'tls'>,
  now: number,
): { readonly link: string; readonly statement: Statement } {
  const token = randomBytes(24).toString('base64url');
  const row = { hash: hashOf(token), kind, tenant, subject, expires_at: now + LINK_LIFE_MS, created_at: now };
  return { link: `${baseUrlOf(config)}/confirm/${token}`, statement: insertToken(row) };
}

/** The token of this value, while it works. */
export async function findToken(
  { store, clock }: { store: Store; clock: Clock },
  value: string,
): Promise<TokenRow | undefined> {
  const row = await findTokenByHash(store, hashOf(value));
  return row !== undefined && row.expires_at > clock.now() ? row : undefined;
}

/** Forgets tokens that have ended, and accounts that nobody confirmed while they could. */
export async function sweepTokens({ store, clock }: { store: Store; clock: Clock }): Promise<void> {
  const now = clock.now();
  await store.write([forgetTokens({ before: now }), ...forgetUnconfirmed(now - LINK_LIFE_MS)]);
}

function hashOf(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

/** A mail of the server itself to the owner of an account. */
export interface AccountMail {
  readonly tenant: string;
  readonly to: string;
  readonly subject: string;
  readonly text: string;
}

export interface ConsentParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly limits: Pick<Limits, 'takeAll'>;
  readonly config: () => ServerConfig;
  /** The statements that send a mail of the server itself to the owner of an account. */
  readonly accountMail: (mail: AccountMail) => readonly Statement[];
  /** There is mail to send. */
  readonly wake: () => void;
}

/** Who is asked, for whom. */
export interface Question {
  readonly tenant: string;
  readonly addresses: readonly string[];
}

export type AskResult =
  | { readonly kind: 'asked' }
  /** Nothing has to be asked. */
  | { readonly kind: 'confirmed' }
  /** It is never asked again. */
  | { readonly kind: 'refused' }
  /** The cap that has no room. */
  | { readonly kind: 'capped'; readonly by: 'mailbox' | 'tenant'; readonly verdict: Verdict };

export interface Consent {
  /** Whether each of these addresses gets mail of the tenant. */
  statuses(question: Question): Promise<RecipientStatuses>;
  /**
   * Mails a link to those that have not answered and whose last link has ended, as far as the caps allow; later mail for the
   * others asks again. Never rejects: what cannot be asked now waits.
   */
  ask(question: Question): Promise<void>;
  /** Mails one address a new link, which ends the one before. */
  askAgain(tenant: string, address: string): Promise<AskResult>;
  /** Sends what was parked for recipients that have answered; of one tenant, or of all. */
  release(tenant?: string): Promise<void>;
  /** The links that it mails. */
  readonly confirmation: ConfirmKind;
}

const DAY = 86_400_000;
const PER_TENANT: Limit = { count: 50, windowMs: DAY };
const PER_MAILBOX: Limit = { count: 3, windowMs: DAY };

export function createConsent(parts: ConsentParts): Consent {
  const { store, clock, log, config, limits, accountMail, wake } = parts;

  function statuses({ tenant, addresses }: Question): Promise<RecipientStatuses> {
    // The operator's own tenant is always trusted, and most forms are its own.
    return tenant === OPERATOR
      ? Promise.resolve(new Map(addresses.map((address) => [address, 'confirmed'])))
      : recipientStatuses(store, tenant, addresses);
  }

  /** Mails a link where none was mailed after `since`. */
  async function mailLink(account: TenantRow, address: string, since: number): Promise<AskResult> {
    const verdicts = await limits.takeAll([
      { name: `consent:mailbox:${canonicalMailbox(address)}`, limit: PER_MAILBOX },
      { name: `consent:tenant:${account.id}`, limit: PER_TENANT },
    ]);
    const [ofMailbox, ofTenant] = verdicts;
    if (ofMailbox?.allowed === false) return { kind: 'capped', by: 'mailbox', verdict: ofMailbox };
    if (ofTenant?.allowed === false) return { kind: 'capped', by: 'tenant', verdict: ofTenant };
    const at = clock.now();
    const about = { kind: 'recipient', tenant: account.id, subject: address.toLowerCase() } as const;
    const { link, statement } = newToken(about, config(), at);
    const asked = noteAsked({ tenant: account.id, address, at, since });
    // Unless another request has asked it just now.
    await writeIfMet(store, [
      asked,
      forgetTokensOf(about),
      statement,
      ...accountMail(mailOf({ account, address, link })),
    ]);
    wake();
    return { kind: 'asked' };
  }

  function mailOf({ account, address, link }: { account: TenantRow; address: string; link: string }): AccountMail {
    const { hostname } = config().server;
    const text = `The account ${accountName(account)} on the mail server ${hostname} has named this address as a recipient.

It wants to send submissions to its web forms, mail that it forwards, and notices about both to ${address}.

To get this mail, open this link within ${LINK_DAYS} days and press "Agree":

${link}

Nothing is sent to you until you agree. If you do not know the account, ignore this email. To stop all mail from this
server, whoever requests it, open the link and press "Never again".
`;
    return { tenant: OPERATOR, to: address, subject: `Confirm that you want mail through ${hostname}`, text };
  }

  async function ask({ tenant, addresses }: Question): Promise<void> {
    try {
      const known = await statuses({ tenant, addresses });
      const pending = addresses.filter((address) => known.get(address) === 'pending');
      if (pending.length === 0) return;
      const account = await findTenant(store, tenant);
      if (account === undefined) return;
      const since = clock.now() - LINK_LIFE_MS;
      const last = await lastAsked(store, tenant, pending);
      for (const address of new Set(pending)) {
        if ((last.get(address.toLowerCase()) ?? -1) > since) continue;
        const asked = await mailLink(account, address, since);
        if (asked.kind === 'capped' && asked.by === 'tenant') break;
      }
    } catch (error) {
      log.error('consent.not_asked', { tenant, ...errorFields(error) });
    }
  }

  async function release(tenant?: string): Promise<void> {
    const { expire } = config().delivery;
    if (await releaseParked(store, { tenant, now: clock.now(), ttl: expire.default })) wake();
  }

  return {
    statuses,
    ask,
    async askAgain(tenant, address) {
      const status = (await statuses({ tenant, addresses: [address] })).get(address);
      const account = await findTenant(store, tenant);
      if (status !== 'pending' || account === undefined) return { kind: status === 'refused' ? status : 'confirmed' };
      return mailLink(account, address, clock.now());
    },
    release,
    async confirmation({ tenant, subject: address }) {
      const account = await findTenant(store, tenant);
      if (account === undefined) return undefined;
      const status = (await statuses({ tenant, addresses: [address] })).get(address);
      return {
        ...wordsFor(account, address),
        ...refusal({ address, isRefused: status === 'refused' }, { store, clock, release }),
        isDone: status === 'confirmed',
        async confirm() {
          await store.write([confirmRecipient({ tenant, address, at: clock.now() })]);
          await release(tenant);
        },
      };
    },
  };
}

/** So often what is parked is looked at, whether or not anybody was told that it is answered, ms. */
const RELEASE_EVERY_MS = 60_000;

/** A job to run every few seconds: sends what was answered when nobody could release it. */
export function releaseInTime({
  clock,
  consent,
}: Pick<ConsentParts, 'clock'> & { consent: Pick<Consent, 'release'> }): () => Promise<void> {
  return inRounds({
    clock,
    every: RELEASE_EVERY_MS,
    steps: 1,
    start: 'all',
    step: () => consent.release().then(() => undefined),
  });
}

function wordsFor(account: TenantRow, address: string): Pick<Confirmable, 'question' | 'done'> {
  const values = { account: accountName(account), address };
  return {
    question: {
      heading: message('consent.question'),
      text: [message('consent.text', values), message('consent.before')],
      button: message('consent.button'),
    },
    done: { heading: message('consent.done'), text: [message('consent.doneText', values)] },
  };
}

export interface RefusalParts {
  readonly store: Store;
  readonly clock: Clock;
  /** Ends what is parked for who refused. */
  readonly release: Consent['release'];
}

/** "Never again": what a mailed link to the address offers beside agreeing. */
export function refusal(
  { address, isRefused }: { readonly address: string; readonly isRefused: boolean },
  { store, clock, release }: RefusalParts,
): Pick<Confirmable, 'isRefused' | 'refused' | 'refuse'> {
  return {
    isRefused,
    refused: { heading: message('link.refused'), text: [message('link.refusedText', { address })] },
    async refuse() {
      await store.write([refuseMailbox({ mailbox: canonicalMailbox(address), at: clock.now() })]);
      await release();
    },
  };
}

const MAX_NAME_CHARACTERS = 40;

/** The name of an account in words to a stranger: no links, no long numbers, and too short for a message. */
function accountName({ id, name }: Pick<TenantRow, 'id' | 'name'>): string {
  const words = name
    .replaceAll(/[^\p{L}\p{M}\p{N} '&-]+/gu, ' ')
    .replaceAll(/\p{N}{5,}/gu, ' ')
    .replaceAll(/ +/g, ' ')
    .trim();
  const shown = new RegExp(`^.{0,${MAX_NAME_CHARACTERS}}`, 'u').exec(words)?.[0].trim() ?? '';
  return shown === '' ? id : `"${shown}" (${id})`;
}
