/** How the account is signed in to: its sessions, and one-time codes as a second step. */
import { ApiError, call } from '../api.ts';
import { Action, Badge, Code, Copy, Empty, More, Page, Ready, Time } from '../components/basics.ts';
import { Field } from '../components/fields.ts';
import { confirm, doing, say } from '../components/messages.ts';
import { useListing } from '../data.ts';
import { html, type ComponentChildren, useEffect, useState } from '../lib.ts';
import { go } from '../router.ts';
import { can, loadSession, type Session, useSession } from '../session.ts';
import type { AnswerOf } from '../../contract/route.ts';
import type { sessions, totp } from '../../contract/sessions.ts';

type Listed = AnswerOf<typeof sessions.list>['sessions'][number];

/** `/account` */
export function Account(): ComponentChildren {
  const { session } = useSession();
  if (!session) return null;
  const { acting_for: actingFor, tenant } = session;
  const mustSetUp = session.totp.required && !session.totp.enabled;
  const account = actingFor ?? tenant;
  return html`<div class="narrow"><${Page} title="Sign-in and sessions">
    ${mustSetUp && html`<div class="note warn" role="status"><p><strong>Set up one-time codes first.</strong> This server requires them for the console.</p></div>`}
    <section class="card">
      <h2>Account</h2>
      <dl>
        <dt>Name</dt><dd>${account.name}</dd>
        ${actingFor === null && html`<dt>Email address</dt><dd>${tenant.email}</dd>`}
        <dt>ID</dt><dd><${Code} text=${account.id} what="the ID of the account" /></dd>
        <dt>This session</dt><dd>${session.operator ? 'Operator session: it may act for any account.' : 'Owner session.'} Expires by <${Time} at=${session.expires_at} short=${true} /></dd>
      </dl>
    </section>
    <section class="card" aria-labelledby="codes">
      <h2 id="codes">One-time codes</h2>
      ${actingFor === null ? html`<${Codes} session=${session} />` : html`<${CodesOfOther} name=${actingFor.name} />`}
    </section>
    ${(can('keys.read') || mustSetUp) && html`<${Sessions} key=${account.id} />`}
  <//></div>`;
}

function Codes({ session }: { readonly session: Session }): ComponentChildren {
  const [begun, setBegun] = useState<AnswerOf<typeof totp.start>>();
  const [recovery, setRecovery] = useState<readonly string[]>();
  const [code, setCode] = useState('');

  async function start(): Promise<void> {
    try {
      setBegun(await call<typeof totp.start>('POST /auth/totp', { body: {} }));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      say(error.message, { tone: 'bad' });
    }
  }
  async function turnOn(): Promise<void> {
    const { recovery_codes } = await call<typeof totp.confirm>('POST /auth/totp/confirm', { body: { code } });
    setRecovery(recovery_codes);
    setBegun(undefined);
    setCode('');
    say('One-time codes are set up.');
    // Whoever had to set them up is on another page, and would go on there.
    if (session.totp.required) go('/account', {}, { replace: true });
    await loadSession();
  }
  async function turnOff(): Promise<void> {
    await call<typeof totp.remove>('DELETE /auth/totp', { body: { code } });
    setCode('');
    say('One-time codes are off.');
    await loadSession();
  }

  if (recovery !== undefined) {
    return html`<p><strong>One-time codes are set up.</strong> Save these recovery codes now: each one replaces a code once if you lose the device. They are not shown again.</p>
      <ul class="recovery">${recovery.map((one) => html`<li key=${one}><code>${one}</code></li>`)}</ul>
      <p class="actions"><${Copy} text=${recovery.join('\n')} what="all recovery codes" label="Copy all" /> <button type="button" onClick=${() => setRecovery(undefined)}>I have saved them</button></p>`;
  }
  if (begun !== undefined) {
    return html`<ol class="setup">
        <li>Scan this code with an authenticator app, or enter the secret there. They are not shown again.
          <${QrCode} text=${begun.uri} />
          <${Code} text=${begun.secret.replaceAll(/(.{4})(?=.)/g, '$1 ')} what="the secret" />
          <p class="small"><a href=${begun.uri}>Open it in an app on this device</a></p></li>
        <li>Enter the code that the app shows.
          <${CodeForm} code=${code} change=${setCode} button="Turn on" send=${turnOn} /></li>
      </ol>
      <p><button type="button" class="link" onClick=${() => setBegun(undefined)}>Cancel</button></p>`;
  }
  if (session.totp.enabled) {
    return html`<p><${Badge} tone="good">On<//> Signing in requires a code from your authenticator app.</p>
      ${session.totp.required && html`<p class="soft">This server requires them: if you turn them off, you have to set them up again.</p>`}
      <${CodeForm} code=${code} change=${setCode} button="Turn off" kind="quiet" send=${turnOff} />`;
  }
  return html`<p><${Badge}>Off<//> An API key or an emailed link is enough to sign in. One-time codes also require an authenticator app.</p>
    <p><${Action} run=${start}>Set up one-time codes<//></p>`;
}

