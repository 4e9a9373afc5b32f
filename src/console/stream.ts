/** Live changes: one event stream for the whole console, opened when somebody first listens (`GET /events/stream`). */
import { withView } from './api.ts';

interface Listener {
  readonly types: readonly string[];
  readonly happened: (type: string) => void;
}

const listeners = new Set<Listener>();
/** A burst of events is one change, ms. */
const TOGETHER_MS = 1000;
let source: EventSource | undefined;
const pending = new Set<string>();
let timer: ReturnType<typeof setTimeout> | undefined;

/** Calls back after events of these types (`submission.accepted`, or `submission.` for all of its kind); answers what ends it. */
export function onEvent(types: readonly string[], happened: (type: string) => void): () => void {
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
  if (listeners.size > 0) open();
}

function open(): void {
  if (source !== undefined) return;
  source = new EventSource(withView('/api/events/stream'));
  source.addEventListener('message', (event) => note(typeOf(event.data)));
}

function close(): void {
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
  for (const listener of listeners) {
    const type = types.find((one) =>
      listener.types.some((wanted) => (wanted.endsWith('.') ? one.startsWith(wanted) : one === wanted)),
    );
    if (type !== undefined) listener.happened(type);
  }
}
