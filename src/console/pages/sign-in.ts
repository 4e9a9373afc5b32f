/**
 * Signing in: by mail, by an API key, or by a link that brought somebody here. The token of a link is behind the number sign
 * of the address; it is taken out at once, so that it stays in no history.
 */
import { ApiError, call } from '../api.ts';
import { Action } from '../components/basics.ts';
import { Field } from '../components/fields.ts';
import { html, type ComponentChildren, useEffect, useLayoutEffect, useRef, useState } from '../lib.ts';
import { currentPlace, go, href } from '../router.ts';
import { loadSession, signOut, useSession } from '../session.ts';
import type { sessions } from '../../contract/sessions.ts';

/** What was shown, to be shown again with a code. */
type Shown = { readonly key: string } | { readonly token: string } | { readonly email: string };

type Step =
  | { readonly name: 'begin' }
  | { readonly name: 'link' }
  | { readonly name: 'mailed'; readonly email: string }
  | { readonly name: 'code'; readonly shown: Shown };

/** `/sign-in`, and in the place of every page while nobody is signed in. */
export function SignIn(): ComponentChildren {
  const { session } = useSession();
  const [step, setStep] = useState<Step>(() => (tokenHere() === '' ? { name: 'begin' } : { name: 'link' }));
  const [error, setError] = useState<ApiError>();

  async function send(shown: Shown, code?: string): Promise<void> {
    setError(undefined);
    try {
      const { state } = await call<typeof sessions.signIn>('POST /auth/session', {
        body: code === undefined ? shown : { ...shown, code },
      });
      if (state === 'code_needed') return setStep({ name: 'code', shown });
      if (state === 'mail_sent') return setStep({ name: 'mailed', email: 'email' in shown ? shown.email : '' });
      await loadSession();
      if (currentPlace().path === '/sign-in') go('/', {}, { replace: true });
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      setError(failure);
      // A wrong code can be corrected; what it was shown with is worth nothing where that is refused.
      if (failure.code !== 'AUTH_INVALID_CODE' && failure.status !== 429 && failure.status !== 0) again();
    }
  }

  function again(): void {
    setStep({ name: 'begin' });
  }

  useEffect(() => {
    document.title = 'Sign in · Postern';
    const token = tokenHere();
    if (token === '') return;
    history.replaceState(null, '', href('/sign-in'));
    void send({ token });
  }, []);

  return html`<main class="alone sign-in" id="main">
    <p class="logo"><svg viewBox="0 0 24 24" aria-hidden="true"><path fill="currentColor" d="M4 22V11a8 8 0 0 1 16 0v11h-6v-9h-4v9z" /></svg>Postern</p>
    ${error && html`<div class="note bad" role="alert"><p>${error.message}</p>${error.requestId !== undefined && error.status >= 500 && html`<p class="soft">Request ID <code>${error.requestId}</code></p>`}</div>`}
    <div class="card">${stepShown()}</div>
  </main>`;

  function stepShown(): ComponentChildren {
    switch (step.name) {
      case 'link':
        return html`<h1>Signing in</h1><p role="status" class="soft">Checking the link …</p>`;
      case 'mailed':
        return html`<${Mailed} email=${step.email} again=${again} />`;
      case 'code':
        return html`<${CodeStep} send=${(code: string) => send(step.shown, code)} again=${again} />`;
      case 'begin':
        return session ? html`<${Already} name=${session.tenant.name} />` : html`<${Begin} send=${send} />`;
    }
  }
}

const TOKEN = /^#[\w-]{20,}$/;

/** The token of the link that was opened, or nothing. */
function tokenHere(): string {
  return TOKEN.test(location.hash) ? location.hash.slice(1) : '';
}

function Begin({ send }: { readonly send: (shown: Shown) => Promise<void> }): ComponentChildren {
  const [email, setEmail] = useState('');
  const [key, setKey] = useState('');
  return html`<h1>Sign in</h1>
    <p class="soft">To the console of ${location.hostname}.</p>
    <${Form} name="By email" send=${() => send({ email })} button="Email me a link">
      <${Field} label="Email address of your account" type="email" autocomplete="email" required=${true} value=${email} change=${setEmail} />
    <//>
    <p class="or"><span>or</span></p>
    <${Form} name="With an API key" send=${() => send({ key: key.trim() })} button="Sign in" kind="quiet">
      <${Field} label="API key" type="password" autocomplete="off" required=${true} value=${key} change=${setKey} placeholder="svc_sk_live_…" />
    <//>
    <p class="soft small">Operators run <code>postern console</code> on the server and open the link that it prints.</p>`;
}

function CodeStep({
  send,
  again,
}: {
  readonly send: (code: string) => Promise<void>;
  readonly again: () => void;
}): ComponentChildren {
  const [code, setCode] = useState('');
  return html`<h1>Enter a code</h1>
    <p class="soft">This account requires a code from your authenticator app.</p>
    <${Form} name="Code" send=${() => send(code)} button="Sign in">
      <${Field} label="Code" autocomplete="one-time-code" required=${true} value=${code} change=${setCode} hint="Six digits. If you lost the device, enter a recovery code." />
    <//>
    <p><button type="button" class="link" onClick=${again}>Sign in another way</button></p>`;
}

function Mailed({ email, again }: { readonly email: string; readonly again: () => void }): ComponentChildren {
  // The link opens in another tab of this browser: whoever comes back to this one is signed in.
  useEffect(() => {
    function look(): void {
      if (document.visibilityState === 'visible') void loadSession().catch(() => undefined);
    }
    document.addEventListener('visibilitychange', look);
    return () => document.removeEventListener('visibilitychange', look);
  }, []);
  return html`<h1>Check your email</h1>
    <p>If <strong>${email}</strong> belongs to an account here, a sign-in link is on its way.</p>
    <p class="soft">The link works once, for 15 minutes, in this browser only.</p>
    <p><button type="button" class="quiet" onClick=${again}>Sign in another way</button></p>`;
}

function Already({ name }: { readonly name: string }): ComponentChildren {
  return html`<h1>You are signed in</h1>
    <p>As <strong>${name}</strong>.</p>
    <p class="actions"><a class="button" href=${href('/')}>Go to the console</a> <${Action} kind="quiet" run=${signOut}>Sign out<//></p>`;
}

interface FormProps {
  readonly name: string;
  readonly send: () => Promise<void>;
  readonly button: string;
  readonly kind?: string;
  readonly children?: ComponentChildren;
}

/** A form that Enter sends, and whose first one has the focus. */
function Form({ name, send, button, kind = '', children }: FormProps): ComponentChildren {
  const [isBusy, setBusy] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  // At once: who types already is not led elsewhere.
  useLayoutEffect(() => {
    const first = document.querySelector('main form');
    if (first === form.current) form.current?.querySelector('input')?.focus();
  }, []);
  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    if (isBusy) return;
    setBusy(true);
    await send().finally(() => setBusy(false));
  }
  return html`<form ref=${form} aria-label=${name} onSubmit=${submit}>
    ${children}
    <button type="submit" class=${kind} disabled=${isBusy} aria-busy=${isBusy ? 'true' : undefined}>${button}</button>
  </form>`;
}
