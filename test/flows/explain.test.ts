/** What `explain` says is what then happens. */
import { expect, test } from 'vitest';
import { z } from 'zod';
import { OPERATOR, changeTenant } from '../../src/store/tenants.ts';
import { suppress } from '../../src/store/suppressions.ts';
import { apiClient } from '../harness/api.ts';
import { until } from '../harness/child.ts';
import { startTestWorld, type WorldSettings } from '../harness/daemon.ts';

const SITE = `
project: { name: Site, slug: site, owner: owner@inbox.test }
settings: { rate_limit: 7 }
domains:
  example.test:
    forwarding:
      hello@example.test: [a@inbox.test, team@example.test]
      team@example.test: b@other.test
      contact@example.test: c@inbox.test
      gone@example.test: reject
      quiet@example.test: discard
    forms:
      contact: { name: Contact form }
      strict: { to: owner@inbox.test, rateLimit: 3, template: fancy, spam_protection: { level: strict } }
      owned: {}
collections:
  team: { settings: { requireApiKey: true }, forms: { join: {} } }
templates:
  fancy: { subject: Hi, text: "{{ form.message }}" }
`;

const explanation = z.object({
  kind: z.string(),
  steps: z.array(
    z.object({
      step: z.string(),
      about: z.string().optional(),
      verdict: z.string(),
      found: z.string(),
      because: z.string(),
    }),
  ),
});

async function start(settings: WorldSettings = {}) {
  const world = await startTestWorld({ projects: { 'site.yml': SITE }, ...settings });
  const operator = await apiClient(world, { tenant: OPERATOR, permissions: ['admin'] });
  return {
    world,
    async explain(what: string) {
      const { status, body } = await operator.ask('GET', `/admin/explain?what=${encodeURIComponent(what)}`);
      expect(status).toBe(200);
      const { kind, steps } = explanation.parse(body);
      return {
        kind,
        steps,
        names: steps.map(({ step }) => step),
        one: (step: string, about?: string) =>
          steps.find((each) => each.step === step && (about === undefined || each.about === about)),
      };
    },
    refuse: (what: string) => operator.ask('GET', `/admin/explain?what=${encodeURIComponent(what)}`),
  };
}

test('an address of ours: the domain, the rule that matches, where it ends, what is done on the way, and the way on', async () => {
  const { explain } = await start({ zone: [{ name: 'other.test', type: 'MX', value: '0 .' }] });
  const { kind, names, one } = await explain('Hello+news@Example.test');
  expect(kind).toBe('inbound');
  expect(names.slice(0, 9)).toEqual(['domain', 'mx', 'rule', 'decision', 'dmarc', 'from', 'srs', 'arc', 'dkim']);
  expect(one('domain')).toMatchObject({ verdict: 'ok', found: 'example.test of the project site is verified' });
  expect(one('mx')).toMatchObject({ verdict: 'warning', found: 'example.test has no MX record' });
  expect(one('rule')).toMatchObject({
    found: 'hello@example.test: a@inbox.test, team@example.test',
    because: 'the rule for the address without its tag',
  });
  expect(one('decision')).toMatchObject({ found: 'forwarded to a@inbox.test, b@other.test' });
  expect(one('arc')).toMatchObject({ found: 'sealed with postern._domainkey.mail.postern.test' });
  expect(one('from')?.found).toContain('<forwarded@example.test>');
  expect(one('route', 'a@inbox.test')).toMatchObject({
    verdict: 'ok',
    found: expect.stringMatching(/^mx\.inbox\.test \[127\.0\.0\.1\], port \d+$/),
  });
  expect(one('route', 'b@other.test')).toMatchObject({
    verdict: 'stop',
    found: 'rejected immediately: 556 5.1.10 other.test accepts no mail (null MX)',
  });
});

test.each([
  ['gone@example.test', { verdict: 'stop', found: 'rejected: 550 5.1.1 no such address here', because: 'rejected' }],
  ['quiet@example.test', { verdict: 'warning', found: 'accepted with 250, then discarded' }],
  ['nobody@example.test', { verdict: 'stop', because: 'unknown_recipient' }],
  ['b+nothing@mail.postern.test', { verdict: 'stop', because: 'invalid_return_path' }],
  ['postmaster', { verdict: 'ok', found: 'forwarded to ops@inbox.test' }],
])('%s', async (address, decision) => {
  const { explain } = await start();
  expect((await explain(address)).one('decision')).toMatchObject(decision);
});

test('a domain that DNS has not confirmed yet: which record is missing', async () => {
  const { explain } = await start({ unverified: ['example.test'] });
  const { one } = await explain('hello@example.test');
  expect(one('domain')).toMatchObject({ verdict: 'stop', found: expect.stringContaining('is pending') });
  expect(one('decision')).toMatchObject({ verdict: 'stop', because: 'domain_not_verified' });
  expect((await explain('example.test/contact')).one('dkim')).toMatchObject({ verdict: 'stop' });
});

