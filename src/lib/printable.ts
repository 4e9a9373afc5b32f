/** Control characters and line breaks, which may come from a foreign server, become visible. */
export function printable(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (sign) => (sign === '\n' || sign === '\r' ? ' ' : '\u{fffd}'));
}
