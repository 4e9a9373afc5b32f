/** Certificates for servers on loopback, and their renewal. */
import { selfSignedCertificate } from '../../src/lib/x509.ts';
import { keepCertificate, type Certificate, type CertificateKeeper } from '../../src/lib/certificate.ts';
import { silentLog } from '../../src/lib/log.ts';

export interface KeptCertificate {
  readonly keeper: CertificateKeeper;
  /** Puts another one into its place. */
  renew(next: Certificate): Promise<void>;
}

/** A certificate for this name that somebody renews. */
export function keptCertificate(name: string): KeptCertificate {
  let files: Certificate = selfSignedCertificate([name], Date.now());
  const keeper = keepCertificate(files, { log: silentLog, files: () => files });
  return {
    keeper,
    renew(next) {
      files = next;
      return keeper.look();
    },
  };
}
