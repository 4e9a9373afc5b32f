import { describe, expect, test } from 'vitest';
import { Webhook } from 'standardwebhooks';
import { adoptWebhooks } from '../../src/events/targets.ts';
import { cancel, hold, listDeliveries, release, resume } from '../../src/queue/operate.ts';
import { insertFile } from '../../src/store/submissions.ts';
import { forgetPostsOfEvents, insertPost } from '../../src/store/webhook-deliveries.ts';
import { disableWebhook, replaceSecret } from '../../src/store/webhooks.ts';
import { OPERATOR, changeTenant } from '../../src/store/tenants.ts';
import { testClock } from '../harness/clock.ts';
import { DAY, HOUR, LETTER, MINUTE, SECOND, answered, eventWorld, snapshotOf } from './world.ts';

const names = (seen: { json: { type: string } }[]) => seen.map(({ json }) => json.type);

describe('what happens is posted', () => {
  test('once, with its ids, under an id and a signature of its own', async () => {
    const world = await eventWorld();
    const hook = await world.hook();
    world.clock.advance(SECOND);
    await world.record({
      type: 'email.delivered',
      data: { recipient: 'a@b.example' },
      message: 'msg_1',
      domain: 'example.com',
    });
    for (let i = 0; i < 3; i++) {
      await world.turn();
      world.clock.advance(SECOND);
    }
    expect(world.seen).toHaveLength(1);
    const [one] = world.seen;
    expect([one?.method, one?.url]).toEqual(['POST', 'https://hooks.example/in']);
    expect(one?.json).toEqual({
      type: 'email.delivered',
      timestamp: '2026-01-01T00:00:01.000Z',
      data: {
        event: expect.stringMatching(/^evt_/),
        message: 'msg_1',
        domain: 'example.com',
        recipient: 'a@b.example',
      },
    });
    expect(one?.headers).toMatchObject({
      'content-type': 'application/json',
      'webhook-id': expect.stringMatching(/^whd_/),
      'webhook-timestamp': String(Date.UTC(2026, 0, 1) / 1000 + 1),
    });
    const signed = new Webhook(hook.secret).sign(one?.id ?? '', new Date(one?.at ?? 0), one?.body ?? '');
    expect(one?.headers?.['webhook-signature']).toBe(signed);
    expect(await world.deliveries()).toMatchObject([
      { state: 'delivered', attempts: 1, last_status: 200, last_result: '200 OK' },
    ]);
  });

  test('a submission with what the visitor sent', async () => {
    const world = await eventWorld();
    await world.hook();
    const fields = [
      ['name', 'Anna'],
      ['color', ['red', 'blue']],
      ['__proto__', 'x'],
    ] as const;
    const file = { field: 'cv', filename: 'cv.pdf', content_type: 'application/pdf', size: 12 };
    const id = await world.submit({ form: 'example.com/contact', fields: JSON.stringify(fields) }, [
      insertFile({ id: 'fil_1', submission: 'sub_1', position: 0, unscanned: 0, ...file }),
    ]);
    await world.turn();
    const data = world.seen[0]?.json.data;
    expect(data).toMatchObject({
      id,
      submission: id,
      form: 'example.com/contact',
      domain: 'example.com',
      files: [file],
    });
    expect(Object.entries(data?.['fields'] ?? {})).toEqual(fields);
  });

  test('only what a webhook asks for, of its own tenant, after it was made, and only public kinds', async () => {
    const world = await eventWorld();
    await world.record({ type: 'domain.failed' });
    world.clock.advance(SECOND);
    await world.hook({ events: '["domain.verified","email.bounced"]' });
    await world.hook({ url: 'https://all.example/' });
    await world.record({ type: 'domain.verified' });
    await world.record({ type: 'domain.degraded' });
    await world.record({ type: 'key.created' });
    await world.record({ type: 'email.bounced', tenant: 'ten_other' });
    await world.turn();
    const to = (host: string) => names(world.seen.filter(({ url }) => url.includes(host))).sort();
    expect(to('hooks.example')).toEqual(['domain.verified']);
    expect(to('all.example')).toEqual(['domain.degraded', 'domain.verified']);
  });

  test('nothing while its tenant is suspended, and all of it afterwards', async () => {
    const world = await eventWorld();
    const hook = await world.hook();
    await world.record({ type: 'email.delivered' });
    await world.store.write(changeTenant(hook.tenant, { suspended: true }));
    await world.turn();
    expect(world.seen).toEqual([]);
    await world.store.write(changeTenant(hook.tenant, { suspended: false }));
    await resume(world.store, hook.tenant, world.clock.now());
    await world.turn();
    expect(names(world.seen)).toEqual(['email.delivered']);
    expect(await world.deliveries()).toMatchObject([{ state: 'delivered', attempts: 1 }]);
  });

  test('also what was committed late, by a clock that is behind, or while no daemon ran', async () => {
    const world = await eventWorld();
    await world.hook();
    world.clock.advance(10 * MINUTE);
    await world.turn();
    await world.record({ type: 'email.queued', at: world.clock.now() - 3 * SECOND });
    await world.turn();
    expect(names(world.seen)).toEqual(['email.queued']);
    await world.record({ type: 'email.deferred', at: world.clock.now() - MINUTE });
    world.clock.advance(MINUTE);
    await world.turn();
    expect(names(world.seen)).toEqual(['email.queued', 'email.deferred']);
    await world.record({ type: 'email.bounced' });
    world.clock.advance(3 * DAY);
    await world.main.worker.stop(0);
    const later = world.daemon();
    await later.webhooks.look();
    await later.settle();
    expect(names(world.seen)).toEqual(['email.queued', 'email.deferred', 'email.bounced']);
  });

  test('once also where several daemons look at the same time', async () => {
    const world = await eventWorld();
    await world.hook();
    for (let i = 0; i < 20; i++) await world.record();
    const daemons = [world.main, world.daemon(), world.daemon()];
    await Promise.all(daemons.slice(1).map(({ worker }) => worker.stop(0)));
    await Promise.all(daemons.map(({ webhooks }) => webhooks.look()));
    await world.main.settle();
    expect(await world.deliveries()).toHaveLength(20);
    expect(new Set(world.seen.map(({ id }) => id)).size).toBe(20);
    expect(world.seen).toHaveLength(20);
  });
});

