/** Before each file of the suite `peers-postgres`: tells test/harness/store.ts to open PostgreSQL. */
import { inject } from 'vitest';

process.env['POSTERN_TEST_POSTGRES'] = inject('postgres');
