/** `?limit=` and `?cursor=`, as every list takes them, and the shape that every list answers. */
import { z } from 'zod';
import type { IdKind } from '../../lib/ids.ts';

const MOST = 200;
const USUAL = 50;

const limit = z.coerce.number().int().min(1).max(MOST).default(USUAL).describe('Entries on a page.');

/** The two parameters of a list whose pages begin behind a thing of this kind: spread into `z.strictObject`. */
export function listing(kind: IdKind): { limit: typeof limit; cursor: z.ZodOptional<z.ZodString> } {
  const cursor = z
    .string()
    .regex(new RegExp(`^${kind}_[0-9a-z]{26}$`), 'must be a next_cursor that was answered')
    .describe('The next_cursor of the page before.');
  return { limit, cursor: cursor.optional() };
}

/** The same of a list that is in the order of names. */
export function listingByName(): { limit: typeof limit; cursor: z.ZodOptional<z.ZodString> } {
  return { limit, cursor: z.string().max(320).describe('The next_cursor of the page before.').optional() };
}

/** `{ <plural>: [...], count, next_cursor }` */
export function listOf(plural: string, item: z.ZodType): z.ZodType {
  return z.object({
    [plural]: z.array(item),
    count: z.int().describe('All that there are, on whichever page.'),
    next_cursor: z.string().nullable().describe('Names the next page; null on the last.'),
  });
}

/** One page of rows that were read with `limit + 1`. */
export function pageOf<Row extends { readonly id: string }>(
  rows: readonly Row[],
  limit: number,
): { readonly page: readonly Row[]; readonly next_cursor: string | null } {
  const page = rows.slice(0, limit);
  return { page, next_cursor: rows.length > limit ? (page.at(-1)?.id ?? null) : null };
}
