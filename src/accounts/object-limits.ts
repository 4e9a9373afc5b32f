/**
 * How many projects, domains, forms, collections, keys and webhooks an account may have, as its plan says; what test keys
 * make is counted by itself, but for keys. What is made
 * for an account is made one thing after the other in this daemon, each behind its own count, so that requests beside each
 * other do not exceed the limit together; several daemons on one database may, by one thing each. What an account has
 * already stays when its plan allows less.
 */
import { z } from 'zod';
import { OBJECT_KINDS, type ObjectKind } from '../config/schema-server.ts';
import type { FormConfig, ProjectConfig } from '../config/schema.ts';
import type { Snapshot } from '../config/snapshot.ts';
import { Turns } from '../lib/batch.ts';
import type { Clock } from '../lib/clock.ts';
import { accountOf } from '../lib/ids.ts';
import { countActiveKeys } from '../store/api-keys.ts';
import { collectionsOfTenant, countFormsOfTenant } from '../store/forms.ts';
import { countProjects } from '../store/projects.ts';
import { OPERATOR, findTenant } from '../store/tenants.ts';
import type { Store } from '../store/store.ts';
import { countMadeWebhooks } from '../store/webhooks.ts';
import { planOf } from './plans.ts';

/** How many of each. */
export type Objects = Readonly<Record<ObjectKind, number>>;

/** There would be too many of them. */
export interface OverLimit {
  readonly kind: 'over-limit';
  readonly plan: string;
  readonly object: ObjectKind;
  readonly limit: number;
  readonly used: number;
  readonly added: number;
}

export interface ObjectLimits {
  /** Makes it where the tenant may have so many more; `instead` is what goes for it. */
  within<T>(tenant: string, wanted: Wanted, make: () => Promise<T>): Promise<T | OverLimit>;
  /** How many the tenant has. */
  count(tenant: string): Promise<Objects>;
}

export interface Wanted {
  readonly more: Partial<Objects>;
  readonly instead?: Partial<Objects>;
}

export interface ObjectLimitsOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly snapshot: () => Snapshot;
}

/** The limits under the configuration as it is when they are asked. */
export function createObjectLimits(options: ObjectLimitsOptions): ObjectLimits {
  const { store, snapshot } = options;
  /** By tenant. */
  const turns = new Turns();

  async function over(id: string, { more, instead = {} }: Wanted): Promise<OverLimit | undefined> {
    const tenant = await findTenant(store, accountOf(id));
    if (tenant === undefined) return undefined;
    const { objects: limits } = planOf(tenant, snapshot().server);
    for (const object of OBJECT_KINDS) {
      const limit = limits[object];
      const added = (more[object] ?? 0) - (instead[object] ?? 0);
      if (limit === null || added <= 0) continue;
      const used = await countOf(object, id, options);
      if (used + added > limit) return { kind: 'over-limit', plan: tenant.plan, object, limit, used, added };
    }
    return undefined;
  }

  return {
    async count(tenant) {
      function count(object: ObjectKind): Promise<number> {
        return countOf(object, tenant, options);
      }
      return {
        projects: await count('projects'),
        domains: await count('domains'),
        forms: await count('forms'),
        collections: await count('collections'),
        keys: await count('keys'),
        webhooks: await count('webhooks'),
      };
    },
    within(tenant, wanted, make) {
      if (accountOf(tenant) === OPERATOR) return make();
      return turns.run(tenant, async () => (await over(tenant, wanted)) ?? make());
    },
  };
}

/** What a project's configuration has. */
export function objectsIn({ domains, collections, webhooks }: ProjectConfig): Omit<Objects, 'projects' | 'keys'> {
  const forms = [...Object.values(domains), ...Object.values(collections)].flatMap((place) =>
    Object.values<Pick<FormConfig, 'webhooks' | 'fallback'>>(place.forms),
  );
  return {
    domains: Object.keys(domains).length,
    collections: Object.keys(collections).length,
    forms: forms.length,
    webhooks: webhooks.length + forms.reduce((sum, form) => sum + webhooksIn(form).size, 0),
  };
}

function webhooksIn({ webhooks, fallback }: Pick<FormConfig, 'webhooks' | 'fallback'>): ReadonlySet<string> {
  return new Set([...webhooks, ...(fallback?.webhook === undefined ? [] : [fallback.webhook])]);
}

async function countOf(
  object: ObjectKind,
  tenant: string,
  { store, clock, snapshot }: ObjectLimitsOptions,
): Promise<number> {
  switch (object) {
    case 'projects':
      return countProjects(store, { tenants: [tenant] });
    case 'keys':
      return countActiveKeys(store, accountOf(tenant), clock.now());
    case 'domains':
      return configured('domains');
    case 'forms': {
      const made = await collectionsOfTenant(store, tenant);
      const collected = made.reduce((sum, { config }) => sum + formsOf(config), 0);
      return configured('forms') + collected + (await countFormsOfTenant(store, tenant));
    }
    case 'collections':
      return configured('collections') + (await collectionsOfTenant(store, tenant)).length;
    case 'webhooks':
      return configured('webhooks') + (await countMadeWebhooks(store, tenant));
  }

  function configured(kind: Exclude<ObjectKind, 'projects' | 'keys'>): number {
    const own = snapshot().projects.filter((project) => project.tenant === tenant);
    return own.reduce((sum, { config }) => sum + objectsIn(config)[kind], 0);
  }
}

const collectionForms = z.object({ forms: z.record(z.string(), z.unknown()) });

function formsOf(json: string): number {
  return Object.keys(collectionForms.parse(JSON.parse(json)).forms).length;
}
