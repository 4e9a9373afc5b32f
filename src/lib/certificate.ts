/**
 * The certificates that HTTPS and STARTTLS show. Here: the one of the operator's files, which somebody else renews. One
 * reading serves all who show it: a renewed one is taken over, one that cannot be used is reported, and the last good one
 * goes on. `domains/certificates.ts` keeps those that the daemon obtains itself.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext, type SecureContext } from 'node:tls';
import { UserError, errorFields, messageOf } from './errors.ts';
import type { Log } from './log.ts';

export interface Certificate {
  /** PEM, its chain included. */
  readonly cert: string;
  /** PEM. */
  readonly key: string;
}

/** One certificate as the operator sees it. */
export interface CertificateState {
  readonly name: string;
  /** When it ends, ms; undefined while a self-signed one is shown in its place. */
  readonly expiresAt: number | undefined;
  /** When its life began, ms. */
  readonly obtainedAt: number | undefined;
  /** Since when clients that check it have been able to, without a gap, ms. */
  readonly validSince: number | undefined;
  /** The last try to obtain it, if that failed, and how many failed in a row. */
  readonly failure?: CertificateFailure | undefined;
}

export interface CertificateFailure {
  readonly at: number;
  readonly reason: string;
  readonly nextAt: number;
  readonly count: number;
}

export interface CertificateKeeper {
  /** The one that is shown where the client names no host, or another one. */
  current(): Certificate;
  /** What is shown to a client that names this host; undefined: the current one. */
  contextFor(name: string): SecureContext | undefined;
  /** Calls `take` with every later one. */
  onRenewal(take: (certificate: Certificate) => void): void;
  /** Takes over what has changed. */
  look(): Promise<void>;
  /** The same, because the operator may have corrected what kept a certificate from being obtained. */
  reload(): Promise<void>;
  /** The current one first. */
  states(): readonly CertificateState[];
}

interface SecureOptions extends Certificate {
  readonly SNICallback: (name: string, done: (error: Error | null, context?: SecureContext) => void) => void;
  readonly minVersion: 'TLSv1.2';
}

/** What TLS servers are made with, so that the certificates are chosen by the name that the client asks for (RFC 6066 §3). */
export function secureOptions(keeper: CertificateKeeper): SecureOptions {
  function SNICallback(name: string, done: (error: Error | null, context?: SecureContext) => void): void {
    done(null, keeper.contextFor(name.toLowerCase()));
  }
  return { ...keeper.current(), SNICallback, minVersion: MIN_TLS };
}

/** RFC 8996 */
export const MIN_TLS = 'TLSv1.2';

/**
 * Reads both, and that they belong together; a text that is PEM itself, such as a credential, is taken as it is. Throws
 * UserError where they cannot be used.
 */
export async function readCertificate(files: Certificate): Promise<Certificate> {
  const certificate = {
    cert: await readPem('tls.files.cert', files.cert),
    key: await readPem('tls.files.key', files.key),
  };
  try {
    createSecureContext(certificate);
    if (!CERTIFICATE.test(certificate.cert)) throw new Error('there is no certificate');
  } catch (error) {
    throw new UserError(`tls.files: ${whyUnusable(certificate) ?? `they cannot be used: ${messageOf(error)}`}`, {
      cause: error,
    });
  }
  return certificate;
}

const CERTIFICATE = /^-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----/m;
const PRIVATE_KEY = /^-----BEGIN (?:[A-Z0-9]+ )?PRIVATE KEY-----/m;
const ENCRYPTED = /^-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/m;

/** In words, where it is one of the usual mistakes. */
function whyUnusable({ cert, key }: Certificate): string | undefined {
  if (PRIVATE_KEY.test(cert) && CERTIFICATE.test(key) && !CERTIFICATE.test(cert)) return 'cert and key are swapped';
  if (!CERTIFICATE.test(cert)) return 'cert contains no certificate (-----BEGIN CERTIFICATE-----)';
  if (ENCRYPTED.test(key)) return 'the key is encrypted; remove its passphrase: openssl pkey -in KEY -out NEW';
  if (!PRIVATE_KEY.test(key)) return 'key contains no private key (-----BEGIN PRIVATE KEY-----)';
  try {
    const isPair = new X509Certificate(cert).checkPrivateKey(createPrivateKey(key));
    return isPair ? undefined : 'the key does not match the first certificate in cert';
  } catch {
    return undefined;
  }
}

/** Why clients that check the certificate would refuse it; it is used all the same. */
export function certificateProblem({ cert }: Certificate, hostname: string, now: number): string | undefined {
  const certificate = new X509Certificate(cert);
  const { validTo, validToDate } = certificate;
  if (validToDate.getTime() < now) return `the certificate expired on ${validTo}`;
  return certificate.checkHost(hostname) === undefined
    ? `the certificate is not for ${hostname}, but for ${certificate.subjectAltName?.replaceAll('DNS:', '') ?? certificate.subject}`
    : undefined;
}

/** Whether it is the certificate or key itself, and not the name of its file. */
export function isPem(text: string): boolean {
  return text.startsWith('-----BEGIN ');
}

/** The file's text, or the PEM that is in its place; `key` is where the configuration names it. */
export async function readPem(key: string, file: string): Promise<string> {
  if (isPem(file)) return file;
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    throw new UserError(`${key}: cannot read ${file}: ${messageOf(error)}`, { cause: error });
  }
}

/** Keeps the certificate that was read first; `files` names them as of now. */
export function keepCertificate(
  first: Certificate,
  { log, files }: { readonly log: Log; readonly files: () => Certificate | null },
): CertificateKeeper {
  const takers: ((certificate: Certificate) => void)[] = [];
  let current = first;
  let state = stateOf(first);
  let reported = '';
  return {
    reload: look,
    look,
    current: () => current,
    contextFor: () => undefined,
    states: () => [state],
    onRenewal: (take) => void takers.push(take),
  };

  async function look(): Promise<void> {
    const where = files();
    if (where === null) return;
    try {
      const found = await readCertificate(where);
      reported = '';
      if (found.cert === current.cert && found.key === current.key) return;
      current = found;
      state = stateOf(found);
      for (const take of takers) take(found);
      log.info('tls.renewed', { cert: isPem(where.cert) ? 'inline' : where.cert });
    } catch (error) {
      if (messageOf(error) !== reported) log.error('tls.not_renewed', errorFields(error));
      reported = messageOf(error);
    }
  }
}

function stateOf({ cert }: Certificate): CertificateState {
  const { subjectAltName = '', validFromDate, validToDate } = new X509Certificate(cert);
  const name = /DNS:([^,]+)/.exec(subjectAltName)?.[1] ?? '';
  const since = validFromDate.getTime();
  return { name, expiresAt: validToDate.getTime(), obtainedAt: since, validSince: since };
}
