/**
 * Live changes: one event stream for the whole console (`GET /events/stream`), open while somebody listens and the page can be seen.
 * What happened while it was not open is not told one by one: everybody who listens looks again.
 */
import { withView } from './api.ts';

interface Listener {
  readonly types: readonly string[];
  readonly happened: () => void;
}

const listeners = new Set<Listener>();
/** A burst of events is one change, ms. */
const TOGETHER_MS = 1000;
/** After an answer that is no stream, ms: a browser does not try again then. */
const REOPEN_MS = 5000;
let source: EventSource | undefined;
const pending = new Set<string>();
let timer: ReturnType<typeof setTimeout> | undefined;
let reopening: ReturnType<typeof setTimeout> | undefined;

/** Calls back after events of these types (`submission.accepted`, or `submission.` for all of its kind); answers what ends it. */
export function onEvent(types: readonly string[], happened: () => void): () => void {
  const listener = { types, happened };
  listeners.add(listener);
  open();
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) close();
  };
}

/** Begins anew, as another account or nobody. */
export function restartStream(): void {
  close();
  open();
}

// A browser has six connections to a server over HTTP/1.1: tabs that nobody looks at hold none of them.
document.addEventListener('visibilitychange', () => {
  if (document.hidden) close();
  else open();
});

function open(): void {
  if (source !== undefined || listeners.size === 0 || document.hidden) return;
  const opened = new EventSource(withView('/api/events/stream'));
  source = opened;
  opened.addEventListener('message', (event) => note(typeOf(event.data)));
  // What happened before. A stream that is opened again by the browser is sent what it missed.
  opened.addEventListener('open', tellAll, { once: true });
  // More was missed than is sent again.
  opened.addEventListener('gap', tellAll);
  opened.addEventListener('error', () => {
    if (opened.readyState !== EventSource.CLOSED || source !== opened) return;
    close();
    reopening = setTimeout(open, REOPEN_MS);
  });
}

function close(): void {
  clearTimeout(reopening);
  source?.close();
  source = undefined;
}

function typeOf(data: unknown): string {
  const event: unknown = JSON.parse(String(data));
  return typeof event === 'object' && event !== null && 'type' in event ? String(event.type) : '';
}

function note(type: string): void {
  pending.add(type);
  timer ??= setTimeout(tell, TOGETHER_MS);
}

function tell(): void {
  timer = undefined;
  const types = [...pending];
  pending.clear();
  for (const { types: wanted, happened } of listeners) {
    if (types.some((type) => wanted.some((one) => (one.endsWith('.') ? type.startsWith(one) : type === one))))
      happened();
  }
}

function tellAll(): void {
  for (const { happened } of listeners) happened();
}
