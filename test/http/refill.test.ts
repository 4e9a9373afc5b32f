/** What a refusal gives back of what was entered, in which controls, and how often a fault is said. */
import { describe, expect, test } from 'vitest';
import { StoreError } from '../../src/store/store.ts';
import { startHttp, type TestHttpOptions } from '../harness/http.ts';

const ADDRESS = '/example.com/contact';
const NAVIGATION = { 'Sec-Fetch-Mode': 'navigate', Origin: 'https://www.example.com' };

type Fields = readonly (readonly [name: string, value: string])[];

async function refused(fields: Fields, form: object = {}, options: TestHttpOptions = {}) {
  const http = await startHttp({ forms: { contact: form }, ...options });
  const body = new URLSearchParams(fields.map(([name, value]) => [name, value] as [string, string]));
  return http.request(ADDRESS, { body, headers: NAVIGATION });
}

/** The controls of the page's form that have this name, as they are written. */
function controls(text: string, name: string): string[] {
  const all = text.match(/<(?:input|select|textarea)[^>]*>/g) ?? [];
  return all.filter((tag) => tag.includes(`name="${name}"`));
}

describe('a checkbox of the schema', () => {
  const CONSENT = { fields: { consent: { type: 'checkbox', label: 'I agree' } }, required: ['consent'] };
  const OWN = { fields: { consent: { type: 'checkbox', options: ['I agree to all'] } }, required: ['consent'] };

  test.each(['on', 'yes', 'true', '1', 'TRUE'])('is ticked by %s', async (value) => {
    expect((await refused([['consent', value]], CONSENT)).status).toBe(303);
  });

  test('is ticked by its own value', async () => {
    expect((await refused([['consent', 'I agree to all']], OWN)).status).toBe(303);
    expect((await refused([['consent', 'I agree to all']], CONSENT)).status).toBe(400);
  });

  test.each(['no, I do not agree', 'no', 'false', '0', ''])('that is required is not ticked by "%s"', async (value) => {
    const { status, text } = await refused(
      [
        ['message', 'Hello'],
        ['consent', value],
      ],
      CONSENT,
    );
    expect(status).toBe(400);
    expect(controls(text, 'consent')).toEqual([
      expect.stringMatching(/^<input type="checkbox" id="field-2" name="consent" value="on" aria-invalid="true"/),
    ]);
    expect(text).not.toContain('no, I do not agree');
  });

  test('that is missing is asked for as one, with its own value', async () => {
    const { text } = await refused([['message', 'Hello']], OWN);
    expect(controls(text, 'consent')).toEqual([
      expect.stringMatching(/type="checkbox" id="field-2" name="consent" value="I agree to all" aria-invalid="true"/),
    ]);
    expect(text).toContain('<a href="#field-2">Please tick “Consent”.</a>');
  });

  test('stays ticked when another field is at fault', async () => {
    const { text } = await refused(
      [
        ['consent', 'yes'],
        ['email', 'x'],
      ],
      CONSENT,
    );
    expect(controls(text, 'consent')).toEqual([expect.stringMatching(/type="checkbox".* value="yes" checked>/)]);
  });

  test('that is not required may be told false by a program', async () => {
    const http = await startHttp({ forms: { contact: { ...CONSENT, required: [] } } });
    expect((await http.request(ADDRESS, { body: { message: 'Hello', consent: false } })).status).toBe(200);
    expect((await http.request(ADDRESS, { body: { message: 'Hello', consent: 'maybe' } })).status).toBe(400);
  });
});

