import { describe, expect, test } from 'vitest';
import { Budget } from '../../src/lib/batch.ts';
import { silentLog } from '../../src/lib/log.ts';
import { Bodies } from '../../src/queue/bodies.ts';
import { enqueue } from '../../src/queue/enqueue.ts';
import type { Opened, Prepared, Source } from '../../src/queue/transport.ts';
import { findMessage } from '../../src/store/messages.ts';
import type { Store } from '../../src/store/store.ts';
import type { MessageRow } from '../../src/store/tables.ts';
import { newMessage, plainSource } from '../harness/queue.ts';
import { openTestStore } from '../harness/store.ts';

async function add(store: Store, recipients: string | string[] = 'a@example.test'): Promise<string> {
  const { id, unit } = enqueue(newMessage(recipients), 1);
  await store.write(unit);
  return id;
}

async function textOf(opened: Opened): Promise<string> {
  if (opened.kind !== 'ready') return opened.kind;
  const pieces: Uint8Array[] = [];
  for await (const piece of opened.pieces()) pieces.push(piece);
  return Buffer.concat(pieces).toString();
}

describe('a message', () => {
  test('that is kept is the same at the next try, and without that is made anew', async () => {
    const store = await openTestStore();
    const source = plainSource();
    const bodies = new Bodies({ store, source, log: silentLog });
    const id = await add(store);
    const texts: string[] = [];
    for (const keep of [false, true, false, true]) {
      const held = bodies.hold(id);
      texts.push(await textOf(await held.open()));
      if (keep) await held.keep();
      held.release();
    }
    expect(source.made).toBe(2);
    expect(texts[1]).not.toBe(texts[0]);
    expect(texts.slice(2)).toEqual([texts[1], texts[1]]);
  });

  test('that two daemons make at the same time is what the first one stored', async () => {
    const store = await openTestStore();
    const id = await add(store, ['a@one.test', 'b@two.test']);
    const daemons = [plainSource(), plainSource({ content: [Buffer.from('other')] })].map((source) =>
      new Bodies({ store, source, log: silentLog }).hold(id),
    );
    const [one, two] = await Promise.all(daemons.map(async (held) => textOf(await held.open())));
    expect(one).toBe(two);
  });

  test('knows what it needs of the way', async () => {
    const store = await openTestStore();
    const cases: [Partial<Extract<Prepared, { kind: 'ready' }>>, string][] = [
      [{ content: [Buffer.from('plain')] }, '7bit'],
      [{ content: [Buffer.from('plain'), Buffer.from('größer')] }, '8bit'],
      [{ content: [Buffer.from('plain')], smtpUtf8: true }, 'smtputf8'],
    ];
    for (const [prepared, encoding] of cases) {
      const id = await add(store);
      const held = new Bodies({ store, source: plainSource(prepared), log: silentLog }).hold(id);
      expect(await held.open()).toMatchObject({ encoding });
      await held.keep();
      expect(await findMessage(store, id)).toMatchObject({ encoding });
    }
  });

  test('of which there are two, for servers with SMTPUTF8 and without, is made again for each try', async () => {
    const store = await openTestStore();
    const id = await add(store, ['a@one.test', 'b@two.test']);
    const plain = { content: [Buffer.from('plain')], size: 5 };
    const source = plainSource({ content: [Buffer.from('größer')], smtpUtf8: true, plain });
    const bodies = new Bodies({ store, source, log: silentLog });
    for (let i = 0; i < 2; i++) {
      const held = bodies.hold(id);
      const opened = await held.open();
      if (opened.kind !== 'ready' || opened.plain === undefined) throw new Error('no plain body');
      expect([opened.encoding, opened.plain.encoding, await textOf(opened.plain)]).toEqual([
        'smtputf8',
        '7bit',
        'plain',
      ]);
      await held.keep();
      held.release();
    }
    expect(source.made).toBe(2);
    expect(await findMessage(store, id)).toMatchObject({ body: 'none' });
  });

  test('that could not be made is asked for again', async () => {
    const store = await openTestStore();
    const faults: unknown[] = [];
    const plain = plainSource();
    let isBroken = true;
    const source = {
      prepare: (message: MessageRow) => (isBroken ? Promise.reject(new Error('no key')) : plain.prepare(message)),
    };
    const bodies = new Bodies({ store, source, log: { ...silentLog, error: (_, fields) => faults.push(fields) } });
    const held = bodies.hold(await add(store));
    expect(await held.open()).toMatchObject({ kind: 'unavailable' });
    isBroken = false;
    expect(await held.open()).toMatchObject({ kind: 'ready' });
    expect(faults).toMatchObject([{ error: 'no key' }]);
    expect(await bodies.hold('msg_none').open()).toMatchObject({ kind: 'unrenderable' });
  });

  test('waits while others fill the memory', async () => {
    const store = await openTestStore();
    let running = 0;
    let most = 0;
    const plain = plainSource();
    const source = {
      async prepare(message: MessageRow) {
        most = Math.max(most, ++running);
        await new Promise((resolve) => {
          setTimeout(resolve, 5);
        });
        running -= 1;
        return plain.prepare(message);
      },
    };
    const bodies = new Bodies({ store, source, log: silentLog });
    const ids = await Promise.all(Array.from({ length: 40 }, () => add(store)));
    const held = ids.map((id) => bodies.hold(id));
    const opened = await Promise.all(held.map((each) => each.open()));
    expect(new Set(opened.map(({ kind }) => kind))).toEqual(new Set(['ready']));
    expect(most).toBeLessThanOrEqual(16);
    expect(most).toBeGreaterThan(4);
  });
});

