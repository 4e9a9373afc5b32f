/**
 * Whether the daemon is up (`/healthz`), and whether it can do its work (`/readyz`): the database takes a real write, the
 * disk has room, the queue moves. Details of the configuration are the operator's alone: they name files.
 */
import type { Snapshot } from '../../config/snapshot.ts';
import type { Clock } from '../../lib/clock.ts';
import { errorFields } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import { isDamaged } from '../../store/database.ts';
import { probeStore } from '../../store/probe.ts';
import type { Store } from '../../store/store.ts';
import { json, type Answer } from '../answer.ts';
import type { Exchange, Handler } from '../exchange.ts';
import type { FreeSpace } from '../../store/free-space.ts';

export interface HealthParts {
  readonly store: Store;
  readonly freeSpace: FreeSpace;
  readonly clock: Clock;
  readonly log: Log;
  readonly snapshot: () => Snapshot;
  /** What keeps the queue from moving, in words; undefined while it moves. */
  readonly queueProblem: () => string | undefined;
}

type Check = { readonly ok: true } | { readonly ok: false; readonly reason: string };

const OK: Check = { ok: true };
/** So often at most is the database written to. */
const PROBE_MS = 1000;

export function healthz(): Answer {
  return json({ status: 'ok' });
}

/** The handler of `/readyz`: 200, or 503 with the reasons. */
export function readyz({ store, freeSpace, clock, log, snapshot, queueProblem }: HealthParts): Handler {
  let probed = { at: -Infinity, check: Promise.resolve(OK) };

  async function probe(): Promise<Check> {
    try {
      await probeStore(store);
      return OK;
    } catch (error) {
      log.error('readyz.database_failed', errorFields(error));
      return {
        ok: false,
        reason: isDamaged(error) ? 'the database is damaged: restore a backup' : 'the database cannot be written',
      };
    }
  }

  function database(): Promise<Check> {
    const now = clock.monotonic();
    if (now - probed.at >= PROBE_MS) probed = { at: now, check: probe() };
    return probed.check;
  }

  function disk(): Check {
    const { free_disk: least } = snapshot().server.limits;
    return freeSpace.below(least) ? { ok: false, reason: 'the disk has less room than limits.free_disk' } : OK;
  }

  function queue(): Check {
    const reason = queueProblem();
    return reason === undefined ? OK : { ok: false, reason };
  }

  return async (exchange) => {
    const checks = { database: await database(), disk: disk(), queue: queue() };
    const ready = Object.values(checks).every(({ ok }) => ok);
    const body = { status: ready ? 'ready' : 'not ready', checks, configuration: configuration(exchange) };
    return json(body, ready ? 200 : 503, ready ? undefined : { 'Retry-After': '5' });
  };
}

/** Problems of the configuration stop nothing: the last good version runs on. */
function configuration({ snapshot, local }: Exchange): object {
  const { problems } = snapshot;
  if (local) return { problems };
  return { problems: problems.length, ...(problems.length > 0 ? { hint: 'postern config check names them' } : {}) };
}
