/** `postern domains …`: the DNS records that a domain needs, and whether they stand. */
import { z } from 'zod';
import { RequestRefused, type Client } from './client.ts';
import { isConfirmed } from './confirm.ts';
import { domainPath, domainShape, everyDomain, type Domain } from './domain-shapes.ts';
import { domainSentence, isStanding, recordSentence, recordText, requiredCount } from './domain-words.ts';
import { writeTable } from './list.ts';
import { poll } from './poll.ts';
import { EXIT, run, shortTime, writeJson, type CommandOptions } from './run.ts';
import type { Terminal } from './terminal.ts';
import { zoneText } from './zone-file.ts';

/** Between two looks at DNS, ms. */
const SLOWEST_LOOK = 30_000;

/** Prints the records to add, with what stands there today. Answers the exit code, as all of these do. */
export function domainsSetup(options: CommandOptions, name: string, { zone }: { zone: boolean }): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await lookedAt(client, name);
    if (json) return writeJson(terminal, data);
    const domain = domainShape.parse(data);
    if (zone) return terminal.write(zoneText(domain));
    writeDomain(terminal, domain);
    if (domain.records.every(isStanding)) return;
    terminal.write(
      `\nPublish what does not stand where the DNS of ${name} is kept; then: postern domains verify ${name} --wait\n`,
    );
  });
}

/** What DNS says now; what it said last where the key may see domains and no more. */
async function lookedAt(client: Client, name: string): Promise<unknown> {
  try {
    return await explaining(name, () => client.post(`${domainPath(name)}/verify`));
  } catch (error) {
    if (error instanceof RequestRefused && error.refused.code === 'AUTH_FORBIDDEN') return client.get(domainPath(name));
    throw error;
  }
}

/** Does the work; a domain that is not there is refused with what to do first. */
async function explaining(name: string, work: () => Promise<unknown>): Promise<unknown> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof RequestRefused) || error.refused.code !== 'DOMAIN_NOT_FOUND') throw error;
    const how = `Declare it in postern.yml and postern push, or add it: postern domains add ${name} --project <project>.`;
    throw new RequestRefused(`${error.message} ${how}`, error.refused);
  }
}

export interface VerifyOptions {
  /** Looks again until the records stand. */
  readonly wait: boolean;
  /** For how long, s. */
  readonly timeout: number;
}

/** Looks whether the records stand: exit code 1 where they do not. */
export function domainsVerify(
  options: CommandOptions,
  name: string,
  { wait, timeout }: VerifyOptions,
): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await poll({
      ask: () => explaining(name, () => client.post(`${domainPath(name)}/verify`)),
      isDone: (answer) => !wait || isVerified(domainShape.parse(answer)),
      onWait: (answer, left) => terminal.progress(`${waitingFor(domainShape.parse(answer))} (${left} s left)`),
      patience: wait ? timeout * 1000 : 0,
      slowest: SLOWEST_LOOK,
    });
    terminal.progress('');
    const domain = domainShape.parse(data);
    if (json) writeJson(terminal, data);
    else writeVerdict(terminal, domain);
    return isVerified(domain) ? EXIT.done : EXIT.failed;
  });
}

/** A degraded one still sends, but not for long. */
function isVerified({ status }: Domain): boolean {
  return status === 'verified';
}

function waitingFor({ records }: Domain): string {
  const lacking = records.filter((record) => record.required && !isStanding(record));
  return lacking.map(recordSentence)[0] ?? 'Waiting';
}

function writeVerdict({ write, style }: Terminal, domain: Domain): void {
  const verified = isVerified(domain);
  write(`${style(verified ? 'green' : 'red', domainSentence(domain))}\n`);
  const lacking = domain.records.filter((record) => !isStanding(record));
  for (const record of lacking) write(`  ${record.required ? '' : 'advised: '}${recordSentence(record)}\n`);
  if (lacking.length > 0) write(`postern domains setup ${domain.domain} shows what to publish.\n`);
  if (domain.reason) write(`${domain.domain} stays pending: it is ${domain.reason}.\n`);
}

/** A line for each domain, as the last check found it. */
export function domainsStatus(options: CommandOptions): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const domains = await everyDomain(client);
    if (json) return writeJson(terminal, { domains, count: domains.length });
    if (domains.length === 0) {
      return terminal.write('There is no domain yet: declare one in postern.yml and postern push.\n');
    }
    const rows = domains.map(({ domain, status, project, records, checked_at }) => [
      domain,
      status,
      project,
      requiredCount(records).join(' of '),
      shortTime(checked_at),
    ]);
    writeTable(terminal, { headings: ['DOMAIN', 'STATUS', 'PROJECT', 'REQUIRED RECORDS', 'LOOKED AT'], rows });
  });
}

/** One domain with all of its records, as the last check found them. */
export function domainStatus(options: CommandOptions, name: string): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await explaining(name, () => client.get(domainPath(name)));
    if (json) return writeJson(terminal, data);
    writeDomain(terminal, domainShape.parse(data));
  });
}

function writeDomain({ write, style }: Terminal, domain: Domain): void {
  write(`${domainSentence(domain)}\n`);
  for (const record of domain.records) write(`\n${recordText(record, domain.domain, style)}`);
}

/** Makes an account the owner of a domain. */
export function domainsMove(options: CommandOptions, name: string, tenant: string): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.post(`/admin/domains/${encodeURIComponent(name)}/move`, { tenant });
    if (json) return writeJson(terminal, data);
    const { project, status } = moved.parse(data);
    const next =
      status === 'verified'
        ? 'Its DNS records are correct.'
        : 'Its mail is held until the DNS records of this account are found.';
    terminal.write(`${name} is now owned by ${tenant} (project ${project}). ${next}\n`);
  });
}

const moved = z.object({ project: z.string(), status: z.string() });

/** Adds a domain to a project. */
export function domainsAdd(options: CommandOptions, name: string, project: string): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.post('/domains', { domain: name, project });
    if (json) return writeJson(terminal, data);
    const { domain, status } = domainShape.parse(data);
    terminal.write(
      `${domain} is ${status} in ${project}. postern domains setup ${domain} shows the DNS records that it needs.\n`,
    );
  });
}

/** Takes a domain out of service, once somebody agrees. */
export function domainsRemove(options: CommandOptions, name: string, { yes }: { yes: boolean }): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const { status } = domainShape.parse(await client.get(domainPath(name)));
    // Nothing that is pending has ever sent, or it is another account's now.
    const sends = status !== 'pending';
    const waiting = sends ? 'Mail that waits is still signed and sent, new mail' : 'New mail';
    const question = `Take ${name} out of service? ${waiting} and posts are refused.`;
    if (!(await isConfirmed(terminal, question, yes))) return EXIT.failed;
    const data = await client.delete(domainPath(name));
    if (json) return writeJson(terminal, data);
    const records = sends
      ? 'Leave its DKIM records in DNS until the mail that waits has gone; its other records may go.'
      : 'Its DNS records may go.';
    terminal.write(`${name} is out of service. ${records}\n`);
  });
}
