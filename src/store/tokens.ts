/** Tokens of mailed links: of their values only a SHA-256. */
import { define } from './statement.ts';
import type { Store } from './store.ts';
import type { TokenRow } from './tables-accounts.ts';

/** The statement that keeps a new token. */
export const insertToken = define<TokenRow>()((db, value) =>
  db.insertInto('tokens').values({
    hash: value('hash'),
    kind: value('kind'),
    tenant: value('tenant'),
    subject: value('subject'),
    expires_at: value('expires_at'),
    created_at: value('created_at'),
  }),
);

/** The statement that forgets tokens which ended before. */
export const forgetTokens = define<{ before: number }>()((db, value) =>
  db.deleteFrom('tokens').where('expires_at', '<=', value('before')),
);

/** The statement that forgets the tokens of one thing: newer ones are on their way. */
export const forgetTokensOf = define<Pick<TokenRow, 'kind' | 'tenant' | 'subject'>>()((db, value) =>
  db
    .deleteFrom('tokens')
    .where('subject', '=', value('subject'))
    .where('kind', '=', value('kind'))
    .where('tenant', '=', value('tenant')),
);

const byHash = define<{ hash: string }>()((db, value) =>
  db.selectFrom('tokens').selectAll().where('hash', '=', value('hash')),
);

/** The token whose value has this SHA-256, ended or not, or undefined. */
export async function findTokenByHash(store: Store, hash: string): Promise<TokenRow | undefined> {
  const [row] = await store.select(byHash({ hash }));
  return row;
}
