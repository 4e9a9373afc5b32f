/** An HTTP server whose tenant has a verified domain, templates and a key: for the tests of mail through the API. */
import { projectSchema } from '../../../src/config/schema.ts';
import type { Project } from '../../../src/config/snapshot.ts';
import { insertDomain, updateDomain } from '../../../src/store/domains.ts';
import type { Store } from '../../../src/store/store.ts';
import type { DomainStatus } from '../../../src/store/tables.ts';
import { testClock } from '../../harness/clock.ts';
import { startHttp, type TestAnswer, type TestRequest } from '../../harness/http.ts';
import { testKey, type TestKeySettings } from '../../harness/keys.ts';

const TENANT = 'ten_shop';

export interface EmailWorldSettings extends TestKeySettings {
  readonly settings?: object;
  /** Of the project `shop`. */
  readonly templates?: object;
  /** More projects, by slug: their templates. */
  readonly projects?: Readonly<Record<string, object>>;
  /** Their domains, as their configurations have them. */
  readonly projectDomains?: Readonly<Record<string, object>>;
  readonly domains?: Readonly<Record<string, DomainStatus>>;
  readonly limits?: object;
  readonly baseUrl?: string;
  readonly diskIsFull?: boolean;
}

const WELCOME = { subject: 'Welcome, {{ name }}', html: '<p>Hello {{ name }}, {{ data.name }}</p>' };

export async function startEmailWorld(given: EmailWorldSettings = {}) {
  const { domains = { 'shop.example': 'verified' }, templates = { welcome: WELCOME }, projects = {} } = given;
  const clock = testClock();
  const http = await startHttp({
    clock,
    server: { http: { listen: ['127.0.0.1:0'], base_url: given.baseUrl ?? 'https://mail.example.net' } },
    limits: given.limits ?? {},
    projects: [
      projectOf('shop', { settings: given.settings, templates }),
      ...Object.entries(projects).map(([slug, own]) =>
        projectOf(slug, { templates: own, domains: given.projectDomains?.[slug] }),
      ),
      projectOf('foreign', { templates: { secret: WELCOME } }, 'ten_other'),
    ],
    options: { freeSpace: { below: () => given.diskIsFull === true } },
  });
  const key = await testKey(http.store, { tenant: TENANT, now: clock.now(), ...given });
  for (const [name, status] of Object.entries(domains))
    await addDomain(http.store, { tenant: key.tenant, name, status });
  const ask = (path: string, request: TestRequest = {}): Promise<TestAnswer> =>
    http.request(path, { ...request, headers: { ...key.headers, ...request.headers } });
  return { http, store: http.store, clock, key, ask };
}

function projectOf(slug: string, rest: object, tenant = TENANT): Project {
  const config = projectSchema.parse({ project: { name: slug, slug }, ...rest });
  return { revision: `rev_${slug}`, slug, tenant, source: 'push', config };
}

async function addDomain(
  store: Store,
  { tenant, name, status }: { tenant: string; name: string; status: DomainStatus },
): Promise<void> {
  const names = { tenant, name };
  await store.write([
    insertDomain({ ...names, project: 'shop', token: 't', status: 'pending', next_check_at: 0, created_at: 0 }),
    updateDomain({
      ...names,
      status,
      was: 'pending',
      due: 0,
      records: null,
      checked_at: 1,
      verified_at: 1,
      broken_at: null,
      next_check_at: 2,
    }),
  ]);
}

export const hello = { to: 'ana@example.org', from: 'Shop <hello@shop.example>', subject: 'Hi', text: 'Hello' };
