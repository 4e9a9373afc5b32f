/**
 * `/unsubscribe/{token}`: GET shows a button, POST ends the tenant's mail to the address, without asking anything more and
 * without sending anybody elsewhere, as mail programs expect it (RFC 8058 §3.2).
 */
import type { KeyObject } from 'node:crypto';
import { suppress } from '../../store/suppressions.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Store } from '../../store/store.ts';
import { openUnsubscribeToken } from '../../transactional/unsubscribe.ts';
import { page, type Answer } from '../answer.ts';
import type { Exchange } from '../exchange.ts';
import { confirmPage, confirmedPage } from '../pages/confirm.ts';
import { html } from '../pages/html.ts';
import { layout, mark } from '../pages/layout.ts';

export interface UnsubscribeParts {
  readonly store: Store;
  readonly clock: Clock;
  /** Signs the links. */
  readonly unsubscribeKey: KeyObject;
}

export function createUnsubscribe(parts: UnsubscribeParts): (exchange: Exchange, token: string) => Promise<Answer> {
  const { store, clock, unsubscribeKey } = parts;
  return async ({ method, id }, token) => {
    const subscription = openUnsubscribeToken(token, unsubscribeKey);
    if (subscription === undefined) return page(brokenLinkPage(id), 404);
    const { tenant, address } = subscription;
    if (method !== 'POST') {
      const heading = 'Unsubscribe?';
      return page(
        confirmPage({ heading, text: [`No more mail of this sender to ${address}?`], button: 'Unsubscribe' }),
      );
    }
    await store.write([suppress({ tenant, address, reason: 'unsubscribe', created_at: clock.now() })]);
    return page(confirmedPage({ heading: 'Unsubscribed', text: [`${address} gets no more mail of this sender.`] }));
  };
}

function brokenLinkPage(requestId: string) {
  return layout({
    title: 'This link does not work',
    requestId,
    content: html`${mark('bad')}
<h1>This link does not work</h1>
<p>It was not copied whole from the mail. Please open it there once more.</p>`,
  });
}
