/**
 * The examples of the reference: requests that are made here, with the answers that a running daemon gives. They are kept
 * in a file that the reference shows; this test fails when an answer is no longer the same (`vitest -u` writes it anew).
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { API } from '../../src/contract/contract.ts';
import { pathOf, type Route } from '../../src/contract/route.ts';
import { PERMISSIONS } from '../../src/lib/permission-names.ts';
import { addDmarcResult, addTlsResult, noteReceivedReport } from '../../src/store/aggregate-reports.ts';
import type { Statement } from '../../src/store/statement.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { startTestWorld } from '../harness/daemon.ts';
import { testKey } from '../harness/keys.ts';

/** Routes whose answers differ from machine to machine, or that answer over the Unix socket alone. */
const WITHOUT = new Set<Route>([
  API.doctor.check,
  API.emails.source,
  // Has no end.
  API.analytics.stream,
  ...Object.values(API.configCheck),
  ...Object.values(API.serverConfig),
  ...Object.values(API.serverLog),
  ...Object.values(API.backups),
  // For browsers, and with codes that a clock makes: test/http/api/sessions.test.ts.
  ...Object.values(API.sessions),
  ...Object.values(API.totp),
  ...Object.values(API.consoleLink),
]);

interface Example {
  readonly route: string;
  readonly path: string;
  readonly body?: object;
  readonly status: number;
  readonly answer: unknown;
}

interface Sent {
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: string;
  readonly body?: object;
}

const YAML = `project:
  name: Shop
  slug: shop
  owner: owner@inbox.test
domains:
  shop.example:
    forms:
      contact: { to: owner@inbox.test }
`;

