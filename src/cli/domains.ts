/** `postern domains …`: the domains of the account, their DNS records and the rotation of DKIM keys. */
import { Option } from 'commander';
import { adminDomains, domains as routes, hostKeys } from '../contract/domains.ts';
import type { AnswerOf } from '../contract/route.ts';
import { printable } from '../lib/printable.ts';
import { zoneText } from '../lib/zone-file.ts';
import { RequestRefused, UsageError, type Answered, type Call, type Client } from './client.ts';
import { timeoutOption, type CliCommand } from './command.ts';
import {
  domainSentence,
  everyDomain,
  isCorrect,
  recordSentence,
  recordText,
  requiredCount,
  type Domain,
} from './dns-records.ts';
import { counted, listing, print, shortTime, showing, table, writeJson, writeTable, type Columns } from './output.ts';
import { EXIT, isConfirmed, poll, type Api } from './run.ts';
import type { Terminal } from './terminal.ts';
import { domainName } from './values.ts';

const DOMAIN = ['<domain>', 'Domain, such as example.com', domainName] as const;

/** Adds `domains …`. */
export function addCommands(program: CliCommand): void {
  const domains = program.command('domains').description('Manage domains and their DNS records');
  domains
    .command('setup')
    .argument(...DOMAIN)
    .description('Show the DNS records to add and the records found')
    .addOption(new Option('--zone', 'Print a BIND zone file').default(false).conflicts('json'))
    .example('domains setup example.com --zone >> example.com.zone', 'Add the records to your own zone file')
    .account(setup);
  domains
    .command('verify')
    .argument(...DOMAIN)
    .description('Check the DNS records. Exits with 1 if a required record is missing or wrong')
    .option('--wait', 'Repeat the check until all required records are found', false)
    .addOption(timeoutOption().default(600).implies({ wait: true }))
    .example('domains verify example.com --wait', 'Wait for new records to appear in DNS')
    .account(verify);
  domains
    .command('rotate-dkim')
    .argument('[domain]', 'Domain, such as example.com', domainName)
    .description('Create the next DKIM key and show its DNS record. The key is used once the record is found')
    .option('--host', 'Rotate the DKIM key of the server itself (operator only)', false)
    .option('--wait', 'Wait until the new key is used', false)
    .addOption(timeoutOption().default(600).implies({ wait: true }))
    .example('domains rotate-dkim example.com --wait', 'The current key stays in use until the new record is found')
    .account(rotateDkim);
  domains
    .command('status')
    .argument('[domain]', 'Show all records of this domain (default: a summary of all domains)', domainName)
    .description('Show the result of the last DNS check')
    .account(status);
  domains
    .command('reports')
    .argument(...DOMAIN)
    .timeRange()
    .description('Show who sent mail using a domain, and TLS failures, as reported by receivers')
    .example('domains reports example.com --from 2026-01-01', 'All reports since a date')
    .account(showing(routes.reports, writeReports));
  domains
    .command('add')
    .argument(...DOMAIN)
    .description('Add a domain to the configuration of a project')
    .requiredOption('--project <project>', 'Slug of the project')
    .account((api, domain: string, { project }: { project: string }) =>
      print(api, { route: routes.create, body: { domain, project } }, (added) =>
        api.terminal.write(
          `Added ${added.domain} to ${project} (${added.status}). To see the DNS records to add, run: postern domains setup ${added.domain}\n`,
        ),
      ),
    );
  domains
    .command('remove')
    .argument(...DOMAIN)
    .description('Remove a domain from the configuration of its project')
    .confirmed()
    .account(remove);
  domains
    .command('list')
    .description('List the domains of all accounts by name (operator only)')
    .option('--tenant <id>', 'Only this account')
    .choice('--status <status>', 'Only this status', ['pending', 'verified', 'degraded', 'failed'])
    .pages()
    .example('domains list --status failed', 'Domains whose mail is held')
    .operator(
      listing(adminDomains.list, {
        rows: ({ domains }) => domains,
        columns: {
          DOMAIN: 'domain',
          STATUS: 'status',
          ACCOUNT: 'tenant',
          PROJECT: 'project',
          'LAST CHECK': 'checked_at',
          'BROKEN SINCE': 'broken_at',
        },
        nothing: 'No matching domains.',
      }),
    );
  domains
    .command('move')
    .argument(...DOMAIN)
    .argument('<account>', 'ID of the new owner (ten_…)')
    .description('Make another account the owner of a domain (operator only)')
    .example('domains move example.com ten_01jb2x7k3m9q4v8w5t6r0y1z2a', 'The account must have the domain in a project')
    .operator((api, domain: string, tenant: string) =>
      print(api, { route: adminDomains.move, params: { domain }, body: { tenant } }, (moved) => {
        const next =
          moved.status === 'verified'
            ? 'Its DNS records are correct.'
            : 'Its mail is held until the DNS records of this account are found.';
        api.terminal.write(`${domain} is now owned by ${tenant} (project ${moved.project}). ${next}\n`);
      }),
    );
}

