/** Every route, asked with every permission: what each needs is written here by hand. */
import { describe, expect, test } from 'vitest';
import { PERMISSIONS, type Permission } from '../../../src/lib/permission-names.ts';
import { startHttp, type TestHttp } from '../../harness/http.ts';
import { testKey } from '../../harness/keys.ts';

type Needs = Permission | 'any';
/** A method and an address. */
type Route = readonly [method: string, path: string];

const ROUTES: Readonly<Record<Needs, readonly Route[]>> = {
  any: [
    ['GET', '/auth/status'],
    ['GET', '/rate-limits'],
  ],
  'projects.read': [
    ['GET', '/projects'],
    ['GET', '/projects/x'],
    ['GET', '/projects/x/config'],
    ['GET', '/projects/x/revisions'],
    ['GET', '/projects/x/revisions/x/changes'],
  ],
  'projects.write': [
    ['POST', '/projects'],
    ['DELETE', '/projects/x'],
    ['PUT', '/projects/x/config'],
    ['POST', '/projects/x/rollback'],
    ['GET', '/webhooks'],
    ['POST', '/webhooks'],
    ['DELETE', '/webhooks/x'],
    ['POST', '/webhooks/x/test'],
    ['POST', '/webhooks/x/rotate'],
    ['POST', '/webhooks/x/replay'],
    ['GET', '/webhooks/x'],
    ['PATCH', '/webhooks/x'],
    ['GET', '/webhooks/x/deliveries'],
    ['GET', '/webhooks/x/deliveries/x'],
    ['POST', '/webhooks/x/deliveries/x/replay'],
  ],
  'domains.read': [
    ['GET', '/domains'],
    ['GET', '/domains/example.com'],
    ['GET', '/domains/example.com/zone'],
    ['GET', '/domains/example.com/forwarding'],
    ['GET', '/domains/example.com/explain?address=a'],
    ['GET', '/domains/example.com/reports'],
  ],
  'domains.write': [
    ['POST', '/domains'],
    ['POST', '/domains/example.com/verify'],
    ['POST', '/domains/example.com/rotate-dkim'],
    ['DELETE', '/domains/example.com'],
  ],
  'forms.read': [
    ['GET', '/forms'],
    ['GET', '/forms/x'],
    ['GET', '/forms/x/submissions'],
    ['GET', '/submissions'],
    ['GET', '/submissions/counts'],
    ['GET', '/submissions/x'],
    ['GET', '/instant/forms'],
    ['GET', '/instant/submissions'],
    ['GET', '/messages'],
    ['GET', '/inbound'],
    ['GET', '/messages/x'],
    ['GET', '/messages/x/content'],
    ['GET', '/forms/x/submissions/export'],
    ['GET', '/submissions/x/files/x'],
    ['GET', '/forms/x/snippets'],
    ['POST', '/forms/x/preview'],
    ['GET', '/instant/forms/x'],
    ['GET', '/recipients'],
  ],
  'forms.write': [
    ['POST', '/forms'],
    ['PATCH', '/forms/x'],
    ['DELETE', '/forms/x'],
    ['POST', '/instant/forms'],
    ['POST', '/submissions/actions'],
    ['POST', '/submissions/x/spam'],
    ['POST', '/submissions/x/ham'],
    ['POST', '/submissions/x/resend'],
    ['POST', '/messages/x/resend'],
    ['POST', '/messages/x/cancel'],
    ['DELETE', '/submissions/x'],
    ['POST', '/erase'],
    ['POST', '/forms/x/test'],
    ['PATCH', '/instant/forms/x'],
    ['DELETE', '/instant/forms/x'],
    ['POST', '/recipients'],
  ],
  // Posting to a form: no route of the API; test/http/submit.test.ts.
  'forms.submit': [],
  'collections.read': [
    ['GET', '/collections'],
    ['GET', '/collections/x'],
  ],
  'collections.write': [
    ['POST', '/collections'],
    ['DELETE', '/collections/x'],
  ],
  'analytics.read': [
    ['GET', '/analytics'],
    ['GET', '/analytics/api-usage'],
    ['GET', '/events'],
    ['GET', '/overview'],
    ['GET', '/events/stream'],
  ],
  'email.send': [
    ['POST', '/email/send'],
    ['POST', '/email/batch'],
    ['GET', '/email/x'],
    ['POST', '/emails'],
    ['GET', '/emails/x'],
    ['GET', '/suppressions'],
    ['POST', '/suppressions'],
    ['DELETE', '/suppressions/x@example.com'],
    ['GET', '/email'],
    ['GET', '/email/x/source'],
    ['POST', '/email/x/cancel'],
    ['GET', '/emails'],
    ['POST', '/emails/batch'],
    ['PATCH', '/emails/x'],
    ['POST', '/emails/x/cancel'],
  ],
  'keys.read': [
    ['GET', '/api-keys'],
    ['GET', '/api-keys/x'],
    ['GET', '/auth/sessions'],
  ],
  'keys.write': [
    ['POST', '/api-keys'],
    ['DELETE', '/api-keys/x'],
    ['DELETE', '/auth/sessions/x'],
    ['POST', '/auth/totp'],
    ['DELETE', '/auth/totp'],
    ['POST', '/auth/totp/confirm'],
  ],
  admin: [
    ['GET', '/admin/tenants'],
    ['POST', '/admin/tenants'],
    ['GET', '/admin/tenants/x'],
    ['PATCH', '/admin/tenants/x'],
    ['GET', '/admin/usage'],
    ['GET', '/admin/billing'],
    ['POST', '/admin/billing'],
    ['GET', '/admin/queue'],
    ['GET', '/admin/queue/x'],
    ['POST', '/admin/queue/x/retry'],
    ['POST', '/admin/queue/x/cancel'],
    ['POST', '/admin/queue/hold'],
    ['POST', '/admin/queue/release'],
    ['GET', '/admin/inbound'],
    ['GET', '/admin/explain?what=x'],
    ['GET', '/admin/trace/x'],
    ['GET', '/admin/host-keys'],
    ['POST', '/admin/host-keys/rotate'],
    ['POST', '/admin/host-keys/verify'],
    ['POST', '/admin/erase'],
    ['DELETE', '/admin/tenants/x'],
    ['GET', '/admin/queue/destinations'],
    ['POST', '/admin/queue/actions'],
    ['GET', '/admin/doctor'],
    ['GET', '/admin/status'],
    ['GET', '/admin/config'],
    ['GET', '/admin/logs'],
    ['POST', '/admin/config/check'],
    ['POST', '/admin/config/reload'],
    ['GET', '/admin/domains'],
    ['POST', '/admin/domains/example.com/move'],
    ['POST', '/admin/backup'],
    ['GET', '/admin/backup'],
    ['DELETE', '/admin/backup'],
    ['GET', '/admin/backup/file'],
    ['POST', '/admin/console-link'],
  ],
};

