import { describe, expect, test } from 'vitest';
import { createChallenges, type Challenges } from '../../src/forms/challenges.ts';
import type { Control } from '../../src/forms/fields.ts';
import { silentLog } from '../../src/lib/log.ts';
import { testClock, type TestClock } from '../harness/clock.ts';
import { proofOf } from '../harness/proof.ts';
import { openTestStore, type TestStore } from '../harness/store.ts';
import { formOf } from './world.ts';

const SECRET = Buffer.alloc(32, 1);
const PLAIN = formOf();
const PROVED = formOf({ form: { spam_protection: { challenge: 'pow' } } });
const DAY = 86_400_000;

interface World {
  readonly clock: TestClock;
  readonly store: TestStore;
  readonly challenges: Challenges;
  /** The same as another daemon, or this one after a restart, has it. */
  readonly another: (secret?: Buffer) => Challenges;
}

async function world(): Promise<World> {
  const clock = testClock();
  const store = await openTestStore();
  const http = { request: () => Promise.reject(new Error('nobody is asked')) };
  const another = (secret: Buffer = SECRET) => createChallenges({ store, clock, log: silentLog, secret, http });
  return { clock, store, challenges: another(), another };
}

function visitor(challenge?: string): { control: Control; ip: string } {
  return { control: { trapped: [], challenge }, ip: '192.0.2.1' };
}

/** The answer to the form's proof of work, as the ALTCHA widget sends it. */
async function solved(challenges: Challenges, change: object = {}): Promise<string> {
  const { proof } = await challenges.issue(PROVED);
  if (proof === undefined) throw new Error('no proof is asked for');
  return proofOf(proof, change);
}

function encode(answer: object): string {
  return Buffer.from(JSON.stringify(answer)).toString('base64');
}

function decode(answer: string): { salt: string; number: number } {
  return JSON.parse(Buffer.from(answer, 'base64').toString()) as { salt: string; number: number };
}

describe('the token of a page', () => {
  test('is valid once, on all daemons, and sooner than people write it says so', async () => {
    const { clock, challenges, another } = await world();
    const { token, minimum_age } = await challenges.issue(PLAIN);
    const { token: hasty } = await challenges.issue(PLAIN);
    clock.advance(minimum_age * 1000 - 1);
    expect(await challenges.check(PLAIN, visitor(hasty))).toEqual({ kind: 'passed', token: 'too fast' });
    clock.advance(1);
    expect(await another().check(PLAIN, visitor(token))).toEqual({ kind: 'passed', token: 'valid' });
    expect(await challenges.check(PLAIN, visitor(token))).toEqual({ kind: 'passed', token: 'used' });
  });

  test('that shows the form again may be sent at once: its visitor corrects one field', async () => {
    const { challenges } = await world();
    expect(await challenges.check(PLAIN, visitor(challenges.token(PLAIN)))).toEqual({ kind: 'passed', token: 'valid' });
  });

  test('counts once when it is sent many times at once', async () => {
    const { clock, challenges, another } = await world();
    const token = challenges.token(PLAIN);
    clock.advance(5000);
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, (_, i) => (i % 2 === 0 ? challenges : another()).check(PLAIN, visitor(token))),
    );
    expect(outcomes.filter((outcome) => 'token' in outcome && outcome.token === 'valid')).toHaveLength(1);
  });

  test('ends after a day, and then nothing of it is kept', async () => {
    const { clock, store, challenges } = await world();
    const [used, late] = [challenges.token(PLAIN), challenges.token(PLAIN)];
    clock.advance(5000);
    await challenges.check(PLAIN, visitor(used));
    await challenges.sweep();
    expect(await challenges.check(PLAIN, visitor(used))).toMatchObject({ token: 'used' });
    clock.advance(DAY);
    expect(await challenges.check(PLAIN, visitor(late))).toMatchObject({ token: 'expired' });
    expect(await challenges.check(PLAIN, visitor(used))).toMatchObject({ token: 'expired' });
    clock.advance(60_000);
    await challenges.sweep();
    expect(await store.read.selectFrom('used_tokens').selectAll().execute()).toEqual([]);
  });

  test('is of this server and for this form; what else is sent is no token', async () => {
    const { challenges, another } = await world();
    const token = challenges.token(PLAIN);
    const wrong = [
      another(Buffer.alloc(32, 2)).token(PLAIN),
      challenges.token({ id: 'example.com/other' }),
      token.replace('.0.', '.1.'),
      `${token}x`,
      'x',
      encode({ algorithm: 'SHA-256' }),
      'A'.repeat(100_000),
    ];
    for (const text of wrong) {
      expect(await challenges.check(PLAIN, visitor(text)), text).toEqual({ kind: 'passed', token: 'forged' });
    }
    expect(await challenges.check(PLAIN, visitor())).toEqual({ kind: 'passed', token: 'missing' });
    expect(await challenges.check(PLAIN, visitor(' '))).toEqual({ kind: 'passed', token: 'missing' });
  });
});

describe('proof of work', () => {
  test('the right answer passes once, whichever daemon asked', async () => {
    const { clock, challenges, another } = await world();
    const answer = await solved(challenges);
    clock.advance(5000);
    expect(await another().check(PROVED, visitor(answer))).toEqual({
      kind: 'passed',
      token: 'valid',
      challenge: 'passed',
    });
    expect(await challenges.check(PROVED, visitor(answer))).toEqual({ kind: 'failed' });
    expect(await another().check(PROVED, visitor(answer))).toEqual({ kind: 'failed' });
  });

  test('a token alone is no answer', async () => {
    const { challenges } = await world();
    for (const text of [undefined, '', challenges.token(PROVED), '{}', encode({}), encode([1])]) {
      expect(await challenges.check(PROVED, visitor(text)), text).toEqual({ kind: 'missing' });
    }
  });

  test('a wrong, an altered, an expired and another form’s answer fail', async () => {
    const { clock, challenges, another } = await world();
    const right = decode(await solved(challenges));
    const spliced = {
      salt: right.salt + String(right.number).slice(0, 1),
      number: Number(String(right.number).slice(1)),
    };
    const answers = [
      encode({ ...right, number: right.number === 1 ? 2 : 1 }),
      encode({ ...right, salt: right.salt.replace('expires=', 'expires=9') }),
      encode({ ...right, ...spliced }),
      await solved(another(Buffer.alloc(32, 2))),
    ];
    clock.advance(5000);
    for (const answer of answers) expect(await challenges.check(PROVED, visitor(answer))).toEqual({ kind: 'failed' });
    const other = { ...PROVED, id: 'example.com/other' };
    expect(await challenges.check(other, visitor(encode(right)))).toEqual({ kind: 'failed' });
    clock.advance(DAY);
    expect(await challenges.check(PROVED, visitor(encode(right)))).toEqual({ kind: 'failed' });
  });

  test('of another algorithm, or larger than a challenge is, is not even hashed', async () => {
    const { challenges } = await world();
    for (const change of [{ algorithm: 'SHA-512' }, { algorithm: 5 }, { number: 1e9 }, { number: -1 }, { salt: {} }]) {
      expect(await challenges.check(PROVED, visitor(await solved(challenges, change)))).toEqual({ kind: 'missing' });
    }
  });
});
