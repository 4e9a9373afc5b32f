/**
 * `sh bin/run scripts/spam-corpus/generate.ts [--seed N] [--count N] [--part train|test|all]`: writes labelled submissions,
 * one JSON object a line. README.md says what they are.
 */
import { parseArgs } from 'node:util';
import { generateCorpus } from './corpus.ts';
import type { Part } from './kits.ts';

const PARTS: Readonly<Record<string, readonly Part[]>> = { train: ['train'], test: ['test'], all: ['train', 'test'] };

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    count: { type: 'string', default: '20000' },
    part: { type: 'string', default: 'all' },
  },
});
const [seed, count, parts] = [Number(values.seed), Number(values.count), PARTS[values.part]];
if (!Number.isSafeInteger(seed) || !Number.isSafeInteger(count) || parts === undefined) {
  console.error('Usage: generate.ts [--seed N] [--count N] [--part train|test|all]');
  process.exit(64);
}
for (const sample of generateCorpus({ seed, count, parts })) process.stdout.write(`${JSON.stringify(sample)}\n`);
