/**
 * Tables as CSV (RFC 4180), for people who open them in a spreadsheet: a cell that a spreadsheet would take for a formula
 * begins with an apostrophe, which spreadsheets show as text. What was typed into a form can therefore not act there.
 */
import type { Answer } from './answer.ts';

export type Cell = string | number | null;

/** What begins a formula in one spreadsheet or another; some skip white space before it. */
const FORMULA = /^[=+\-@\t\r\n＝＋－＠]/;
const NEEDS_QUOTES = /[",\r\n]/;

/** One line with its CRLF. Null is an empty cell; numbers are numbers, negative ones too. */
export function csvLine(cells: readonly Cell[]): string {
  return `${cells.map(csvCell).join(',')}\r\n`;
}

function csvCell(cell: Cell): string {
  if (typeof cell === 'number') return String(cell);
  const text = cell === null ? '' : FORMULA.test(cell) ? `'${cell}` : cell;
  return NEEDS_QUOTES.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** A download: the names of the columns, then the rows. `filename` has no quotes in it. */
export function csv(columns: readonly string[], rows: readonly (readonly Cell[])[], filename: string): Answer<never> {
  return {
    status: 200,
    type: 'text/csv; charset=utf-8',
    body: [columns, ...rows].map(csvLine).join(''),
    headers: { 'Content-Disposition': `attachment; filename="${filename}"` },
  };
}
