/** The DNS records of a domain: as the API answers them, as text to copy into a DNS console, and as a zone file. */
import { domains as routes } from '../contract/domains.ts';
import type { AnswerOf } from '../contract/route.ts';
import { everyPage, type Client } from './client.ts';
import { shortTime } from './output.ts';
import { printable } from '../lib/printable.ts';
import { TTL_SECONDS, type ZoneRecord } from '../lib/zone-file.ts';
import type { Terminal } from './terminal.ts';

type Style = Terminal['style'];

const PURPOSES: ReadonlyMap<string, string> = new Map([
  ['address', 'Address'],
  ['reverse', 'PTR'],
  ['ownership', 'Ownership'],
  ['dkim', 'DKIM'],
  ['spf', 'SPF'],
  ['dmarc', 'DMARC'],
  ['inbound', 'MX'],
  ['mta_sts', 'MTA-STS'],
  ['tlsrpt', 'TLS reports'],
  ['reports', 'DMARC reports about other domains'],
]);

/** `example.com is pending: 1 of 2 required records found (checked 2026-01-31T12:00:00Z).` */
export function domainSentence({ domain, status, checked_at: at, records }: Domain): string {
  const checked = at === null ? 'never checked' : `checked ${shortTime(at)}`;
  const [ok, required] = requiredCount(records);
  return `${domain} is ${status}: ${ok} of ${required} required records found (${checked}).`;
}

/** How many of the required records are right, and how many there are. */
export function requiredCount(records: readonly DnsRecord[]): readonly [number, number] {
  const required = records.filter((record) => record.required);
  return [required.filter(isCorrect).length, required.length];
}

/** Whether DNS has the record as it should be. */
export function isCorrect({ status }: ShownRecord): boolean {
  return status === 'ok';
}

/** `DKIM postern._domainkey.example.com: missing. There is no such record yet.` */
export function recordSentence(record: DnsRecord): string {
  return printable(
    `${purposeOf(record)} ${record.name}: ${statusOf(record)}${record.problem ? `. ${record.problem}` : ''}`,
  );
}

/** All of a record: how it was found, and what to add if it is missing or wrong. */
export function recordText(record: ShownRecord, domain: string, style: Style): string {
  const { required, found, problem, note } = record;
  const colour = isCorrect(record) ? 'green' : required ? 'red' : 'yellow';
  const head = `${style('bold', purposeOf(record))}${required ? '' : ' (recommended)'}: ${style(colour, statusOf(record))}`;
  const explained = [problem, note].flatMap((words) => (words ? [`  ${printable(words)}`] : []));
  if (isCorrect(record)) return lines([`${head}  ${printable(record.name)}`, ...explained]);
  return lines([
    head,
    ...explained,
    ...found.map((text) => `  found  ${printable(text)}`),
    `  type   ${printable(record.type)}`,
    `  name   ${printable(relativeName(record.name, domain))}   (full name: ${printable(record.name)})`,
    ...(record.value === '' ? [] : [`  value  ${printable(record.value)}`, `  TTL    ${TTL_SECONDS}`]),
    ...(record.value === '' && record.status === 'unknown'
      ? ['  The value is not known yet. Do not add this record; run the command again later.']
      : []),
  ]);
}

function lines(all: readonly string[]): string {
  return all.map((line) => `${line}\n`).join('');
}

function purposeOf({ purpose }: ShownRecord): string {
  return PURPOSES.get(purpose) ?? purpose;
}

function statusOf(record: ShownRecord): string {
  return isCorrect(record) ? 'OK' : record.status;
}

/** The name relative to the domain, as DNS consoles want it. */
function relativeName(name: string, domain: string): string {
  return name === domain ? '@' : name.endsWith(`.${domain}`) ? name.slice(0, -domain.length - 1) : name;
}

export type Domain = AnswerOf<typeof routes.show>;
export type DnsRecord = Domain['records'][number];

/** What is shown of a record, of a domain's or of the server's own name. */
export type ShownRecord = ZoneRecord & Pick<DnsRecord, 'required' | 'note'>;

/** All domains of the account, by name. */
export async function everyDomain(client: Client): Promise<Domain[]> {
  return (await everyPage(client, routes.list)).flatMap(({ domains }) => domains);
}
