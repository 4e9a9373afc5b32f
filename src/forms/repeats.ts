/**
 * Posts that a browser sends again: a double click, Back and Send, an answer that got lost on its way. The same content for
 * the same form from the same client within ten minutes has no second effect. What became of the first is noted in the unit
 * that stores its submission: there is never one without the other, whatever dies in between.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { clientBucket } from '../accounts/rate-limits.ts';
import type { Form } from '../config/snapshot.ts';
import { counterOf } from '../lib/ids.ts';
import { findKey, noteAnswer } from '../store/idempotency.ts';
import type { Statement } from '../store/statement.ts';
import type { Store } from '../store/store.ts';
import type { Accepted } from './accept.ts';
import { hashOfBody, isProof, type SubmittedBody } from './fields.ts';

const KEPT_MS = 600_000;

/** A post by its content and its client. */
export interface Post {
  readonly scope: string;
  readonly key: string;
  /** When it came, ms. */
  readonly at: number;
}

export interface PostParts {
  readonly form: Pick<Form, 'tenant' | 'id'>;
  /** Files must have been received with `hash`. */
  readonly body: SubmittedBody;
  readonly ip: string;
  /** What else tells one visitor of a network from another. */
  readonly headers: readonly (string | undefined)[];
  readonly at: number;
}

/** The post as it is recognised. */
export function identifyPost({ form, body, ip, headers, at }: PostParts): Post {
  const entries = body.entries.filter(([name]) => !isProof(name));
  const client = JSON.stringify([clientBucket(ip), ...headers]);
  const key = createHash('sha256')
    .update(client)
    .update(hashOfBody({ ...body, entries }))
    .digest('hex');
  return { scope: `post:${counterOf(form)}`, key, at };
}

const accepted = z.object({
  id: z.string(),
  status: z.enum(['accepted', 'pending', 'spam']),
  isOverflow: z.boolean(),
  ip: z.string(),
});

/** What became of the same post before, if it was sent. */
export async function findRepeated(
  store: Pick<Store, 'select'>,
  { scope, key, at }: Post,
): Promise<Accepted | undefined> {
  const known = await findKey(store, scope, key);
  return known === undefined || known.created_at <= at - KEPT_MS
    ? undefined
    : accepted.parse(JSON.parse(known.response));
}

/** The statement that notes what became of the post; its unit fails with UnmetError where the same was noted meanwhile. */
export function notePost({ scope, key, at }: Post, { id, status, isOverflow, ip }: Accepted): Statement {
  const response = JSON.stringify({ id, status, isOverflow, ip });
  return noteAnswer({ scope, key, status: 200, response, now: at, expired: at - KEPT_MS }, 1);
}
