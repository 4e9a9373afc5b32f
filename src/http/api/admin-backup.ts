/**
 * Backups of the database while the daemon runs. They hold every secret of the server (DKIM keys, and what API keys are
 * checked against), so that they are given over the Unix socket alone.
 */
import { z } from 'zod';
import type { BackupState, Backups, NoBackup } from '../../store/backup.ts';
import { json, download } from '../answer.ts';
import { refuse, unavailable, type Refusal } from '../errors.ts';
import { defineRoute, type Call, type Outcome, type Route } from './route.ts';

export interface AdminBackupParts {
  readonly backups: Backups;
}

const ADMIN = { permission: 'admin', domains: 'refuse', tag: 'Administration' } as const;
const shape = z.object({
  state: z.enum(['none', 'copying', 'verifying', 'verified', 'fetching', 'failed']),
  done: z.int().optional().describe('Bytes copied.'),
  total: z.int().optional().describe('Bytes to copy.'),
  size: z.int().optional().describe('Bytes of the verified copy.'),
  sha256: z.string().optional().describe('Of the verified copy, in hex.'),
  rows: z.int().optional().describe('In all tables of it.'),
  reason: z.string().optional().describe('Why it failed.'),
});

/** `/admin/backup…` */
export function adminBackupRoutes({ backups }: AdminBackupParts): Route[] {
  function here(answer: () => Promise<Outcome>): (call: Pick<Call, 'exchange'>) => Promise<Outcome> {
    return ({ exchange }) => (exchange.local ? answer() : Promise.resolve(elsewhere()));
  }

  return [
    defineRoute({
      ...ADMIN,
      method: 'POST',
      path: '/admin/backup',
      summary: 'Begins a backup of the database: a copy that is consistent and verified, while everything goes on.',
      description: `${OVER_SOCKET} It is one at a time, and given up when nobody has asked for its state for a minute.`,
      answer: shape,
      handle: here(async () => {
        const refused = await backups.begin();
        return refused === undefined ? json(shown(backups.state())) : refusalOf(refused);
      }),
    }),
    defineRoute({
      ...ADMIN,
      method: 'GET',
      path: '/admin/backup',
      summary: 'Tells how the backup goes.',
      description: OVER_SOCKET,
      answer: shape,
      handle: here(() => Promise.resolve(json(shown(backups.state())))),
    }),
    defineRoute({
      ...ADMIN,
      method: 'GET',
      path: '/admin/backup/file',
      summary: 'Downloads the verified copy, once: then it is removed here, also where the download breaks off.',
      description: OVER_SOCKET,
      answer: z.string(),
      alsoAnswers: 'application/octet-stream',
      handle: here(() => {
        const copy = backups.fetch();
        if (copy === undefined)
          return Promise.resolve(refuse('NOT_FOUND', { message: 'There is no verified backup.' }));
        const { size, stream } = copy;
        return Promise.resolve(download({ type: 'application/octet-stream', filename: 'postern.db', size, stream }));
      }),
    }),
    defineRoute({
      ...ADMIN,
      method: 'DELETE',
      path: '/admin/backup',
      summary: 'Gives up the backup, and removes what there is of it.',
      description: OVER_SOCKET,
      answer: shape,
      handle: here(async () => {
        await backups.drop();
        return json(shown(backups.state()));
      }),
    }),
  ];
}

const OVER_SOCKET = 'Over the Unix socket alone, because a backup holds every secret of the server.';

/** Not a matter of permissions: no key has this one. */
function elsewhere(): Refusal {
  return refuse('CONFLICT', { message: `${OVER_SOCKET} Run postern backup on the server itself.` });
}

function shown({ kind: state, ...more }: BackupState): z.input<typeof shape> {
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
