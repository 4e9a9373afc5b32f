/** Whether a domain is verified, and which keys sign for it. */
import type { DomainReport } from '../domains/domains.ts';
import { isoTime } from '../lib/clock.ts';
import { type ExplainParts, passes, stops, warns, type Step } from './steps.ts';

/** What DNS has said of a tenant's domain, and what follows for its mail. */
export async function domainStep(name: string, tenant: string, { domains }: ExplainParts): Promise<Step> {
  const report = await domains.report(name, tenant);
  if (report === undefined) return stops('domain', `${name} is not configured`, 'no project claims it');
  const found = `${name} of the project ${report.project} is ${report.status}`;
  switch (report.status) {
    case 'verified': {
      const at = report.checkedAt === null ? 'never' : isoTime(report.checkedAt);
      return passes('domain', found, `its required records were found at the last check, ${at}`);
    }
    case 'degraded':
      return warns('domain', found, `it works until dns.grace ends, but ${wrongRecords(report)}`);
    case 'failed':
      return stops('domain', found, `its mail waits, and incoming mail is deferred: ${wrongRecords(report)}`);
    case 'pending':
      return stops(
        'domain',
        found,
        `its forms answer 403 and incoming mail is deferred until its records are found: ${wrongRecords(report)}`,
      );
  }
}

/** Whether mail for the domain comes here at all. */
export async function mxStep(name: string, tenant: string, { domains }: ExplainParts): Promise<Step> {
  const report = await domains.report(name, tenant);
  const mx = report?.records.find(({ purpose }) => purpose === 'inbound');
  if (mx === undefined)
    return passes('mx', 'it receives no mail here', 'neither forwarding nor reply_relay is configured');
  const found = mx.found.length === 0 ? `${name} has no MX record` : `the MX of ${name}: ${mx.found.join(', ')}`;
  return mx.status === 'ok'
    ? passes('mx', found, 'mail for it comes here')
    : warns('mx', found, mx.problem ?? 'not checked yet');
}

function wrongRecords({ records }: DomainReport): string {
  const wrong = records.filter(({ required, status }) => required && status !== 'ok');
  if (wrong.length === 0) return 'its required records are being determined';
  return wrong
    .map(
      ({ type, name, status, problem }) =>
        `${type} ${name} is ${status}${problem === undefined ? '' : ` (${problem})`}`,
    )
    .join('; ');
}

/** Which keys sign mail of the tenant that is from `domain`. */
export async function dkimStep(domain: string, tenant: string, parts: ExplainParts): Promise<Step> {
  const { keysOf, domains, snapshot } = parts;
  const keys = await keysOf(domain, tenant);
  if (keys.length === 0) {
    return stops('dkim', `no key signs for ${domain}`, 'the domain has never been verified: mail waits');
  }
  const names = keys.map(({ selector, algorithm }) => `${selector}._domainkey.${domain} (${algorithm})`);
  const found = `signed by ${names.join(' and ')}`;
  const isHost = domain === snapshot().server.server.hostname;
  const report = isHost ? undefined : await domains.report(domain, tenant);
  const wrong = report?.records.find(
    ({ purpose, required, status }) => purpose === 'dkim' && required && status !== 'ok',
  );
  if (wrong !== undefined) {
    return warns('dkim', found, `but ${wrong.name} is ${wrong.status} in DNS: receivers cannot verify that signature`);
  }
  return passes(
    'dkim',
    found,
    isHost ? 'the server has a key of its own' : 'its record was right when DNS was last asked',
  );
}
