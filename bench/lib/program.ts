/** Servers of a bench that are scripts of ours: each prints `{"port":N}` on a line of its own once it listens. */
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startChild, untilReady, type Child } from '../../test/harness/child.ts';

export interface Program {
  readonly pid: number;
  readonly port: number;
  /** Removes what it left in its folder for temporary files, so that no side pays for the other's. */
  tidy(): Promise<void>;
  close(): Promise<void>;
}

/** Starts `bench/references/NAME.ts`; what it needs to know goes as JSON in its one argument. */
export async function startReference(name: string, settings: object = {}): Promise<Program> {
  const folder = await mkdtemp(join(tmpdir(), 'postern-bench-'));
  const script = `${import.meta.dirname}/../references/${name}.ts`;
  const child = await startChild(process.execPath, [script, JSON.stringify(settings)], {
    env: { ...process.env, NODE_ENV: 'production', TMPDIR: folder },
  });
  await untilReady(child, () => printedPort(child) > 0);
  return {
    pid: child.pid,
    port: printedPort(child),
    async tidy() {
      for (const name of await readdir(folder)) await rm(join(folder, name), { recursive: true, force: true });
    },
    async close() {
      await child.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function printedPort(child: Child): number {
  return Number(/^\{"port":(\d+)\}$/m.exec(child.output())?.[1] ?? 0);
}
