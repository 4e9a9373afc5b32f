/** Forms: those of the configuration, to be read, and those that are made here; and instant forms. */
import { z } from 'zod';
import { mayTouch, type Principal, readableTenants } from '../../accounts/principal.ts';
import type { BundleReader } from '../../config/bundle.ts';
import type { FormPlace } from '../../config/checks.ts';
import type { Collection, Form, Snapshot } from '../../config/snapshot.ts';
import * as is from '../../config/scalars.ts';
import { type FormConfig, formSchema } from '../../config/schema.ts';
import * as contract from '../../contract/forms.ts';
import { collectionOfRow, findFormById, formOfRow, parseFormId } from '../../forms/find.ts';
import { environmentOf, newId, counterOf, claimId } from '../../lib/ids.ts';
import {
  collectionsOfTenant,
  forgetForms,
  formCounters,
  noteForm,
  countForms,
  deleteForm,
  findForm,
  insertForm,
  listForms,
  updateForm,
} from '../../store/forms.ts';
import type { FormRow } from '../../store/tables.ts';
import type { RecipientStatus } from '../../store/consents.ts';
import type { Statement } from '../../store/statement.ts';
import type { Store } from '../../store/store.ts';
import { endpointOf, type RequestContext, overLimit, refuseOver } from '../context.ts';
import { type Refusal, refuse } from '../answer.ts';
import {
  invalidAt,
  type Call,
  implement,
  success,
  notFound,
  type Outcome,
  pageOf,
  type Route,
  type Services,
} from './route.ts';

const { shape } = formSchema;

/** What a form says beside its name and recipients, in the words of a project file. Its templates are the built-in ones. */
export const formSettings = z.strictObject({
  subject: shape.subject,
  from_name: shape.from_name,
  replies: bare(shape.replies).optional(),
  replyTo: shape.replyTo,
  acknowledgment: bare(shape.acknowledgment).omit({ template: true }).optional(),
  spam_protection: bare(shape.spam_protection).optional(),
  rateLimit: shape.rateLimit,
  max_per_hour: shape.max_per_hour,
  required: bare(shape.required).optional(),
  fields: bare(shape.fields).optional(),
  redirect: shape.redirect,
  error_redirect: shape.error_redirect,
  thank_you: shape.thank_you,
  theme: shape.theme,
  allowed_origins: bare(shape.allowed_origins).optional().describe('Origins whose pages may post; empty: any origin.'),
  uploads: shape.uploads,
  retention: shape.retention,
  store: bare(shape.store).optional(),
  ip: bare(shape.ip).optional(),
  double_opt_in: bare(shape.double_opt_in).optional(),
  // A webhook of a form is in a configuration; the API makes those of the account.
  fallback: bare(shape.fallback).omit({ webhook: true }).extend({ to: is.addresses }).optional(),
});

/** The schema without its default, so that what is absent can be told from what is given. */
function bare<T extends z.ZodType>(schema: z.ZodType & { unwrap(): T }): T {
  return schema.unwrap().describe(schema.description ?? '');
}

const to = is.addresses.describe('Who gets the notifications: an email address, or a list of them.');
const { name, domain } = contract.newForm.shape;
const storedForm = formSettings.extend({ to });
const nullable = Object.fromEntries(Object.entries(formSettings.shape).map(([key, value]) => [key, value.nullable()]));
const changedForm = z.strictObject({ name: name.optional(), to: to.optional(), ...nullable });

/** The contract's routes, with the schemas of project files for the settings. */
const routes = {
  ...contract.forms,
  create: { ...contract.forms.create, body: formSettings.extend({ name, to, domain }) },
  change: { ...contract.forms.change, body: changedForm },
};

type FormCall = Pick<Call, 'principal' | 'context'>;

