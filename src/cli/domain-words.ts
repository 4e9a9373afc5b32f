/** What a domain has to publish and what of it stands, in words and in rows that can be copied into any DNS console. */
import type { DnsRecord, Domain } from './domain-shapes.ts';
import { shortTime } from './run.ts';
import { printable } from './table.ts';
import type { Terminal } from './terminal.ts';
import { TTL } from './zone-file.ts';

type Style = Terminal['style'];

const PURPOSES: ReadonlyMap<string, string> = new Map([
  ['ownership', 'Ownership'],
  ['dkim', 'DKIM key'],
  ['spf', 'SPF'],
  ['dmarc', 'DMARC'],
  ['inbound', 'Mail exchanger'],
  ['mta_sts', 'MTA-STS'],
  ['tlsrpt', 'TLS reports'],
]);

const STATUSES: ReadonlyMap<string, string> = new Map([
  ['ok', 'stands'],
  ['missing', 'is missing'],
  ['wrong', 'is not right'],
  ['duplicate', 'stands more than once'],
  ['unknown', 'is not known yet'],
]);

/** `example.com is pending: 1 of 2 required records stand (looked at 2026-01-31T12:00:00Z).` */
export function domainSentence({ domain, status, checked_at: at, records }: Domain): string {
  const looked = at === null ? 'never looked at' : `looked at ${shortTime(at)}`;
  const [standing, needed] = requiredCount(records);
  return `${domain} is ${status}: ${standing} of ${needed} required records stand (${looked}).`;
}

/** How many of the required records stand, and how many there are. */
export function requiredCount(records: readonly DnsRecord[]): readonly [number, number] {
  const required = records.filter((record) => record.required);
  return [required.filter(isStanding).length, required.length];
}

/** Whether it is as it should be. */
export function isStanding({ status }: DnsRecord): boolean {
  return status === 'ok';
}

/** `DKIM key postern._domainkey.example.com is missing: There is no such record yet.` */
export function recordSentence(record: DnsRecord): string {
  return printable(
    `${purposeOf(record)} ${record.name} ${statusOf(record)}${record.problem ? `: ${record.problem}` : ''}`,
  );
}

/** All of a record: how it was found, and what to enter where it does not stand. */
export function recordText(record: DnsRecord, domain: string, style: Style): string {
  const { required, found, problem, note } = record;
  const colour = isStanding(record) ? 'green' : required ? 'red' : 'yellow';
  const head = `${style('bold', purposeOf(record))}${required ? '' : ' (advised)'} ${style(colour, statusOf(record))}`;
  const explained = [problem, note].flatMap((words) => (words ? [`  ${printable(words)}`] : []));
  if (isStanding(record)) return lines([`${head}  ${printable(record.name)}`, ...explained]);
  return lines([
    head,
    ...explained,
    ...found.map((text) => `  found  ${printable(text)}`),
    `  type   ${printable(record.type)}`,
    `  name   ${printable(relativeName(record.name, domain))}   (in full ${printable(record.name)})`,
    ...(record.value === '' ? [] : [`  value  ${printable(record.value)}`, `  TTL    ${TTL}`]),
    ...(record.value === '' && record.status === 'unknown'
      ? ['  Publish nothing here before it is known: ask again.']
      : []),
  ]);
}

function lines(all: readonly string[]): string {
  return all.map((line) => `${line}\n`).join('');
}

function purposeOf({ purpose }: DnsRecord): string {
  return PURPOSES.get(purpose) ?? purpose;
}

function statusOf({ status }: DnsRecord): string {
  return STATUSES.get(status) ?? status;
}

/** As consoles take it that add the domain by themselves. */
function relativeName(name: string, domain: string): string {
  return name === domain ? '@' : name.endsWith(`.${domain}`) ? name.slice(0, -domain.length - 1) : name;
}
