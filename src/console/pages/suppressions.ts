/** Addresses that get no mail any more, and why. */
import type { suppressions } from '../../contract/email.ts';
import type { AnswerOf } from '../../contract/route.ts';
import { ApiError, call } from '../api.ts';
import { Action, Badge, Empty, More, number, Page, Ready, Time, type Tone } from '../components/basics.ts';
import { Field } from '../components/fields.ts';
import { doing, say } from '../components/messages.ts';
import { useListing } from '../data.ts';
import { html, type ComponentChildren, useState } from '../lib.ts';
import { href, setQuery, thisPage, usePlace } from '../router.ts';

type Suppression = AnswerOf<typeof suppressions.list>['suppressions'][number];

const REASONS: Readonly<Record<Suppression['reason'], readonly [text: string, tone: Tone]>> = {
  bounce: ['the mailbox does not exist', 'bad'],
  complaint: ['reported as spam', 'bad'],
  unsubscribe: ['unsubscribed', 'plain'],
  manual: ['added manually', 'plain'],
};

/** The list, with a field to add an address. */
export function Suppressions(): ComponentChildren {
  const { query } = usePlace();
  const isNew = query['new'] !== undefined;
  const list = useListing('suppressions', async (cursor, signal) => {
    const page = await call<typeof suppressions.list>('GET /suppressions', { query: { cursor }, signal });
    return { items: page.suppressions, count: page.count, next: page.next_cursor };
  });
  const add = html`<button type="button" onClick=${() => setQuery({ new: true })}>Add address</button>`;
  const loaded = { ...list, data: list.count === undefined ? undefined : true };
  return html`<${Page} title="Suppressions" aside=${list.count === undefined ? undefined : number(list.count)} actions=${!isNew && add}>
    ${isNew && html`<${NewEntry} done=${list.reload} />`}
    <${Ready} of=${loaded}>
      ${() =>
        list.items.length === 0
          ? html`<${Empty} title="No suppressed addresses"><p>Addresses that do not exist, reported spam or unsubscribed are listed here. They no longer get mail.</p><//>`
          : html`<ul class="list">${list.items.map((entry) => html`<${Entry} of=${entry} reload=${list.reload} key=${`${entry.address} ${entry.form}`} />`)}</ul>`}
    <//>
    <${More} list=${list} />
  <//>`;
}

function Entry({ of, reload }: { readonly of: Suppression; readonly reload: () => void }): ComponentChildren {
  const { address, form, reason, created_at: at } = of;
  const [text, tone] = REASONS[reason];
  const target = { address, ...(form !== null && { form }) };
  async function restore(): Promise<void> {
    await doing(
      () => call<typeof suppressions.create>('POST /suppressions', { body: { ...target, reason } }),
      `${address} is suppressed again.`,
    );
    reload();
  }
  async function remove(): Promise<void> {
    try {
      await call<typeof suppressions.remove>('DELETE /suppressions/:address', {
        params: { address },
        query: { form: form ?? undefined },
      });
      say(`${address} gets mail again.`, { undo: () => void restore() });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      say(error.message, { tone: 'bad' });
    }
    reload();
  }
  return html`<li class="row split">
    <span><strong>${address}</strong><span class="soft small line">${form === null ? 'gets no mail from this account' : html`gets no notifications from <a href=${href(`/forms/${form}`)}>${form}</a>`}</span></span>
    <span class="meta">
      <${Badge} tone=${tone}>${text}<//><span class="soft small"><${Time} at=${at} short /></span>
      <${Action} kind="quiet small" run=${remove}>Remove<//>
    </span>
  </li>`;
}

function NewEntry({ done }: { readonly done: () => void }): ComponentChildren {
  const [address, setAddress] = useState('');
  const [fault, setFault] = useState<string>();
  async function add(): Promise<void> {
    const isHere = thisPage();
    try {
      await call<typeof suppressions.create>('POST /suppressions', { body: { address } });
      say(`${address} no longer gets mail.`);
      if (isHere()) setQuery({ new: undefined });
      done();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setFault(error.details[0]?.message ?? error.message);
    }
  }
  return html`<section class="card" aria-label="Add an address">
    <${Field} label="Email address" type="email" value=${address} change=${setAddress} fault=${fault} placeholder="name@example.com" hint="It no longer gets mail from this account, except notifications from your forms." />
    <div class="actions">
      <${Action} run=${add} disabled=${address === ''}>Suppress<//>
      <button type="button" class="quiet" onClick=${() => setQuery({ new: undefined })}>Cancel</button>
    </div>
  </section>`;
}