describe('a message that is streamed', () => {
  test('is the same for all who read it at once, and at every try once its beginning is kept', async () => {
    const store = await openTestStore();
    const source = streamedSource();
    const bodies = new Bodies({ store, source, log: silentLog });
    const id = await add(store);
    const texts: string[] = [];
    for (const keep of [false, true, false, true]) {
      const held = bodies.hold(id);
      const opened = await held.open();
      expect(opened).toMatchObject({ sender: 'srs@mail.example.net', encoding: '8bit' });
      const both = await Promise.all([textOf(opened), textOf(opened)]);
      expect(both[1]).toBe(both[0]);
      expect(both[0]).toHaveLength(opened.kind === 'ready' ? opened.size : -1);
      texts.push(both[0]);
      if (keep) await held.keep();
      held.release();
    }
    expect(texts[0]).toBe('X-Made: 1\r\none\r\ntwo\r\n');
    expect(texts.slice(1)).toEqual(Array(3).fill('X-Made: 2\r\none\r\ntwo\r\n'));
    expect(await findMessage(store, id)).toMatchObject({ body: 'prefixed', size: 21, sender: 'srs@mail.example.net' });
  });

  test('is the same for several destinations and several daemons', async () => {
    const store = await openTestStore();
    const id = await add(store, ['a@one.test', 'b@two.test']);
    const daemons = [streamedSource(), streamedSource(10)].map(
      (source) => new Bodies({ store, source, log: silentLog }),
    );
    const held = daemons.flatMap((bodies) => [bodies.hold(id), bodies.hold(id)]);
    const texts = await Promise.all(held.map(async (each) => textOf(await each.open())));
    expect(new Set(texts).size).toBe(1);
    const later = new Bodies({ store, source: streamedSource(99), log: silentLog }).hold(id);
    expect(await textOf(await later.open())).toBe(texts[0]);
  });

  test('whose rest is gone is not sent any more', async () => {
    const store = await openTestStore();
    const id = await add(store, ['a@one.test', 'b@two.test']);
    const source = streamedSource();
    expect(await new Bodies({ store, source, log: silentLog }).hold(id).open()).toMatchObject({
      kind: 'ready',
    });
    const gone = { prepare: () => Promise.resolve({ kind: 'unrenderable', reason: 'gone' } as const) };
    const open = () => new Bodies({ store, source: gone, log: silentLog }).hold(id).open();
    expect(await open()).toEqual({ kind: 'unrenderable', reason: 'gone' });
  });
});

/** Streams what it has after a line that is new each time it is made. */
function streamedSource(made = 0): Source {
  return {
    prepare({ sender, size, encoding }, kept) {
      const prefix = kept ?? Buffer.from(`X-Made: ${++made}\r\n`);
      const rest = ['one\r\n', 'two\r\n'].map((text) => Buffer.from(text));
      async function* pieces() {
        for (const piece of rest) yield Promise.resolve(piece);
      }
      const fresh = { sender: 'srs@mail.example.net', size: prefix.length + 10, encoding: '8bit' } as const;
      const known = kept === undefined ? fresh : { sender: sender ?? '', size, encoding };
      return Promise.resolve({ kind: 'streamed', prefix, pieces, ...known });
    },
  };
}

describe('a budget', () => {
  test('is first come, first served, and what is too large waits until nobody else has any', async () => {
    const budget = new Budget(10);
    const order: string[] = [];
    const take = async (name: string, amount: number) => {
      await budget.take(amount);
      order.push(name);
    };
    await take('a', 6);
    const waiting = [take('b', 6), take('c', 100), take('d', 1)];
    await Promise.resolve();
    expect(order).toEqual(['a']);
    budget.give(6);
    await waiting[0];
    expect(order).toEqual(['a', 'b']);
    budget.give(6);
    await waiting[1];
    expect(order).toEqual(['a', 'b', 'c']);
    budget.give(100);
    await waiting[2];
    expect(order).toEqual(['a', 'b', 'c', 'd']);
  });
});
