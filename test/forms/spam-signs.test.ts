import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { checkSubmission, createMatching, type Field } from '../../src/forms/fields.ts';
import { checkForSpam } from './spam-check.ts';

import { formOf } from './world.ts';
import { leastCpuSeconds } from '../harness/cpu.ts';

function verdictOf(values: Readonly<Record<string, string>>, spam_protection: object = {}, ip = '192.0.2.7') {
  const form = formOf({ form: { spam_protection } });
  const { fields, control } = checkSubmission(form, { entries: Object.entries(values), files: [] }, createMatching());
  return checkForSpam(form, { fields, control, ip });
}

const person = { name: 'Ana García', email: 'ana@example.org' };

const HONEST: readonly (readonly [string, Readonly<Record<string, string>>])[] = [
  ['a short question', { ...person, message: 'Are you open on Sunday?' }],
  [
    'Japanese',
    {
      name: '田中太郎',
      email: 't@example.jp',
      message:
        'お世話になっております。ホームページを拝見し、ご連絡いたしました。見積もりをお願いできますでしょうか。'.repeat(
          8,
        ),
    },
  ],
  [
    'Japanese with rules',
    {
      name: '田中',
      message:
        '━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━\nご注文について\n====================================================================',
    },
  ],
  [
    'Arabic',
    {
      name: 'محمد',
      message:
        'السلام عليكم ورحمة الله وبركاته، أود الاستفسار عن أسعار الخدمات المقدمة لديكم ومواعيد العمل خلال شهر رمضان المبارك.',
    },
  ],
  [
    'Persian with joiners',
    { name: 'سارا', message: 'می\u200cخواهم بدانم آیا کتاب\u200cهای شما را می\u200cتوان سفارش داد؟' },
  ],
  [
    'Russian',
    {
      name: 'Ольга Петрова',
      message: 'Здравствуйте! Хотела бы узнать стоимость доставки в Новосибирск и сроки изготовления заказа. Спасибо.',
    },
  ],
  [
    'Russian in capitals',
    { name: 'ИВАН', message: 'ДОБРЫЙ ДЕНЬ, ПРОШУ ВАС ПЕРЕЗВОНИТЬ МНЕ ЗАВТРА ПОСЛЕ ОБЕДА ПО ПОВОДУ ЗАКАЗА.' },
  ],
  ['Hindi', { name: 'अनिता', message: 'नमस्ते, मुझे आपकी सेवाओं के बारे में जानकारी चाहिए। कृपया मुझे फ़ोन करें।' }],
  ['emoji', { ...person, message: '🎉🎉🎉 Congratulations 👩‍👩‍👧‍👦 on the launch!!! ❤️❤️❤️'.repeat(5) }],
  ['two links', { ...person, message: 'This is my portfolio: https://ana.example and https://dribbble.example/ana' }],
  ['links alone', { ...person, message: 'https://ana.example https://ana.example/cv' }],
  [
    'a website field',
    {
      ...person,
      website: 'https://acme.example',
      message: 'We would like an offer for https://acme.example/shop please.',
    },
  ],
  [
    'a link to each of six products',
    {
      ...person,
      message: `I would like to order these:\n${[1, 2, 3, 4, 5, 6].map((n) => `- number ${n}, in blue and as soon as you can, from https://shop.example/item/${n}`).join('\n')}`,
    },
  ],
  [
    'a code snippet',
    {
      ...person,
      message:
        'The page breaks here:\n<a href="https://example.com/x" class="b">link</a>\n<script>\nfor (let i = 0; i < 10; i++) { console.log(i); }\n</script>',
    },
  ],
  [
    'a log',
    {
      ...person,
      message: Array.from(
        { length: 60 },
        (_, i) => `2026-01-01T00:00:${i % 60}Z ERROR connect ECONNREFUSED 10.0.0.1:5432 (try ${i})`,
      ).join('\n'),
    },
  ],
  [
    'a quoted mail',
    {
      ...person,
      message:
        'Did you get this?\n\nFrom: Ana <ana@example.org>\nTo: sales@example.com\nCc: bob@example.org\nSubject: Order 12\n\nHello, where is it?',
    },
  ],
  [
    'headers of a mail that went wrong',
    {
      ...person,
      message: 'Your mail is garbled:\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n\nH=C3=A4llo',
    },
  ],
  ['talk of Bcc', { ...person, message: 'Please put my colleague in Bcc: she should not be seen.' }],
  [
    'a specialist',
    { ...person, message: 'I am looking for a specialist in socialist literature, and cialistic is no word.' },
  ],
  [
    'a customer of an SEO agency',
    { ...person, message: 'We need SEO services for our bakery. What do your packages cost?' },
  ],
  [
    'a casino',
    { ...person, company: 'Grand Casino', message: 'Our casino in Lucerne needs 40 chairs for the restaurant.' },
  ],
  ['yes and no', { a: 'yes', b: 'yes', c: 'yes', d: 'no', e: 'yes' }],
  [
    'an address given twice',
    { name: 'Ana', street: 'Calle Mayor 12, 28013 Madrid', invoice: 'Calle Mayor 12, 28013 Madrid' },
  ],
  ['laughter', { ...person, message: 'hahahahahahahahahahahahahahahahahahaha that was so funny' }],
  [
    'a signature',
    {
      ...person,
      message: `Please call me.\n${'-'.repeat(72)}\nAna García\nAcme S.L. | www.acme.example | +34 600 000 000\n${'_'.repeat(72)}`,
    },
  ],
  [
    'a poem that repeats itself',
    {
      ...person,
      message:
        'Row, row, row your boat, gently down the stream. Merrily, merrily, merrily, merrily, life is but a dream.',
    },
  ],
];

