/** Certificates that the daemon obtains by ACME: one row for each host name, shared by the daemons on one database. */
import { sql } from 'kysely';
import { finder, insertInto, query, reader, update } from './statement.ts';
import type { Store } from './store.ts';
import type { AcmeAccountRow, CertificateRow } from './tables.ts';

/** What is known of a certificate without the certificate. */
export type CertificateStatus = Omit<CertificateRow, 'certificate' | 'private_key'>;

/** The statement that notes a name which is to have a certificate; one that is known stays as it is. */
export const insertCertificate = insertInto('certificates', sql`on conflict do nothing`);

/** All names. */
export function allCertificates(store: Store): Promise<CertificateStatus[]> {
  const status = ['name', 'directory', 'obtained_at', 'valid_since', 'expires_at'] as const;
  const tries = ['failures', 'tried_at', 'next_at', 'not_before', 'reason'] as const;
  return store.read
    .selectFrom('certificates')
    .select([...status, ...tries])
    .execute();
}

export const findCertificate = finder('certificates', 'name');

/**
 * The statement that writes a try down before it is made, as if it had failed: so that neither a crash nor another daemon
 * makes it twice. It touches no row that has changed since it was read.
 */
export const claimCertificate = query<{
  name: string;
  was: number;
  directory: string;
  now: number;
  next: number;
  reason: string;
}>(
  (value) => sql`update certificates set directory = ${value('directory')}, tried_at = ${value('now')},
      failures = failures + 1, next_at = ${value('next')}, reason = ${value('reason')}
    where name = ${value('name')} and next_at = ${value('was')}`,
);

/** The statement that says why the try of a claim failed, and when the next one is. */
export const failCertificate = update('certificates', ['reason', 'next_at', 'not_before'], ['name', 'tried_at']);

/** The statement that takes a claim back: nothing was tried. */
export const skipCertificate = update(
  'certificates',
  [sql`failures = 0, reason = null`, 'next_at'],
  ['name', 'tried_at'],
);

/**
 * The statement that has those whose last try, before `before`, failed tried again now, as if they had not failed; an
 * authority that asked to wait is left alone for as long.
 */
export const retryCertificates = query<{ now: number; before: number }>(
  (value) => sql`update certificates set failures = 0,
      next_at = case when not_before > ${value('now')} then not_before else ${value('now')} end
    where reason is not null and tried_at <= ${value('before')} and next_at > ${value('now')}`,
);

/** The statement that keeps a new certificate. */
export const saveCertificate = update(
  'certificates',
  [
    'certificate',
    'private_key',
    'obtained_at',
    'valid_since',
    'expires_at',
    'next_at',
    sql`failures = 0, reason = null`,
  ],
  ['name'],
);

/** The statement that forgets those that ended before, or never were, and that nobody has wanted since. */
export const forgetCertificates = query<{ before: number }>(
  (value) => sql`delete from certificates
    where coalesce(expires_at, 0) < ${value('before')} and next_at < ${value('before')}`,
);

/** The statement that keeps what an ACME server is to be answered. */
export const insertChallenge = insertInto('acme_challenges', sql`on conflict do nothing`);

export const findChallenge = finder('acme_challenges', 'token');

/** The newest for this name. */
export async function findNamedChallenge(store: Store, name: string): Promise<{ response: string } | undefined> {
  return (await newestChallenge(store, name))[0];
}

const newestChallenge = reader(
  (name: string) => sql<{ response: string }>`select response from acme_challenges where name = ${name}
    order by created_at desc limit 1`,
);

/** The statement that forgets what was asked for before. */
export const forgetChallenges = query<{ before: number }>(
  (value) => sql`delete from acme_challenges where created_at < ${value('before')}`,
);

const insertAccount = insertInto('acme_accounts', sql`on conflict do nothing`);
const accountAt = finder('acme_accounts', 'directory');

/** The account at this directory; of two that are made at once, the first one's key stays. */
export async function obtainAccount(
  store: Store,
  directory: string,
  { privateKey, now }: { readonly privateKey: () => string; readonly now: number },
): Promise<AcmeAccountRow> {
  const known = await accountAt(store, directory);
  if (known !== undefined) return known;
  const account = { directory, private_key: privateKey(), url: null, email: null, created_at: now };
  await store.write([insertAccount(account)]);
  return obtainAccount(store, directory, { privateKey, now });
}

/** The statement that writes down what the directory knows of us. */
export const updateAccount = update('acme_accounts', ['url', 'email'], ['directory']);
