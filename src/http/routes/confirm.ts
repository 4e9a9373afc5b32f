/** `/confirm/{token}`: GET shows what the link would do, POST does it. Following a link alone changes nothing. */
import { findToken, type ConfirmKinds } from '../../access/tokens.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Store } from '../../store/store.ts';
import { page, type Answer } from '../answer.ts';
import type { Exchange } from '../exchange.ts';
import { confirmPage, confirmedPage, linkOverPage } from '../pages/confirm.ts';

export interface ConfirmParts {
  readonly store: Store;
  readonly clock: Clock;
  /** What each kind of link confirms. */
  readonly confirmations: ConfirmKinds;
}

export function createConfirm(parts: ConfirmParts): (exchange: Exchange, token: string) => Promise<Answer> {
  return async ({ method, id }, value) => {
    const token = await findToken(parts, value);
    const found = token && (await parts.confirmations[token.kind](token));
    if (found === undefined) return page(linkOverPage(id), 404);
    if (method === 'POST') await found.confirm();
    else if (!found.isDone) return page(confirmPage(found.question));
    return page(confirmedPage(found.done));
  };
}
