/**
 * Backups of the database while the daemon runs. They hold every secret of the server (DKIM keys, and what API keys are
 * checked against), so that they are given over the Unix socket alone.
 */
import type { ConfigSource } from '../../config/source.ts';
import * as contract from '../../contract/server.ts';
import type { Backups, BackupState, NoBackup } from '../../store/backup.ts';
import { json, download } from '../answer.ts';

import { type Refusal, refuse, unavailable } from '../errors.ts';
import { type BodyOf, type Call, implement, type Outcome, type Route } from './route.ts';

export interface BackupsParts {
  readonly backups: Backups;
}

/** `/admin/backup…` */
export function backupsRoutes({ backups }: BackupsParts): Route[] {
  function here<Body>(answer: () => Promise<Outcome<Body>>): (call: Pick<Call, 'exchange'>) => Promise<Outcome<Body>> {
    return ({ exchange }) => (exchange.local ? answer() : Promise.resolve(elsewhere()));
  }

  return implement(contract.backups, {
    begin: here(async () => {
      const refused = await backups.begin();
      return refused === undefined ? json(shown(backups.state())) : refusalOf(refused);
    }),
    show: here(() => Promise.resolve(json(shown(backups.state())))),
    download: here(() => {
      const copy = backups.fetch();
      if (copy === undefined) return Promise.resolve(refuse('NOT_FOUND', { message: 'There is no verified backup.' }));
      const { size, stream } = copy;
      return Promise.resolve(download({ type: 'application/octet-stream', filename: 'postern.db', size, stream }));
    }),
    cancel: here(async () => {
      await backups.drop();
      return json(shown(backups.state()));
    }),
  });
}

/** Not a matter of permissions: no key has this one. */
function elsewhere(): Refusal {
  return refuse('CONFLICT', { message: `${contract.SOCKET_ONLY} Run postern backup on the server itself.` });
}

function shown({ kind: state, ...more }: BackupState): BodyOf<typeof contract.backups.show> {
  return { state, ...more };
}

function refusalOf(refused: NoBackup): Refusal {
  switch (refused.kind) {
    case 'not-sqlite':
      return refuse('CONFLICT', {
        message: 'The database is PostgreSQL, whose own tool makes backups: pg_dump --format=custom --file=FILE URL.',
      });
    case 'running':
      return refuse('CONFLICT', { message: 'A backup is being made already.' });
    case 'no-room':
      return unavailable(
        `The disk of the database has no room for a copy: ${mib(refused.needed)} are needed (limits.free_disk stays free), ${mib(refused.free)} are free.`,
      );
  }
}

function mib(bytes: number): string {
  return `${Math.ceil(bytes / 1024 ** 2)} MiB`;
}

// A look at everything on which mail depends beside the daemon itself.

export interface DoctorParts {
  readonly doctor: (inquiry: { dnsbl: readonly string[]; port25: string | undefined }) => Promise<{
    readonly checks: readonly {
      readonly name: string;
      readonly status: 'ok' | 'warning' | 'failed' | 'unknown';
      readonly found: string;
      readonly advice?: string;
    }[];
    readonly ok: boolean;
  }>;
}

/** `/admin/doctor` */
export function doctorRoutes({ doctor }: DoctorParts): Route[] {
  return implement(contract.doctor, {
    async check({ query: { dnsbl, port25 } }) {
      return json(await doctor({ dnsbl: dnsbl.filter((name) => name !== undefined), port25 }));
    },
  });
}

export interface ConfigCheckParts {
  /** Checks the configuration files as they are on disk. */
  readonly checkConfig: ConfigSource['check'];
}

/** `/admin/config/check` */
export function configCheckRoutes({ checkConfig }: ConfigCheckParts): Route[] {
  return implement(contract.configCheck, { check: async () => json(await checkConfig()) });
}
