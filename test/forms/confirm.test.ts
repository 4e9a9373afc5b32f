import { expect, onTestFinished, test } from 'vitest';
import { createLimits } from '../../src/access/limits.ts';
import { createAccept } from '../../src/forms/accept.ts';
import { formConfirmation, MOST_MAILED } from '../../src/forms/confirm.ts';
import { findOwnForm } from '../../src/forms/find.ts';
import { silentLog } from '../../src/lib/log.ts';
import { newId } from '../../src/lib/ids.ts';
import { noteForm } from '../../src/store/form-counters.ts';
import { insertForm } from '../../src/store/forms.ts';
import { submissionsOf } from '../../src/store/submissions.ts';
import { testClock } from '../harness/clock.ts';
import { openTestStore } from '../harness/store.ts';
import { serverOf } from './world.ts';

const JUDGED = {
  accept: { verdict: 'accept', score: 0, reasons: [] },
  spam: { verdict: 'spam', score: 100, reasons: [] },
} as const;

/** An instant form whose recipient has not agreed. */
async function setUp() {
  const store = await openTestStore();
  const clock = testClock();
  const limits = await createLimits({ store, clock, log: silentLog });
  onTestFinished(() => limits.close());
  const server = serverOf();
  const id = newId('frm', clock.now());
  const config = JSON.stringify({ to: 'host@inbox.example', acknowledgment: { enabled: true } });
  const row = { id, tenant: 'ten_1', kind: 'instant', name: 'Guests', domain: null, config, created_at: 0 } as const;
  await store.write([insertForm({ ...row, confirmed_at: null }), noteForm({ form: id, at: 0 })]);
  const accept = createAccept({ store, clock, limits, config: () => server, wake: () => undefined });
  const form = await findOwnForm(store, id, server);
  if (form === undefined) throw new Error('no form');

  async function submit(verdict: 'accept' | 'spam' = 'accept', environment: 'live' | 'test' = 'live'): Promise<string> {
    const fields = [['email', 'ann@inbox.example']] as const;
    const entry = { fields, control: { trapped: [] }, files: [], ip: '192.0.2.1', userAgent: '', referer: '' };
    // Each from what was known of the form before anybody agreed.
    return (await accept({ form: form ?? raise(), ...entry, judgement: JUDGED[verdict], environment })).id;
  }

  async function confirm(): Promise<void> {
    const link = { hash: '', kind: 'form', tenant: 'ten_1', subject: id, expires_at: 0, created_at: 0 } as const;
    await (await formConfirmation({ store, clock, config: () => server, wake: () => undefined })(link))?.confirm();
  }

  function mailed() {
    return store.read
      .selectFrom('messages')
      .innerJoin('deliveries', 'deliveries.message', 'messages.id')
      .select(['messages.kind', 'messages.submission', 'messages.environment', 'deliveries.recipient'])
      .orderBy('messages.id')
      .execute();
  }

  return { store, clock, id, submit, confirm, mailed };
}

function raise(): never {
  throw new Error('no form');
}

test('until its recipient agrees a form keeps what it gets, and mails neither it nor the visitor', async () => {
  const { store, id, submit, mailed } = await setUp();
  await submit();
  await submit('spam');
  expect(await mailed()).toEqual([]);
  expect(await submissionsOf(store, id)).toBe(1);
});

test('then what was accepted is mailed once, in its order and its environment, and spam is not', async () => {
  const { clock, submit, confirm, mailed } = await setUp();
  const ids: string[] = [];
  for (const environment of ['live', 'test', 'live'] as const) {
    clock.advance(1000);
    ids.push(await submit('accept', environment));
    await submit('spam');
  }
  await confirm();
  await confirm();
  const recipient = 'host@inbox.example';
  expect(await mailed()).toEqual([
    { kind: 'notification', submission: ids[0], environment: 'live', recipient },
    { kind: 'notification', submission: ids[1], environment: 'test', recipient },
    { kind: 'notification', submission: ids[2], environment: 'live', recipient },
  ]);
});

test('submissions and agreements at the same time lose nothing and double nothing', async () => {
  const { submit, confirm, mailed } = await setUp();
  const submissions = Array.from({ length: 20 }, () => submit());
  const [ids] = await Promise.all([Promise.all(submissions), confirm(), confirm(), confirm()]);
  ids.push(await submit());
  const told = (await mailed()).map(({ submission }) => submission ?? '');
  expect(told.sort()).toEqual(ids.sort());
});

test(`the first ${MOST_MAILED} are mailed; the others stay to be read`, async () => {
  const { clock, submit, confirm, mailed } = await setUp();
  const ids: string[] = [];
  for (let i = 0; i < MOST_MAILED + 5; i++) {
    clock.advance(1);
    ids.push(await submit());
  }
  await confirm();
  expect((await mailed()).map(({ submission }) => submission)).toEqual(ids.slice(0, MOST_MAILED));
});
