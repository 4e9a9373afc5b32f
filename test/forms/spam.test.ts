import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test, vi } from 'vitest';
import { checkSubmission, createMatching, type Field } from '../../src/forms/fields.ts';
import { createSpamFilter } from '../../src/forms/spam/filter.ts';

import { REASONS, type Reason, type ReasonName } from '../../src/forms/spam/signs.ts';
import { leastCpuSeconds } from '../harness/cpu.ts';
import { HONEST } from './corpus-honest.ts';
import { INJECTIONS, SPAM } from './corpus-spam.ts';
import { checkForSpam, FILTER_PARTS } from './spam-check.ts';
import { formOf } from './world.ts';

type Sent = Readonly<Record<string, string>>;

const IP = '192.0.2.7';
const named = formOf({ form: { name: 'Contact us' } });

function submissionOf(values: Sent, form = named) {
  const { fields, control } = checkSubmission(form, { entries: Object.entries(values), files: [] }, createMatching());
  return { fields, control, ip: IP };
}

function verdictOf(values: Sent, form = named) {
  return checkForSpam(form, submissionOf(values, form));
}

function namesOf({ reasons }: { reasons: readonly Reason[] }): ReasonName[] {
  return reasons.map(({ name }) => name);
}

describe('the corpus at level normal', () => {
  test.each(HONEST)('honest: %s', (_, values) => {
    const { verdict, reasons } = verdictOf(values);
    expect({ verdict, reasons: verdict === 'accept' ? [] : reasons }).toEqual({ verdict: 'accept', reasons: [] });
  });

  test('nine of ten spams are caught', () => {
    const caught = SPAM.filter(([, values]) => verdictOf(values).verdict === 'spam');
    expect(SPAM.length).toBeGreaterThanOrEqual(40);
    expect(caught.length / SPAM.length).toBeGreaterThanOrEqual(0.9);
  });

  test.each(INJECTIONS)('injected headers are always caught: %s', (_, values) => {
    const spamVerdict = verdictOf(values);
    expect(spamVerdict.verdict).toBe('spam');
    expect(namesOf(spamVerdict)).toEqual(expect.arrayContaining([expect.stringMatching(/^header_/)]));
  });

  test('every reason scores within what its table says, and tells the owner why', () => {
    for (const [, values] of [...HONEST, ...SPAM, ...INJECTIONS]) {
      for (const { name, score, detail } of verdictOf(values).reasons) {
        const [least, most] = REASONS[name].points;
        expect([name, score >= least, score <= most, detail.length > 0]).toEqual([name, true, true, true]);
      }
    }
  });
});

test('docs/spam.md has the table of reasons as the code has it', () => {
  const docs = readFileSync(new URL('../../docs/spam.md', import.meta.url), 'utf8');
  const rows = [...docs.matchAll(/^\| `(\w+)` +\| ([^|]+?) +\| (.+?) +\|$/gm)].map(([, ...cells]) => cells);
  const expected = Object.entries(REASONS).map(([name, { points, what }]) => {
    const [least, most] = points;
    return [name, least === most ? String(least) : `${least} to ${most}`, what];
  });
  expect(rows).toEqual(expected);
});

describe('script_mismatch', () => {
  test.each([
    ['look-alikes in one word', { message: 'Buy Vіаgrа now' }, 5],
    ['look-alikes in three words', { message: 'Ѕреcіаl оffеr: Vіаgrа' }, 20],
    ['a link in a script that the form never uses', { message: 'Пишите сюда https://a.example' }, 4],
    ['the same without a link', { message: 'Пишите сюда' }, 0],
    ['Latin with a link', { message: 'write to https://a.example' }, 0],
    ['Greek letters as science has them', { message: 'TNFα IFNγ NFκB μF kΩ Δt' }, 0],
    ['a suffix behind a foreign word', { message: 'купил iPhoneы и MacBookи и Wi-Fi' }, 0],
  ])('%s', (_, values, points) => {
    const found = verdictOf(values).reasons.find(({ name }) => name === 'script_mismatch');
    expect(found?.score ?? 0).toBe(points);
  });

  test('a form in that script, or one that says nothing of itself, has no foreign one', () => {
    const values = { message: 'Пишите сюда https://a.example' };
    for (const form of [{ name: 'Обратная связь' }, { fields: { message: { label: 'Сообщение' } } }, {}]) {
      expect(namesOf(verdictOf(values, formOf({ form })))).not.toContain('script_mismatch');
    }
  });
});

describe('gibberish', () => {
  test.each([
    ['random letters in every field', { name: 'RfTbsYnKpWqz', message: 'hQvXrLmWzKpT' }, 50],
    ['random letters in one', { name: 'Ana', message: 'hqvxrlmwzkptbq' }, 36],
    [
      'random letters in one, and in names what people are called',
      { name: 'Ana Maria Fuentes', company: 'Fuentes Brothers Limited', message: 'hdswxljvfeldakaderbdte' },
      36,
    ],
    ['two words of random letters', { name: 'Ana', message: 'pxdlinozdtspgufr pdbroyqfcao' }, 36],
    ['one long word', { name: 'Ana', message: 'Rechtsschutzversicherungsgesellschaft' }, 0],
    ['two long words', { name: 'Ana', message: 'Angstschweißtherapie Rechtsschutz' }, 0],
    ['random letters in small letters', { name: 'wqzpxkvbtj', message: 'hqvxrlmwzkptbq' }, 36],
    ['random letters and a word', { name: 'Ana', message: 'hqvxrlmwzkptbq hello wonderful' }, 0],
    ['random letters and some words', { name: 'Ana', message: 'hqvxrlmwzkptbq qwzpxkvbtj hello all' }, 12],
    ['a code in a sentence', { name: 'Ana', message: 'My licence is XQZWVKJHTRPX and it does not work any more.' }, 0],
    ['Roman numerals', { message: 'MDCCCLXXXVIII' }, 0],
    ['another script', { message: 'ъъжщшцхфывкпрстмнбвг' }, 0],
  ])('%s', (_, values, points) => {
    const found = verdictOf(values).reasons.find(({ name }) => name === 'gibberish');
    expect(found?.score ?? 0).toBe(points);
  });
});

