/** Which Postern this is. */
import { readFileSync } from 'node:fs';

/** As package.json says it. */
export function version(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return /"version": "([^"]+)"/.exec(text)?.[1] ?? '';
}
