/** Every route, asked with every permission: those of the contract, whose needs are written here by hand, and what else the reference has. */
import { describe, expect, test } from 'vitest';
import { PERMISSIONS, type Permission } from '../../../src/lib/permission-names.ts';
import { startHttp, type TestHttp } from '../../harness/http.ts';
import { testKey } from '../../harness/keys.ts';

type Needs = Permission | 'any';
/** A method and an address. */
type Door = readonly [method: string, path: string];

const DOORS: Readonly<Record<Needs, readonly Door[]>> = {
  any: [
    ['GET', '/auth/status'],
    ['GET', '/rate-limits'],
  ],
  'projects.read': [
    ['GET', '/projects'],
    ['GET', '/projects/x'],
    ['GET', '/projects/x/config'],
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
  ],
  'domains.read': [
    ['GET', '/domains'],
    ['GET', '/domains/example.com'],
    ['GET', '/domains/example.com/zone'],
    ['GET', '/domains/example.com/forwarding'],
    ['GET', '/domains/example.com/explain?address=a'],
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
  ],
  // Posting to a form: no route of the API; test/http/submit.test.ts.
  'forms.submit': [],
  'collections.read': [['GET', '/collections']],
  'collections.write': [
    ['POST', '/collections'],
    ['DELETE', '/collections/x'],
  ],
  'analytics.read': [
    ['GET', '/analytics'],
    ['GET', '/analytics/api-usage'],
    ['GET', '/events'],
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
  ],
  'keys.read': [
    ['GET', '/api-keys'],
    ['GET', '/api-keys/x'],
  ],
  'keys.write': [
    ['POST', '/api-keys'],
    ['DELETE', '/api-keys/x'],
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
  ],
};

/** The routes that need this, as the reference says. */
async function documented(http: TestHttp, needed: string): Promise<Door[]> {
  const { paths } = (await http.request('/openapi.json')).json() as { paths: Record<string, Record<string, object>> };
  return Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations)
      .filter(([, operation]) => 'x-permission' in operation && operation['x-permission'] === needed)
      .map(([method]): Door => [
        method.toUpperCase(),
        path.replaceAll('{domain}', 'example.com').replace(/\{\w+\}/g, 'x'),
      ]),
  );
}

/** What the code says of such a request, `ok` where it was let in, whatever became of it. */
async function ask(http: TestHttp, [method, path]: Door, headers: Record<string, string> = {}): Promise<unknown> {
  const body = method === 'GET' ? {} : { body: {} };
  const answer = await http.request(path, { method, headers, ...body });
  const { code } = answer.json();
  return answer.status === 401 || answer.status === 403 ? code : 'ok';
}

describe.each(Object.entries(DOORS))('%s', (needed, contract) => {
  test('lets in whoever holds it, and nobody else', async () => {
    const http = await startHttp();
    const doors = new Map([...contract, ...(await documented(http, needed))].map((door) => [door.join(' '), door]));
    const others = PERMISSIONS.filter((permission) => permission !== needed);
    const holder = await testKey(http.store, { permissions: PERMISSIONS.filter((name) => name === needed) });
    const other = await testKey(http.store, { permissions: others });
    const seen = [];
    for (const [name, door] of doors) {
      seen.push([
        name,
        await ask(http, door),
        await ask(http, door, { ...other.headers }),
        await ask(http, door, { ...holder.headers }),
      ]);
    }
    const refused = needed === 'any' ? 'ok' : 'AUTH_FORBIDDEN';
    expect(seen).toEqual([...doors.keys()].map((name) => [name, 'AUTH_MISSING_KEY', refused, 'ok']));
  });
});
