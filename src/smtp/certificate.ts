/** The certificate that STARTTLS shows, from the operator's files, which somebody else renews. */
import { readFile } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import { UserError, errorFields, messageOf } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';

export interface Certificate {
  /** PEM, its chain included. */
  readonly cert: string;
  /** PEM. */
  readonly key: string;
}

/** Where they are; a text that is PEM itself, such as a credential, is taken as it is. */
export type CertificateFiles = Certificate;

/** Reads both, and that they belong together. Throws UserError where they cannot be used. */
export async function readCertificate(files: CertificateFiles): Promise<Certificate> {
  const certificate = { cert: await textOf('cert', files.cert), key: await textOf('key', files.key) };
  try {
    createSecureContext(certificate);
  } catch (error) {
    throw new UserError(`tls.files: this certificate and key cannot be used: ${messageOf(error)}`, { cause: error });
  }
  return certificate;
}

async function textOf(name: string, file: string): Promise<string> {
  if (file.startsWith('-----BEGIN ')) return file;
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    throw new UserError(`tls.files.${name}: cannot read ${file}: ${messageOf(error)}`, { cause: error });
  }
}

export interface RenewParts {
  readonly log: Log;
  readonly files: () => CertificateFiles | null;
  readonly renew: (certificate: Certificate) => void;
}

/** A job that takes over what has changed in the files; what cannot be used is reported once, and the last good one stays. */
export function renewCertificate(first: Certificate, { log, files, renew }: RenewParts): () => Promise<void> {
  let current = first;
  let reported = '';
  return async () => {
    const where = files();
    if (where === null) return;
    try {
      const found = await readCertificate(where);
      reported = '';
      if (found.cert === current.cert && found.key === current.key) return;
      current = found;
      renew(found);
      log.info('tls.renewed', { cert: where.cert.startsWith('-----') ? 'inline' : where.cert });
    } catch (error) {
      if (messageOf(error) !== reported) log.error('tls.not_renewed', errorFields(error));
      reported = messageOf(error);
    }
  };
}
