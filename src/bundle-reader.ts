/**
 * Reads pushed configurations: small ones at once, large ones in a process of their own, one at a time, so that whoever
 * pushes a megabyte of templates holds up nobody but himself. One that takes too much time or memory is ended, and the push
 * is refused. (A thread would be lighter, but ending one in its start can take the whole daemon with it.)
 */
import { fork, type ChildProcess } from 'node:child_process';
import { createHash } from 'node:crypto';
import { Recent } from './access/recent.ts';
import type { BundleOrder, BundleReply } from './bundle-process.ts';
import { PUSHED_FILE, readHere, type Bundle, type BundleReader, type ReadBundle } from './config/bundle.ts';
import { freeze } from './config/freeze.ts';
import type { Finding, Problem } from './config/problem.ts';
import type { Clock } from './lib/clock.ts';
import { checkTemplates } from './templates/engine.ts';

/** Up to here it takes less time than to start a process, in UTF-16 units. */
const SMALL = 32 * 1024;
const MOST_MS = 30_000;
const MOST_MEGABYTES = 512;
/** A push is read when it is tried, when it is made and when it is put in force. */
const KEPT = 8;

export function createBundleReader(clock: Clock): BundleReader {
  const here = readHere(checkTemplates);
  const known = new Recent<Promise<ReadBundle>>(KEPT);
  let last: Promise<unknown> = Promise.resolve();

  function elsewhere(order: BundleOrder): Promise<BundleReply | undefined> {
    const next = last.then(() => runProcess(order, clock));
    last = next.catch(() => undefined);
    return next;
  }

  async function readLarge(bundle: Bundle, key: string): Promise<ReadBundle> {
    const reply = await elsewhere({ bundle });
    const read = reply?.read;
    if (read === undefined) {
      // The next try may find the machine less busy.
      known.delete(key);
      return hopeless();
    }
    // Its way here took the freezing away.
    return 'ok' in read.result ? { ...read, result: { ...read.result, ok: freeze(read.result.ok) } } : read;
  }

  return {
    read({ yaml, files }) {
      const bundle = { yaml, files };
      if (sizeOf(bundle) <= SMALL) return here.read(bundle);
      const key = createHash('sha256').update(JSON.stringify(bundle)).digest('hex');
      const reading = known.get(key) ?? readLarge(bundle, key);
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

/** The reply of a process that does this alone; undefined where it took too much time or memory. */
async function runProcess(order: BundleOrder, clock: Clock): Promise<BundleReply | undefined> {
  // It knows nothing of the daemon's environment, where secrets are.
  const child = fork(new URL('./bundle-process.ts', import.meta.url), {
    env: {},
    execArgv: [`--max-old-space-size=${MOST_MEGABYTES}`],
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  const over = new AbortController();
  try {
    child.send(order);
    return await Promise.race([replyOf(child), clock.sleep(MOST_MS, over.signal).then(() => undefined)]);
  } finally {
    over.abort();
    child.kill('SIGKILL');
  }
}

function replyOf(child: ChildProcess): Promise<BundleReply | undefined> {
  return new Promise((resolve, reject) => {
    child.once('message', (reply: BundleReply) => resolve(reply));
    // Comes after all that it said, also where it died.
    child.once('disconnect', () => resolve(undefined));
    child.once('error', reject);
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
