/**
 * `/confirm/{token}`: GET shows what the link would do, POST does it (`?answer=never`: refuses, for good). Following a link
 * alone changes nothing: mail scanners do.
 */
import { findToken, type Confirmable, type ConfirmKinds } from '../../access/tokens.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Store } from '../../store/store.ts';
import { page, type Answer } from '../answer.ts';
import type { Exchange } from '../exchange.ts';
import { confirmPage, confirmedPage, linkOverPage, NEVER } from '../pages/confirm.ts';
import type { Page } from '../pages/layout.ts';

export interface ConfirmParts {
  readonly store: Store;
  readonly clock: Clock;
  /** What each kind of link confirms. */
  readonly confirmations: ConfirmKinds;
}

export function createConfirm(parts: ConfirmParts): (exchange: Exchange, token: string) => Promise<Answer> {
  return async ({ method, id, query }, value) => {
    const token = await findToken(parts, value);
    if (token === undefined) return page(linkOverPage(id), 404);
    const kind = parts.confirmations[token.kind];
    const found = await kind(token);
    if (found === undefined) return page(linkOverPage(id), 404);
    if (method !== 'POST') return page(stateOf(found));
    if (new URLSearchParams(query).get('answer') === NEVER) await found.refuse();
    else if (!found.isRefused) await found.confirm();
    return page(stateOf((await kind(token)) ?? found));
  };
}

function stateOf(found: Confirmable): Page {
  if (found.isRefused) return confirmedPage(found.refused);
  return found.isDone
    ? confirmedPage(found.done, { refusable: true })
    : confirmPage(found.question, { refusable: true });
}
