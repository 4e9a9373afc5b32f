/**
 * What a mailed link stands for: somebody who reads the mail may confirm one thing. Only a hash of the token is kept; it
 * works until it ends, and a thing that is confirmed stays confirmed however often it is done.
 */
import { createHash, randomBytes } from 'node:crypto';
import { baseUrlOf } from '../config/http-address.ts';
import type { ServerConfig } from '../config/schema.ts';
import type { Clock } from '../lib/clock.ts';
import type { Statement } from '../store/statement.ts';
import type { Store } from '../store/store.ts';
import type { TokenRow } from '../store/tables.ts';
import { forgetUnconfirmed } from '../store/tenants.ts';
import { findTokenByHash, forgetTokens, insertToken } from '../store/secrets.ts';

/** What is shown before, and after. */
export interface Words {
  readonly heading: string;
  /** Paragraphs. */
  readonly text: readonly string[];
}

/** A thing that a token confirms, as it stands now. */
export interface Confirmable {
  readonly question: Words & { readonly button: string };
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

const DAYS = 7;

/** How long a link works, in words. */
export const LINK_LIFE = `${DAYS} days`;

/** The same, ms. */
export const LINK_LIFE_MS = DAYS * 86_400_000;

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
