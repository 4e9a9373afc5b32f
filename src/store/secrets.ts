/** Secrets that the daemon makes for itself, such as the key of its return paths; the file that holds them has mode 0600. */
import { randomBytes } from 'node:crypto';
import { define } from './statement.ts';
import type { Store } from './store.ts';
import type { TokenRow } from './tables.ts';

const insert = define<{ name: string; value: string; created_at: number }>()((db, value) =>
  db
    .insertInto('secrets')
    .values({ name: value('name'), value: value('value'), created_at: value('created_at') })
    .onConflict((conflict) => conflict.doNothing()),
);
const byName = define<{ name: string }>()((db, value) =>
  db.selectFrom('secrets').select('value').where('name', '=', value('name')),
);

/** The secret of this name, 32 bytes, made at its first use; several daemons on one database share it. */
export async function obtainSecret(store: Store, name: string, now: number): Promise<Buffer> {
  const [known] = await store.select(byName({ name }));
  if (known !== undefined) return Buffer.from(known.value, 'base64');
  await store.write([insert({ name, value: randomBytes(32).toString('base64'), created_at: now })]);
  return obtainSecret(store, name, now);
}

// Tokens of mailed links: of their values only a SHA-256.

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
