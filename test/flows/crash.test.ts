/** What survives kill -9. The moments are chosen by a seed that a failure names; `POSTERN_TEST_SEED` chooses them again. */
import { test } from 'vitest';
import { expectToSurvive } from '../harness/crash.ts';

const SEED = Number(process.env['POSTERN_TEST_SEED'] ?? Date.now() % 2 ** 31);

test(
  'kill -9 at any moment loses nothing that was accepted, and sends nothing that was refused',
  { timeout: 600_000 },
  () => expectToSurvive({ crashes: 12, seed: SEED }),
);
