/** What the owner of a domain and the operator are told when its records break and when its mail is held. */
import type { Snapshot } from '../config/snapshot.ts';
import type { Project } from '../config/forms.ts';
import type { CheckedRecord } from '../dns/check.ts';
import { parseAddress } from '../lib/addresses.ts';
import { OPERATOR, findTenant } from '../store/tenants.ts';
import type { Letter } from '../accounts/consent.ts';

import type { Store } from '../store/store.ts';

export interface Broken {
  readonly name: string;
  readonly tenant: string;
  readonly project: Project;
  readonly status: 'degraded' | 'failed';
  readonly records: readonly CheckedRecord[];
}

/** One letter to the owner (`project.owner`, else the tenant's address) and one to the operator, who may be the same. */
export async function lettersAbout(broken: Broken, store: Store, { server }: Snapshot): Promise<Letter[]> {
  const { tenant, project } = broken;
  const owner = project.config.project.owner ?? (await findTenant(store, tenant))?.email;
  const { operator } = server.server;
  const words = wordsFor(broken, server.dns.grace);
  return [
    ...(owner === undefined || owner === operator || parseAddress(owner) === undefined
      ? []
      : [{ ...words, tenant, to: owner }]),
    { ...words, tenant: OPERATOR, to: operator },
  ];
}

const HOUR = 3_600_000;

function wordsFor({ name, status, records }: Broken, grace: number): Pick<Letter, 'subject' | 'text'> {
  const wrong = records.filter((record) => record.required && record.status !== 'ok').map(describe);
  const list = `These records are not as they must be:\n\n${wrong.join('\n\n')}\n`;
  switch (status) {
    case 'degraded':
      return {
        subject: `The DNS records of ${name} are no longer right`,
        text: `${list}\nNothing is lost: ${name} goes on working for ${Math.round(grace / HOUR)} hours from now. Please put the records right within that time; after it, mail of ${name} is held until they are.\n`,
      };
    case 'failed':
      return {
        subject: `Mail of ${name} is held: its DNS records are wrong`,
        text: `${list}\nThe forms of ${name} still accept what visitors send, and nothing of it is lost: the mail waits, and goes out as soon as the records are right again.\n`,
      };
  }
}

function describe({ type, name, value, found, problem }: CheckedRecord): string {
  const stands = found.length === 0 ? '' : `\n  Found:    ${found.join('\n            ')}`;
  return `  ${type} ${name}\n  Expected: ${value}${stands}${problem === undefined ? '' : `\n  ${problem}`}`;
}