describe('a target that does not take it', () => {
  test('gets the same again under the same id until it does', async () => {
    const world = await eventWorld();
    const { id } = await world.hook();
    await world.record();
    world.reply = () => (world.seen.length < 4 ? answered(500, { text: 'out of\r\norder' }) : answered(204));
    await world.turn();
    expect(await world.deliveries()).toMatchObject([
      { state: 'pending', attempts: 1, last_status: 500, last_result: '500 Internal Server Error: out of  order' },
    ]);
    expect((await world.webhook(id)).failing_since).toBe(Date.UTC(2026, 0, 1));
    await world.follow(5);
    expect(world.seen.map(({ at }) => at - Date.UTC(2026, 0, 1))).toEqual([0, 5 * SECOND, 305 * SECOND, 2105 * SECOND]);
    expect(new Set(world.seen.map(({ id, body }) => `${id} ${body}`)).size).toBe(1);
    expect(new Set(world.seen.map(({ headers }) => headers?.['webhook-timestamp'])).size).toBe(4);
    expect(await world.deliveries()).toMatchObject([
      { state: 'delivered', attempts: 4, last_result: '204 No Content' },
    ]);
    expect((await world.webhook(id)).failing_since).toBeNull();
  });

  test('is given up after eight tries in 28 hours', async () => {
    const world = await eventWorld();
    await world.hook();
    await world.record();
    world.reply = () => ({ kind: 'failed', reason: 'connect ECONNREFUSED' });
    await world.turn();
    await world.follow(20);
    expect(world.seen).toHaveLength(8);
    expect((world.clock.now() - Date.UTC(2026, 0, 1)) / HOUR).toBeCloseTo(27.6, 1);
    expect(await world.deliveries()).toMatchObject([
      { state: 'failed', attempts: 8, next_attempt_at: null, last_status: null, last_result: 'connect ECONNREFUSED' },
    ]);
  });

  test('may ask for a longer wait, not for a shorter one', async () => {
    const world = await eventWorld();
    await world.hook();
    await world.record();
    const waits = ['60', '1', '90'];
    world.reply = () =>
      answered(world.seen.length === 2 ? 503 : 429, { retryAfter: waits[world.seen.length - 1] ?? '' });
    await world.turn();
    await world.follow(2);
    expect(world.seen.map(({ at }) => (at - Date.UTC(2026, 0, 1)) / SECOND)).toEqual([0, 60, 360]);
  });

  test('a redirect is no success', async () => {
    const world = await eventWorld();
    await world.hook();
    await world.record();
    world.reply = () => answered(301);
    await world.turn();
    expect(await world.deliveries()).toMatchObject([
      { state: 'pending', last_result: '301 Moved Permanently: redirects are not followed' },
    ]);
  });

  test('and says 410 is told nothing more, and its owner is written to', async () => {
    const world = await eventWorld();
    const { id } = await world.hook();
    await world.record();
    await world.record();
    world.reply = async () => {
      await expect.poll(() => world.seen.length).toBe(2);
      return answered(410);
    };
    await world.turn();
    expect(await world.webhook(id)).toMatchObject({ status: 'disabled', reason: 'The target answered 410 Gone.' });
    expect(await world.letters()).toEqual([
      {
        subject: 'A webhook was disabled: hooks.example',
        text: expect.stringContaining(`PATCH /webhooks/${id}`),
      },
    ]);
    world.clock.advance(MINUTE);
    await world.record();
    await world.turn();
    expect(world.seen).toHaveLength(2);
  });

  test('for five days is disabled; now and then a failure is not', async () => {
    const world = await eventWorld();
    const { id } = await world.hook();
    world.reply = () => answered(500);
    const start = world.clock.now();
    await world.record();
    await world.turn();
    // One event fails, and weeks later another one.
    world.clock.advance(20 * DAY);
    await world.record();
    await world.turn();
    expect((await world.webhook(id)).status).toBe('active');
    for (let hours = 0; hours < 5 * 24 - 1; hours++) {
      world.clock.advance(HOUR);
      await world.record();
      await world.turn();
    }
    expect((await world.webhook(id)).status).toBe('active');
    world.clock.advance(HOUR + MINUTE);
    await world.turn();
    expect(await world.webhook(id)).toMatchObject({
      status: 'disabled',
      reason: `Every attempt has failed since ${new Date(start + 20 * DAY).toISOString()}. The last result: 500 Internal Server Error`,
    });
    expect(await world.letters()).toHaveLength(1);
  });

  test('and is slow delays nobody else', async () => {
    const world = await eventWorld();
    await world.hook({ url: 'https://slow.example/' });
    for (let i = 0; i < 50; i++) await world.record();
    let finish: () => void = () => undefined;
    const hanging = new Promise<void>((resolve) => (finish = resolve));
    world.reply = async ({ url }) => {
      if (url.includes('slow')) await hanging;
      return answered(200);
    };
    await world.main.webhooks.look();
    await expect.poll(() => world.seen.length).toBe(4);
    world.clock.advance(SECOND);
    const quick = await world.hook({ url: 'https://quick.example/' });
    await world.record();
    await world.main.webhooks.look();
    await expect
      .poll(async () => (await world.deliveries()).filter(({ webhook }) => webhook === quick.id))
      .toMatchObject([{ state: 'delivered' }]);
    // One that has never answered gets a little less than the others.
    expect(world.seen.filter(({ url }) => url.includes('slow'))).toHaveLength(4);
    finish();
    await world.main.settle();
  });
});

