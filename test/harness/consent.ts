/** Who has to agree to mail, as the daemon decides it; the letters that ask go into the queue. */
import { createConsent, type Consent, type ConsentParts } from '../../src/accounts/consent.ts';
import { silentLog } from '../../src/lib/log.ts';
import { systemMail } from '../../src/queue/system-mail.ts';

/** Default: it wakes nobody. */
export function testConsent(
  parts: Pick<ConsentParts, 'store' | 'clock' | 'limits' | 'config'> & Partial<ConsentParts>,
): Consent {
  const { config, clock } = parts;
  return createConsent({
    log: silentLog,
    accountMail: (mail) => systemMail(mail, config().server.hostname, clock.now()),
    wake() {},
    ...parts,
  });
}
