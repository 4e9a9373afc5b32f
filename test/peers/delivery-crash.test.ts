/** test/flows/crash.test.ts at length. */
import { test } from 'vitest';
import { expectToSurvive } from '../harness/crash.ts';

const SEED = Number(process.env['POSTERN_TEST_SEED'] ?? Date.now() % 2 ** 31);

test('fifty times kill -9 under load', { timeout: 900_000 }, () => expectToSurvive({ crashes: 50, seed: SEED }));