/** Prints the records to add and the records found. */
async function setup({ client, terminal, json }: Api, name: string, { zone }: { zone: boolean }): Promise<void> {
  const { data, read } = await currentRecords(client, name);
  if (json) return writeJson(terminal, data);
  const domain = read();
  if (zone) return terminal.write(zoneText(domain));
  writeDomain(terminal, domain);
  if (domain.records.every(isCorrect)) return;
  terminal.write(`\nAdd the missing records at your DNS provider, then run: postern domains verify ${name} --wait\n`);
}

/** What DNS says now; the result of the last check if the key may only read domains. */
async function currentRecords(client: Client, name: string): Promise<Answered<Domain>> {
  try {
    return await askDomain(client, 'verify', name);
  } catch (error) {
    if (error instanceof RequestRefused && error.refused.code === 'AUTH_FORBIDDEN')
      return client.ask({ route: routes.show, params: { domain: name } });
    throw error;
  }
}

/** Asks for a domain; one that does not exist is refused with what to do first. */
async function askDomain(client: Client, route: 'show' | 'verify', name: string): Promise<Answered<Domain>> {
  try {
    return await client.ask({ route: routes[route], params: { domain: name } });
  } catch (error) {
    if (!(error instanceof RequestRefused) || error.refused.code !== 'DOMAIN_NOT_FOUND') throw error;
    const how = `Add it to postern.yml and run postern push, or run: postern domains add ${name} --project <project>`;
    throw new RequestRefused(`${error.message} ${how}`, error.refused);
  }
}

interface Waiting {
  /** Repeat the check until it succeeds. */
  readonly wait: boolean;
  /** For how long, s. */
  readonly timeout: number;
}

/** Checks the records; exit code 1 if a required one is missing or wrong. */
async function verify({ client, terminal, json }: Api, name: string, { wait, timeout }: Waiting): Promise<number> {
  const { data, read } = await poll({
    ask: () => askDomain(client, 'verify', name),
    isDone: (answer) => !wait || isVerified(answer.read()),
    onWait(answer, left) {
      const missing = answer.read().records.find((record) => record.required && !isCorrect(record));
      terminal.progress(`${missing === undefined ? 'Waiting' : recordSentence(missing)} (${left} s left)`);
    },
    timeoutMs: wait ? timeout * 1000 : 0,
    maxIntervalMs: 30_000,
  });
  terminal.progress('');
  const domain = read();
  if (json) writeJson(terminal, data);
  else writeResult(terminal, domain);
  return isVerified(domain) ? EXIT.done : EXIT.failed;
}

/** A degraded one still sends, but not for long. */
function isVerified(domain: Domain): boolean {
  return domain.status === 'verified';
}

function writeResult({ write, style }: Terminal, domain: Domain): void {
  write(`${style(isVerified(domain) ? 'green' : 'red', domainSentence(domain))}\n`);
  const missing = domain.records.filter((record) => !isCorrect(record));
  for (const record of missing) write(`  ${record.required ? '' : 'recommended: '}${recordSentence(record)}\n`);
  if (missing.length > 0) write(`To see the records to add, run: postern domains setup ${domain.domain}\n`);
  if (domain.reason) write(`${domain.domain} stays pending: it is ${domain.reason}.\n`);
}

/** One domain with all of its records, or a line for each domain, as the last check found them. */
async function status({ client, terminal, json }: Api, name: string | undefined): Promise<void> {
  if (name !== undefined) {
    const { data, read } = await askDomain(client, 'show', name);
    return json ? writeJson(terminal, data) : writeDomain(terminal, read());
  }
  const domains = await everyDomain(client);
  if (json) return writeJson(terminal, { domains, count: domains.length });
  if (domains.length === 0) return terminal.write('No domains found. Add one to postern.yml and run postern push.\n');
  const columns = {
    DOMAIN: 'domain',
    STATUS: 'status',
    PROJECT: 'project',
    'REQUIRED RECORDS': ({ records }: Domain) => requiredCount(records).join(' of '),
    'LAST CHECK': 'checked_at',
  } as const;
  writeTable(terminal, columns, domains);
}