test('every route has an example that is still true', async () => {
  const world = await startTestWorld({
    server: { server: { signup: 'open' }, webhooks: { allow_private_networks: true } },
  });
  const receiver = createServer((_request, response) => {
    response.sendDate = false;
    response.end('ok');
  }).listen(0, '127.0.0.1');
  onTestFinished(() => void receiver.close());
  await once(receiver, 'listening');
  const hookUrl = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`;
  const key = await testKey(world.daemon.store, { tenant: OPERATOR, permissions: PERMISSIONS, name: 'Server' });
  const examples: Example[] = [];
  const normal = normaliser({ [world.url]: 'https://mail.example.net', [hookUrl]: 'https://app.example.com' });

  async function call(route: Route, { params = {}, query = '', body }: Sent = {}): Promise<Record<string, unknown>> {
    const path = pathOf(route, params) + query;
    const response = await fetch(world.url + path, {
      method: route.method,
      headers: { ...key.headers, ...(body !== undefined && { 'Content-Type': 'application/json' }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    const isJson = response.headers.get('content-type') === 'application/json';
    const answer: unknown = isJson ? JSON.parse(text) : text;
    expect(response.status, `${route.method} ${path}: ${text}`).toBe(200);
    if (isJson) expect(route.answer.safeParse(answer).error, `${route.method} ${path}`).toBeUndefined();
    if (examples.some((example) => example.route === `${route.method} ${route.path}`)) return { ...Object(answer) };
    const shown = { route: `${route.method} ${route.path}`, path, ...(body !== undefined && { body }) };
    examples.push({ ...shown, status: response.status, answer });
    return { ...Object(answer) };
  }

  async function make(route: Route, sent: Sent): Promise<string> {
    return String((await call(route, sent))['id']);
  }

  // Its mail stays in the queue, so that every run finds the same.
  await call(API.queue.hold, { body: { domain: 'inbox.test' } });
  await call(API.keys.status);
  await call(API.keys.limits);
  const keyId = await make(API.keys.create, { body: { name: 'Newsletter', permissions: ['email.send'] } });
  await call(API.keys.show, { params: { id: keyId } });
  await call(API.keys.list, { query: '?limit=1' });
  await call(API.keys.revoke, { params: { id: keyId } });

  await call(API.projects.create, { body: { name: 'My site' } });
  await call(API.domains.create, { body: { domain: 'my-site.example', project: 'my-site' } });
  const domain = { params: { domain: 'my-site.example' } };
  await call(API.domains.show, domain);
  await world.daemon.store.write(reportedOn('my-site.example'));
  await call(API.domains.reports, domain);
  await call(API.domains.zone, domain);
  await call(API.domains.forwarding, { params: { domain: 'example.test' } });
  await call(API.domains.explain, { params: { domain: 'example.test' }, query: '?address=info' });
  await call(API.domains.verify, domain);
  await call(API.domains.rotateDkim, domain);
  await call(API.domains.list, { query: '?limit=1&cursor=example.test' });
  await call(API.domains.remove, domain);
  await call(API.projects.show, { params: { slug: 'my-site' } });
  await call(API.projects.list, { query: '?limit=1' });
  const pushed = await call(API.projects.push, { params: { slug: 'shop' }, body: { config: YAML } });
  await call(API.projects.config, { params: { slug: 'shop' } });
  await call(API.projects.revisions, { params: { slug: 'shop' } });
  await call(API.projects.changes, { params: { slug: 'shop', revision: String(pushed['revision']) } });
  await call(API.projects.rollback, { params: { slug: 'shop' }, body: { revision: pushed['revision'] } });
  await call(API.projects.remove, { params: { slug: 'my-site' } });

  const form = await make(API.forms.create, {
    body: { name: 'Contact', to: 'owner@inbox.test', subject: 'New message' },
  });
  await call(API.forms.change, { params: { id: form }, body: { subject: 'Message from the site' } });
  await call(API.forms.show, { params: { id: form } });
  await call(API.forms.list, { query: '?limit=1' });
  await call(API.formTools.snippets, { params: { id: form } });
  await call(API.formTools.preview, { params: { id: form }, body: { show: 'notification', fields: { name: 'Ada' } } });
  await call(API.formTools.test, {
    params: { id: form },
    body: { fields: { email: 'ada@inbox.test', message: 'Test' } },
  });
  const instant = await make(API.instantForms.create, { body: { name: 'Newsletter', email: 'owner@inbox.test' } });
  await call(API.instantForms.change, { params: { id: instant }, body: { name: 'News' } });
  await call(API.instantForms.show, { params: { id: instant } });
  await call(API.instantForms.list);
  await call(API.collections.create, {
    body: { name: 'team', title: 'Team', forms: { join: { email: 'owner@inbox.test' } } },
  });
  await call(API.collections.show, { params: { name: 'team' } });
  await call(API.collections.list);
  await call(API.recipients.ask, { body: { address: 'new@inbox.test' } });
  await call(API.recipients.list);

  const data = new FormData();
  data.set('name', 'Ada');
  data.set('email', 'ada@inbox.test');
  data.set('message', 'Hello');
  const posted = await fetch(`${world.url}/f/${instant}`, {
    method: 'POST',
    headers: { Accept: 'application/json' },
    body: data,
  });
  const { id: submission } = (await posted.json()) as { id: string };
  const one = { params: { id: submission } };
  await call(API.submissions.show, one);
  await call(API.submissions.listInstant);
  await call(API.submissions.inbox, { query: '?unread=true' });
  await call(API.submissions.counts);
  await call(API.submissions.act, { body: { action: 'read', ids: [submission] } });
  await call(API.submissions.spam, one);
  await call(API.submissions.ham, one);
  await call(API.submissions.resend, one);
  data.set('cv', new File(['Ada Lovelace'], 'cv.txt', { type: 'text/plain' }));
  await world.post('/example.test/contact', data, { Accept: 'application/json' });
  const contact = { params: { form: 'example.test/contact' } };
  const listed = (await call(API.submissions.list, contact)) as {
    submissions: { id: string; files: { id: string }[] }[];
  };
  const [withFile] = listed.submissions;
  await call(API.submissions.file, { params: { id: withFile?.id ?? '', file: withFile?.files[0]?.id ?? '' } });
  await call(API.submissions.export, { ...contact, query: '?format=csv' });

  const later = new Date(Date.now() + 86_400_000).toISOString();
  const mail = { from: 'shop@example.test', to: 'ada@customer.test', subject: 'Your order', text: 'Thank you.' };
  const email = await make(API.emails.send, { body: { ...mail, send_at: later } });
  await call(API.emails.sendBatch, { body: [{ ...mail, send_at: later }] });
  await call(API.emails.show, { params: { id: email } });
  await call(API.emails.list, { query: '?limit=1' });
  await call(API.queue.list, { query: '?domain=customer.test&limit=1' });
  await call(API.queue.destinations, { query: '?limit=1' });
  await call(API.queue.show, { params: { id: email } });
  await call(API.mailLog.trace, { params: { id: email } });
  const letter = { ...mail, to: 'ada@inbox.test', html: '<p>Thank you.</p>' };
  const message = { params: { id: await make(API.emails.send, { body: letter }) } };
  await call(API.messages.list, { query: '?limit=1&kind=transactional&recipient=ada@inbox.test' });
  await call(API.inbound.list, { query: '?limit=1' });
  await call(API.messages.show, message);
  const { html_url: framed } = await call(API.messages.content, message);
  await call(API.messages.html, { ...message, query: new URL(String(framed), world.url).search });
  await call(API.messages.cancel, message);
  await call(API.messages.resend, message);
  await call(API.queue.act, { body: { action: 'hold', filter: { domain: 'customer.test' }, dry_run: true } });
  await call(API.emails.cancel, { params: { id: email } });
  await call(API.queue.hold, { body: { domain: 'customer.test' } });
  const resend = await make(API.resendEmails.send, { body: { ...mail, scheduled_at: later } });
  await call(API.resendEmails.sendBatch, { body: [{ ...mail, scheduled_at: later }] });
  await call(API.resendEmails.reschedule, { params: { id: resend }, body: { scheduled_at: later } });
  await call(API.resendEmails.show, { params: { id: resend } });
  await call(API.resendEmails.list, { query: '?limit=1' });
  await call(API.resendEmails.cancel, { params: { id: resend } });
  const held = await make(API.emails.send, { body: { ...mail, to: 'ada@inbox.test' } });
  await call(API.queue.retry, { params: { id: held } });
  await call(API.queue.cancel, { params: { id: held } });
  await call(API.erasure.erase, { body: { address: 'ana@customer.test', dry_run: true } });
  await call(API.erasure.eraseAll, { body: { address: 'ana@customer.test', dry_run: true } });
  await call(API.suppressions.create, { body: { address: 'gone@customer.test' } });
  await call(API.suppressions.list);
  await call(API.suppressions.remove, { params: { address: 'gone@customer.test' } });

  await call(API.analytics.events, { query: '?type=email.queued&limit=1' });
  await call(API.analytics.show, { query: `?from=${later.slice(0, 10)}&to=${later.slice(0, 10)}` });
  await call(API.analytics.overview);
  await call(API.analytics.apiUsage, { query: `?last=7d&key=${keyId}` });
  const hook = await make(API.webhooks.create, { body: { url: `${hookUrl}/hook`, events: ['email.bounced'] } });
  const webhook = { params: { id: hook } };
  await call(API.webhooks.change, { ...webhook, body: { description: 'Bounces' } });
  await call(API.webhooks.show, webhook);
  await call(API.webhooks.list);
  const tested = await make(API.webhooks.test, { ...webhook, body: {} });
  await call(API.webhooks.deliveries, { ...webhook, query: '?state=delivered' });
  await call(API.webhooks.delivery, { params: { id: hook, delivery: tested } });
  await call(API.webhooks.rotate, { ...webhook, body: {} });
  await call(API.webhooks.replay, { ...webhook, body: { since: later } });
  await call(API.queue.hold, { body: { domain: hook } });
  const { events } = (await call(API.analytics.events, { query: '?type=email.queued&limit=1' })) as {
    events: { id: string }[];
  };
  await call(API.webhooks.replay, { ...webhook, body: { event: events[0]?.id } });
  const pending = (await call(API.webhooks.deliveries, { ...webhook, query: '?state=pending' })) as {
    deliveries: { id: string }[];
  };
  await call(API.webhooks.replayDelivery, {
    params: { id: hook, delivery: pending.deliveries[0]?.id ?? '' },
    body: {},
  });
  await call(API.webhooks.remove, webhook);

  const account = await call(API.tenants.create, { body: { name: 'Acme', email: 'ops@acme.test' } });
  const { id: tenant } = account['tenant'] as { id: string };
  await call(API.tenants.change, { params: { id: tenant }, body: { requests_per_hour: 5000 } });
  await call(API.tenants.show, { params: { id: tenant } });
  await call(API.tenants.list, { query: '?limit=1' });
  await call(API.tenants.setPlan, { body: { tenant, plan: 'pro' } });
  await call(API.tenants.usage, { query: `?from=${later.slice(0, 10)}&to=${later.slice(0, 10)}` });
  await call(API.tenants.billing, { query: '?month=2026-01' });
  await call(API.tenants.remove, { params: { id: tenant }, query: '?queued=deliver' });
  await call(API.adminDomains.list, { query: '?status=verified' });
  await call(API.adminDomains.move, { params: { domain: 'example.test' }, body: { tenant: OPERATOR } });
  await call(API.mailLog.inbound, { query: '?outcome=rejected' });
  await call(API.mailLog.explain, { query: `?what=${form}` });
  await call(API.hostKeys.list);
  await call(API.hostKeys.rotate);
  await call(API.hostKeys.verify);
  await call(API.accounts.signup, { body: { name: 'Ada', email: 'ada@customer.test' } });
  await call(API.submissions.spam, one);
  await call(API.submissions.remove, one);
  // Not before: what is released is on its way at once, and then keeps its submission.
  await call(API.queue.release, { body: { domain: 'inbox.test' } });
  await call(API.forms.remove, { params: { id: form } });
  await call(API.instantForms.remove, { params: { id: instant } });
  await call(API.collections.remove, { params: { name: 'team' } });

  await expect(`${JSON.stringify(normal(examples), null, 2)}\n`).toMatchFileSnapshot(
    '../../src/http/pages/reference-examples.json',
  );
  const shown = new Set(examples.map(({ route }) => route));
  const missing = Object.values(API)
    .flatMap((routes): Route[] => Object.values(routes))
    .filter((route) => !WITHOUT.has(route) && !shown.has(`${route.method} ${route.path}`));
  expect(missing.map(({ method, path }) => `${method} ${path}`)).toEqual([]);
});

/** What a receiver and a sender reported of today. */
function reportedOn(domain: string): Statement[] {
  const day = Math.floor(Date.now() / 86_400_000) * 86_400_000;
  const about = { domain, day, tenant: OPERATOR, reporter: 'receiver.example' };
  const mail = { ...about, disposition: 'none', dkim_domain: domain, spf_domain: 'mail.example.net' } as const;
  const tls = { ...about, policy: 'sts', mx: 'mail.example.net' };
  return [
    noteReceivedReport({ ...about, hash: 'a', kind: 'dmarc', created_at: day }),
    noteReceivedReport({ ...about, hash: 'b', kind: 'tls', created_at: day }),
    addDmarcResult({ ...mail, source: '203.0.113.25', dkim: 'aligned', spf: 'unaligned', count: 118 }),
    addDmarcResult({ ...mail, source: '198.51.100.7', dkim: 'none', spf: 'failed', dkim_domain: '', count: 3 }),
    addTlsResult({ ...tls, result: 'success', count: 41 }),
    addTlsResult({ ...tls, result: 'certificate-expired', count: 2 }),
  ];
}

/** What differs from run to run. */
const NUMBERS: ReadonlyMap<string, number> = new Map([
  ['size', 512],
  ['duration_ms', 42],
]);
const STRINGS: ReadonlyMap<string, string> = new Map([
  ['last4', 'Ab3d'],
  ['webhook-timestamp', '1769860800'],
]);

/** Ids, times, keys and addresses that differ from run to run, as the same ones each time. */
function normaliser(addresses: Readonly<Record<string, string>>): (value: unknown) => unknown {
  const ids = new Map<string, string>();
  function id(text: string, kind: string): string {
    const known = ids.get(text);
    if (known !== undefined) return known;
    const number = [...ids.keys()].filter((one) => one.startsWith(`${kind}_`)).length + 1;
    const made = `${kind}_01k${String(number).padStart(23, '0')}`;
    ids.set(text, made);
    return made;
  }
  function text(value: string): string {
    return (
      Object.entries(addresses)
        .reduce((all, [from, to]) => all.replaceAll(from, to), value)
        .replaceAll(/\b([a-z]{3})_[0-9a-z]{26}\b/g, (whole, kind: string) => id(whole, kind))
        .replaceAll(/\bsvc_(sk|rk)(_live|_test)?_\w{10,}/g, 'svc_$1$2_…')
        .replaceAll(/, port \d+/g, ', port 25')
        .replaceAll(/<[0-9a-z]{26}@/g, '<01k00000000000000000000001@')
        .replaceAll(/token=\d{13}\.[\w-]+/g, 'token=…')
        .replaceAll(/whsec_[\w+/=]+/g, 'whsec_…')
        .replaceAll(/\b2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, '2026-01-31T12:00:00.000Z')
        .replaceAll(/\b2\d{3}-\d\d-\d\d\b/g, '2026-01-31')
        .replaceAll(/\bpostern-2\d{7}\b/g, 'postern-20260131')
        .replaceAll(/\bv1,[\w+/]+=*/g, 'v1,…')
        .replaceAll(/p=[\w+/=]{20,}(?:" "[\w+/=]+)*/g, 'p=MIIBIjANBgkq…')
        .replaceAll(/\b\d{1,2} [A-Z][a-z]+ 2\d{3} at \d\d:\d\d UTC/g, '31 January 2026 at 12:00 UTC')
        // A whole mail would hide the rest of the answer.
        .replace(/^(<!DOCTYPE html>)[^]{500,}$/i, '$1…')
        .replaceAll(/\b[0-9a-f]{32}\b/g, '0123456789abcdef0123456789abcdef')
    );
  }
  function normal(value: unknown, name = ''): unknown {
    if (typeof value === 'string') return STRINGS.get(name) ?? text(value);
    if (typeof value === 'number') return NUMBERS.get(name) ?? value;
    if (Array.isArray(value)) return value.map((item) => normal(item));
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, member]) => [text(key), normal(member, key)]));
  }
  return normal;
}
