/**
 * Which source files a running daemon executes, in all of its threads: V8's precise coverage, through the inspector of a
 * process that was started with `NODE_OPTIONS=--inspect=127.0.0.1:0`.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';

const SOURCES = new URL('../../src/', import.meta.url).href;
/** What an action starts in other threads is over by then. */
const SETTLE_MS = 200;

const message = z.object({
  id: z.number().optional(),
  method: z.string().optional(),
  params: z.looseObject({}).optional(),
  result: z.unknown().optional(),
});
const attached = z.object({ sessionId: z.string(), workerInfo: z.object({ title: z.string() }) });
const detached = z.object({ sessionId: z.string() });
const fromWorker = z.object({ sessionId: z.string(), message: z.string() });
const coverage = z.object({
  result: z.array(
    z.object({
      url: z.string(),
      functions: z.array(
        z.object({
          functionName: z.string(),
          ranges: z.array(z.object({ count: z.number(), startOffset: z.number() })),
        }),
      ),
    }),
  ),
});

/** The names of the functions that ran, by file (`forms/accept.ts`). */
export type Executed = ReadonlyMap<string, ReadonlySet<string>>;

/** On the main thread, which answers; and on all others, which write, claim, render and deliver. */
export interface ExecutedByThread {
  readonly main: Executed;
  readonly others: Executed;
}

type Functions = Map<string, Set<string>>;

export interface Inspector {
  /**
   * The files that each run of the action executes: jobs of every second, which run beside some of them, are not among
   * those where a run takes less. The first run is not counted, because it loads and fills what later ones find.
   */
  executed(action: () => Promise<unknown>, runs?: number): Promise<ExecutedByThread>;
  close(): void;
}

/** Connects to the process whose output says where its inspector listens. */
export async function inspect(output: string): Promise<Inspector> {
  const url = [...output.matchAll(/Debugger listening on (ws:\S+)/g)].at(-1)?.[1];
  if (url === undefined) throw new Error(`no inspector listens:\n${output}`);
  const socket = new WebSocket(url);
  await new Promise((resolve, reject) => {
    socket.onopen = resolve;
    socket.onerror = () => reject(new Error(`cannot connect to ${url}`));
  });
  const waiting = new Map<
    number,
    { readonly worker: string | undefined; readonly resolve: (result: unknown) => void }
  >();
  const workers = new Set<string>();
  let sent = 0;
  socket.onmessage = ({ data }: MessageEvent) => receive(String(data));

  function receive(text: string): void {
    const { id, method, params, result } = message.parse(JSON.parse(text));
    if (id !== undefined) {
      waiting.get(id)?.resolve(result);
      waiting.delete(id);
    } else if (method === 'NodeWorker.detachedFromWorker') forget(detached.parse(params).sessionId);
    else if (method === 'NodeWorker.attachedToWorker') workers.add(attached.parse(params).sessionId);
    else if (method === 'NodeWorker.receivedMessageFromWorker') receive(fromWorker.parse(params).message);
  }

  /** A thread that has ended answers nothing any more. */
  function forget(ended: string): void {
    workers.delete(ended);
    for (const { worker, resolve } of waiting.values()) if (worker === ended) resolve({ result: [] });
  }

  function call(method: string, params: object = {}, worker?: string): Promise<unknown> {
    const id = ++sent;
    const result = new Promise<unknown>((resolve) => waiting.set(id, { worker, resolve }));
    const text = JSON.stringify({ id, method, params });
    if (worker === undefined) socket.send(text);
    else void call('NodeWorker.sendMessageToWorker', { sessionId: worker, message: text });
    return result;
  }

  function everywhere(method: string, params?: object): Promise<unknown[]> {
    return Promise.all([undefined, ...workers].map((worker) => call(method, params, worker)));
  }

  /** What ran since the last time: on the main thread, and on the others. */
  async function take(): Promise<[main: Functions, others: Functions]> {
    const taken: [Functions, Functions] = [new Map(), new Map()];
    for (const [thread, answer] of (await everywhere('Profiler.takePreciseCoverage')).entries()) {
      const [main, others] = taken;
      addTo(thread === 0 ? main : others, coverage.parse(answer).result);
    }
    return taken;
  }

  await call('NodeWorker.enable', { waitForDebuggerOnStart: false });
  await everywhere('Profiler.enable');
  await everywhere('Profiler.startPreciseCoverage', { callCount: true, detailed: false });

  return {
    async executed(action, runs = 20) {
      await action();
      await sleep(SETTLE_MS);
      const taken: [Functions, Functions][] = [];
      for (let run = 0; run < runs; run++) {
        await take();
        await action();
        await sleep(SETTLE_MS);
        taken.push(await take());
      }
      return { main: common(taken.map(([main]) => main)), others: common(taken.map(([, others]) => others)) };
    },
    close: () => socket.close(),
  };
}

function addTo(functions: Functions, scripts: z.output<typeof coverage>['result']): void {
  for (const { url, functions: found } of scripts) {
    if (!url.startsWith(SOURCES)) continue;
    const file = url.slice(SOURCES.length);
    for (const { functionName, ranges } of found) {
      const [range] = ranges;
      if (range === undefined || range.count === 0) continue;
      const name = functionName === '' ? `@${range.startOffset}` : functionName;
      functions.set(file, (functions.get(file) ?? new Set()).add(name));
    }
  }
}

/** What ran each time. */
function common([first = new Map(), ...others]: readonly Functions[]): Functions {
  const names = [...first].map(([file, functions]): [string, Set<string>] => [
    file,
    new Set([...functions].filter((name) => others.every((other) => other.get(file)?.has(name)))),
  ]);
  return new Map(names.filter(([, functions]) => functions.size > 0));
}
