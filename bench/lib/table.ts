/** The table that a bench prints. */
import { median } from './rounds.ts';
import type { Row, Samples } from './row.ts';

const COLUMNS = ['#', 'per second', 'ours', 'reference', 'ratio', 'goal', ''] as const;

/** The lines of one row's results: medians of all rounds, their ratio, and whether it is what we want. */
export function linesOf(row: Row, results: readonly Samples[]): string[][] {
  return row.goals.map((goal, at) => {
    const samples = results[at] ?? { ours: [], reference: [] };
    const ours = median(samples.ours);
    const reference = median(samples.reference);
    const ratio = ours / reference;
    const measure = goal.name === undefined ? row.measure : `${row.measure}: ${goal.name}`;
    return [
      `${row.number}`,
      measure,
      whole(ours),
      `${whole(reference)}  ${row.reference}`,
      ratio.toFixed(ratio < 10 ? 2 : 1),
      `≥ ${goal.atLeast}`,
      ratio >= goal.atLeast ? 'ok' : 'BELOW',
    ];
  });
}

/** Columns as wide as their widest cell; numbers to the right. */
export function table(lines: readonly (readonly string[])[]): string {
  const all = [COLUMNS, ...lines];
  const widths = COLUMNS.map((_, at) => Math.max(...all.map((line) => (line[at] ?? '').length)));
  return all
    .map((line) =>
      line.map((cell, at) => (at === 2 ? cell.padStart(widths[at] ?? 0) : cell.padEnd(widths[at] ?? 0))).join('  '),
    )
    .map((line) => `${line.trimEnd()}\n`)
    .join('');
}

function whole(figure: number): string {
  return Math.round(figure).toLocaleString('en');
}
