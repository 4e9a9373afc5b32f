/** The certificate that senders see: the daemon can use it, it is of this host, and it does not end soon. */
import { X509Certificate } from 'node:crypto';
import type { ServerConfig } from '../config/schema.ts';
import { readCertificate } from '../lib/certificate.ts';
import { isoTime, type Clock } from '../lib/clock.ts';
import { messageOf } from '../lib/errors.ts';
import { check, type Check } from './check.ts';

const DAY = 86_400_000;
/** Whoever renews by machine does it earlier. */
const SOON = 14 * DAY;

export async function checkCertificate({ server, tls }: ServerConfig, clock: Clock): Promise<Check[]> {
  const name = 'certificate';
  if (tls.mode === 'off' || tls.files === null) {
    const advice =
      'Name a certificate in tls.files and set tls.mode to files: mail is taken in clear text, and some senders refuse that.';
    const found = tls.files === null ? 'there is none' : 'it is not used: tls.mode is off';
    return [check(name, { status: 'warning', found, advice })];
  }
  let certificate: X509Certificate;
  try {
    certificate = new X509Certificate((await readCertificate(tls.files)).cert);
  } catch (error) {
    const advice = 'See tls.files; until it can be used, the last good certificate goes on.';
    return [check(name, { status: 'failed', found: messageOf(error), advice })];
  }
  const until = Date.parse(certificate.validTo);
  const found = `${certificate.subject.replaceAll('\n', ', ')}, until ${isoTime(until).slice(0, 10)}`;
  const left = until - clock.now();
  if (left <= 0) return [check(name, { status: 'failed', found: `${found}: it has expired`, advice: 'Renew it.' })];
  if (certificate.checkHost(server.hostname) === undefined) {
    const advice = `Have one made that names ${server.hostname}: senders with MTA-STS refuse this one.`;
    return [check(name, { status: 'warning', found: `${found}, not for ${server.hostname}`, advice })];
  }
  const advice = `It ends in ${Math.floor(left / DAY)} days: see whether its renewal works.`;
  return [check(name, { status: left < SOON ? 'warning' : 'ok', found, advice })];
}
