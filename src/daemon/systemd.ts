/**
 * The daemon as a service of systemd (sd_notify(3)): says when it is ready, reloads and stops, how it is, and feeds the
 * watchdog for as long as the event loop turns and the queue is looked through. Node has no datagram Unix sockets, so that
 * `systemd-notify` says it; elsewhere (no NOTIFY_SOCKET) nothing is said.
 */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Daemon } from './daemon.ts';
import { systemClock } from '../lib/clock.ts';
import { errorFields, messageOf } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';

export interface Service {
  /** Reads the configuration again. */
  reload(): Promise<void>;
  close(): Promise<void>;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** What systemd is told of. */
export type Served = Pick<Daemon, 'log' | 'snapshot' | 'queueProblem' | 'isStuck' | 'reload' | 'close'>;

/** Starts a daemon in the environment that systemd gives it; resolves when it is ready. Throws what `start` throws. */
export async function startService(start: () => Promise<Served>, env: Environment): Promise<Service> {
  const daemon = await start();
  const tell = managerOf(env, daemon.log);
  const stop = new AbortController();
  await tell('READY=1', statusOf(daemon));
  const feeding = feed();

  async function feed(): Promise<void> {
    const every = feedingTime(env);
    if (every === undefined) return;
    for (;;) {
      await systemClock.sleep(every, stop.signal);
      if (stop.signal.aborted) return;
      if (daemon.isStuck()) daemon.log.error('watchdog.not_fed', { reason: daemon.queueProblem() });
      else await tell('WATCHDOG=1', statusOf(daemon));
    }
  }

  return {
    async reload() {
      await tell('RELOADING=1');
      try {
        await daemon.reload();
      } finally {
        await tell('READY=1', statusOf(daemon));
      }
    },
    async close() {
      stop.abort();
      await Promise.all([feeding, tell('STOPPING=1')]);
      await daemon.close();
    },
  };
}

/** Three times in the time that the watchdog allows, ms; undefined where there is none. */
function feedingTime({ WATCHDOG_USEC: time, WATCHDOG_PID: pid }: Environment): number | undefined {
  if (time === undefined || (pid !== undefined && pid !== String(process.pid))) return undefined;
  return Number(time) / 1000 / 3;
}

/** One line for `systemctl status`. */
function statusOf(daemon: Served): string {
  const { problems, domains } = daemon.snapshot();
  const problem = daemon.queueProblem() ?? problems[0];
  const words = problem ?? `${domains.size} ${domains.size === 1 ? 'domain' : 'domains'} served`;
  return `STATUS=${words.replaceAll(/\s+/g, ' ')}`;
}

const run = promisify(execFile);
const PATIENCE_MS = 10_000;

/** Tells the service manager, one message after the other; never rejects. */
function managerOf({ NOTIFY_SOCKET: socket, PATH: path }: Environment, log: Log) {
  let last = Promise.resolve();
  let reported = '';

  async function say(assignments: readonly string[]): Promise<void> {
    try {
      const env = { NOTIFY_SOCKET: socket, PATH: path };
      await run('systemd-notify', assignments, { env, timeout: PATIENCE_MS });
      reported = '';
    } catch (error) {
      if (messageOf(error) !== reported) log.error('service_manager.not_told', errorFields(error));
      reported = messageOf(error);
    }
  }

  return (...assignments: readonly string[]): Promise<void> => {
    if (socket !== undefined) last = last.then(() => say(assignments));
    return last;
  };
}
