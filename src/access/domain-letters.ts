/** What the owner of a domain and the operator are told when its records break, and when its mail is held for that. */
import type { Domain, Snapshot } from '../config/snapshot.ts';
import type { CheckedRecord } from '../dns/check.ts';
import { parseAddress } from '../lib/addresses.ts';
import { OPERATOR } from '../store/revisions.ts';
import { findTenant } from '../store/tenants.ts';
import type { Store } from '../store/store.ts';

export interface Letter {
  readonly tenant: string;
  readonly to: string;
  readonly subject: string;
  readonly text: string;
}

export interface Broken {
  readonly domain: Domain;
  readonly status: 'degraded' | 'failed';
  readonly records: readonly CheckedRecord[];
}

/** One letter to the owner (`project.owner`, else the tenant's address) and one to the operator, who may be the same. */
export async function lettersAbout(broken: Broken, store: Store, { server }: Snapshot): Promise<Letter[]> {
  const { project } = broken.domain;
  const owner = project.config.project.owner ?? (await findTenant(store, project.tenant))?.email;
  const { operator } = server.server;
  const words = wordsFor(broken, server.dns.grace);
  return [
    ...(owner === undefined || owner === operator || parseAddress(owner) === undefined
      ? []
      : [{ ...words, tenant: project.tenant, to: owner }]),
    { ...words, tenant: OPERATOR, to: operator },
  ];
}

const HOUR = 3_600_000;

function wordsFor({ domain, status, records }: Broken, grace: number): Pick<Letter, 'subject' | 'text'> {
  const { name } = domain;
  const wrong = records.filter((record) => record.required && record.status !== 'ok').map(describe);
  const list = `These records are not as they must be:\n\n${wrong.join('\n\n')}\n`;
  if (status === 'degraded') {
    const hours = Math.round(grace / HOUR);
    return {
      subject: `The DNS records of ${name} are no longer right`,
      text: `${list}\nNothing is lost: ${name} goes on working for ${hours} hours from now. Please put the records right within that time; after it, mail of ${name} is held until they are.\n`,
    };
  }
  return {
    subject: `Mail of ${name} is held: its DNS records are wrong`,
    text: `${list}\nThe forms of ${name} still accept what visitors send, and nothing of it is lost: the mail waits, and goes out as soon as the records are right again.\n`,
  };
}

function describe({ type, name, value, found, problem }: CheckedRecord): string {
  const stands = found.length === 0 ? '' : `\n  Found:    ${found.join('\n            ')}`;
  return `  ${type} ${name}\n  Expected: ${value}${stands}${problem === undefined ? '' : `\n  ${problem}`}`;
}
