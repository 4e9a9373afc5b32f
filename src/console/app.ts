/** The console: who is signed in, the list of pages at the side, and the page that the address names. */
import { ApiError } from './api.ts';
import { Failed, Loading } from './components/basics.ts';
import { Messages } from './components/messages.ts';
import { html, type ComponentChildren, useEffect, useLayoutEffect, useRef, useState } from './lib.ts';
import { PAGES, type PageEntry } from './pages/table.ts';
import { href, match, type PageProps, usePlace } from './router.ts';
import { actForAccount, can, loadSession, type Session, signOut, useSession, view } from './session.ts';

/** Everything below the body. */
export function App(): ComponentChildren {
  const { session } = useSession();
  const [failure, setFailure] = useState<ApiError>();
  const { path } = usePlace();
  function begin(): void {
    setFailure(undefined);
    loadSession().catch((error: unknown) => {
      if (!(error instanceof ApiError)) throw error;
      setFailure(error);
    });
  }
  useEffect(begin, []);
  useFocusOnPage(path);
  if (failure !== undefined) return html`<main class="alone"><${Failed} error=${failure} retry=${begin} /></main>`;
  // Where it will stand, so that nothing moves.
  if (session === undefined) return html`<main id="main"><${Loading} lines=${6} /></main>`;
  if (session === null || path === '/sign-in') return html`<${Shown} path="/sign-in" />${html`<${Messages} />`}`;
  const mustSetUp = session.totp.required && !session.totp.enabled;
  return html`<a class="skip" href="#main">Skip to content</a>
    <${Side} session=${session} path=${path} />
    <main id="main" tabindex="-1">
      <${Views} session=${session} />
      <${Shown} path=${mustSetUp ? '/account' : path} key=${`${session.acting_for?.id} ${session.environment}`} />
    </main>
    <${Messages} />`;
}

/** After a change of the page, what was used last may be gone or hidden: Tab goes on in the page. */
function useFocusOnPage(path: string): void {
  const shown = useRef(path);
  useEffect(() => {
    if (shown.current === path) return;
    shown.current = path;
    const main = document.getElementById('main');
    const focused = document.activeElement;
    if (focused !== null && main?.contains(focused) === true && focused.checkVisibility()) return;
    main?.focus({ preventScroll: true });
  }, [path]);
}

/** What is shown in place of one's own live data, on every page. */
function Views({ session }: { readonly session: Session }): ComponentChildren {
  const { acting_for: actingFor, environment } = session;
  if (actingFor === null && environment === 'live') return null;
  return html`<div class="note warn views" role="status">
    ${actingFor !== null && html`<p><span>You are acting for <strong>${actingFor.name}</strong>.</span> <button type="button" class="quiet small" onClick=${() => actForAccount(undefined)}>Stop</button></p>`}
    ${environment === 'test' && html`<p>Test view: data created with test keys. <button type="button" class="quiet small" onClick=${() => view('live')}>Show live data</button></p>`}
  </div>`;
}

/** The page of a path. */
function Shown({ path }: { readonly path: string }): ComponentChildren {
  const [entry, params] = find(path);
  const load = entry?.load;
  const [loaded, setLoaded] = useState<{
    readonly load: PageEntry['load'];
    /** Undefined: it could not be loaded. */
    readonly component: ((props: PageProps) => ComponentChildren) | undefined;
  }>();
  useEffect(() => {
    if (load === undefined || loaded?.load === load) return;
    // A module may come when another page is shown already.
    let isWanted = true;
    load().then(
      (component) => isWanted && setLoaded({ load, component }),
      () => isWanted && setLoaded({ load, component: undefined }),
    );
    return () => void (isWanted = false);
  }, [load]);
  if (entry === undefined) {
    return html`<div class="empty"><h1>Page not found</h1><p><a href=${href('/')}>Overview</a></p></div>`;
  }
  if (loaded === undefined || loaded.load !== load) return html`<${Loading} lines=${6} />`;
  if (loaded.component === undefined)
    return html`<div class="note bad" role="alert"><p>This page could not be loaded. The server may have been upgraded. <a href=${location.href} target="_self">Reload the page</a></p></div>`;
  return html`<${loaded.component} params=${params} />`;
}

function find(path: string): [PageEntry | undefined, Readonly<Record<string, string>>] {
  for (const entry of PAGES) {
    const params = match(entry.pattern, path);
    if (params !== undefined) return [entry, params];
  }
  return [undefined, {}];
}

const GROUPS = ['Forms', 'Mail', 'Account', 'Server'] as const;

/** The list of pages; behind a button where there is little room. */
function Side({ session, path }: { readonly session: Session; readonly path: string }): ComponentChildren {
  const [isOpen, setOpen] = useState(false);
  const current = useRef<HTMLElement>(null);
  useLayoutEffect(() => setOpen(false), [path]);
  const shown = PAGES.filter(({ menu }) => menu !== undefined && can(menu.permission));
  const account = session.acting_for ?? session.tenant;
  return html`<header class="bar">
      <a class="logo" href=${href('/')}><svg viewBox="0 0 24 24" aria-hidden="true"><path fill="currentColor" d="M4 22V11a8 8 0 0 1 16 0v11h-6v-9h-4v9z" /></svg>Postern</a>
      <button type="button" class="quiet menu" aria-expanded=${isOpen ? 'true' : 'false'} aria-controls="side" onClick=${() => setOpen(!isOpen)}>Menu</button>
    </header>
    <nav id="side" class=${isOpen ? 'open' : ''} aria-label="Console">
      <ul>
        <li><a href=${href('/')} aria-current=${path === '/' ? 'page' : undefined}>Overview</a></li>
      </ul>
      ${GROUPS.map((group) => {
        const entries = shown.filter(({ menu }) => menu?.group === group);
        if (entries.length === 0) return null;
        return html`<p class="group" id="side-${group}">${group}</p>
          <ul aria-labelledby="side-${group}">
            ${entries.map(({ pattern, menu }) => {
              const isHere = path === pattern || path.startsWith(`${pattern}/`);
              return html`<li key=${pattern}><a ref=${isHere ? current : undefined} href=${href(pattern)} aria-current=${isHere ? 'page' : undefined}>${menu?.name}</a></li>`;
            })}
          </ul>`;
      })}
      <div class="who">
        <p class="name">${session.operator ? 'Operator' : account.name}<br /><span class="soft">${session.tenant.email}</span></p>
        <ul>
          <li><a href=${href('/account')} aria-current=${path === '/account' ? 'page' : undefined}>Sign-in and sessions</a></li>
          <li><button type="button" class="link" onClick=${() => view(session.environment === 'test' ? 'live' : 'test')}>${session.environment === 'test' ? 'Show live data' : 'Show test data'}</button></li>
          <li><button type="button" class="link" onClick=${signOut}>Sign out</button></li>
        </ul>
      </div>
    </nav>`;
}