function writeDomain({ write, style }: Terminal, domain: Domain): void {
  write(`${domainSentence(domain)}\n`);
  for (const record of domain.records) write(`\n${recordText(record, domain.domain, style)}`);
}

/** Removes a domain after confirmation. */
async function remove(api: Api, domain: string, { yes }: { yes: boolean }): Promise<number | void> {
  const { client, terminal } = api;
  const found = await client.call({ route: routes.show, params: { domain } });
  // Nothing that is pending has ever sent, or it is another account's now.
  const sends = found.status !== 'pending';
  const effect = `${sends ? 'Queued mail is still signed and sent. ' : ''}New mail and submissions are rejected.`;
  if (!(await isConfirmed(terminal, `Remove ${domain}? ${effect}`, yes))) return EXIT.failed;
  return print(api, { route: routes.remove, params: { domain } }, () => {
    const records = sends
      ? 'Keep its DKIM records in DNS until the queued mail has been delivered. You can delete its other records now.'
      : 'You can delete its DNS records now.';
    terminal.write(`Removed ${domain}. ${records}\n`);
  });
}

type Key = AnswerOf<typeof hostKeys.rotate>['keys'][number];
type KeysRoute = Call<string, { readonly keys: readonly Key[] }>['route'];

/** Creates the next keys, or shows those that wait already. Answers 1 if they do not sign when the time to wait is over. */
async function rotateDkim(
  { client, terminal, json }: Api,
  domain: string | undefined,
  { host, wait, timeout }: Waiting & { host: boolean },
): Promise<number | void> {
  if (host === (domain !== undefined))
    throw new UsageError('Specify a domain, or --host for the DKIM key of the server itself.');
  const rotation: KeysRoute = host ? hostKeys.rotate : routes.rotateDkim;
  const check: KeysRoute = host ? hostKeys.verify : routes.verify;
  const params = domain === undefined ? {} : { domain };
  const asked = await client.ask({ route: rotation, params });
  if (!json) writeNext(terminal, nextOf(asked));
  if (!wait) return json ? writeJson(terminal, asked.data) : terminal.write(NEXT_STEP);
  const answer = await poll({
    ask: () => client.ask({ route: check, params }),
    isDone: (found) => nextOf(found).length === 0,
    onWait: (found, left) =>
      terminal.progress(`Waiting for ${nextOf(found)[0]?.record.name ?? 'the record'} (${left} s left)`),
    timeoutMs: timeout * 1000,
    maxIntervalMs: 15_000,
  });
  terminal.progress('');
  const isDone = nextOf(answer).length === 0;
  if (json) writeJson(terminal, answer.data);
  else writeKeys(terminal, answer.read().keys, isDone);
  return isDone ? EXIT.done : EXIT.failed;
}

function nextOf({ read }: Answered<{ readonly keys: readonly Key[] }>): readonly Key[] {
  return read().keys.filter(({ state }) => state === 'next');
}

const NEXT_STEP = `
The current key stays in use until the new record is found. The daemon checks every
20 seconds at first. To wait, run the same command with --wait.
`;

function writeNext({ write, style }: Terminal, next: readonly Key[]): void {
  write(`Add ${next.length === 1 ? 'this DNS record' : 'these DNS records'}, and keep the existing ones:\n`);
  for (const { record, algorithm } of next) {
    write(`\n${style('bold', `DKIM key (${algorithm})`)}\n`);
    for (const [name, value] of Object.entries(record)) write(`  ${name.padEnd(5)}  ${printable(value)}\n`);
  }
}

function writeKeys({ write, style }: Terminal, keys: readonly Key[], isDone: boolean): void {
  write(
    isDone
      ? `\n${style('green', 'Record found. The new key signs all mail within one minute.')}\n`
      : `\n${style('red', 'Record not found yet.')} The current key stays in use. The daemon keeps checking.\n`,
  );
  for (const { selector, state, since, record, advice } of keys)
    write(`\n${selector}  ${state} since ${shortTime(since)}\n  ${printable(record.name)}\n  ${printable(advice)}\n`);
}

