/** Collections: forms under one name that belong to no domain, of the configuration or made here. */
import { z } from 'zod';
import { type Names, askNames, nameTaken } from '../../accounts/collection-names.ts';
import type { Collection } from '../../config/snapshot.ts';
import * as is from '../../config/scalars.ts';
import { collectionSchema } from '../../config/schema.ts';
import * as contract from '../../contract/forms.ts';
import { collectionOfRow, findCollection } from '../../forms/find.ts';
import { environmentOf, counterOf } from '../../lib/ids.ts';
import { deleteCollection, insertCollection, forgetForms, noteForm } from '../../store/forms.ts';
import { writeIfMet } from '../../store/store.ts';
import { type RequestContext, overLimit, rateLimited } from '../context.ts';
import { type Refusal, refuse } from '../answer.ts';
import { formSettings, knownCollections, refuseForms, refuseRecipients, shownForms } from './forms.ts';
import { type Call, implement, success, notFound, pageOf, type Route, type Services } from './route.ts';

const MAX_FORMS = 100;

const form = formSettings.extend({
  name: contract.newForm.shape.name.optional(),
  email: is.addresses.describe('Who gets the notifications: an email address, or a list of them.'),
});
const forms = z
  .record(is.identifier, form)
  .refine((all) => Object.keys(all).length <= MAX_FORMS, `must be at most ${MAX_FORMS} forms`);
/** The contract's routes, with the schemas of project files for the settings. */
const routes = {
  ...contract.collections,
  create: {
    ...contract.collections.create,
    body: contract.newCollection.extend({
      settings: collectionSchema.shape.settings,
      allowed_origins: collectionSchema.shape.allowed_origins,
      forms: forms.describe(contract.newCollection.shape.forms.description ?? ''),
    }),
  },
};
const storedForms = z.record(is.identifier, form);

/** `/collections…` */
export function collectionsRoutes(services: Services): Route[] {
  const { store, clock, consent, reader, objects } = services;

  async function find({ principal, context }: Pick<Call, 'principal' | 'context'>, name: string) {
    const found = await findCollection(context.snapshot, store, name);
    return found?.tenant === principal.tenant.id ? found : undefined;
  }

  async function show({ name, title, config, project, tenant, forms: own }: Collection, context: RequestContext) {
    const all = [...own.values()];
    const shown = await shownForms(services, all, context, tenant);
    return {
      name,
      title,
      environment: environmentOf(tenant),
      settings: config.settings,
      forms: shown.map((one, i) => ({ ...one, id: all[i]?.key ?? '', email: one.to })),
      source: project?.source ?? ('api' as const),
    };
  }

  return implement(routes, {
    async list({ principal, context, query: { limit, cursor } }) {
      const all = await knownCollections({ principal, context }, store);
      const rest = cursor === undefined ? all : all.filter(({ name }) => name > cursor);
      const { page, next_cursor } = pageOf(rest, limit, ({ name }) => name);
      const shown = await Promise.all(page.map((collection) => show(collection, context)));
      return success({ collections: shown, count: all.length, next_cursor });
    },
    async show(call) {
      const found = await find(call, call.params.name);
      return found === undefined ? notFound('collection', call.params.name) : success(await show(found, call.context));
    },
    async create({ principal, context, body }) {
      const { name, title, settings, allowed_origins } = body;
      const config = { name: title, settings, allowed_origins, forms: z.encode(storedForms, body.forms) };
      const wanted = Object.entries(collectionSchema.parse(config).forms);
      const places = wanted.map(([key, form]) => ({ path: ['forms', key], form }));
      for (const [key, { email, fallback }] of wanted) {
        const refusal =
          refuseRecipients(email, context, `forms.${key}.email`) ??
          refuseRecipients(fallback?.to, context, `forms.${key}.fallback.to`);
        if (refusal !== undefined) return refusal;
      }
      const refusal = await refuseForms(places, principal.tenant.id, reader);
      if (refusal !== undefined) return refusal;
      const { snapshot } = context;
      const now = clock.now();
      const row = { name, tenant: principal.tenant.id, config: JSON.stringify(config), created_at: now };
      const collection = collectionOfRow(row, snapshot.server);
      const notes = [...collection.forms.values()].map((one) => noteForm({ form: counterOf(one), at: now }));
      const more = { collections: 1, forms: collection.forms.size };
      const made = await objects.within(row.tenant, { more }, async () => {
        const names = await askNames([name], row, services);
        if (names.kind !== 'free' || (await writeIfMet(store, [insertCollection(row, 1), ...notes]))) return names;
        return nameTaken(name, row.tenant, services);
      });
      if (made.kind === 'over-limit') return overLimit(made, snapshot.server);
      if (made.kind !== 'free') return unavailable(made, context);
      const addresses = [...collection.forms.values()].flatMap(({ to, fallbackTo }) => [...to, ...fallbackTo]);
      if (principal.environment === 'live') await consent.ask({ tenant: collection.tenant, addresses });
      return success(await show(collection, context));
    },
    async remove(call) {
      const { name } = call.params;
      const found = await find(call, name);
      if (found === undefined) return notFound('collection', name);
      const { project } = found;
      if (project !== undefined) {
        const message = `${name} is defined in the project ${project.slug}. Remove it there.`;
        return refuse('CONFLICT', { message });
      }
      const shown = success(await show(found, call.context));
      const ids = [...found.forms.values()].map(counterOf);
      await store.write([deleteCollection({ name }), ...forgetForms(ids)]);
      return shown;
    },
  });
}

function unavailable(names: Exclude<Names, { kind: 'free' }>, { at }: RequestContext): Refusal {
  if (names.kind === 'too-often') return rateLimited(names.verdict, at);
  const { message } = names;
  return refuse('CONFLICT', { message: `${message.charAt(0).toUpperCase()}${message.slice(1)}.` });
}
