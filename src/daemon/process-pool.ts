/**
 * What tenants wrote (configuration, templates, HTML) is read and rendered in processes of a pool, within a budget of time
 * and memory for everything that belongs together. A process that passes it is killed, and another takes its place. One
 * tenant has one process at a time and those who wait take turns, so that no tenant waits for another's queue.
 *
 * They are processes and not threads because a thread that needs one large piece of memory too many ends the whole daemon
 * (docs/dependencies.md). They start when they are needed, and end when they were idle for a while.
 */
import { PUSHED_FILE, type BundleReader, type ReadBundle } from '../config/bundle.ts';
import { freeze } from '../config/snapshot.ts';
import { BusyError, errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import type * as process from './pool-process.ts';
import { endedPart, type Renderer } from '../templates/render.ts';

export interface ProcessPool {
  readonly reader: BundleReader;
  readonly renderer: Renderer;
  /** Ends its processes; what is in progress rejects. */
  close(): Promise<void>;
}

const PROCESSES = 2;
const MAX_HEAP_MIB = 160;
/** A process that holds more than this after an order makes place for another: what it did is not the next one's to pay. */
const MAX_KEPT_BYTES = 80 * 1024 * 1024;
const IDLE_MS = 60_000;
const MAX_STARTS = 3;
/** On a busy machine. */
const MAX_START_MS = 30_000;
/** What belongs together may take so long, ms, before its process is killed. Templates are given `soft` of it, so that the one that takes too long can be named. */
const BUDGETS = {
  render: { soft: 3000, hard: 5000 },
  check: { soft: 3000, hard: 10_000 },
  /** It was accepted before; only a machine that is very busy takes so long. */
  accepted: { soft: 0, hard: 60_000 },
} as const;

type Budget = (typeof BUDGETS)[keyof typeof BUDGETS];

type Orders = typeof process;
type Order<Name extends keyof Orders> = Parameters<Orders[Name]>[0];
type Reply<Name extends keyof Orders> = ReturnType<Orders[Name]>;

/** What is used of Tinypool, with the types of what these processes take and answer. */
interface Processes {
  run<Name extends keyof Orders>(
    order: Order<Name>,
    options: { name: Name; signal: AbortSignal },
  ): Promise<Reply<Name>>;
  on(event: 'error', listener: (error: unknown) => void): unknown;
  destroy(): Promise<void>;
}

export interface ProcessPoolOptions {
  readonly log: Log;
  /** Where Node keeps compiled code. */
  readonly cacheFolder?: string | undefined;
  /** Orders of one tenant that may wait; more are refused with a BusyError. Unlimited by default. */
  readonly maxWaiting?: number;
}

/** Makes the pool; nothing is started yet. */
export function createProcessPool(options: ProcessPoolOptions): ProcessPool {
  const { log, cacheFolder, maxWaiting = Number.POSITIVE_INFINITY } = options;
  const turns = new Turns(PROCESSES);
  let pool: Promise<Processes> | undefined;

  async function open(): Promise<Processes> {
    const { Tinypool } = await import('tinypool');
    const processes: Processes = new Tinypool({
      filename: new URL('./pool-process.ts', import.meta.url).href,
      runtime: 'child_process',
      // They know nothing of the daemon's environment, where secrets are, but where compiled code is kept.
      env: cacheFolder === undefined ? {} : { NODE_COMPILE_CACHE: cacheFolder },
      // SIGUSR1 would open the debugger.
      execArgv: [`--max-old-space-size=${MAX_HEAP_MIB}`, '--disable-warning=ExperimentalWarning', '--disable-sigusr1'],
      serialization: 'advanced',
      minThreads: 0,
      maxThreads: PROCESSES,
      idleTimeout: IDLE_MS,
      maxMemoryLimitBeforeRecycle: MAX_KEPT_BYTES,
    });
    processes.on('error', (error: unknown) => log.warn('pool.process_failed', errorFields(error)));
    return processes;
  }

  /** The reply; undefined where it took more time or memory than it may. */
  async function run<Name extends keyof Orders>(
    tenant: string,
    { name, order, budget }: { name: Name; order: Order<Name>; budget: Budget },
  ): Promise<Reply<Name> | undefined> {
    const leave = await turns.enter(tenant, budget === BUDGETS.accepted ? Number.POSITIVE_INFINITY : maxWaiting);
    try {
      // Its start is not the tenant's to pay. There are as many processes as turns: the one that is ready stays so.
      await ready();
      return await within(budget.hard, name, order).catch((error: unknown) => {
        log.warn('pool.order_ended', { tenant, kind: name, ...errorFields(error) });
        return undefined;
      });
    } finally {
      leave();
    }
  }

  /** Resolves when a process is ready; the one that was may be about to die of what it did last. */
  async function ready(): Promise<void> {
    for (let tries = 1; ; tries++) {
      try {
        return await within(MAX_START_MS, 'ready', undefined);
      } catch (error) {
        if (tries === MAX_STARTS) throw error;
      }
    }
  }

  /** Budgets are of the machine's time, whatever clock the daemon is given. */
  async function within<Name extends keyof Orders>(ms: number, name: Name, order: Order<Name>): Promise<Reply<Name>> {
    pool ??= open();
    const processes = await pool;
    return processes.run(order, { name, signal: AbortSignal.timeout(ms) });
  }

  return {
    reader: {
      async read({ yaml, files }, { tenant, accepted = false }) {
        const budget = accepted ? BUDGETS.accepted : BUDGETS.check;
        const order = { bundle: { yaml, files }, accepted, ms: budget.soft };
        const read = await run(tenant, { name: 'read', order, budget });
        if (read === undefined) return hopeless();
        // Its way here took the freezing away.
        return 'ok' in read.result ? { ...read, result: { ...read.result, ok: freeze(read.result.ok) } } : read;
      },
      async locate(yaml, findings, { tenant }) {
        if (findings.length === 0) return [];
        return (await run(tenant, { name: 'locate', order: { yaml, findings }, budget: BUDGETS.check })) ?? [];
      },
      edit: (yaml, edit, { tenant }) => run(tenant, { name: 'edit', order: { yaml, ...edit }, budget: BUDGETS.check }),
      async checkForms(places, { tenant }) {
        const budget = BUDGETS.check;
        const findings = await run(tenant, { name: 'forms', order: { places, ms: budget.soft }, budget });
        return findings ?? [{ path: [], message: TOO_MUCH }];
      },
    },
    renderer: {
      async render(tenant, parts) {
        const budget = BUDGETS.render;
        const rendered = await run(tenant, { name: 'render', order: { parts, ms: budget.soft }, budget });
        return rendered ?? parts.map((part) => endedPart(part, TOO_MUCH));
      },
    },
    close: async () => (await pool)?.destroy(),
  };
}

const TOO_MUCH = 'it takes too much time or memory';

function hopeless(): ReadBundle {
  const message = 'reading it takes too much time or memory';
  const problem = { file: PUSHED_FILE, line: 1, column: 1, path: '', message };
  return { result: { errors: [problem], warnings: [] }, named: { files: [], domains: [] } };
}

/** Whose order is next: of each tenant one at a time, and of those who wait each in turn. */
class Turns {
  readonly #waiting = new Map<string, (() => void)[]>();
  readonly #busy = new Set<string>();
  readonly #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  /** Resolves when it is the tenant's turn, with what ends it. Rejects with a BusyError where `mostWaiting` of its own wait. */
  async enter(tenant: string, mostWaiting: number): Promise<() => void> {
    const own = this.#waiting.get(tenant) ?? [];
    if (own.length >= mostWaiting) {
      throw new BusyError(
        'Too many requests of this account are waiting to be rendered or checked. Try again in a moment.',
      );
    }
    const turn = new Promise<void>((resolve) => own.push(resolve));
    this.#waiting.set(tenant, own);
    this.#next();
    await turn;
    return () => {
      this.#busy.delete(tenant);
      this.#next();
    };
  }

  #next(): void {
    for (const [tenant, own] of this.#waiting) {
      if (this.#busy.size === this.#most) return;
      if (this.#busy.has(tenant)) continue;
      const begin = own.shift();
      this.#waiting.delete(tenant);
      // Behind all others.
      if (own.length > 0) this.#waiting.set(tenant, own);
      this.#busy.add(tenant);
      begin?.();
    }
  }
}
