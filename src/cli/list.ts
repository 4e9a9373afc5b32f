/** Lists: aligned under headings on a terminal, else one line of tab-separated cells per row for other programs. */
import { printable, table } from './table.ts';
import type { Terminal } from './terminal.ts';

export interface List {
  readonly headings: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** Where in all that there is a page stands, as every list of the API says. */
export interface Page {
  readonly count: number;
  readonly next_cursor: string | null;
}

/** Writes the rows. */
export function writeTable({ write, style, width }: Terminal, { headings, rows }: List): void {
  if (width === undefined) {
    for (const row of rows) write(`${row.map(printable).join('\t')}\n`);
    return;
  }
  const [first = '', ...lines] = table(headings, rows, width).split('\n');
  write([style('bold', first), ...lines].join('\n'));
}

/** Writes a page of rows, or `nothing` where there are none, and how to see more. */
export function writePage(terminal: Terminal, list: List, page: Page & { readonly nothing: string }): void {
  const { count, next_cursor: next, nothing } = page;
  const { width, write, complain } = terminal;
  // With a condition that is searched for a page may be empty although there is more.
  if (list.rows.length > 0) writeTable(terminal, list);
  else if (next === null) return (width === undefined ? complain : write)(`${nothing}\n`);
  const shown = `${list.rows.length} of ${count}`;
  if (next !== null) (width === undefined ? complain : write)(`${shown}; more with --cursor ${next}\n`);
  else if (width !== undefined) write(`${shown}\n`);
}

/** Writes lines of a name and what it is, the latter in one column. */
export function writeFacts({ write, style }: Terminal, facts: readonly (readonly [string, string])[]): void {
  const wide = Math.max(...facts.map(([name]) => name.length));
  for (const [name, fact] of facts) write(`${style('dim', name.padEnd(wide))}  ${printable(fact)}\n`);
}
