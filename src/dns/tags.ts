/** Lists of tags, as DKIM keys and DMARC policies are written: `v=DKIM1; k=rsa; p=…` (RFC 6376 §3.2). */
export type Tags = ReadonlyMap<string, string>;

/** The tags in order, or nothing where the grammar does not hold or a tag stands there twice; the last `;` may be missing. */
export function tagList(text: string): Tags | undefined {
  const tags = new Map<string, string>();
  const parts = text.trim().replace(/;$/, '').split(';');
  for (const part of parts) {
    const equals = part.indexOf('=');
    const name = part.slice(0, equals).trim();
    if (equals < 1 || !/^[A-Za-z]\w*$/.test(name) || tags.has(name)) return undefined;
    tags.set(name, part.slice(equals + 1).trim());
  }
  return tags;
}
