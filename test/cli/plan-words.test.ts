import { describe, expect, test } from 'vitest';
import { planLines } from '../../src/cli/plan-text.ts';
import { diffConfig, writtenProject } from '../../src/config/diff.ts';
import { parseProject } from '../../src/config/parse.ts';
import { NO_SECRETS } from '../../src/config/secrets.ts';

const HEAD = 'project: { name: Shop, slug: shop }\n';

function written(yaml: string): ReturnType<typeof writtenProject> {
  const result = parseProject(yaml, 'postern.yml', { files: {}, env: NO_SECRETS });
  if (!('ok' in result)) throw new Error(JSON.stringify(result.errors));
  return writtenProject(result.ok);
}

/** What a push of `after` in place of `before` is said to do; the changes as they come over the wire. */
function plan(before: string | undefined, after: string): string[] {
  const later = written(HEAD + after);
  const changes = diffConfig(before === undefined ? {} : written(HEAD + before), later);
  const sent = changes.map(({ op, keys, from = null, to = null }) => ({ op, keys, from, to }));
  return planLines(sent, later).map(({ sign, text }) => `${sign} ${text}`);
}

test('a new project is told thing by thing', () => {
  const yaml = `
settings: { rate_limit: 5 }
domains:
  example.com:
    forwarding: { a@example.com: x@example.org, '*@example.com': y@example.org }
    forms:
      contact: { to: owner@example.org }
      jobs: {}
collections: { partners: { forms: { signup: { email: [p@example.org, q@example.org] } } } }
webhooks: [{ url: https://hook.example/a }]
templates: { mine: { text: Hello } }
`;
  expect(plan(undefined, yaml)).toEqual([
    '+ new project Shop',
    '+ new domain example.com; forms and mail start once its DNS records are verified',
    '+ 2 addresses of example.com start forwarding: a@example.com, *@example.com',
    '+ new form example.com/contact: POST /example.com/contact, notifies owner@example.org',
    '+ new form example.com/jobs: POST /example.com/jobs',
    '+ new collection partners',
    '+ new form c/partners/signup: POST /c/partners/signup, notifies p@example.org, q@example.org',
    '+ new webhook https://hook.example/a',
    '+ new template mine',
  ]);
});

test('nothing new has nothing to be told', () => {
  expect(plan('domains: { example.com: {} }', 'domains: { example.com: {} }')).toEqual([]);
});

describe('a form', () => {
  const form = (keys: string): string =>
    `domains: { example.com: { forms: { contact: { to: a@example.org, ${keys} } } } }`;
  test.each([
    ['name: Write', 'name: Contact', 'name Write → Contact'],
    ['', 'rateLimit: 5', 'rate limit 60 → 5 submissions per hour and IP address'],
    ['spam_protection: { rate_limit: 9 }', 'rateLimit: 5', 'rate limit 9 → 5 submissions per hour and IP address'],
    ['rateLimit: 5', 'spam_protection: { rate_limit: 9 }', 'rate limit 5 → 9 submissions per hour and IP address'],
    ['replies: true', 'replies: false', 'replies no longer go to the visitor'],
    ['', 'replyTo: b@example.org', 'default Reply-To b@example.org'],
    ['required: [name]', 'required: [email]', 'requires email, no longer requires name'],
    ['required: [name, email]', 'required: [email, name]', 'new order: email, name'],
    ['', 'allowed_origins: [https://a.example]', 'accepts submissions from https://a.example'],
    ['webhooks: [https://a.example]', '', 'removes the webhook https://a.example'],
    ['', 'spam_protection: { level: strict }', 'stricter spam filter (strict)'],
    ['spam_protection: { content_filter: false }', '', 'enables the content filter'],
    [
      'spam_protection: { honeypot: url }',
      'spam_protection: { honeypot: web }',
      'honeypot url → web; change the field in your page as well',
    ],
    ['', 'spam_protection: { challenge: pow }', 'challenge: pow; pages without it can no longer submit'],
    [
      'spam_protection: { challenge: pow }',
      'spam_protection: { challenge: { provider: hcaptcha, secret: shh } }',
      'challenge: hcaptcha; pages without it can no longer submit',
    ],
    [
      'spam_protection: { challenge: { provider: hcaptcha, secret: shh } }',
      'spam_protection: { challenge: { provider: hcaptcha, secret: hush } }',
      'new captcha secret',
    ],
    ['spam_protection: { challenge: pow }', '', 'no challenge'],
    ['', 'acknowledgment: {}', 'sends acknowledgments'],
    ['acknowledgment: {}', 'acknowledgment: { enabled: false }', 'no longer sends acknowledgments'],
    ['uploads: {}', '', 'no longer accepts files'],
    ['', 'redirect: https://a.example/thanks', 'redirects visitors to https://a.example/thanks'],
    ['', 'subject: Hello, thank_you: Fine', 'subject not set → Hello; thank_you not set → Fine'],
    ['', 'uploads: { max_size: 5MiB }', 'accepts files'],
    ['uploads: { max_size: 5MiB }', 'uploads: { max_size: 1MiB }', 'uploads.max_size 5MiB → 1MiB'],
  ])('%s, then %s: %s', (before, after, words) => {
    expect(plan(form(before), form(after))).toEqual([`~ form example.com/contact: ${words}`]);
  });

  test('has another recipient, or none of its own', () => {
    const none = 'domains: { example.com: { forms: { contact: {} } } }';
    expect(plan(form(''), none)).toEqual([
      '~ form example.com/contact: notifies the forwarding address or the owner (was a@example.org)',
    ]);
    expect(plan(none, form(''))).toEqual(['~ form example.com/contact: notifies a@example.org']);
  });

  test('comes and goes', () => {
    const other = 'domains: { example.com: { forms: { jobs: { to: a@example.org } } } }';
    expect(plan(form(''), other)).toEqual([
      '- remove form example.com/contact: submissions are answered with 404',
      '+ new form example.com/jobs: POST /example.com/jobs, notifies a@example.org',
    ]);
  });
});

