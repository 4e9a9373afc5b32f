/** Text for terminals: aligned columns, and nothing in them that a terminal would act on. */

/** A last column that has less room is not cut, but goes over the edge: half a number is none. */
const LEAST = 12;

/** Rows under a line of headings, each column as wide as its widest cell; the last one is cut to fit `width`. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[], width = Infinity): string {
  const shown = [headings, ...rows].map((row) => row.map(printable));
  const widths = headings.map((_, i) => Math.max(...shown.map((row) => row[i]?.length ?? 0)));
  const last = headings.length - 1;
  const room = width - widths.slice(0, last).reduce((sum, column) => sum + column + 2, 0);
  return shown
    .map((row) => {
      const line = row.map((cell, i) => (i === last ? cell : cell.padEnd(widths[i] ?? 0))).join('  ');
      return `${line.length > width && room >= LEAST ? `${line.slice(0, width - 1)}…` : line.trimEnd()}\n`;
    })
    .join('');
}

/** Control characters and line breaks, which may come from a foreign server, become visible. */
export function printable(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (sign) => (sign === '\n' || sign === '\r' ? ' ' : '\u{fffd}'));
}