/** `/forms…`, `/instant/forms…` */
export function formsRoutes(services: Services): Route[] {
  const { store, clock, consent, reader, objects } = services;

  async function answer(form: Form, context: RequestContext) {
    const [shown] = await shownForms(services, [form], context);
    return shown === undefined ? refuse('FORM_NOT_FOUND') : success({ ...shown, settings: settingsOf(form) });
  }

  /** A form that was made here, or why it cannot be changed. */
  async function ownForm(call: FormCall, id: string) {
    const form = await knownForm(id, call, store);
    if (form === undefined || form.kind === 'instant') return notFound('form', id, 'FORM_NOT_FOUND');
    const row = form.kind === 'api' ? await findForm(store, form.id) : undefined;
    return row ?? refuse('CONFLICT', { message: `${form.id} is defined in ${placeOf(form)}. Change it there.` });
  }

  /** What no schema of the body can know of it. */
  async function refuseConfig(
    config: unknown,
    recipients: readonly string[] | undefined,
    { principal, context }: FormCall,
  ) {
    const form = formSchema.parse(config);
    return (
      refuseRecipients(recipients, context, 'to') ??
      refuseRecipients(form.fallback?.to, context, 'fallback.to') ??
      (await refuseForms([{ path: [], form }], principal.tenant.id, reader))
    );
  }

  /** The new form, or the refusal where the plan has no room for it. */
  async function add(
    form: Pick<FormRow, 'kind' | 'name' | 'domain'> & { readonly config: object },
    { principal: { tenant }, context }: FormCall,
  ): Promise<FormRow | Refusal> {
    const now = clock.now();
    const config = JSON.stringify(form.config);
    const row = { ...form, config, tenant: tenant.id, id: newId('frm', now), created_at: now };
    const unit = [insertForm(row), noteForm({ form: counterOf(row), at: now })] as const;
    const made = await objects.within(tenant.id, { more: { forms: 1 } }, () => store.write(unit));
    return 'kind' in made ? overLimit(made, context.snapshot.server) : row;
  }

  async function answerAndAsk(row: FormRow, { principal, context }: FormCall) {
    const form = formOfRow(row, context.snapshot.server);
    if (principal.environment === 'live')
      await consent.ask({ tenant: form.tenant, addresses: [...form.to, ...form.fallbackTo] });
    return answer(form, context);
  }

  const own = implement(routes, {
    async list(call) {
      const { limit, cursor, domain } = call.query;
      const { principal, context } = call;
      const placed = (await placedForms(call, store)).filter(
        (form) => domain === undefined || (form.kind === 'domain' && form.domain === domain),
      );
      const { domain_restrictions: restricted } = principal.restrictions;
      const hidden = domain !== undefined && !mayTouch(principal, domain);
      const domains = hidden ? [] : domain === undefined ? restricted : [domain];
      const filter = { tenants: readableTenants(principal), kind: 'api', domains } as const;
      const behind = cursor?.startsWith('frm_') === true ? cursor : undefined;
      const forms =
        behind === undefined ? placed.filter((form) => cursor === undefined || counterOf(form) > cursor) : [];
      if (forms.length <= limit) {
        const rows = await listForms(store, { ...filter, before: behind, limit: limit + 1 - forms.length });
        forms.push(...rows.map((row) => formOfRow(row, context.snapshot.server)));
      }
      const { page, next_cursor } = pageOf(forms, limit, (form) => (form.kind === 'api' ? form.id : counterOf(form)));
      const shown = await shownForms(services, page, context, principal.tenant.id);
      return success({ forms: shown, count: placed.length + (await countForms(store, filter)), next_cursor });
    },
    async create(call) {
      const { principal, context, body } = call;
      const { name, domain = null, ...rest } = body;
      const config = z.encode(storedForm, rest);
      const refusal = refusePlace(principal, context.snapshot, domain) ?? (await refuseConfig(config, body.to, call));
      if (refusal !== undefined) return refusal;
      const row = await add({ kind: 'api', name, domain, config }, call);
      return 'code' in row ? row : answerAndAsk(row, call);
    },
    async show(call) {
      const id = parseFormId(call.params.id)?.id;
      const form = await knownForm(call.params.id, call, store);
      if (form !== undefined && form.kind !== 'instant') return answer(form, call.context);
      if (id !== undefined && !mayTouchForm(call.principal, id)) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
      return notFound('form', call.params.id, 'FORM_NOT_FOUND');
    },
    async change(call) {
      const row = await ownForm(call, call.params.id);
      if ('code' in row) return row;
      const { name = row.name, ...changes } = z.encode(changedForm, call.body);
      const before = z.record(z.string(), z.unknown()).parse(JSON.parse(row.config));
      const config = Object.fromEntries(
        Object.entries({ ...before, ...changes }).filter(([, value]) => value !== null),
      );
      const refusal = await refuseConfig(config, call.body.to, call);
      if (refusal !== undefined) return refusal;
      const after = { ...row, name, config: JSON.stringify(config) };
      await store.write([updateForm(after)]);
      return answerAndAsk(after, call);
    },
    async remove(call) {
      const row = await ownForm(call, call.params.id);
      if ('code' in row) return row;
      const shown = await answer(formOfRow(row, call.context.snapshot.server), call.context);
      await store.write(deletion(row));
      return shown;
    },
  });

  // Instant forms need a name and an address only. They mail nobody until the recipient has agreed.

  async function answerInstant(row: FormRow, context: RequestContext) {
    const [shown] = await shownRows([row], context);
    return shown === undefined ? refuse('FORM_NOT_FOUND') : success(shown);
  }

  async function shownRows(rows: readonly FormRow[], context: RequestContext, tenant?: string) {
    const forms = rows.map((row) => formOfRow(row, context.snapshot.server));
    const shown = await shownForms(services, forms, context, tenant);
    return shown.map((form) => ({
      ...form,
      email: form.recipients[0]?.address ?? '',
      confirmed: form.recipient_status === 'confirmed',
    }));
  }

  async function withForm<Data>(
    { principal, params: { id } }: Pick<Call<unknown, unknown, 'id'>, 'principal' | 'params'>,
    act: (row: FormRow) => Promise<Outcome<Data>>,
  ): Promise<Outcome<Data>> {
    const row = await findForm(store, id);
    const isOwn = row?.kind === 'instant' && row.tenant === principal.tenant.id;
    return isOwn ? act(row) : notFound('instant form', id, 'FORM_NOT_FOUND');
  }

  /** Asks the address, where it has to be; the refusal where it was asked too often. */
  async function ask({ principal, context }: FormCall, address: string | undefined) {
    if (address === undefined || principal.environment === 'test') return undefined;
    const asked = await consent.askAgain(principal.tenant.id, address);
    return asked.kind === 'capped' ? refuseOver(asked.verdict, context) : undefined;
  }

  const instant = implement(contract.instantForms, {
    async list({ principal, context, query: { limit, cursor } }) {
      const filter = { tenants: readableTenants(principal), kind: 'instant' } as const;
      const rows = await listForms(store, { ...filter, before: cursor, limit: limit + 1 });
      const { page, next_cursor } = pageOf(rows, limit, ({ id }) => id);
      const forms = await shownRows(page, context, principal.tenant.id);
      return success({ forms, count: await countForms(store, filter), next_cursor });
    },
    async create(call) {
      const { name, email } = call.body;
      const refusal = await ask(call, email);
      if (refusal !== undefined) return refusal;
      const row = await add({ kind: 'instant', name, domain: null, config: { to: email } }, call);
      return 'code' in row ? row : answerInstant(row, call.context);
    },
    show: (call) => withForm(call, (row) => answerInstant(row, call.context)),
    /** Another address has to agree itself; naming one that has not agreed asks it once more. */
    change: (call) =>
      withForm(call, async (row) => {
        const { name = row.name, email } = call.body;
        const refusal = await ask(call, email);
        if (refusal !== undefined) return refusal;
        const after = { ...row, name, config: email === undefined ? row.config : JSON.stringify({ to: email }) };
        await store.write([updateForm(after)]);
        return answerInstant(after, call.context);
      }),
    remove: (call) =>
      withForm(call, async (row) => {
        const shown = await answerInstant(row, call.context);
        await store.write(deletion(row));
        return shown;
      }),
  });

  return [...own, ...instant];
}