describe('forwarding', () => {
  const forwarding = (map: string): string => `domains: { example.com: { forwarding: { ${map} } } }`;
  const three = 'a@example.com: x@example.org, b@example.com: x@example.org, c@example.com: y@example.org';
  test.each([
    [three, '', '- 3 addresses of example.com stop forwarding: a@example.com, b@example.com, c@example.com'],
    ['a@example.com: x@example.org', '', '- mail to a@example.com is rejected (was forwarded to x@example.org)'],
    ['', 'a@example.com: x@example.org', '+ mail to a@example.com is forwarded to x@example.org'],
    [
      'a@example.com: x@example.org',
      'a@example.com: [y@example.org, z@example.org]',
      '~ mail to a@example.com is forwarded to y@example.org, z@example.org (was forwarded to x@example.org)',
    ],
    [
      'a@example.com: x@example.org',
      'a@example.com: discard',
      '~ mail to a@example.com is discarded (was forwarded to x@example.org)',
    ],
    ['a@example.com: discard', '', '~ mail to a@example.com is rejected (was discarded)'],
    ['', 'a@example.com: reject', '~ mail to a@example.com is rejected'],
    [
      "a@example.com: x@example.org, '*@example.com': y@example.org",
      "'*@example.com': y@example.org",
      '~ mail to a@example.com is forwarded to y@example.org (was forwarded to x@example.org)',
    ],
    [
      "'*@example.com': y@example.org",
      '',
      '- mail to any other address of example.com is rejected (was forwarded to y@example.org)',
    ],
  ])('{%s}, then {%s}', (before, after, line) => {
    expect(plan(forwarding(before), forwarding(after))).toEqual([line]);
  });

  test('of many addresses names the first of them', () => {
    const many = Array.from({ length: 8 }, (_, i) => `a${i}@example.com: x@example.org`).join(', ');
    expect(plan(forwarding(''), forwarding(many))).toEqual([
      '+ 8 addresses of example.com start forwarding: a0@example.com, a1@example.com, a2@example.com, a3@example.com, a4@example.com and 3 more',
    ]);
  });
});

describe('of the rest', () => {
  const domains = 'domains: { example.com: { forms: { contact: { to: a@example.org } } } }';
  test.each([
    [
      'a domain that ends',
      domains,
      '',
      ['- remove domain example.com: 1 form stops working; queued mail is still sent'],
    ],
    [
      'a domain with addresses that ends',
      'domains: { example.com: { forwarding: { a@example.com: x@example.org, b@example.com: x@example.org, c@example.com: discard } } }',
      '',
      ['- remove domain example.com: 2 addresses stop forwarding; queued mail is still sent'],
    ],
    ['an empty domain that ends', 'domains: { example.com: {} }', '', ['- remove domain example.com']],
    [
      'the selector of a domain',
      'domains: { forms.example.com: {} }',
      'domains: { forms.example.com: { dkim: { selector: other } } }',
      ['~ forms.example.com: dkim.selector postern → other'],
    ],
    [
      'the rate limit of the project',
      '',
      'settings: { rate_limit: 5 }',
      ['~ default rate limit of forms: 60 → 5 submissions per hour and IP address'],
    ],
    ['the time zone', '', 'settings: { timezone: Europe/Berlin }', ['~ settings: timezone UTC → Europe/Berlin']],
    [
      'a collection that ends',
      'collections: { partners: { forms: { a: { email: a@example.org } } } }',
      '',
      ['- remove collection partners: 1 form stops working'],
    ],
    [
      'a collection that wants a key',
      'collections: { partners: {} }',
      'collections: { partners: { settings: { requireApiKey: true } } }',
      ['~ collection partners: settings.requireApiKey false → true'],
    ],
    [
      'templates',
      'templates: { a: { text: A, html: B }, b: { text: B } }',
      'templates: { a: { text: C, html: D, subject: E }, c: { text: C } }',
      ['~ template a: changed text, HTML, subject', '- remove template b', '+ new template c'],
    ],
    [
      'webhooks',
      'webhooks: [{ url: https://a.example }, { url: https://b.example }]',
      'webhooks: [{ url: https://b.example, events: [email.bounced] }, { url: https://c.example }]',
      [
        '+ new webhook https://c.example',
        '- remove webhook https://a.example',
        '~ webhook with changed events or secret: https://b.example',
      ],
    ],
    [
      'webhooks in another order',
      'webhooks: [{ url: https://a.example }, { url: https://b.example }]',
      'webhooks: [{ url: https://b.example }, { url: https://a.example }]',
      ['~ webhooks: new order'],
    ],
  ])('%s', (_, before, after, lines) => {
    expect(plan(before, after)).toEqual(lines);
  });

  test('a key that a newer server knows', () => {
    const change = { op: 'add', keys: ['senders', 'a.b'], from: null, to: { x: 1 } } as const;
    const text = 'the configuration: senders.a.b not set → {"x":1}';
    expect(planLines([change], {})).toEqual([{ sign: '+', text }]);
  });

  test('the name of the project', () => {
    const before = written(HEAD);
    const after = { ...before, project: { ...before.project, name: 'Store' } };
    const lines = planLines(diffConfig(before, after), after);
    expect(lines).toEqual([{ sign: '~', text: 'project: name Shop → Store' }]);
  });
});
