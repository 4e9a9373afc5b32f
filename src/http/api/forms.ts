/** Forms: those of the configuration, to be read, and those that are made here, which belong to no domain. */
import { z } from 'zod';
import type { Consent } from '../../accounts/consent.ts';
import { mayTouch, readableTenants, type Principal } from '../../accounts/principal.ts';
import { formSchema } from '../../config/schema-project.ts';
import * as is from '../../config/scalars.ts';
import { claimKey, type Snapshot } from '../../config/snapshot.ts';
import type { Form } from '../../config/forms.ts';
import { formOfRow, parseFormId } from '../../forms/find.ts';
import type { ObjectLimits } from '../../accounts/object-limits.ts';
import type { BundleReader } from '../../config/bundle.ts';
import type { Clock } from '../../lib/clock.ts';
import { newId } from '../../lib/ids.ts';
import { counterOf, forgetForms, formCounters, noteForm } from '../../store/form-counters.ts';
import { countForms, deleteForm, findForm, insertForm, listForms, updateForm } from '../../store/forms.ts';
import type { Store } from '../../store/store.ts';
import { json } from '../answer.ts';
import { refuse, type Refusal } from '../errors.ts';
import { overLimit, type Exchange } from '../context.ts';
import { label } from './account-shapes.ts';
import { knownForm, placedForms, type Asking } from './form-lookup.ts';
import { formSettings, formShape, refuseForms, refuseRecipients, shownForm } from './form-shapes.ts';
import { listing, listOf } from './listing.ts';
import { defineRoute, type Call, type Outcome, type Route } from './route.ts';
import { mayTouchForm } from './submission-shapes.ts';

export interface FormsParts {
  readonly consent: Consent;
  readonly store: Store;
  readonly clock: Clock;
  readonly objects: ObjectLimits;
  readonly reader: BundleReader;
}

const name = label.describe('Display name; notifications come from it.');
const to = is.addresses.describe('Who gets the notifications: an address or a list of them.');
const wantedForm = formSettings.extend({
  name,
  to,
  domain: is.domainName
    .optional()
    .describe('A domain of the account: mail is from it, and pages of it and its subdomains may post.'),
});
const storedForm = formSettings.extend({ to });
const nullable = Object.fromEntries(Object.entries(formSettings.shape).map(([key, value]) => [key, value.nullable()]));
const changedForm = z.strictObject({ name: name.optional(), to: to.optional(), ...nullable });
/** With the settings of one form, as they were given. */
const wholeForm = formShape.extend({
  settings: z.record(z.string(), z.unknown()).describe('What else it says; what is not here has its default.'),
});

const READ = { permission: 'forms.read', tag: 'Forms' } as const;
const WRITE = { permission: 'forms.write', domains: 'narrow', tag: 'Forms' } as const;

