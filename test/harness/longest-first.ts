/** The order of test files: whichever takes longest begins first, so that no core is idle while the last one ends. */
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Which those are, also where no earlier run has measured them; the longest first. */
const LONGEST = [
  'flows/process',
  'flows/crash',
  'flows/inbound-load',
  'flows/own-mail',
  'flows/bounces',
  'flows/inbound-crash',
  'cli/push',
  'cli/walk',
  'http/api/projects',
  'cli/domains',
  'cli/test-send',
  'cli/binary',
  'flows/bounded-work',
  'flows/executed-files',
  'flows/doctor',
  'flows/submission',
  'flows/consent',
  'flows/explain',
  'daemon/process-pool',
  'smtp/forward-memory',
  'http/walk',
  'browser/console-journey',
  'browser/pages',
  'browser/console-firefox',
  'browser/kit',
  'browser/languages',
].map((name) => `/test/${name}.test.ts`);

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const named = LONGEST.flatMap((name) => sorted.filter(({ moduleId }) => moduleId.endsWith(name)));
    return [...new Set([...named, ...sorted])];
  }
}
