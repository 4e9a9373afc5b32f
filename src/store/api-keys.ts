/** API keys: of their values only a SHA-256 and the last four characters. */
import { define } from './statement.ts';
import type { Store } from './store.ts';
import type { ApiKeyRow } from './tables-accounts.ts';

/** The statement that keeps a new key. */
export const insertKey = define<ApiKeyRow>()((db, value) =>
  db.insertInto('api_keys').values({
    id: value('id'),
    tenant: value('tenant'),
    name: value('name'),
    environment: value('environment'),
    prefix: value('prefix'),
    hash: value('hash'),
    last4: value('last4'),
    permissions: value('permissions'),
    restrictions: value('restrictions'),
    created_by: value('created_by'),
    created_at: value('created_at'),
    expires_at: value('expires_at'),
    revoked_at: value('revoked_at'),
    last_used_at: value('last_used_at'),
  }),
);

const byHash = define<{ hash: string }>()((db, value) =>
  db.selectFrom('api_keys').selectAll().where('hash', '=', value('hash')),
);

/** The key whose value has this SHA-256, or undefined. */
export async function findKeyByHash(store: Store, hash: string): Promise<ApiKeyRow | undefined> {
  const [row] = await store.select(byHash({ hash }));
  return row;
}