/** `/forms…` */
export function formsRoutes({ store, clock, consent, reader, objects }: FormsParts): Route[] {
  function asking({ principal, exchange }: Pick<Call, 'principal' | 'exchange'>): Asking {
    return { principal, snapshot: exchange.snapshot, store };
  }

  async function answer(form: Form, exchange: Exchange): Promise<Outcome> {
    const counters = await formCounters(store, [counterOf(form)]);
    const statuses = await consent.statuses({ tenant: form.tenant, addresses: form.to });
    const shown = shownForm({ form, exchange, counter: counters.get(counterOf(form)), statuses });
    return json({ ...shown, settings: settingsOf(form) });
  }

  /** A form that was made here, or why it cannot be changed. */
  async function own(call: Pick<Call, 'principal' | 'exchange'>, id: string) {
    const form = await knownForm(id, asking(call));
    if (form === undefined || form.kind === 'instant') return unknown(id);
    const row = form.kind === 'api' ? await findForm(store, form.id) : undefined;
    return row ?? refuse('CONFLICT', { message: `${form.id} stands in ${placeOf(form)}: change it there.` });
  }

  return [
    defineRoute({
      ...READ,
      readsLive: true,
      domains: 'narrow',
      method: 'GET',
      path: '/forms',
      summary: 'Lists the forms of domains and collections by their ids, then those made here, newest first.',
      description:
        'Instant forms have a list of their own. A key with `domain_restrictions` sees those of its domains.',
      query: z.strictObject({
        limit: listing('frm').limit,
        cursor: z
          .string()
          .regex(/^[\w./:-]{1,400}$/, 'must be a next_cursor that was answered')
          .optional()
          .describe('The next_cursor of the page before.'),
        domain: is.domainName.optional().describe('Only those of this domain.'),
      }),
      answer: listOf('forms', formShape),
      async handle(call) {
        const { limit, cursor, domain } = call.query;
        const { principal, exchange } = call;
        const placed = (await placedForms(asking(call))).filter(
          (form) => domain === undefined || (form.kind === 'domain' && form.domain === domain),
        );
        const { domain_restrictions: restricted } = principal.restrictions;
        const hidden = domain !== undefined && !mayTouch(principal, domain);
        const domains = hidden ? [] : domain === undefined ? restricted : [domain];
        const filter = { tenants: readableTenants(principal), kind: 'api', domains } as const;
        const behind = cursor !== undefined && cursor.startsWith('frm_') ? cursor : undefined;
        const forms =
          behind === undefined ? placed.filter((form) => cursor === undefined || counterOf(form) > cursor) : [];
        if (forms.length <= limit) {
          const rows = await listForms(store, { ...filter, before: behind, limit: limit + 1 - forms.length });
          forms.push(...rows.map((row) => formOfRow(row, exchange.snapshot.server)));
        }
        const page = forms.slice(0, limit);
        const [last] = page.slice(-1);
        const counters = await formCounters(store, page.map(counterOf));
        const addresses = [...new Set(page.flatMap(({ to: all }) => all))];
        const statuses = await consent.statuses({ tenant: principal.tenant.id, addresses });
        return json({
          forms: page.map((form) => shownForm({ form, exchange, counter: counters.get(counterOf(form)), statuses })),
          count: placed.length + (await countForms(store, filter)),
          next_cursor:
            forms.length > limit && last !== undefined ? (last.kind === 'api' ? last.id : counterOf(last)) : null,
        });
      },
    }),
    defineRoute({
      ...WRITE,
      method: 'POST',
      path: '/forms',
      summary: 'Makes a form that is posted to at `/f/{id}`, or on a domain of the account at `/{domain}/{id}`.',
      description:
        'Its mail is from `forms@` the domain, or without one the host name of the server, in the built-in template. Without a domain pages of any origin may post unless `allowed_origins` names some. Everything but `name`, `to` and `domain` is as in a project file. Recipients that have to agree first are mailed a link.',
      body: wantedForm,
      answer: wholeForm,
      async handle({ principal, exchange, body }) {
        const { name: called, domain = null, ...rest } = body;
        const place = refusePlace(principal, exchange.snapshot, domain);
        if (place !== undefined) return place;
        const config = z.encode(storedForm, rest);
        const settings = formSchema.parse(config);
        const refusal =
          refuseRecipients(body.to, exchange, 'to') ??
          (await refuseForms([{ path: [], form: settings }], principal.tenant.id, reader));
        if (refusal !== undefined) return refusal;
        const now = clock.now();
        const row = {
          id: newId('frm', now),
          tenant: principal.tenant.id,
          kind: 'api',
          name: called,
          domain,
          config: JSON.stringify(config),
          created_at: now,
        } as const;
        const made = await objects.within(row.tenant, { more: { forms: 1 } }, () =>
          store.write([insertForm(row), noteForm({ form: counterOf(row), at: now })]),
        );
        if ('kind' in made) return overLimit(made, exchange.snapshot.server);
        const form = formOfRow(row, exchange.snapshot.server);
        if (principal.environment === 'live') await consent.ask({ tenant: form.tenant, addresses: form.to });
        return answer(form, exchange);
      },
    }),
    defineRoute({
      ...READ,
      readsLive: true,
      domains: 'narrow',
      method: 'GET',
      path: '/forms/*id',
      summary: 'Shows a form; slashes of its id may be written as they are.',
      answer: wholeForm,
      async handle(call) {
        const id = parseFormId(call.params.id)?.id;
        const form = await knownForm(call.params.id, asking(call));
        if (form !== undefined && form.kind !== 'instant') return answer(form, call.exchange);
        if (id !== undefined && !mayTouchForm(call.principal, id)) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
        return unknown(call.params.id);
      },
    }),
    defineRoute({
      ...WRITE,
      method: 'PATCH',
      path: '/forms/*id',
      summary: 'Changes what is named of a form that was made here; null puts a default back.',
      description: 'Forms of a configuration are changed there (409).',
      body: changedForm,
      answer: wholeForm,
      async handle(call) {
        const row = await own(call, call.params.id);
        if ('code' in row) return row;
        const { name: called = row.name, ...changes } = z.encode(changedForm, call.body);
        const before: Readonly<Record<string, unknown>> = z
          .record(z.string(), z.unknown())
          .parse(JSON.parse(row.config));
        const config = Object.fromEntries(
          Object.entries({ ...before, ...changes }).filter(([, value]) => value !== null),
        );
        const settings = formSchema.parse(config);
        const refusal =
          refuseRecipients(call.body.to, call.exchange, 'to') ??
          (await refuseForms([{ path: [], form: settings }], row.tenant, reader));
        if (refusal !== undefined) return refusal;
        const after = { ...row, name: called, config: JSON.stringify(config) };
        await store.write([updateForm(after)]);
        const form = formOfRow(after, call.exchange.snapshot.server);
        if (call.principal.environment === 'live') await consent.ask({ tenant: form.tenant, addresses: form.to });
        return answer(form, call.exchange);
      },
    }),
    defineRoute({
      ...WRITE,
      method: 'DELETE',
      path: '/forms/*id',
      summary: 'Ends a form that was made here, from the next submission on, and shows it.',
      description:
        'What it received stays as long as it is kept; mail that waits is still sent. Forms of a configuration are taken out there (409).',
      answer: wholeForm,
      async handle(call) {
        const row = await own(call, call.params.id);
        if ('code' in row) return row;
        const shown = await answer(formOfRow(row, call.exchange.snapshot.server), call.exchange);
        await store.write([deleteForm({ id: row.id }), forgetForms({ forms: JSON.stringify([counterOf(row)]) })]);
        return shown;
      },
    }),
  ];
}