function deletion(row: FormRow): Statement[] {
  return [deleteForm(row), ...forgetForms([counterOf(row)])];
}

/** Forms as the API shows them; `tenant` is the one whose recipients are meant, by default that of the forms. */
// oxlint-disable-next-line typescript/explicit-module-boundary-types, eslint/max-params -- the contract picks from it
export async function shownForms(
  { store, consent }: Pick<Services, 'store' | 'consent'>,
  forms: readonly Form[],
  context: RequestContext,
  tenant = forms[0]?.tenant ?? '',
) {
  const counters = await formCounters(store, forms.map(counterOf));
  const statuses = await consent.statuses({ tenant, addresses: [...new Set(forms.flatMap(({ to: all }) => all))] });
  return forms.map((form) => {
    const counter = counters.get(counterOf(form));
    const recipients = form.to.map((address) => ({ address, status: statuses.get(address) ?? ('pending' as const) }));
    const found = new Set(recipients.map(({ status }) => status));
    const recipient_status: RecipientStatus = found.has('pending')
      ? 'pending'
      : found.has('confirmed')
        ? 'confirmed'
        : 'refused';
    return {
      ...form,
      environment: environmentOf(form.tenant),
      submissions: counter?.submissions ?? 0,
      created_at: counter?.created_at ?? context.at,
      to: form.to.length === 1 ? (form.to[0] ?? '') : [...form.to],
      recipient_status,
      recipients,
      subject: form.config.subject,
      endpoint: endpointOf(context, form),
      source: form.project?.source ?? ('api' as const),
    };
  });
}

/** The refusal of more recipients than a form may have; `path` is where they are in the body. */
export function refuseRecipients(
  to: readonly string[] | undefined,
  { snapshot }: Pick<RequestContext, 'snapshot'>,
  path: string,
): Refusal | undefined {
  const { form_recipients: most } = snapshot.server.limits;
  if (to === undefined || new Set(to).size <= most) return undefined;
  return invalidAt(path, `must be at most ${most} addresses`);
}