test('a form: by which rule it is limited and who gets it, its template, its key, and the way of its mail', async () => {
  const { explain } = await start();
  const contact = await explain('example.test/contact');
  expect(contact.kind).toBe('form');
  expect(contact.one('recipients')).toMatchObject({
    found: 'c@inbox.test',
    because: expect.stringContaining('forwarding has a rule'),
  });
  expect(contact.one('rate_limit')).toMatchObject({
    found: expect.stringMatching(/^7 /),
    because: expect.stringMatching(/^settings\.rate_limit/),
  });
  expect(contact.one('template')).toMatchObject({ found: 'default', because: 'built in' });
  expect(contact.one('from')).toMatchObject({ found: '"Contact form" <forms@example.test>' });
  expect(contact.one('dkim')).toMatchObject({
    verdict: 'ok',
    found: 'signed by postern._domainkey.example.test (rsa)',
  });
  expect(contact.one('route', 'c@inbox.test')).toMatchObject({ verdict: 'ok' });

  const strict = await explain('example.test/strict');
  expect(strict.one('rate_limit')).toMatchObject({
    found: expect.stringMatching(/^3 /),
    because: expect.stringMatching(/^rateLimit/),
  });
  expect(strict.one('template')).toMatchObject({ found: 'fancy', because: 'from the project' });
  expect(strict.one('access')?.found).toContain('rejected (level strict)');
  expect((await explain('example.test/owned')).one('recipients')).toMatchObject({
    verdict: 'warning',
    found: 'owner@inbox.test',
  });
});

test('a form whose recipient is at a domain that comes here: its forwarding rules decide', async () => {
  const other = `
project: { name: Other, slug: other }
domains:
  other.test: { forms: { ask: { to: hello@example.test } } }
`;
  const { explain } = await start({
    projects: { 'site.yml': SITE, 'other.yml': other },
    zone: [{ name: 'example.test', type: 'MX', value: '10 mail.postern.test' }],
  });
  expect((await explain('other.test/ask')).one('route', 'hello@example.test')).toMatchObject({
    verdict: 'ok',
    found: expect.stringContaining('this server itself'),
  });
});

test('forms without a domain are signed by the server’s own key; one whose recipient has not agreed mails nobody', async () => {
  const { world, explain } = await start();
  const { one } = await explain('c/team/join');
  expect(one('domain')).toBeUndefined();
  expect(one('dkim')).toMatchObject({ found: 'signed by postern._domainkey.mail.postern.test (rsa)' });
  expect(one('recipients')).toMatchObject({
    found: 'owner@inbox.test',
    because: expect.stringContaining('project.owner'),
  });
  expect(one('access')).toMatchObject({ found: 'only with an API key' });
  const stranger = await apiClient(world, { account: { trusted: 0 } });
  const made = await stranger.ask('POST', '/instant/forms', { name: 'Hi', email: 'x@inbox.test' });
  const { id } = z.object({ id: z.string() }).parse(made.body);
  expect((await explain(id)).one('consent', 'x@inbox.test')).toMatchObject({
    verdict: 'stop',
    found: 'pending',
    because: expect.stringContaining('has not yet confirmed'),
  });
  expect((await explain(id)).one('access')).toMatchObject({ verdict: 'ok' });
  await world.daemon.store.write(changeTenant(stranger.tenant, { suspended: true }));
  expect((await explain(id)).one('access')).toMatchObject({
    verdict: 'stop',
    because: expect.stringContaining('is suspended'),
  });
});

test('an address elsewhere: suppression, a hold, a pause, and what was last said there', async () => {
  const { world, explain } = await start({ server: { delivery: { routes: { 'dead.test': '127.0.0.1:1' } } } });
  const { store } = world.daemon;
  expect((await explain('c@inbox.test')).names).toEqual(['suppression', 'destination', 'route', 'tls', 'attempts']);
  world.mx.behave(({ stage }) => (stage === 'rcpt' ? { code: 451, text: '4.7.1 not now' } : undefined));
  await world.post('/example.test/contact', { message: 'Are you open on Friday?' });
  await until('it was tried', async () => (await store.read.selectFrom('attempts').selectAll().execute()).length === 1);
  await store.write([suppress({ tenant: OPERATOR, address: 'c@inbox.test', reason: 'complaint', created_at: 0 })]);
  const { one } = await explain('C@inbox.test');
  expect(one('attempts')).toMatchObject({ verdict: 'warning', found: expect.stringContaining('451 4.7.1 not now') });
  expect(one('suppression')).toMatchObject({ verdict: 'warning', found: expect.stringContaining('(complaint)') });
  const form = await explain('example.test/contact');
  expect(form.one('suppression', 'c@inbox.test')).toMatchObject({
    because: 'mail to the owner of a form is sent anyway',
  });

  const operator = await apiClient(world, { tenant: OPERATOR, permissions: ['admin'] });
  await operator.ask('POST', '/admin/queue/hold', { domain: 'inbox.test' });
  expect((await explain('x@inbox.test')).one('destination')).toMatchObject({
    verdict: 'stop',
    found: 'mail to inbox.test is held',
  });
  world.dns.set([...world.publicZone, { name: 'round.test', type: 'MX', value: '10 mail.postern.test' }]);
  expect((await explain('x@round.test')).one('route')).toMatchObject({
    verdict: 'stop',
    found: expect.stringContaining('mail for round.test loops back to this server'),
  });
  expect((await explain('x@dead.test')).one('route')).toMatchObject({
    because: 'delivery.routes has an entry for dead.test',
  });
});

test('what is neither an address nor a form is 404, and says how forms are named', async () => {
  const { refuse } = await start();
  for (const what of ['example.test/nothing', 'c/none/x', 'frm_01jz0000000000000000000000', 'nonsense']) {
    expect(await refuse(what)).toMatchObject({
      status: 404,
      body: { code: 'NOT_FOUND', error: expect.stringContaining('example.com/contact') },
    });
  }
});