describe('in the queue', () => {
  test('a webhook that the operator holds is told nothing until it is released', async () => {
    const world = await eventWorld();
    const held = await world.hook({ url: 'https://held.example/' });
    await world.hook({ url: 'https://other.example/' });
    await hold(world.store, held.id);
    await world.record();
    await world.main.webhooks.look();
    await expect.poll(() => world.seen.map(({ url }) => url)).toEqual(['https://other.example/']);
    await expect.poll(() => world.main.worker.progress().claimed).toBe(0);
    expect(await listDeliveries(world.store, { destination: held.id, limit: 10 })).toMatchObject({
      deliveries: [{ id: expect.stringMatching(/^whd_/), recipient: 'https://held.example', state: 'queued' }],
    });
    await release(world.store, held.id);
    await world.turn();
    expect(world.seen.map(({ url }) => url)).toEqual(['https://other.example/', 'https://held.example/']);
  });

  test('one that is cancelled has failed, and is told nothing', async () => {
    const world = await eventWorld();
    await world.hook();
    world.reply = () => answered(500);
    await world.record();
    await world.turn();
    const [{ id } = { id: '' }] = await world.deliveries();
    expect(await cancel(world.store, id, world.clock.now())).toMatchObject({ kind: 'done', deliveries: [id] });
    world.clock.advance(HOUR);
    await world.turn();
    expect(world.seen).toHaveLength(1);
    expect(await world.deliveries()).toMatchObject([
      { state: 'failed', attempts: 1, last_status: 500, last_result: 'cancelled by the operator' },
    ]);
  });

  test('what becomes of a delivery to a webhook is no event that webhooks are told of', async () => {
    const world = await eventWorld();
    await world.hook();
    world.reply = () => answered([200, 500, 410][world.seen.length - 1] ?? 200);
    for (let i = 0; i < 3; i++) {
      await world.record();
      await world.turn();
    }
    world.clock.advance(SECOND);
    await world.turn();
    expect(new Set(names(world.seen))).toEqual(new Set(['domain.verified']));
    expect(await world.letters()).toHaveLength(1);
    const events = await world.store.read.selectFrom('events').select('type').distinct().orderBy('type').execute();
    expect(events).toEqual([{ type: 'domain.verified' }, { type: LETTER }]);
  });

  test('the slow targets of one tenant take a share of all attempts, and no more', async () => {
    const world = await eventWorld();
    let finish: () => void = () => undefined;
    const hanging = new Promise<void>((resolve) => (finish = resolve));
    world.reply = async ({ url }) => {
      if (url.includes('slow')) await hanging;
      return answered(200);
    };
    for (let i = 0; i < 12; i++) await world.hook({ url: `https://slow${i}.example/` });
    for (let i = 0; i < 5; i++) await world.record();
    await world.main.webhooks.look();
    await expect.poll(() => world.main.worker.progress().claimed).toBe(48);
    await expect.poll(() => world.seen.length).toBe(40);
    await world.hook({ tenant: 'ten_other', url: 'https://quick.example/' });
    world.clock.advance(SECOND);
    await world.record({ tenant: 'ten_other' });
    await world.main.webhooks.look();
    await expect.poll(() => world.seen.filter(({ url }) => url.includes('quick')).length).toBe(1);
    expect(world.seen).toHaveLength(41);
    finish();
    await world.main.settle();
    expect(world.seen).toHaveLength(61);
  });
});