// `postern domains reports`: who sent mail in the name of a domain, and TLS failures of mail to it.

type Reports = AnswerOf<typeof routes.reports>;
type Source = Reports['sources'][number];
type TlsResult = Reports['tls']['results'][number];

/** Writes the reports of a domain: mail in its name, then TLS connections to it. */
function writeReports(reports: Reports, terminal: Terminal): void {
  const { domain, messages, passed, sources, tls, reporters } = reports;
  const { write, writeError, style, width } = terminal;
  const days = `${reports.from.slice(0, 10)} to ${dayBefore(reports.to)}`;
  // What other programs read is one table.
  if (width === undefined) {
    if (reporters.length === 0) return writeError(nothing(domain, days));
    return writeTable(terminal, SOURCES, sources);
  }
  if (reporters.length === 0) return write(nothing(domain, days));
  write(`${style('bold', `Mail from ${domain}`)}, ${days}: ${shareText(messages, passed, 'passed DMARC')}\n`);
  if (sources.length > 0) {
    write('\n');
    writeTable(terminal, SOURCES, sources);
  }
  const foreign = sources.filter((row) => !row.this_server && !hasPassed(row));
  if (foreign.length > 0)
    write(
      `\nMail that failed is forged, or from a service that is not set up for\n${domain}: add the service to SPF, or have it sign with DKIM.\n`,
    );
  write(
    `\n${style('bold', `TLS connections to ${domain}`)}: ${shareText(tls.sessions, tls.sessions - tls.failures, 'succeeded')}\n`,
  );
  if (tls.results.length > 0) {
    write('\n');
    writeTable(terminal, TLS, tls.results);
  }
  write(`\n${style('bold', 'Reported by')}\n`);
  const rows = reporters.map(({ reporter, kind, reports: count }) => [
    `  ${printable(reporter)}`,
    counted(count, kind === 'dmarc' ? 'DMARC report' : 'TLS report'),
  ]);
  write(table(['', ''], rows, width).split('\n').slice(1).join('\n'));
}

const SOURCES: Columns<Source> = {
  SOURCE: ({ source, this_server: own }) => `${source === '' ? 'other' : source}${own ? ' (this server)' : ''}`,
  COUNT: 'messages',
  DMARC: (row) => (hasPassed(row) ? 'pass' : 'fail'),
  ACTION: ({ disposition }) => (disposition === 'none' ? 'accepted' : disposition),
  DKIM: ({ dkim }) => RESULTS[dkim],
  SPF: ({ spf }) => RESULTS[spf],
  'OTHER DOMAIN': otherDomains,
};

const TLS: Columns<TlsResult> = {
  RESULT: 'result',
  SESSIONS: 'sessions',
  POLICY: ({ policy }) => POLICIES.get(policy) ?? policy,
  'MAIL SERVER': ({ mx }) => mx || '-',
};

const POLICIES: ReadonlyMap<string, string> = new Map([
  ['sts', 'MTA-STS'],
  ['tlsa', 'DANE'],
  ['no-policy-found', 'none'],
]);

function hasPassed({ dkim, spf }: Pick<Source, 'dkim' | 'spf'>): boolean {
  return dkim === 'aligned' || spf === 'aligned';
}

/** `other`: passed, but for another domain, which is nothing for DMARC. */
const RESULTS = { aligned: 'pass', unaligned: 'other', failed: 'fail', none: '-' } as const;

function otherDomains({ dkim, dkim_domain: signer, spf, spf_domain: sender }: Source): string {
  const names = [...(dkim === 'unaligned' ? [signer] : []), ...(spf === 'unaligned' ? [sender] : [])];
  return [...new Set(names)].join(' ') || '-';
}

/** `1180 of 1200 passed DMARC (98 %)` */
function shareText(all: number, good: number, what: string): string {
  if (all === 0) return 'none reported';
  return `${good} of ${all} ${what} (${Math.floor((good / all) * 100)} %)`;
}

function nothing(domain: string, days: string): string {
  return `No reports about ${domain}, ${days}.\nReceivers send them daily to the address in its DMARC record. To see it, run:\npostern domains setup ${domain}\n`;
}

function dayBefore(end: string): string {
  return new Date(Date.parse(end) - 1).toISOString().slice(0, 10);
}
