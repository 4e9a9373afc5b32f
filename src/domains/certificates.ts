/**
 * The certificates that the daemon obtains by ACME: for the host name, `tls.acme.names`, and the MTA-STS names of domains
 * whose mail comes here, each by itself. Keys and certificates are in the database, so that a restart begins with them and
 * several daemons share them. A try is written down before it is made, with the time of the next: one daemon makes it, and
 * neither a crash nor an authority that refuses becomes a storm. Nobody waits for any of this: until a name has its
 * certificate a self-signed one is shown, and the last good one goes on while a renewal fails.
 */
import { generateKeyPairSync, X509Certificate } from 'node:crypto';
import { createSecureContext, type SecureContext } from 'node:tls';
import type { ServerConfig } from '../config/schema.ts';
import { httpPlaces } from '../config/schema-server.ts';
import type { Snapshot } from '../config/snapshot.ts';
import { createHttpClient } from '../dns/guarded-fetch.ts';
import { checkPolicyHost } from '../dns/mta-sts.ts';
import { ownAddresses } from '../dns/networks.ts';
import type { Resolver } from '../dns/resolver.ts';
import {
  MIN_TLS,
  readPem,
  type Certificate,
  type CertificateKeeper,
  type CertificateState,
} from '../lib/certificate.ts';
import { isoTime, type Clock } from '../lib/clock.ts';
import { errorFields, messageOf } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { version } from '../lib/version.ts';
import { selfSignedCertificate } from '../lib/x509.ts';
import {
  allCertificates,
  claimCertificate,
  failCertificate,
  findCertificate,
  forgetCertificates,
  forgetChallenges,
  insertCertificate,
  insertChallenge,
  obtainAccount,
  retryCertificates,
  saveCertificate,
  skipCertificate,
  updateAccount,
  type CertificateStatus,
} from '../store/certificates.ts';
import type { Store } from '../store/store.ts';
import { AcmeClient, AcmeError, type ChallengeType } from './acme.ts';
import type { Domains } from './domains.ts';

export interface AcmeCertificateParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly random: () => number;
  readonly resolver: Resolver;
  readonly snapshot: () => Snapshot;
  readonly domains: Pick<Domains, 'status'>;
}

export interface AcmeCertificates extends CertificateKeeper {
  /** Ends a try that is under way. */
  close(): Promise<void>;
}