/** Why a form may not be put there: on a domain that is another's, or that the key is not for. */
function refusePlace(principal: Principal, { claims }: Snapshot, domain: string | null): Refusal | undefined {
  if (!mayTouch(principal, domain ?? undefined)) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
  if (domain === null || readableTenants(principal).some((tenant) => claims.has(claimKey(tenant, domain)))) {
    return undefined;
  }
  const message = `There is no domain ${domain} in this account. Add it with POST /domains, or push a project that has it.`;
  return refuse('DOMAIN_NOT_FOUND', { message });
}

/** What the form says, as a project file would; what is left out there and what is shown beside it are not. */
function settingsOf({ config }: Form): object {
  const written: Record<string, unknown> = z.encode(formSchema, { ...config });
  const defaults: Record<string, unknown> = z.encode(formSchema, formSchema.parse({}));
  return Object.fromEntries(
    Object.entries(written).filter(
      ([key, value]) =>
        !['name', 'to', 'subject'].includes(key) && JSON.stringify(value) !== JSON.stringify(defaults[key]),
    ),
  );
}

function placeOf({ kind, project }: Form): string {
  if (project !== undefined) return `the configuration of the project ${project.slug}`;
  return kind === 'collection' ? 'a collection' : 'no configuration';
}

function unknown(id: string): Refusal {
  return refuse('FORM_NOT_FOUND', { message: `There is no form ${id.slice(0, 60)}.` });
}
