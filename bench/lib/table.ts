/** The table that a bench prints. */
import { median } from './rounds.ts';
import type { Row, Samples } from './row.ts';

const COLUMNS = ['#', 'per second', 'ours', 'reference', 'ratio', 'goal', ''] as const;

/** The lines of one row's results: medians of all rounds, their ratio or limit, and whether it is what we want. */
export function linesOf(row: Row, results: readonly Samples[]): string[][] {
  return row.goals.map(({ name, atLeast = 0, atMost }, at) => {
    const samples = results[at] ?? { ours: [], reference: [] };
    const ours = median(samples.ours);
    const measure = name === undefined ? row.measure : `${row.measure}: ${name}`;
    const first = [row.number, measure, whole(ours)];
    if (atMost !== undefined) return [...first, row.reference, '', `≤ ${atMost}`, ours <= atMost ? 'ok' : 'ABOVE'];
    const reference = median(samples.reference);
    const ratio = ours / reference;
    const shown = ratio.toFixed(ratio < 10 ? 2 : 1);
    const compared = `${whole(reference)}  ${row.reference}`;
    return [...first, compared, shown, `≥ ${atLeast}`, ratio >= atLeast ? 'ok' : 'BELOW'];
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