test('a daemon that dies between the attempt and the answer: the next one sends it under the same id', async () => {
  const world = await eventWorld();
  await world.main.worker.stop(0);
  await world.hook();
  await world.record();
  world.reply = () => new Promise(() => undefined);
  // Its clock stands still, so that it renews no lease.
  const dying = world.daemon(testClock(world.clock.now()));
  await dying.webhooks.look();
  await expect.poll(() => world.seen.length).toBe(1);
  world.reply = () => answered(200);
  world.clock.advance(MINUTE + SECOND);
  const next = world.daemon();
  await next.settle();
  world.clock.advance(MINUTE);
  await next.settle();
  expect(world.seen).toHaveLength(2);
  expect(world.seen[1]?.id).toBe(world.seen[0]?.id);
  expect(await world.deliveries()).toMatchObject([{ state: 'delivered', attempts: 2 }]);
});

test('deliveries are forgotten after thirty days, whatever became of them', async () => {
  const world = await eventWorld();
  await world.hook();
  await world.record();
  await world.turn();
  world.clock.advance(29 * DAY);
  await world.record();
  world.reply = () => answered(500);
  await world.turn();
  await world.main.webhooks.sweep();
  expect(await world.deliveries()).toHaveLength(2);
  world.clock.advance(DAY + SECOND);
  await world.main.webhooks.sweep();
  expect(await world.deliveries()).toMatchObject([{ state: 'pending' }]);
});

test('a new secret signs beside the one before for a day', async () => {
  const world = await eventWorld();
  const { id, tenant } = await world.hook();
  const until = world.clock.now() + DAY;
  await world.store.write([replaceSecret({ id, tenant, secret: `whsec_${'A'.repeat(44)}`, until })]);
  await world.record();
  await world.turn();
  world.clock.advance(DAY);
  await world.record();
  await world.turn();
  expect(world.seen.map(({ headers }) => headers?.['webhook-signature']?.split(' ').length)).toEqual([2, 1]);
});

test('one that is enabled again is told of what still waited and of what happens from then on', async () => {
  const world = await eventWorld();
  const { id, tenant } = await world.hook();
  world.reply = () => answered(500);
  await world.record({ type: 'email.queued' });
  await world.turn();
  await world.store.write([disableWebhook({ id, tenant, reason: 'maintenance' })]);
  world.clock.advance(HOUR);
  await world.record({ type: 'email.deferred' });
  await world.turn();
  world.clock.advance(HOUR);
  world.reply = undefined;
  await world.main.webhooks.enable({ id, tenant });
  await world.record({ type: 'email.delivered' });
  await world.turn();
  expect(names(world.seen).sort()).toEqual(['email.delivered', 'email.queued', 'email.queued']);
});