describe('what is given back', () => {
  const AT_FAULT = ['email', 'x'] as const;

  test('hidden fields of the schema are sent again unseen; their faults are told all the same', async () => {
    const form = { fields: { source: { type: 'hidden', options: ['shop', 'blog'] } } };
    const { text } = await refused([['source', 'shop'], AT_FAULT], form);
    expect(controls(text, 'source')).toEqual(['<input type="hidden" name="source" value="shop">']);
    const wrong = await refused([['source', 'elsewhere'], AT_FAULT], form);
    expect(wrong.text).toContain('<li>“Source” must be one of the options.</li>');
    expect(controls(wrong.text, 'source')).toEqual(['<input type="hidden" name="source" value="elsewhere">']);
  });

  test.each([
    ['authenticity_token', 'abc'],
    ['csrfmiddlewaretoken', 'abc'],
    ['__RequestVerificationToken', 'abc'],
    ['form_id', '7'],
    ['utm_source', 'newsletter'],
    ['gclid', 'Cj0KCQ'],
    ['ref', '123e4567-e89b-12d3-a456-426614174000'],
    ['state', 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-123'],
    ['what', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'],
  ])('without a schema %s=%s is sent again unseen', async (name, value) => {
    const { text } = await refused([[name, value], AT_FAULT]);
    expect(controls(text, name)).toEqual([`<input type="hidden" name="${name}" value="${value}">`]);
    expect(text).not.toMatch(new RegExp(`<strong>|${name}</label>`));
  });

  test.each([
    ['name', 'Ann'],
    ['iban', 'DE89370400440532013000'],
    ['phone', '+49 30 901820'],
    ['website', 'https://www.example.org/a/very/long/path/that/nobody/types/but/copies'],
    ['guests', '12'],
    ['allergies', 'no'],
  ])('without a schema %s=%s can be edited', async (name, value) => {
    const { text } = await refused([[name, value], AT_FAULT]);
    expect(controls(text, name)).toEqual([expect.stringMatching(/^<input type="(?:text|tel)"/)]);
  });

  test.each([
    ['terms', ['on'], 'Yes'],
    ['privacy', ['I have read it'], 'I have read it'],
    ['days[]', ['Mon', 'Tue'], 'Mon, Tue'],
    ['colour', ['red', 'blue'], 'red, blue'],
  ])('without a schema the choice %s is said and sent again, and is no text box', async (name, values, words) => {
    const { text } = await refused([...values.map((value) => [name, value] as const), AT_FAULT]);
    expect(controls(text, name)).toEqual(
      values.map((value) => `<input type="hidden" name="${name}" value="${value}">`),
    );
    expect(text).toContain(`You chose: ${words}`);
  });

  test('a consent that is required and missing is a checkbox without a schema, too', async () => {
    const { text } = await refused([['message', 'Hello']], { required: ['gdpr_consent'] });
    expect(controls(text, 'gdpr_consent')).toEqual([expect.stringMatching(/^<input type="checkbox"/)]);
  });

  test('choices of the schema come back with all their options', async () => {
    const form = {
      fields: { size: { options: ['S', 'M', 'L'] }, days: { type: 'list', options: ['Mon', 'Tue', 'Wed'] } },
    };
    const { text } = await refused([['size', 'M'], ['days', 'Tue'], AT_FAULT], form);
    expect(text).toContain('<option>S</option><option selected>M</option><option>L</option>');
    expect(controls(text, 'days').map((tag) => / checked/.test(tag))).toEqual([false, true, false]);
  });

  test('a textarea stays one, however short its text', async () => {
    const form = { fields: { wishes: { type: 'textarea' }, message: { label: 'What can we do?' } } };
    const { text } = await refused([['wishes', 'none'], ['Nachricht', 'Hallo'], ['message', ''], AT_FAULT], form);
    expect(controls(text, 'wishes')).toEqual([expect.stringMatching(/^<textarea/)]);
    expect(controls(text, 'Nachricht')).toEqual([expect.stringMatching(/^<textarea/)]);
    expect(controls(text, 'message')).toEqual([expect.stringMatching(/^<textarea/)]);
  });
});

describe('a fault', () => {
  test('is said beside its field, and once in the summary, which links to it', async () => {
    const { text } = await refused([['email', 'x']]);
    expect(text.match(/must be an email address/g)).toHaveLength(2);
    expect(text).toMatch(
      /role="alert"[^>]*>\n<p>One field needs your attention<\/p>\n<ul><li><a href="#field-1">“Email” must be an email/,
    );
    expect(text).toContain('<p class="fault" id="field-1-fault">“Email” must be an email');
  });

  test('of the whole form is said once', async () => {
    const { text } = await refused([['message', ' ']]);
    expect(text.match(/The form is empty/g)).toHaveLength(1);
  });

  test('among others is counted', async () => {
    const { text } = await refused([['email', 'x']], { required: ['name', 'message'] });
    expect(text).toContain('<p>3 fields need your attention</p>');
  });
});

describe('what was typed is given back by a refusal', () => {
  const TYPED = [['message', 'An hour of writing']] as const;

  test('for too many posts, to be sent again', async () => {
    const http = await startHttp({ forms: { contact: { rateLimit: 1 } } });
    await http.request(ADDRESS, { body: new URLSearchParams({ message: 'First' }), headers: NAVIGATION });
    const body = new URLSearchParams({ message: 'An hour of writing' });
    const { status, text } = await http.request(ADDRESS, { body, headers: NAVIGATION });
    expect(status).toBe(429);
    expect(text).toContain('An hour of writing</textarea>');
    expect(text).toMatch(/Please try again in about \d+ minutes\.<\/p>\n<\/div>\n<p>Your entries are below\./);
    expect(text).toContain('<button type="submit">Send</button>');
  });

  test('of a foreign page, to be copied: our own page must not send it', async () => {
    const http = await startHttp();
    const headers = { 'Sec-Fetch-Mode': 'navigate', Origin: 'https://evil.example' };
    const { status, text } = await http.request(ADDRESS, {
      body: new URLSearchParams({ message: 'Hi\nyou' }),
      headers,
    });
    expect(status).toBe(403);
    expect(text).toContain('<p><strong>Message</strong><br><bdi>Hi</bdi><br><bdi>you</bdi></p>');
    expect(text).not.toContain('<form');
  });

  test('for a full disk, and for a disk that is full at a file', async () => {
    const { status, text } = await refused(TYPED, {}, { options: { freeSpace: { below: () => true } } });
    expect([status, text]).toEqual([503, expect.stringContaining('An hour of writing</textarea>')]);
    const failing = {
      begin: () => ({
        write: () => Promise.reject(new StoreError('disk full', 'SQLITE_FULL')),
        end: () => expect.fail(),
        abort: () => Promise.resolve(),
      }),
      discard: () => Promise.resolve(),
      scan: () => expect.fail(),
      sweep: () => Promise.resolve(),
    };
    const http = await startHttp({ forms: { contact: { uploads: {} } }, options: { files: failing } });
    const data = new FormData();
    data.append('cv', new Blob(['content']), 'cv.pdf');
    data.append('message', 'An hour of writing');
    const full = await http.request(ADDRESS, { body: data, headers: NAVIGATION });
    expect([full.status, full.text]).toEqual([503, expect.stringContaining('An hour of writing</textarea>')]);
    expect(full.text).toContain('Please choose the file again: cv.pdf');
    expect(await http.submissions()).toEqual([]);
  });

  test('for a fault of ours before the body is read', async () => {
    const limits = { takeSubmission: () => Promise.reject(new Error('a bug')) };
    const http = await startHttp();
    const broken = await startHttp({
      store: http.store,
      options: { limits: Object.assign(Object.create(null), { take: () => ROOM, ...limits }) as never },
    });
    const body = new URLSearchParams({ message: 'An hour of writing' });
    const { status, text } = await broken.request(ADDRESS, { body, headers: NAVIGATION });
    expect([status, text]).toEqual([500, expect.stringContaining('An hour of writing</textarea>')]);
  });

  test('for a body that is too large, as far as it was read', async () => {
    const http = await startHttp({
      forms: { contact: { uploads: {} } },
      limits: { body: '64KiB', file: '32KiB', files_total: '32KiB' },
    });
    const data = new FormData();
    data.append('message', 'An hour of writing');
    data.append('film', new Blob([new Uint8Array(1_000_000)]), 'film.mp4');
    const { status, text } = await http.request(ADDRESS, { body: data, headers: NAVIGATION });
    expect(status).toBe(413);
    expect(text).toContain('An hour of writing</textarea>');
    expect(text).toContain('Please choose the file again: film.mp4');
  });

  test('where no form is, or none yet', async () => {
    const http = await startHttp();
    for (const path of ['/example.com/nothing', '/pending.example/contact']) {
      const body = new URLSearchParams({ message: 'An hour of writing' });
      const { status, text } = await http.request(path, { body, headers: NAVIGATION });
      expect([status >= 400, text]).toEqual([true, expect.stringContaining('<br><bdi>An hour of writing</bdi></p>')]);
    }
  });

  test('but not to a client that floods the server', async () => {
    const { status, text } = await refused(TYPED, {}, { limits: { requests_per_minute_per_address: 1 } });
    expect(status).toBe(303);
    const http = await startHttp({ limits: { requests_per_minute_per_address: 1 } });
    await http.request('/healthz');
    const body = new URLSearchParams({ message: 'An hour of writing' });
    const flood = await http.request(ADDRESS, { body, headers: NAVIGATION });
    expect([flood.status, flood.text]).toEqual([429, expect.not.stringContaining('An hour')]);
    expect(text).toBe('');
  });
});

const ROOM = { allowed: true, limit: 600, remaining: 599, reset: 0 };