/** The text as a QR code, once the module that makes it is there. */
function QrCode({ text }: { readonly text: string }): ComponentChildren {
  const [code, setCode] = useState<{ readonly size: number; readonly data: readonly (readonly boolean[])[] }>();
  useEffect(() => {
    // Where it cannot be loaded, the secret beside it does.
    import('uqr').then(
      ({ encode }) => setCode(encode(text, { border: 4 })),
      () => undefined,
    );
  }, [text]);
  if (code === undefined) return html`<div class="qr" aria-hidden="true"></div>`;
  const dark = code.data.flatMap((row, y) => row.flatMap((isDark, x) => (isDark ? `M${x} ${y}h1v1h-1z` : [])));
  return html`<svg class="qr" role="img" aria-label="QR code of the secret" viewBox="0 0 ${code.size} ${code.size}" shape-rendering="crispEdges"><path d=${dark.join('')} /></svg>`;
}

interface CodeFormProps {
  readonly code: string;
  readonly change: (code: string) => void;
  readonly button: string;
  readonly kind?: string;
  readonly send: () => Promise<void>;
}

/** A code with its button; what is wrong with it stands beside it. */
function CodeForm({ code, change, button, kind = '', send }: CodeFormProps): ComponentChildren {
  const [fault, setFault] = useState<string>();
  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    setFault(undefined);
    try {
      await send();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setFault(error.message);
    }
  }
  return html`<form class="code-form" onSubmit=${submit}>
    <${Field} label="Code" autocomplete="one-time-code" required=${true} value=${code} change=${change} fault=${fault} />
    <button type="submit" class=${kind}>${button}</button>
  </form>`;
}

/** Whoever lost the device and the recovery codes asks the operator. */
function CodesOfOther({ name }: { readonly name: string }): ComponentChildren {
  async function end(): Promise<void> {
    const isMeant = await confirm({
      title: `Turn off the one-time codes of ${name}?`,
      text: 'An API key or an emailed link is then enough to sign in to this account, until its owner sets up codes again. Make sure that the owner asked for this.',
      action: 'Turn off codes',
    });
    if (!isMeant) return;
    await doing(
      () => call<typeof totp.remove>('DELETE /auth/totp', { body: {} }),
      `${name} now signs in without codes.`,
    );
  }
  return html`<p>If the owner has lost the device and the recovery codes, you can turn the codes off.</p>
    <p><${Action} kind="quiet" run=${end}>Turn off codes of ${name}<//></p>`;
}

function Sessions(): ComponentChildren {
  const list = useListing<Listed>('sessions', async (cursor, signal) => {
    const page = await call<typeof sessions.list>('GET /auth/sessions', { query: { cursor }, signal });
    return { items: page.sessions, count: page.count, next: page.next_cursor };
  });

  async function end({ id, current, user_agent: agent }: Listed): Promise<void> {
    const name = browserOf(agent);
    const isMeant = await confirm({
      title: current ? 'End this session?' : `End the session in ${name}?`,
      text: current ? 'You will be signed out.' : 'Anyone using it must sign in again.',
      action: 'End session',
    });
    if (!isMeant) return;
    await doing(
      () => call<typeof sessions.end>('DELETE /auth/sessions/:id', { params: { id } }),
      'The session has ended.',
    );
    if (current) await loadSession();
    else list.reload();
  }

  const loaded = { data: list.count === undefined ? undefined : list, ...list };
  return html`<section aria-labelledby="sessions">
    <h2 id="sessions">Sessions${list.count !== undefined && html` <span class="soft">${list.count}</span>`}</h2>
    <p class="soft">Where this account is signed in to the console. A session ends after 12 hours without use.</p>
    <${Ready} of=${loaded} lines=${3}>${() =>
      list.items.length === 0
        ? html`<${Empty} title="Nobody is signed in"><p>Active sessions are listed here.</p><//>`
        : html`<ul class="list sessions">${list.items.map((one) => html`<${Row} key=${one.id} of=${one} end=${() => end(one)} />`)}</ul><${More} list=${list} />`}<//>
  </section>`;
}

function Row({ of, end }: { readonly of: Listed; readonly end: () => Promise<void> }): ComponentChildren {
  return html`<li class="row">
    <div><strong title=${of.user_agent}>${browserOf(of.user_agent)}</strong> ${of.current && html`<${Badge} tone="accent">This browser<//>`}</div>
    <div class="soft small">${of.ip} · last used <${Time} at=${of.used_at} short=${true} /> · since <${Time} at=${of.created_at} short=${true} /></div>
    <${Action} kind="quiet small" run=${end}>End<//>
  </li>`;
}

const BROWSERS: readonly (readonly [RegExp, string])[] = [
  [/\bEdg\//, 'Edge'],
  [/\bOPR\//, 'Opera'],
  [/\bFirefox\//, 'Firefox'],
  [/Chrome\//, 'Chrome'],
  [/\bSafari\//, 'Safari'],
];
const SYSTEMS: readonly (readonly [RegExp, string])[] = [
  [/\bAndroid\b/, 'Android'],
  [/\b(?:iPhone|iPad)\b/, 'iOS'],
  [/\bWindows\b/, 'Windows'],
  [/\bMac OS X\b/, 'macOS'],
  [/\bLinux\b/, 'Linux'],
];

/** `Firefox on Linux`, as far as the browser says so. */
function browserOf(agent: string): string {
  const [, browser = 'A browser'] = BROWSERS.find(([pattern]) => pattern.test(agent)) ?? [];
  const [, system] = SYSTEMS.find(([pattern]) => pattern.test(agent)) ?? [];
  return system === undefined ? browser : `${browser} on ${system}`;
}
