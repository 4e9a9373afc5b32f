/**
 * Links for the owner of a form, at the foot of notifications and in digests. A link says under a signature what it is for
 * (one action, on one submission or on what one digest tells of) and until when it works, so that nobody can make one, and
 * none is good for anything else. One that ends something works once.
 */
import { createHash, createHmac, timingSafeEqual, type KeyObject } from 'node:crypto';
import { z } from 'zod';
import { baseUrlOf } from '../config/schema-server.ts';
import type { ServerConfig } from '../config/schema.ts';
import type { Clock } from '../lib/clock.ts';
import { isLinkUsed, forgetUsedLinks, useLink } from '../store/used-links.ts';
import type { Store } from '../store/store.ts';

/** `ham`: not spam. */
const about = z.discriminatedUnion('action', [
  z.object({ action: z.enum(['view', 'spam', 'ham']), submission: z.string() }),
  z.object({ action: z.literal('stop'), submission: z.string(), recipient: z.string() }),
  /** All that is quarantined of the forms of a project, from `since` until before `until` (ms). */
  z.object({
    action: z.enum(['release', 'confirm']),
    tenant: z.string(),
    project: z.string(),
    since: z.int(),
    until: z.int(),
  }),
]);
const content = z.tuple([about, z.int()]);

export type OwnerLink = z.output<typeof about>;
export type DigestLink = Extract<OwnerLink, { readonly action: 'release' | 'confirm' }>;
export type SubmissionLink = Exclude<OwnerLink, DigestLink>;

export interface OpenedLink {
  readonly link: OwnerLink;
  /** Until when it works, ms. */
  readonly expiresAt: number;
  /** It was used, and works no more. */
  readonly isUsed: boolean;
}

/** The name of the secret that signs them. */
export const OWNER_LINKS = 'owner-links';

/** How long a link works. */
export const OWNER_LINK_DAYS = 30;
export const OWNER_LINK_MS = OWNER_LINK_DAYS * 86_400_000;

const TOKEN = /^([A-Za-z0-9_-]{1,800})\.([A-Za-z0-9_-]{22})$/;

/** What stands behind `/s/`. */
export function ownerToken(link: OwnerLink, expiresAt: number, key: KeyObject): string {
  const text = Buffer.from(JSON.stringify([link, expiresAt])).toString('base64url');
  return `${text}.${signature(text, key)}`;
}

/** The address of the page of a link. */
export function ownerUrl(token: string, config: Pick<ServerConfig, 'server' | 'tls'>): string {
  return `${baseUrlOf(config)}/s/${token}`;
}

/** What a token is for; undefined where it is none of ours, or has expired. */
export async function openOwnerToken(
  token: string,
  key: KeyObject,
  { store, clock }: { readonly store: Store; readonly clock: Clock },
): Promise<OpenedLink | undefined> {
  const [, text, given] = TOKEN.exec(token) ?? [];
  if (text === undefined || given === undefined) return undefined;
  if (!timingSafeEqual(Buffer.from(given), Buffer.from(signature(text, key)))) return undefined;
  const [link, expiresAt] = content.parse(JSON.parse(Buffer.from(text, 'base64url').toString()));
  if (expiresAt <= clock.now()) return undefined;
  return { link, expiresAt, isUsed: await isLinkUsed(store, hashOf(token)) };
}

/** Notes that the link was used. What it does comes first: where the daemon dies between the two, it can be done again. */
export async function noteUsed(token: string, { expiresAt }: OpenedLink, store: Store): Promise<void> {
  await store.write([useLink({ hash: hashOf(token), expires_at: expiresAt })]);
}

/** Forgets used links that have expired. */
export async function sweepUsedLinks({
  store,
  clock,
}: {
  readonly store: Store;
  readonly clock: Clock;
}): Promise<void> {
  await store.write([forgetUsedLinks({ before: clock.now() })]);
}

function hashOf(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

function signature(text: string, key: KeyObject): string {
  return createHmac('sha256', key).update(`owner:${text}`).digest().subarray(0, 16).toString('base64url');
}
