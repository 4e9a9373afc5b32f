/**
 * Addresses below `/console`: everything that somebody may want to send to a colleague has one. Links are plain `<a href>`;
 * a click on one of ours changes the page without loading it anew, and Back and Forward work.
 */
import { searchOf } from './api.ts';
import { createChange } from './lib.ts';

const BASE = '/console';

/** Where the browser is, without `/console`: `/submissions/sub_…`, and the values of the query. */
export interface Place {
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
}

/** What a page gets: the parameters of its path. */
export interface PageProps {
  readonly params: Readonly<Record<string, string>>;
}

const place = createChange();

/** Where we are. */
export function currentPlace(): Place {
  const path = location.pathname.slice(BASE.length).replace(/\/$/, '');
  return { path: path === '' ? '/' : path, query: Object.fromEntries(new URLSearchParams(location.search)) };
}

/** The address of a page, for links: `href('/submissions', { status: 'spam' })`. */
export function href(path: string, query: Readonly<Record<string, unknown>> = {}): string {
  const search = searchOf(query);
  return `${BASE}${path === '/' ? '' : path}${search === '' ? '' : `?${search}`}`;
}

/** Goes to a page. `replace`: without a step in the history, as for a filter while somebody types. */
export function go(path: string, query: Readonly<Record<string, unknown>> = {}, { replace = false } = {}): void {
  const target = href(path, query);
  if (replace) history.replaceState(null, '', target);
  else history.pushState(null, '', target);
  place.notify();
}

/**
 * Whether the same page is still shown, for work that takes time: `const isHere = thisPage(); await …; if (isHere()) go('/projects')`.
 * Whoever has gone to another page meanwhile stays there.
 */
export function thisPage(): () => boolean {
  const { path } = currentPlace();
  return () => currentPlace().path === path;
}

/** Changes values of the query and stays on the page; what is undefined or empty goes. */
export function setQuery(values: Readonly<Record<string, unknown>>, options?: { readonly replace?: boolean }): void {
  const { path, query } = currentPlace();
  go(path, { ...query, ...values }, options);
}

/** Where we are; the component is drawn again when that changes. */
export function usePlace(): Place {
  place.use();
  return currentPlace();
}

/** The parameters of a path, where it is one of this pattern: `/submissions/:id`, `/forms/*id`. */
export function match(pattern: string, path: string): Readonly<Record<string, string>> | undefined {
  const names: string[] = [];
  const source = pattern.replaceAll(/[:*](\w+)/g, (found, name: string) => {
    names.push(name);
    return found.startsWith('*') ? '(.+)' : '([^/]+)';
  });
  const values = new RegExp(`^${source}$`).exec(path)?.slice(1);
  return values && Object.fromEntries(names.map((name, i) => [name, decodeURIComponent(values[i] ?? '')]));
}

/** Makes clicks on links to our pages change the page in place. */
export function followLinks(): void {
  addEventListener('popstate', () => place.notify());
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    const link = event.target instanceof Element ? event.target.closest('a[href]') : null;
    if (!(link instanceof HTMLAnchorElement) || link.target !== '' || link.hasAttribute('download')) return;
    const { origin, pathname, search, hash } = new URL(link.href);
    const isOurs = origin === location.origin && (pathname === BASE || pathname.startsWith(`${BASE}/`)) && hash === '';
    if (!isOurs) return;
    event.preventDefault();
    const path = pathname.slice(BASE.length);
    go(path === '' ? '/' : path, Object.fromEntries(new URLSearchParams(search)));
    scrollTo(0, 0);
  });
}
