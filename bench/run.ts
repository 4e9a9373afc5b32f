/**
 * `npm run bench [-- ROW… --rounds N]`: every row, or those named, each two things in turn on this machine today; prints the
 * medians' ratios, which is all that can be compared from one machine to another.
 */
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { glob } from 'node:fs/promises';
import type { Row } from './lib/row.ts';
import { linesOf, table } from './lib/table.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { rounds: { type: 'string', default: '5' } },
});
const rounds = Number(values.rounds);
const rows = await findRows(positionals);

// What a row has started ends with this process, also when it is cut short.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));

console.log(
  `${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}, Node ${process.versions.node}, medians of ${rounds} rounds`,
);
const lines: string[][] = [];
for (const row of rows) {
  console.error(`${row.number}: ${row.measure} …`);
  try {
    lines.push(...linesOf(row, await row.run({ rounds })));
  } catch (error) {
    // One row that cannot run (a Debian package is missing, say) does not take the others with it.
    console.error(`${row.number}: ${error instanceof Error ? error.message : String(error)}`);
    process.exitCode = 1;
  }
}
console.log(table(lines));

async function findRows(wanted: readonly string[]): Promise<Row[]> {
  const found: Row[] = [];
  for await (const file of glob('rows/*.ts', { cwd: import.meta.dirname })) {
    const module = (await import(`./${file}`)) as { row: Row };
    found.push(module.row);
  }
  const unknown = wanted.filter((number) => !found.some((row) => row.number === number));
  if (unknown.length > 0)
    throw new Error(`no row ${unknown.join(', ')}; there are ${found.map((row) => row.number).join(' ')}`);
  return found
    .filter((row) => wanted.length === 0 || wanted.includes(row.number))
    .toSorted((a, b) => parseInt(a.number, 10) - parseInt(b.number, 10) || a.number.localeCompare(b.number));
}
