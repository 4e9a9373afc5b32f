/** Who is signed in. */
import type { Route } from '../contract/route.ts';
import { actFor, ApiError, call, onSignedOut, resetView, viewEnvironment } from './api.ts';
import { createChange } from './lib.ts';
import { restartStream } from './stream.ts';

/** A session as `GET /auth/session` shows it. */
export interface Session {
  readonly id: string;
  readonly tenant: { readonly id: string; readonly name: string; readonly email: string };
  readonly operator: boolean;
  readonly acting_for: { readonly id: string; readonly name: string } | null;
  readonly environment: 'live' | 'test';
  readonly expires_at: string;
  readonly permissions: readonly string[];
  readonly totp: { readonly enabled: boolean; readonly required: boolean };
}

interface State {
  /** Undefined until the server has said. */
  readonly session: Session | null | undefined;
  /** Whether this is the dev world. */
  readonly dev: boolean;
}

let state: State = { session: undefined, dev: false };
const change = createChange();

onSignedOut(() => {
  // A session that ended is no fault of the page: it asks to sign in, and goes on where it was.
  if (state.session !== null) set({ ...state, session: null });
});

/** Asks the server who is signed in. Rejects with an ApiError. */
export async function loadSession(): Promise<void> {
  set(await askSession());
  restartStream();
}

async function askSession(): Promise<State> {
  try {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the contract says so
    return (await call<Route>('GET /auth/session')) as State;
  } catch (error) {
    // Whoever signed in after the operator acts for nobody, and an account may be gone.
    if (error instanceof ApiError && error.code === 'AUTH_FORBIDDEN' && resetView()) return askSession();
    throw error;
  }
}

/** Ends the session on the server. */
export async function signOut(): Promise<void> {
  await call('DELETE /auth/session');
  resetView();
  set({ ...state, session: null });
}

/** The operator acts for this account from now on, or for nobody. */
export async function actForAccount(tenant: string | undefined): Promise<void> {
  actFor(tenant);
  await loadSession();
}

/** Shows what test keys made, or what is live. */
export async function view(environment: 'live' | 'test'): Promise<void> {
  viewEnvironment(environment);
  await loadSession();
}

/** Who is signed in; the component is drawn again when that changes. */
export function useSession(): State {
  change.use();
  return state;
}

/** Whether the session may do this: `can('forms.write')`. */
export function can(permission: string): boolean {
  return state.session?.permissions.includes(permission) ?? false;
}

function set(next: State): void {
  state = next;
  change.notify();
}
