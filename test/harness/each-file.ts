/** For each test file: ends what its tests shared. */
import { afterAll } from 'vitest';
import { closeIdleStores } from './store.ts';

afterAll(closeIdleStores);