/** The routes that need this, as the reference says: `GET /domains`. */
async function documentedRoutes(http: TestHttp, needed: string): Promise<string[]> {
  const { paths } = (await http.request('/openapi.json')).json() as { paths: Record<string, Record<string, object>> };
  return Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations)
      .filter(([, operation]) => 'x-permission' in operation && operation['x-permission'] === needed)
      .map(([method]) => {
        const filled = path.replaceAll('{domain}', 'example.com').replace('{address}', 'x@example.com');
        return `${method.toUpperCase()} ${filled.replace(/\{\w+\}/g, 'x')}`;
      }),
  );
}

/** What the code says of such a request, `ok` where it was let in, whatever became of it. */
async function ask(http: TestHttp, [method, path]: Route, headers: Record<string, string> = {}): Promise<unknown> {
  const body = method === 'GET' ? {} : { body: {} };
  const answer = await http.request(path, { method, headers, ...body });
  const { code } = answer.json();
  return answer.status === 401 || answer.status === 403 ? code : 'ok';
}

describe.each(Object.entries(ROUTES))('%s', (needed, contract) => {
  test('lets in whoever holds it, and nobody else', async () => {
    const http = await startHttp();
    const routes = new Map(contract.map((route) => [route.join(' '), route]));
    const listed = new Set(contract.map(([method, path]) => `${method} ${path.replace(/\?.*$/, '')}`));
    const documented = await documentedRoutes(http, needed);
    expect(documented.filter((route) => !listed.has(route))).toEqual([]);
    const others = PERMISSIONS.filter((permission) => permission !== needed);
    const holder = await testKey(http.store, { permissions: PERMISSIONS.filter((name) => name === needed) });
    const other = await testKey(http.store, { permissions: others });
    const seen = [];
    for (const [name, route] of routes) {
      seen.push([
        name,
        await ask(http, route),
        await ask(http, route, { ...other.headers }),
        await ask(http, route, { ...holder.headers }),
      ]);
    }
    const refused = needed === 'any' ? 'ok' : 'AUTH_FORBIDDEN';
    expect(seen).toEqual([...routes.keys()].map((name) => [name, 'AUTH_MISSING_KEY', refused, 'ok']));
  });
});
