/**
 * Reads pushed configurations: small ones at once, large ones in a thread of their own, one at a time, so that whoever
 * pushes a megabyte of templates holds up nobody but himself. A thread that takes too much time or memory is ended, and the
 * push is refused.
 */
import { createHash } from 'node:crypto';
import { Worker as Thread } from 'node:worker_threads';
import { Recent } from './access/recent.ts';
import type { BundleOrder, BundleReply } from './bundle-thread.ts';
import { PUSHED_FILE, readHere, type Bundle, type BundleReader, type ReadBundle } from './config/bundle.ts';
import { freeze } from './config/freeze.ts';
import type { Finding, Problem } from './config/problem.ts';
import type { Clock } from './lib/clock.ts';
import { codeOf } from './lib/errors.ts';
import { checkTemplates } from './templates/engine.ts';

/** Up to here it takes less time than to start a thread, in UTF-16 units. */
const SMALL = 16 * 1024;
const MOST_MS = 30_000;
const MOST_MEGABYTES = 512;
/** A push is read when it is tried, when it is made and when it is put in force. */
const KEPT = 8;

export function createBundleReader(clock: Clock): BundleReader {
  const here = readHere(checkTemplates);
  const known = new Recent<Promise<ReadBundle>>(KEPT);
  let last: Promise<unknown> = Promise.resolve();

  function elsewhere(order: BundleOrder): Promise<BundleReply | undefined> {
    const next = last.then(() => runThread(order, clock));
    last = next.catch(() => undefined);
    return next;
  }

  async function readLarge(bundle: Bundle): Promise<ReadBundle> {
    const reply = await elsewhere({ bundle });
    const read = reply?.read ?? hopeless();
    // Its way here took the freezing away.
    return 'ok' in read.result ? { ...read, result: { ...read.result, ok: freeze(read.result.ok) } } : read;
  }

  return {
    read({ yaml, files }) {
      const bundle = { yaml, files };
      if (sizeOf(bundle) <= SMALL) return here.read(bundle);
      const key = createHash('sha256').update(JSON.stringify(bundle)).digest('hex');
      const reading = known.get(key) ?? readLarge(bundle);
      known.set(key, reading);
      reading.catch(() => known.delete(key));
      return reading;
    },
    async locate(yaml: string, findings: readonly Finding[]): Promise<readonly Problem[]> {
      if (findings.length === 0) return [];
      if (yaml.length <= SMALL) return here.locate(yaml, findings);
      return (await elsewhere({ yaml, findings }))?.located ?? [];
    },
  };
}

/** The reply of a thread that does this alone; undefined where it took too much time or memory. */
async function runThread(order: BundleOrder, clock: Clock): Promise<BundleReply | undefined> {
  const thread = new Thread(new URL('./bundle-thread.ts', import.meta.url), {
    workerData: order,
    resourceLimits: { maxOldGenerationSizeMb: MOST_MEGABYTES },
    name: 'bundle',
  });
  const over = new AbortController();
  try {
    return await Promise.race([replyOf(thread), clock.sleep(MOST_MS, over.signal).then(() => undefined)]);
  } finally {
    over.abort();
    await thread.terminate();
  }
}

function replyOf(thread: Thread): Promise<BundleReply | undefined> {
  return new Promise((resolve, reject) => {
    thread.once('message', (reply: BundleReply) => resolve(reply));
    thread.once('error', (error) =>
      codeOf(error) === 'ERR_WORKER_OUT_OF_MEMORY' ? resolve(undefined) : reject(error),
    );
  });
}

function sizeOf({ yaml, files }: Bundle): number {
  return Object.values(files).reduce((sum, text) => sum + text.length, yaml.length);
}

function hopeless(): ReadBundle {
  const message = 'it takes more time or memory to read than a configuration may';
  const problem = { file: PUSHED_FILE, line: 1, column: 1, path: '', message };
  return { result: { errors: [problem], warnings: [] }, named: { files: [], domains: [] } };
}