test.each([
  ["1' OR '1'='1", true],
  ['../../../../../etc/passwd', true],
  ['${jndi:ldap://203.0.113.9/a}', true],
  ['{{7*7}}', true],
  ['testing @@version', true],
  ['1 UNION ALL SELECT NULL,table_name FROM information_schema.tables', true],
  ['"><script>alert(1)</script>', true],
  ['Your search field runs <script>alert(1)</script>, please escape what people type.', false],
  ['The query SELECT name FROM shops UNION SELECT name FROM customers fails since your update of Monday.', false],
  ['My password ends in two dots: ../ is that allowed?', false],
  ['Can I have it with "or" = and engraved inside?', false],
])('code for a vulnerability test: %s', (message, expected) => {
  expect(namesOf(verdictOf({ name: 'Ana', message })).includes('probe')).toBe(expected);
});

test.each([
  [{ message: 'https://a.example/x' }, true],
  [{ message: 'See https://a.example/x' }, false],
  [{ website: 'https://a.example', message: 'Please call me.' }, false],
])('a link and nothing else: %j', (values, expected) => {
  expect(namesOf(verdictOf({ name: 'Ana', ...values })).includes('mostly_links')).toBe(expected);
});

test.each([
  ['me@mailinator.com', true],
  ['me@box.Mailinator.com', true],
  ['me@notgetnada.com', false],
  ['me@gmail.com', false],
])('disposable_address: %s', (email, disposable) => {
  expect(namesOf(verdictOf({ email, message: 'Hello' })).includes('disposable_address')).toBe(disposable);
});

describe('no_mx', () => {
  const clean = { email: 'ana@gone.example', message: 'Are you open on Sunday?' };
  /** Nearly spam by its link markup. */
  const doubtful = { email: 'ana@gone.example', message: 'See [url=x] please, it does not work for me.' };

  test('is asked where it decides, and then is one of the reasons', async () => {
    const refusesMail = vi.fn<(domain: string) => Promise<boolean>>(() => Promise.resolve(true));
    const spamVerdict = await createSpamFilter({ ...FILTER_PARTS, refusesMail })(named, submissionOf(doubtful));
    expect(refusesMail.mock.calls).toEqual([['gone.example']]);
    expect(spamVerdict.verdict).toBe('spam');
    expect(spamVerdict.reasons.at(-1)).toEqual({ name: 'no_mx', score: 10, detail: 'gone.example accepts no mail' });
  });

  test('whoever can be answered passes', async () => {
    const spamVerdict = await createSpamFilter({ ...FILTER_PARTS, refusesMail: () => Promise.resolve(false) })(
      named,
      submissionOf(doubtful),
    );
    expect(spamVerdict).toEqual(checkForSpam(named, submissionOf(doubtful)));
    expect(spamVerdict.verdict).toBe('accept');
  });

  test.each([
    ['clean mail', clean, {}],
    ['what is spam anyway', { ...doubtful, name: 'x\nBcc: a@b.example' }, {}],
    ['mail without an address', { message: doubtful.message }, {}],
    ['no content filter', doubtful, { content_filter: false }],
    ['clean mail at strict', clean, { level: 'strict' }],
  ])('DNS is not asked for %s', (_, values, spam_protection) => {
    const refusesMail = vi.fn<(domain: string) => Promise<boolean>>(() => Promise.resolve(true));
    const form = formOf({ form: { spam_protection } });
    expect(createSpamFilter({ ...FILTER_PARTS, refusesMail })(form, submissionOf(values, form))).toHaveProperty(
      'verdict',
    );
    expect(refusesMail).not.toHaveBeenCalled();
  });
});

test('256 KiB of anything are read in time that is linear in their length', () => {
  const piece = fc.oneof(
    fc.string({ minLength: 1, maxLength: 12 }),
    fc.string({ minLength: 1, maxLength: 6, unit: 'binary' }),
    fc.constantFrom(
      'a\u200b',
      '<a ',
      '[url',
      '\nbcc:',
      'http://',
      '日',
      '👍',
      'seo services ',
      'Aа ',
      'aA',
      'your website ',
      '𝐕',
    ),
  );
  fc.assert(
    fc.property(fc.array(piece, { minLength: 1, maxLength: 3 }), (pieces) => {
      const text = pieces
        .join('')
        .repeat(Math.ceil(262_144 / pieces.join('').length))
        .slice(0, 262_144);
      const fields: Field[] = [
        ['name', text.slice(0, 1000)],
        ['message', text],
      ];
      const work = () => checkForSpam(named, { fields, control: { trapped: [] }, ip: IP });
      expect(leastCpuSeconds(work, 0.4)).toBeLessThan(0.4); // some 0.05; a step for each pair of characters takes a minute
    }),
    { numRuns: 60 },
  );
});

test.each(['1 ', '1,', '\n', '\r\n', '\t1'])('a word and then nothing but %j take less than 50 ms', (piece) => {
  const fields: Field[] = [['message', `x${piece.repeat(100_000)}`]];
  const work = () => checkForSpam(named, { fields, control: { trapped: [] }, ip: IP });
  expect(leastCpuSeconds(work, 0.05)).toBeLessThan(0.05);
});
