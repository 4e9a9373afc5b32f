/** What a page shows of the API: loading, there, or failed with a way to try again. */
import { ApiError } from './api.ts';
import { useEffect, useRedraw, useRef, useState } from './lib.ts';
import { onEvent } from './stream.ts';

/** An answer on its way. While it is loaded anew the one before stays, so that nothing jumps. */
export interface Loaded<T> {
  readonly data: T | undefined;
  readonly error: ApiError | undefined;
  readonly isLoading: boolean;
  /** Asks again. */
  readonly reload: () => void;
}

/**
 * Loads when the page is shown and whenever `key` changes: `useLoaded(id, (signal) => call<…>(…, { signal }))`. With `live`
 * again where such an event happens, at most once a second.
 */
export function useLoaded<T>(
  key: string,
  load: (signal: AbortSignal) => Promise<T>,
  { live = [] }: { readonly live?: readonly string[] } = {},
): Loaded<T> {
  const [round, setRound] = useState(0);
  const draw = useRedraw();
  const state = useRef<{ key: string; data?: T; error?: ApiError | undefined; isLoading: boolean }>({
    key,
    isLoading: true,
  });
  function reload(): void {
    setRound((count) => count + 1);
  }
  // What belongs to another key is not shown under this one.
  if (state.current.key !== key) state.current = { key, isLoading: true };
  useEffect(() => {
    const { current } = state;
    const ended = new AbortController();
    current.isLoading = true;
    load(ended.signal).then(
      (data) => {
        if (ended.signal.aborted) return;
        Object.assign(current, { data, error: undefined, isLoading: false });
        draw();
      },
      (error: unknown) => {
        if (ended.signal.aborted) return;
        if (!(error instanceof ApiError)) throw error;
        Object.assign(current, { error, isLoading: false });
        draw();
      },
    );
    return () => ended.abort();
  }, [key, round]);
  useEffect(() => (live.length === 0 ? undefined : onEvent(live, reload)), [live.join(' ')]);
  const { data, error, isLoading } = state.current;
  return { data, error, isLoading, reload };
}

/** A list that grows by pages: what `GET /submissions` and its kind answer. */
export interface Listing<T> {
  readonly items: readonly T[];
  readonly count: number | undefined;
  readonly hasMore: boolean;
  readonly isLoading: boolean;
  readonly error: ApiError | undefined;
  readonly reload: () => void;
  readonly more: () => void;
}

/** One page of a list. */
export interface ListPage<T> {
  readonly items: readonly T[];
  readonly count: number;
  readonly next: string | null;
}

/**
 * Loads a list from its beginning whenever `key` changes, and one page more when `more` is called. Loaded anew, it has as many
 * pages as before, so that nothing falls out between two of them.
 */
export function useListing<T>(
  key: string,
  load: (cursor: string | undefined, signal: AbortSignal) => Promise<ListPage<T>>,
  options: { readonly live?: readonly string[] } = {},
): Listing<T> {
  const wanted = useRef({ key, pages: 1 });
  if (wanted.current.key !== key) wanted.current = { key, pages: 1 };
  const following = useRef<readonly ListPage<T>[]>([]);
  const [error, setError] = useState<ApiError>();
  const [isLoading, setLoading] = useState(false);
  const first = useLoaded(
    key,
    async (signal) => {
      const { pages } = wanted.current;
      const loaded = [await load(undefined, signal)];
      for (let next = loaded[0]?.next; typeof next === 'string' && loaded.length < pages; next = loaded.at(-1)?.next) {
        loaded.push(await load(next, signal));
      }
      following.current = [];
      return loaded;
    },
    options,
  );
  const pages = first.data === undefined ? [] : [...first.data, ...following.current];
  const next = pages.at(-1)?.next;

  async function more(): Promise<void> {
    if (typeof next !== 'string' || isLoading) return;
    const asked = wanted.current;
    setLoading(true);
    try {
      const page = await load(next, new AbortController().signal);
      if (wanted.current !== asked) return;
      asked.pages++;
      following.current = [...following.current, page];
      setError(undefined);
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      setError(failure);
    } finally {
      setLoading(false);
    }
  }

  return {
    items: pages.flatMap(({ items }) => items),
    count: pages[0]?.count,
    hasMore: typeof next === 'string',
    isLoading: first.isLoading || isLoading,
    error: first.error ?? error,
    reload: first.reload,
    more: () => void more(),
  };
}