interface Shown {
  readonly certificate: Certificate;
  readonly context: SecureContext;
  readonly obtainedAt: number;
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** After each failure in a row; the last repeats. An authority allows about five in an hour for one name. */
const BACK_OFF_MS = [5 * MINUTE, 15 * MINUTE, HOUR, 4 * HOUR, 12 * HOUR, DAY];
/** Between two tries that the operator asks for, ms. */
const MIN_BETWEEN_MS = MINUTE;
/** More than this an authority's `Retry-After` is not believed, ms. */
const MAX_WAIT_MS = 7 * DAY;
/** Tries in an hour for all names together: authorities count orders, too. */
const MAX_TRIES_AN_HOUR = 50;
/** How often a name whose DNS does not lead here is looked up. */
const LOOK_UP_MS = HOUR;
/** Of the time that the authority has to answer one request. */
const REQUEST_MS = 30_000;

/** Begins with what the database has. */
export async function keepAcmeCertificates(parts: AcmeCertificateParts): Promise<AcmeCertificates> {
  const { store, clock, log, random, resolver, snapshot, domains } = parts;
  const stop = new AbortController();
  const takers: ((certificate: Certificate) => void)[] = [];
  const shown = new Map<string, Shown>();
  const selfSigned = selfSignedCertificate([config().server.hostname], clock.now());
  let states: readonly CertificateState[] = [];
  let current: Certificate = selfSigned;
  let looking: Promise<void> = Promise.resolve();
  await takeOver();

  function config(): ServerConfig {
    return snapshot().server;
  }

  /** The most important ones first. */
  function wantedNames(): string[] {
    const { server, tls } = config();
    const policies = [...snapshot().domains].flatMap(([name, domain]) => {
      const status = domains.status(name);
      const isOurs = status === 'verified' || status === 'degraded';
      return isOurs && domain.takesMail ? [`${POLICY_HOST}${name}`] : [];
    });
    return [...new Set([server.hostname, ...tls.acme.names, ...policies])];
  }

  /** Takes over what this daemon or another one has obtained; answers the rows of the wanted names. */
  async function takeOver(): Promise<CertificateStatus[]> {
    const names = wantedNames();
    const rows = new Map((await allCertificates(store)).map((row) => [row.name, row]));
    for (const name of shown.keys()) if (!names.includes(name)) shown.delete(name);
    for (const name of names) {
      const obtainedAt = rows.get(name)?.obtained_at ?? undefined;
      if (obtainedAt !== undefined && shown.get(name)?.obtainedAt !== obtainedAt) await show(name);
    }
    const next = shown.get(config().server.hostname)?.certificate ?? selfSigned;
    if (next !== current) {
      current = next;
      for (const take of takers) take(current);
    }
    const wanted = names.flatMap((name) => rows.get(name) ?? []);
    const required = new Set([config().server.hostname, ...config().tls.acme.names]);
    states = names
      .map((name) => stateOf(name, rows.get(name)))
      .filter(({ name, expiresAt, failure }) => required.has(name) || expiresAt !== undefined || failure !== undefined);
    return wanted;
  }

  async function show(name: string): Promise<void> {
    const row = await findCertificate(store, name);
    const { certificate: cert, private_key: key, obtained_at: obtainedAt, expires_at: until } = row ?? ABSENT;
    if (cert === null || key === null || obtainedAt === null || until === null) return;
    const context = createSecureContext({ cert, key, minVersion: MIN_TLS });
    shown.set(name, { certificate: { cert, key }, context, obtainedAt });
    log.info('tls.certificate_shown', { name, until: isoTime(until) });
  }

  async function look(): Promise<void> {
    const now = clock.now();
    const { directory } = config().tls.acme;
    let rows = await takeOver();
    const missing = wantedNames().filter((name) => !rows.some((row) => row.name === name));
    if (missing.length > 0) {
      await store.write(
        missing.map((name) => insertCertificate({ name, directory, failures: 0, next_at: now, not_before: 0 })),
      );
      rows = await takeOver();
    }
    const recent = rows.filter(({ tried_at: at }) => at !== null && at > now - HOUR);
    const due = rows.find((row) => row.next_at <= now || row.directory !== directory);
    if (due === undefined || recent.length >= MAX_TRIES_AN_HOUR || stop.signal.aborted) return;
    await attempt(due);
    await takeOver();
  }

  /** Never rejects for what the authority does. */
  async function attempt({ name, directory: was, next_at, ...row }: CertificateStatus): Promise<void> {
    const { directory } = config().tls.acme;
    const now = clock.now();
    const failures = was === directory ? row.failures : 0;
    const next = now + (BACK_OFF_MS[Math.min(failures, BACK_OFF_MS.length - 1)] ?? DAY) * (0.9 + 0.2 * random());
    const claim = { name, was: next_at, directory, now, next: Math.round(next) };
    const [claimed] = await store.write([
      claimCertificate({ ...claim, reason: 'The attempt is in progress, or was interrupted.' }),
      forgetChallenges({ before: now - HOUR }),
      forgetCertificates({ before: now - 30 * DAY }),
    ]);
    if (claimed.changes === 0) return;
    const mine = { name, tried_at: now };
    try {
      if (!(await leadsHere(name))) {
        const later = Math.round(now + LOOK_UP_MS * (1 + 0.2 * random()));
        return void (await store.write([skipCertificate({ ...mine, next_at: later })]));
      }
      const found = await obtain(name, failures);
      await save(found, { name, validSince: (row.expires_at ?? 0) > now ? row.valid_since : null });
    } catch (error) {
      if (!(error instanceof AcmeError)) log.error('tls.certificate_fault', { name, ...errorFields(error) });
      const notBefore = clock.now() + (error instanceof AcmeError ? Math.min(error.waitMs, MAX_WAIT_MS) : 0);
      const nextAt = Math.max(claim.next, notBefore);
      const reason = messageOf(error);
      log.warn('tls.certificate_failed', { name, directory, reason, failures: failures + 1, next: isoTime(nextAt) });
      await store.write([failCertificate({ ...mine, reason, next_at: nextAt, not_before: notBefore })]);
    }
  }

  async function save(
    { cert, key }: Certificate,
    { name, validSince }: { readonly name: string; readonly validSince: number | null },
  ): Promise<void> {
    const now = clock.now();
    const { validFromDate, validToDate } = new X509Certificate(cert);
    const until = validToDate.getTime();
    const life = until - validFromDate.getTime();
    // A third of its life before it ends, and a little earlier, so that not all of them come at once.
    const renewal = Math.round(until - (life / 3) * (1 + 0.1 * random()));
    const row = { certificate: cert, private_key: key, obtained_at: now, valid_since: validSince ?? now };
    const next_at = Math.max(renewal, now + HOUR);
    await store.write([saveCertificate({ name, ...row, expires_at: until, next_at })]);
    log.info('tls.certificate_obtained', { name, until: isoTime(until), renewal: isoTime(next_at) });
  }

  /** At first by each challenge that this server can answer; after failures by one, so that limits of failures are kept. */
  async function obtain(name: string, failures: number): Promise<Certificate> {
    const [first, second] = challengesFor(failures);
    try {
      return await order(name, first);
    } catch (error) {
      if (second === undefined || !(error instanceof AcmeError) || error.challenge === undefined) throw error;
      const reason = error.message;
      return await order(name, second).catch((again: unknown) => {
        if (!(again instanceof AcmeError)) throw again;
        throw new AcmeError(`${reason} ${again.message}`, again);
      });
    }
  }

  async function order(name: string, type: ChallengeType): Promise<Certificate> {
    const { acme } = config().tls;
    const { directory, eab: external } = acme;
    const email = acme.email ?? config().server.operator;
    const ca = acme.ca === null ? undefined : await readPem('tls.acme.ca', acme.ca);
    const access = { resolver, ca, userAgent: `Postern/${version()}`, wholeMs: REQUEST_MS };
    // The operator's directory may be in a private network; one in public leads nowhere into ours.
    const isPrivate =
      (await createHttpClient({ ...access, allowPrivate: () => false }).objection(directory)) !== undefined;
    const http = createHttpClient({ ...access, allowPrivate: () => isPrivate });
    const account = await obtainAccount(store, directory, { privateKey: newKey, now: clock.now() });
    const { private_key: accountKey } = account;
    const client = new AcmeClient({ http, clock, directory, accountKey, signal: stop.signal });
    try {
      const url = await client.useAccount(account.url, { email, external });
      if (account.url !== null && account.email !== email) await client.changeEmail(email);
      if (account.url !== url || account.email !== email) await store.write([updateAccount({ directory, url, email })]);
      return await client.obtain({
        name,
        type,
        publish: async (token, response) =>
          void (await store.write([insertChallenge({ token, name, response, created_at: clock.now() })])),
      });
    } catch (error) {
      // It will be made anew.
      if (error instanceof AcmeError && error.type === 'accountDoesNotExist')
        await store.write([updateAccount({ directory, url: null, email: null })]);
      throw error;
    }
  }

  /** The authority comes to where we listen. */
  function challengesFor(failures: number): [ChallengeType, ChallengeType?] {
    const places = httpPlaces(config());
    const isPlain = places.some(({ secure }) => !secure);
    const isSecure = places.some(({ secure }) => secure);
    if (isPlain && isSecure) {
      if (failures === 0) return ['http-01', 'tls-alpn-01'];
      return [failures % 2 === 0 ? 'http-01' : 'tls-alpn-01'];
    }
    if (isPlain) return ['http-01'];
    if (isSecure) return ['tls-alpn-01'];
    throw new AcmeError(
      'The certificate authority must reach this server: add "[::]:80" or "[::]:443" to server.http.listen.',
    );
  }

  /** Whether to ask for a certificate of this name at all: those of policies are optional, and others may serve them. */
  async function leadsHere(name: string): Promise<boolean> {
    const { hostname, public_ips: publicIps } = config().server;
    if (!name.startsWith(POLICY_HOST) || name === hostname || config().tls.acme.names.includes(name)) return true;
    const own = ownAddresses(publicIps, await resolver.addresses(hostname));
    return (await checkPolicyHost(name, own, resolver)).status === 'ok';
  }

  /** One after the other. */
  function lookNext(): Promise<void> {
    return (looking = looking.catch(() => undefined).then(look));
  }

  return {
    current: () => current,
    contextFor: (name) => shown.get(name)?.context,
    onRenewal: (take) => void takers.push(take),
    states: () => states,
    look: lookNext,
    async reload() {
      const now = clock.now();
      await store.write([retryCertificates({ now, before: now - MIN_BETWEEN_MS })]);
      // Nobody waits for an authority.
      lookNext().catch((error: unknown) => log.error('tls.certificate_fault', errorFields(error)));
    },
    async close() {
      stop.abort();
      await looking.catch(() => undefined);
    },
  };
}

const POLICY_HOST = 'mta-sts.';
const ABSENT = { certificate: null, private_key: null, obtained_at: null, expires_at: null };

/** The certificate of a name, as its row has it. */
export function stateOf(name: string, row: CertificateStatus | undefined): CertificateState {
  const { reason = null, tried_at: at = null, next_at: nextAt = 0, failures: count = 0 } = row ?? {};
  const failure = reason === null || at === null ? undefined : { at, reason, nextAt, count };
  return {
    name,
    expiresAt: row?.expires_at ?? undefined,
    obtainedAt: row?.obtained_at ?? undefined,
    validSince: row?.valid_since ?? undefined,
    failure,
  };
}

/** PKCS#8 PEM of a P-256 key. */
function newKey(): string {
  return generateKeyPairSync('ec', { namedCurve: 'P-256' })
    .privateKey.export({ type: 'pkcs8', format: 'pem' })
    .toString();
}
