import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { LongestFirst } from './test/harness/longest-first.ts';

/** What is waited for comes at once on a machine that does nothing else. */
const expect = { poll: { timeout: 30_000, interval: 20 } };

/**
 * `unit` needs npm alone, and so does `fuzz` (200,000 mutated requests and 50,000 sessions, or for `FUZZ_SECONDS`) and
 * `attack` (ten minutes of a hostile account; a measurement for a quiet machine, so that `.ci/run` leaves it out). `peers`, `peers-postgres` (the store and what stands on it, once more, on PostgreSQL) and
 * `browser` need Debian packages and fail with the install command without them.
 */
export default defineConfig({
  test: {
    // Tests wait for disks, sockets and seconds as much as they compute.
    maxWorkers: Math.ceil(availableParallelism() * 1.5),
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        test: {
          expect,
          name: 'unit',
          // Loading the program anew for each file took as long as all of its tests. What a test changes of its process
          // (environment, mocks) it takes back.
          isolate: false,
          setupFiles: ['test/harness/key-pairs.ts', 'test/harness/each-file.ts'],
          include: ['test/**/*.test.ts'],
          exclude: ['test/peers/**', 'test/browser/**', 'test/fuzz/**'],
          testTimeout: 180_000,
          hookTimeout: 180_000,
        },
      },
      {
        test: {
          expect,
          name: 'peers',
          include: ['test/peers/**/*.test.ts'],
          testTimeout: 180_000,
          hookTimeout: 180_000,
        },
      },
      {
        test: {
          expect,
          name: 'peers-postgres',
          include: [
            'test/{store,accounts,queue,events,forms}/**/*.test.ts',
            'test/flows/{consent,delivery,schedule,storage,submission}.test.ts',
          ],
          exclude: ['test/store/sqlite*.test.ts'],
          globalSetup: ['test/harness/postgres-server.ts'],
          setupFiles: ['test/harness/postgres-environment.ts'],
          testTimeout: 180_000,
          hookTimeout: 180_000,
        },
      },
      {
        test: {
          expect,
          name: 'fuzz',
          include: ['test/fuzz/{http,smtp}.test.ts'],
          testTimeout: 3_600_000,
          hookTimeout: 180_000,
          fileParallelism: false,
        },
      },
      {
        test: {
          expect,
          name: 'attack',
          include: ['test/fuzz/attack.test.ts'],
          testTimeout: 3_600_000,
          hookTimeout: 180_000,
        },
      },
      {
        test: {
          expect,
          name: 'browser',
          include: ['test/browser/**/*.test.ts'],
          testTimeout: 180_000,
          hookTimeout: 180_000,
          // Each has a browser, which has processes of its own.
          maxWorkers: availableParallelism(),
        },
      },
    ],
  },
});