const SPAM: readonly (readonly [string, Readonly<Record<string, string>>, string])[] = [
  ['a Bcc injection', { name: 'x\r\nBcc: a@example.org,b@example.org', message: 'hi' }, 'header_injection'],
  [
    'an injection in _subject',
    { ...person, _subject: 'x\nContent-Type: text/html', message: 'hi' },
    'header_injection',
  ],
  [
    'a mail in the message',
    {
      ...person,
      message: 'hello\nMIME-Version: 1.0\nContent-Type: text/html\nBcc: a@example.org, b@example.org\n\n<b>Buy</b>',
    },
    'header_lines',
  ],
  [
    'BBCode',
    {
      name: 'Kevin',
      message: 'Great post! [url=http://pills.example]cheap pills[/url] [url=http://a.example]x[/url] http://b.example',
    },
    'link_markup',
  ],
  [
    'a link farm',
    { ...person, message: Array.from({ length: 12 }, (_, i) => `http://spam${i}.example/buy`).join(' ') },
    'links',
  ],
  [
    'HTML links',
    {
      ...person,
      message:
        'Nice <a href="http://a.example">a</a> <a href="http://b.example">b</a> <a href=http://c.example>c</a> <a  href="http://d.example">d</a>',
    },
    'link_markup',
  ],
  [
    'a link in the name',
    { name: 'Win $1000 https://a.example/x', message: 'https://a.example/x https://a.example/x https://b.example' },
    'link_in_name',
  ],
  [
    'a casino offer',
    { ...person, message: 'Best online casino bonus with 100 free spins, click https://a.example now' },
    'phrases',
  ],
  [
    'an SEO pitch',
    {
      ...person,
      message:
        'I can bring you to the first page of Google. We sell backlinks, guest posts and link building, see https://seo.example',
    },
    'phrases',
  ],
  [
    'Russian link spam',
    {
      name: 'Иван',
      message:
        'Заработок без вложений [url=http://a.example]тут[/url] http://a.example http://b.example http://c.example',
    },
    'link_markup',
  ],
  [
    'the same link in every field',
    { name: 'https://spam.example/a', company: 'https://spam.example/a', message: 'https://spam.example/a' },
    'same_text',
  ],
  [
    'few words over and over, and links',
    {
      ...person,
      message: `${'buy now cheap shoes '.repeat(60)} http://a.example http://b.example http://c.example http://d.example http://e.example http://f.example`,
    },
    'repetition',
  ],
];

describe('at level normal', () => {
  test.each(HONEST)('honest mail passes: %s', (_, values) => {
    const { verdict, reasons } = verdictOf(values);
    expect({ verdict, reasons: verdict === 'accept' ? [] : reasons }).toEqual({ verdict: 'accept', reasons: [] });
  });

  test.each(SPAM)('spam is caught: %s', (_, values, reason) => {
    const { verdict, score, reasons } = verdictOf(values);
    expect(verdict).toBe('spam');
    expect(reasons.map(({ name }) => name)).toContain(reason);
    expect(score).toBeGreaterThanOrEqual(79);
    const points = reasons.reduce((sum, one) => sum + one.score, 0);
    expect(score).toBe(Math.round(100 / (1 + 10 ** (-points / 10))));
  });
});

