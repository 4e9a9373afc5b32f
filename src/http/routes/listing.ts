/** `?limit=` and `?cursor=`, as every list takes them. */
import type { IdKind } from '../../lib/ids.ts';
import { refuse, type Refusal } from '../errors.ts';

export interface Listing {
  /** 1 to 200. */
  readonly limit: number;
  /** The `next_cursor` of the page before: an id. */
  readonly cursor: string | undefined;
}

const MOST = 200;
const USUAL = 50;

export function readListing(parameters: URLSearchParams, kind: IdKind): Listing | Refusal {
  const limit = parameters.get('limit') ?? String(USUAL);
  const cursor = parameters.get('cursor') ?? undefined;
  if (!/^\d{1,3}$/.test(limit) || Number(limit) < 1 || Number(limit) > MOST) {
    return refuse('VALIDATION_FAILED', {
      errors: [{ field: 'limit', code: 'TYPE_NUMERIC', message: `limit must be a number from 1 to ${MOST}.` }],
    });
  }
  if (cursor !== undefined && !new RegExp(`^${kind}_[0-9a-z]{26}$`).test(cursor)) {
    return refuse('VALIDATION_FAILED', {
      errors: [{ field: 'cursor', code: 'TYPE_TEXT', message: 'cursor must be a next_cursor that was answered.' }],
    });
  }
  return { limit: Number(limit), cursor };
}