describe('a replay', () => {
  test('of an event keeps its id', async () => {
    const world = await eventWorld();
    const hook = await world.hook();
    await world.record();
    await world.turn();
    const [{ event } = { event: null }] = await world.deliveries();
    expect(await world.main.webhooks.replayEvent(hook, event ?? '')).toBe(true);
    await world.turn();
    expect(world.seen).toHaveLength(2);
    expect(world.seen[1]?.id).toBe(world.seen[0]?.id);
    expect(await world.main.webhooks.replayEvent({ ...hook, tenant: 'ten_other' }, event ?? '')).toBe(false);
  });

  test('since a time sends all that match, also those from before it was made', async () => {
    const world = await eventWorld();
    await world.record({ type: 'domain.failed' });
    world.clock.advance(HOUR);
    const since = world.clock.now();
    for (let i = 0; i < 250; i++) await world.record({ type: 'domain.degraded' });
    await world.record({ type: 'email.queued' });
    world.clock.advance(HOUR);
    const hook = await world.hook({ events: '["domain.degraded","domain.failed"]' });
    expect(await world.main.webhooks.replaySince(hook, since)).toEqual({ replayed: 250, more: false });
    for (let i = 0; i < 60; i++) await world.turn();
    expect(world.seen).toHaveLength(250);
  });
});

describe('what was sent and answered', () => {
  const posts = (world: Awaited<ReturnType<typeof eventWorld>>) =>
    world.store.read.selectFrom('webhook_posts').selectAll().orderBy('number').execute();

  test('is kept of each attempt, bounded, and begins anew with a replay', async () => {
    const world = await eventWorld();
    const hook = await world.hook();
    world.reply = () => ({
      ...answered(500, { text: `\0${'€'.repeat(9000)}` }),
      headers: Object.fromEntries(Array.from({ length: 80 }, (_, i) => [`x-${i}`, `${i}\r\n`.repeat(100)])),
    });
    await world.record();
    await world.turn();
    world.reply = () => ({ kind: 'failed', reason: 'connect ECONNREFUSED' });
    await world.follow(1);
    const [first, second, ...others] = await posts(world);
    expect(others).toEqual([]);
    expect(first).toMatchObject({ webhook: hook.id, number: 1, url: hook.url, status: 500, is_cut: 1, error: null });
    expect([first?.body?.length, first?.body?.slice(0, 2)]).toEqual([4096, '\uFFFD€']);
    expect(first?.headers?.length).toBeLessThan(5000);
    expect(first?.headers).not.toMatch(/\\[rn]/);
    expect(second).toMatchObject({ number: 2, status: null, headers: null, body: null, error: 'connect ECONNREFUSED' });

    world.reply = () => answered(200);
    const [{ event } = { event: null }] = await world.deliveries();
    await world.main.webhooks.replayEvent(hook, event ?? '');
    expect(await posts(world)).toEqual([]);
    await world.turn();
    expect(await posts(world)).toMatchObject([{ number: 1, status: 200 }]);
    world.clock.advance(31 * DAY);
    await world.main.webhooks.sweep();
    expect(await posts(world)).toEqual([]);
  });

  test('is kept of the newest thousand deliveries of a webhook', async () => {
    const world = await eventWorld();
    const [hook, other] = [await world.hook(), await world.hook()];
    const post = { number: 1, at: world.clock.now(), duration_ms: 1, url: hook.url, request_headers: '{}', is_cut: 0 };
    const empty = { status: null, headers: null, body: null, error: 'none' };
    const ids = Array.from({ length: 1010 }, (_, i) => `whd_${String(i).padStart(26, '0')}`);
    await world.store.write([
      ...ids.map((delivery) => insertPost({ webhook: hook.id, delivery, ...post, ...empty })),
      insertPost({ webhook: other.id, delivery: 'whd_0', ...post, ...empty }),
      insertPost({ webhook: 'whk_gone', delivery: 'whd_0', ...post, ...empty }),
    ]);
    await world.main.webhooks.test(hook);
    const kept = await posts(world);
    expect(kept.filter(({ webhook }) => webhook === hook.id)).toHaveLength(1000);
    expect(kept.map(({ delivery }) => delivery)).not.toContain(ids[10]);
    expect(kept.map(({ delivery }) => delivery)).toContain(ids[11]);
    expect(kept).toHaveLength(1001);
  });

  test('is forgotten with the submission that it repeats', async () => {
    const world = await eventWorld();
    await world.hook();
    await world.submit({ fields: '[["email","anna@example.org"]]' });
    await world.turn();
    const events = await world.store.read.selectFrom('events').select('id').execute();
    expect(await posts(world)).toHaveLength(1);
    await world.store.write([forgetPostsOfEvents({ ids: events.map(({ id }) => id) })]);
    expect(await posts(world)).toEqual([]);
  });
});