test('strict catches what normal lets pass, and nothing that shows no sign at all', () => {
  const pitches = [
    'I can help you with your website. Reply if you want to know more.',
    'We offer SEO for your website.',
    'We offer web design. Call us.',
    'Our agency helps shops. May we call you?',
    'We sell pens with your logo.',
    'We have an app for hotels.',
    'Cheap loans. Buy now.',
    'Our videos help your shop.',
    'We sell garden furniture and would like to send you our price list.',
    'We sell good solar panels at a low price.',
    'Our workshop makes wooden toys. Would you sell them?',
    'We deliver fresh fruit to offices. Are you interested?',
    'We have an offer for your shop, call us about it.',
    'Our bakery sells bread to hotels. May we send you our list?',
    'We clean offices in your town, call us.',
  ];
  const verdicts = pitches.map((message) =>
    (['normal', 'strict'] as const).map((level) => verdictOf({ ...person, message }, { level }).verdict).join(' '),
  );
  expect(verdicts).toContain('accept spam');
  expect(verdicts).not.toContain('spam accept');
  for (const [what, values] of HONEST.slice(0, 8))
    expect([what, verdictOf(values, { level: 'strict' })]).toMatchObject([what, { verdict: 'accept' }]);
});

test('whoever fills in a honeypot is spam, whatever else is switched off', () => {
  for (const field of ['_gotcha', '_service_honeypot', '_honey', 'botcheck', 'bot-field']) {
    const { verdict, reasons } = verdictOf({ ...person, [field]: 'x' }, { content_filter: false });
    expect(verdict).toBe('spam');
    expect(reasons.map(({ name }) => name)).toEqual(['honeypot']);
  }
  expect(verdictOf({ ...person, _gotcha: ' ' }).verdict).toBe('accept');
});

test('without the content filter only honeypot and blocklist count', () => {
  for (const [, values] of SPAM) expect(verdictOf(values, { content_filter: false }).verdict).toBe('accept');
});

test.each([
  ['a word', ['Replica'], { message: 'REPLICA shoes' }, true],
  ['not within a word', ['replica'], { message: 'a replication' }, false],
  ['words', ['cheap shoes'], { message: 'Cheap shoes!' }, true],
  ['a Japanese word within a sentence', ['出会い'], { message: '無料出会い系' }, true],
  ['an address', ['bad@example.org'], { email: 'Bad@Example.org' }, true],
  ['not a longer address', ['bad@example.org'], { email: 'not.bad@example.org' }, false],
  ['a domain in an address', ['evil.example'], { email: 'x@mail.evil.example' }, true],
  ['a domain in a link', ['evil.example'], { message: 'see https://www.evil.example/x' }, true],
  ['at the end of a sentence', ['evil.example'], { message: 'I like evil.example.' }, true],
  [
    'not a longer domain',
    ['evil.example'],
    { message: 'notevil.example evil.example.org evil.example-shop.org' },
    false,
  ],
  ['an IP address', ['192.0.2.7'], { message: 'x' }, true],
  ['another IP address', ['192.0.2.8', '2001:db8::/32', '192.0.2.7.example'], { message: 'x' }, false],
  ['a network', ['192.0.2.0/24'], { message: 'x' }, true],
])('blocklist: %s', (_, blocklist, values, blocked) => {
  const { verdict, reasons } = verdictOf(values, { blocklist, content_filter: false });
  expect(verdict).toBe(blocked ? 'spam' : 'accept');
  if (blocked) expect(reasons).toMatchObject([{ name: 'blocklist', detail: blocklist[0] }]);
});

test('an IPv4-mapped visitor is in an IPv4 network, an IPv6 visitor in an IPv6 one', () => {
  expect(verdictOf(person, { blocklist: ['192.0.2.0/24'] }, '::ffff:192.0.2.9').verdict).toBe('spam');
  expect(verdictOf(person, { blocklist: ['2001:db8::/32'] }, '2001:db8::1').verdict).toBe('spam');
  expect(verdictOf(person, { blocklist: ['192.0.2.0/24', '2001:db8::/32'] }, 'unix').verdict).toBe('accept');
});

test('the largest bodies of the worst texts are judged in no time', () => {
  const form = formOf({ form: { spam_protection: { blocklist: ['aab', 'evil.example', 'x@y.example'] } } });
  const pieces = [
    'a',
    ' ',
    '\n',
    'a\u200b',
    '<a ',
    '[url',
    '\nbcc:',
    'http://',
    'aa.',
    '日',
    '\n   ',
    '👍',
    'A',
    'seo service ',
  ];
  for (const piece of pieces) {
    const text = piece.repeat(Math.ceil(300_000 / piece.length));
    const fields: Field[] = [
      ['name', text],
      ['message', Array.from({ length: 100 }, () => text)],
    ];
    expect(leastCpuSeconds(() => checkForSpam(form, { fields, control: { trapped: [] }, ip: '' }), 0.5)).toBeLessThan(
      0.5,
    );
  }
});

test('any text gets a verdict', () => {
  const form = formOf();
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }), (name, text) => {
      const { score, reasons } = checkForSpam(form, { fields: [[name, text]], control: { trapped: [] }, ip: name });
      expect(score >= 0 && reasons.every(({ detail }) => detail.length < 1000)).toBe(true);
    }),
    { numRuns: 30 },
  );
});
