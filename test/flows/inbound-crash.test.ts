/** What survives kill -9 of the mail that comes in. A failure names its seed; `POSTERN_TEST_SEED` takes it again. */
import { test } from 'vitest';
import { expectMailToSurvive } from '../harness/crash.ts';

const SEED = Number(process.env['POSTERN_TEST_SEED'] ?? Date.now() % 2 ** 31);

test(
  'kill -9 at any moment loses no mail that was answered 250, and forwards none that was refused',
  { timeout: 600_000 },
  () => expectMailToSurvive({ crashes: 4, seed: SEED }),
);
