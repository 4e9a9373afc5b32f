/** Small pieces that the pages of the outbox share. */
import { type Html, html } from '../http/pages/html.ts';

const SIGNS: Readonly<Record<string, string>> = { pass: '✓', fail: '✕', permerror: '✕' };

/** `✓ DKIM pass`; what is neither good nor bad is grey, and none of it is said by colour alone. */
export function badge(name: string, result: string): Html {
  const kind = result === 'pass' ? 'good' : SIGNS[result] === undefined ? '' : 'bad';
  return html`<span class="badge ${kind}"
    ><span aria-hidden="true">${SIGNS[result] ?? '–'}</span>${name} ${result}</span
  >`;
}

/** In the time zone of this machine, which is the reader's own. */
export function timeOf(at: number): string {
  return new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' }).format(at);
}

export function sizeOf(bytes: number): string {
  if (bytes < 1024) return `${bytes} bytes`;
  const kibibytes = bytes / 1024;
  return kibibytes < 1024 ? `${kibibytes.toFixed(1)} KiB` : `${(kibibytes / 1024).toFixed(1)} MiB`;
}