describe('webhooks of a configuration', () => {
  const project = {
    project: { name: 'One', slug: 'one' },
    domains: { 'one.example': { forms: { contact: { webhooks: ['https://form.example/'] }, other: {} } } },
    collections: { partners: { forms: { signup: { email: 'a@one.example', webhooks: ['https://c.example/'] } } } },
    webhooks: [{ url: 'https://project.example/', events: [], secret: `whsec_${'A'.repeat(44)}` }],
  };
  const two = { project: { name: 'Two', slug: 'two' }, domains: { 'two.example': {} } };
  const rows = async (world: Awaited<ReturnType<typeof eventWorld>>) =>
    (await world.store.read.selectFrom('webhooks').selectAll().orderBy('url').execute()).map(
      ({ url, project, form, events }) => [url, project, form, events],
    );

  test('are made, changed and removed with it', async () => {
    const world = await eventWorld({ snapshot: snapshotOf([project, two]) });
    await Promise.all([adoptWebhooks(world, world.snapshot), adoptWebhooks(world, world.snapshot)]);
    expect(await rows(world)).toEqual([
      ['https://c.example/', 'one', 'c/partners/signup', '[]'],
      ['https://form.example/', 'one', 'one.example/contact', '[]'],
      ['https://project.example/', 'one', '', '[]'],
    ]);
    const secret = () =>
      world.store.read
        .selectFrom('webhooks')
        .selectAll()
        .where('url', '=', 'https://project.example/')
        .executeTakeFirst();
    expect(await secret()).toMatchObject({ secret: `whsec_${'A'.repeat(44)}`, old_secret: null });
    const changed = {
      ...project,
      collections: {},
      webhooks: [{ url: 'https://project.example/', events: ['email.bounced'], secret: `whsec_${'B'.repeat(44)}` }],
    };
    await adoptWebhooks(world, snapshotOf([changed, two]));
    expect(await rows(world)).toEqual([
      ['https://form.example/', 'one', 'one.example/contact', '[]'],
      ['https://project.example/', 'one', '', '["email.bounced"]'],
    ]);
    expect(await secret()).toMatchObject({ secret: `whsec_${'B'.repeat(44)}`, old_secret: `whsec_${'A'.repeat(44)}` });
    // Out of service for a mistake: nothing of it is lost.
    await adoptWebhooks(world, { ...snapshotOf([two]), unread: new Set([OPERATOR]) });
    expect(await rows(world)).toHaveLength(2);
    await world.hook();
    await adoptWebhooks(world, snapshotOf([two]));
    expect(await rows(world)).toEqual([['https://hooks.example/in', null, '', '[]']]);
  });

  test('are told of their own project, or form, alone', async () => {
    const world = await eventWorld({ snapshot: snapshotOf([project, two]) });
    await adoptWebhooks(world, world.snapshot);
    await world.hook({ url: 'https://all.example/' });
    const accepted = (form: string, domain: string) => world.submit({ form, domain });
    await accepted('one.example/contact', 'one.example');
    await accepted('one.example/other', 'one.example');
    await accepted('two.example/contact', 'two.example');
    await accepted('c/partners/signup', 'mail.example.net');
    await accepted('c/others/signup', 'mail.example.net');
    await world.record({ type: 'email.queued', domain: 'one.example' });
    await world.record({ type: 'email.queued', domain: 'two.example' });
    await world.record({ type: 'config.pushed', data: { project: 'one' } });
    await world.record({ type: 'config.pushed', data: { project: 'two' } });
    for (let i = 0; i < 3; i++) await world.turn();
    const to = (host: string) =>
      world.seen
        .filter(({ url }) => url.includes(host))
        .map(({ json: { data } }) => data['form'] ?? data['project'] ?? data['domain'])
        .sort();
    expect(to('form.example')).toEqual(['one.example/contact']);
    expect(to('c.example')).toEqual(['c/partners/signup']);
    expect(to('project.example')).toEqual([
      'c/partners/signup',
      'one',
      'one.example',
      'one.example/contact',
      'one.example/other',
    ]);
    expect(to('all.example')).toHaveLength(9);
  });
});