/** The refusal of what no schema can know of forms: patterns, expressions; paths are where they are in the body. */
export async function refuseForms(
  forms: readonly FormPlace[],
  tenant: string,
  reader: BundleReader,
): Promise<Refusal | undefined> {
  const findings = await reader.checkForms(forms, { tenant });
  const errors = findings.map(({ path, message }) => ({ field: path.join('.'), code: 'TYPE_TEXT', message }));
  return errors.length === 0 ? undefined : refuse('VALIDATION_FAILED', { errors });
}

/** Why a form may not be put there: on a domain that is another's, or that the key is not for. */
function refusePlace(principal: Principal, { claims }: Snapshot, domain: string | null): Refusal | undefined {
  if (!mayTouch(principal, domain ?? undefined)) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
  if (domain === null || readableTenants(principal).some((tenant) => claims.has(claimId(tenant, domain)))) {
    return undefined;
  }
  const message = `There is no domain ${domain} in this account. Add it with POST /domains, or push a project that includes it.`;
  return refuse('DOMAIN_NOT_FOUND', { message });
}

/** What the form says, as a project file would; what is left out there and what is shown beside it are not. */
function settingsOf({ config }: Form): Record<string, unknown> {
  const written: Record<string, unknown> = z.encode(formSchema, withoutSecret(config));
  const defaults: Record<string, unknown> = z.encode(formSchema, formSchema.parse({}));
  return Object.fromEntries(
    Object.entries(written).filter(
      ([key, value]) =>
        !['name', 'to', 'subject'].includes(key) && JSON.stringify(value) !== JSON.stringify(defaults[key]),
    ),
  );
}

/** The secret of a captcha is never shown again. */
function withoutSecret({ spam_protection, ...config }: FormConfig): FormConfig {
  const { challenge } = spam_protection;
  if (typeof challenge === 'string') return { ...config, spam_protection };
  return { ...config, spam_protection: { ...spam_protection, challenge: { ...challenge, secret: '***' } } };
}

function placeOf({ kind, project }: Form): string {
  if (project !== undefined) return `the configuration of the project ${project.slug}`;
  return kind === 'collection' ? 'a collection' : 'no configuration';
}

// The forms that somebody who asks may know of: those of the tenant, and within a key's domains.

/** The form with this id, as an address of the API has it. */
export async function knownForm(
  text: string,
  { principal, context: { snapshot } }: FormCall,
  store: Store,
): Promise<Form | undefined> {
  const id = parseFormId(text);
  const { id: tenant } = principal.tenant;
  const inTest = id?.kind === 'domain' && environmentOf(tenant) === 'test';
  const form = inTest
    ? snapshot.claims.get(claimId(tenant, id.domain))?.forms.get(id.key)
    : id && (await findFormById(id, snapshot, store));
  // A form that belongs to no domain is none of a key's business that is restricted to some.
  const isKnown = form?.tenant === principal.tenant.id && mayTouch(principal, form.audience.domain);
  return isKnown ? form : undefined;
}

/** The collections that the principal may read, of configurations and by API, by name. */
export async function knownCollections(
  { principal, context: { snapshot } }: FormCall,
  store: Store,
): Promise<Collection[]> {
  const tenants = readableTenants(principal);
  const configured = [...snapshot.collections.values()].filter(({ tenant }) => tenants.includes(tenant));
  const rows = await Promise.all(tenants.map((tenant) => collectionsOfTenant(store, tenant)));
  const made = rows.flat().filter(({ name }) => !snapshot.collections.has(name));
  const all = [...configured, ...made.map((row) => collectionOfRow(row, snapshot.server))];
  return all.sort((a, b) => compare(a.name, b.name));
}

/** The forms of domains and collections that the principal may see, by id; a live one before a test one. */
async function placedForms(call: FormCall, store: Store): Promise<Form[]> {
  const { principal, context } = call;
  const { snapshot } = context;
  const tenants = readableTenants(principal);
  const domains = [...snapshot.claims.values()].filter(
    (claim) =>
      tenants.includes(claim.project.tenant) &&
      (environmentOf(claim.project.tenant) === 'test' || snapshot.domains.get(claim.name) === claim),
  );
  const places = [...domains, ...(await knownCollections(call, store))];
  const forms = places
    .flatMap((place) => [...place.forms.values()])
    .filter((form) => mayTouch(principal, form.audience.domain));
  return forms.sort((a, b) => compare(counterOf(a), counterOf(b)));
}

/** The order of characters, the same in every language. */
function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}

/** Whether the principal's key may touch the form with this id; `domain` is that of its submissions, where there are any. */
export function mayTouchForm(principal: Principal, form: string, domain?: string): boolean {
  const id = parseFormId(form);
  if (id?.kind === 'own') return mayTouch(principal, domain);
  return mayTouch(principal, id?.kind === 'domain' ? id.domain : undefined);
}
