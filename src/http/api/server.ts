/**
 * The server itself: its checks and its backups. A backup holds every secret of the server (DKIM keys, and what API keys are
 * checked against), so that it is given over the Unix socket alone.
 */
import { z } from 'zod';
import * as contract from '../../contract/server.ts';
import type { NoBackup } from '../../store/backup.ts';
import { download, type Refusal, refuse, unavailable } from '../answer.ts';
import type { RequestContext } from '../context.ts';
import { implement, success, type Outcome, type Route, type Services } from './route.ts';

/** `/admin/backup…` */
export function backupsRoutes({ backups, serverFile, version, store }: Services): Route[] {
  function shown({ snapshot }: RequestContext) {
    const { kind: state, ...more } = backups.state();
    const { hostname } = snapshot.server.server;
    const bucket = store.blobs.bucket?.name ?? null;
    return success({ state, ...more, version, hostname, server_file: serverFile, bucket });
  }

  function here<Data>(answer: (context: RequestContext) => Outcome<Data> | Promise<Outcome<Data>>) {
    // Not a matter of permissions: no key has this one.
    const message = `${contract.SOCKET_ONLY} Run postern backup on the server itself.`;
    return ({ context }: { context: RequestContext }) =>
      context.local ? answer(context) : refuse('CONFLICT', { message });
  }

  return implement(contract.backups, {
    begin: here(async (context) => {
      const refused = await backups.begin();
      return refused === undefined ? shown(context) : refusalOf(refused);
    }),
    show: here(shown),
    download: here(() => {
      const copy = backups.fetch();
      if (copy === undefined) return refuse('NOT_FOUND', { message: 'There is no verified backup.' });
      return download({ type: 'application/octet-stream', filename: 'postern.db', ...copy });
    }),
    cancel: here(async (context) => {
      await backups.drop();
      return shown(context);
    }),
  });
}

function refusalOf(refused: NoBackup): Refusal {
  switch (refused.kind) {
    case 'not-sqlite':
      return refuse('CONFLICT', {
        message: 'The database is PostgreSQL. Back it up with its own tool: pg_dump --format=custom --file=FILE URL.',
      });
    case 'running':
      return refuse('CONFLICT', { message: 'A backup is already running.' });
    case 'no-room':
      return unavailable(
        `The database’s disk has no room for a copy: ${mib(refused.needed)} needed (including limits.free_disk), ${mib(refused.free)} free.`,
      );
  }
}

function mib(bytes: number): string {
  return `${Math.ceil(bytes / 1024 ** 2)} MiB`;
}

/** A line as the log writes it. */
const logLine = z
  .looseObject({
    level: z.enum(['debug', 'info', 'warn', 'error']),
    time: z.string(),
    event: z.string(),
    msg: z.string(),
  })
  .transform(({ level, time, event, msg: message, ...fields }) => ({ level, time, event, message, fields }));

/** `/admin/doctor`, `/admin/status`, `/admin/logs`, `/admin/config…` */
export function checksRoutes({
  doctor,
  status,
  checkConfig,
  reload,
  snapshot,
  settings,
  logLines,
  serverFile,
}: Services): Route[] {
  return [
    ...implement(contract.doctor, {
      async check({ query: { dnsbl, port25 } }) {
        return success(await doctor({ dnsbl: dnsbl.filter((name) => name !== undefined), port25 }));
      },
    }),
    ...implement(contract.status, { show: async () => success(await status()) }),
    ...implement(contract.serverConfig, {
      show() {
        const { waiting, problems } = snapshot();
        return success({ file: serverFile, settings: settings(), waiting, problems });
      },
    }),
    ...implement(contract.serverLog, {
      list({ query: { id, limit } }) {
        const lines = logLines.find(id, limit).map((line) => logLine.parse(JSON.parse(line)));
        return success({ lines, since: logLines.since() });
      },
    }),
    ...implement(contract.configCheck, {
      check: async () => success(await checkConfig()),
      async reload() {
        const done = await reload();
        const { waiting } = snapshot();
        const problems = done.kind === 'unchanged' ? [] : done.problems;
        return success({ outcome: done.kind, changes: done.kind === 'applied' ? done.changes : [], waiting, problems });
      },
    }),
  ];
}
