/**
 * The certificate that HTTPS and STARTTLS show, from the operator's files, which somebody else renews. One reading serves
 * all who show it: a renewed one is taken over, one that cannot be used is reported, and the last good one goes on.
 */
import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import { UserError, errorFields, messageOf } from './errors.ts';
import type { Log } from './log.ts';

export interface Certificate {
  /** PEM, its chain included. */
  readonly cert: string;
  /** PEM. */
  readonly key: string;
}

export interface CertificateKeeper {
  /** The one in force. */
  current(): Certificate;
  /** When it ends, ms. */
  expiresAt(): number;
  /** Calls `take` with every later one. */
  onRenewal(take: (certificate: Certificate) => void): void;
  /** Takes over what has changed in the files. */
  look(): Promise<void>;
}

/**
 * Reads both, and that they belong together; a text that is PEM itself, such as a credential, is taken as it is. Throws
 * UserError where they cannot be used.
 */
export async function readCertificate(files: Certificate): Promise<Certificate> {
  const certificate = { cert: await textOf('cert', files.cert), key: await textOf('key', files.key) };
  try {
    createSecureContext(certificate);
  } catch (error) {
    throw new UserError(`tls.files: this certificate and key cannot be used: ${messageOf(error)}`, { cause: error });
  }
  return certificate;
}

/** Whether it is the certificate or key itself, and not the name of its file. */
export function isPem(text: string): boolean {
  return text.startsWith('-----BEGIN ');
}

async function textOf(name: string, file: string): Promise<string> {
  if (isPem(file)) return file;
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    throw new UserError(`tls.files.${name}: cannot read ${file}: ${messageOf(error)}`, { cause: error });
  }
}

/** Keeps the certificate that was read first; `files` names them as of now. */
export function keepCertificate(
  first: Certificate,
  { log, files }: { readonly log: Log; readonly files: () => Certificate | null },
): CertificateKeeper {
  const takers: ((certificate: Certificate) => void)[] = [];
  let current = first;
  let reported = '';
  return {
    current: () => current,
    expiresAt: () => new X509Certificate(current.cert).validToDate.getTime(),
    onRenewal: (take) => void takers.push(take),
    async look() {
      const where = files();
      if (where === null) return;
      try {
        const found = await readCertificate(where);
        reported = '';
        if (found.cert === current.cert && found.key === current.key) return;
        current = found;
        for (const take of takers) take(found);
        log.info('tls.renewed', { cert: isPem(where.cert) ? 'inline' : where.cert });
      } catch (error) {
        if (messageOf(error) !== reported) log.error('tls.not_renewed', errorFields(error));
        reported = messageOf(error);
      }
    },
  };
}
