/**
 * Forms that were written for another service, in the shape that its documentation shows, with nothing changed but the
 * address: what their control fields did there they do here, or nothing, and none of it is data.
 */
import { simpleParser } from 'mailparser';
import { request } from 'undici';
import { expect, test } from 'vitest';
import { OPERATOR } from '../../src/store/tenants.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { testKey } from '../harness/keys.ts';

const PAGE = 'https://example.test';
const THANKS = `${PAGE}/thanks.html`;
/** As a browser sends a form of that site. */
const BROWSER = { Origin: PAGE, Referer: `${PAGE}/contact`, 'Sec-Fetch-Mode': 'navigate', Accept: 'text/html' };

interface Moved {
  /** Between `<form>` and `</form>`. */
  readonly html: string;
  readonly typed: Readonly<Record<string, string>>;
  /** What is data, in the order sent. */
  readonly data: readonly (readonly [string, string])[];
  readonly location?: string;
  readonly subject?: string;
  readonly replyTo?: string;
  /** The honeypot that the service has its forms carry. */
  readonly trap: string;
}

const ADA = { name: 'Ada', email: 'ada@inbox.test', message: 'Is it open on Sunday?' };
const DATA: Moved['data'] = Object.entries(ADA);

const SERVICES: Record<string, Moved> = {
  Formspree: {
    html: `
      <input type="text" name="_gotcha" style="display:none">
      <input type="hidden" name="_subject" value="Question from the site">
      <input type="hidden" name="_next" value="${THANKS}">
      <input type="hidden" name="_cc" value="other@inbox.test">
      <input type="hidden" name="_format" value="plain">
      <input type="text" name="name">
      <input type="email" name="_replyto">
      <textarea name="message"></textarea>
      <textarea name="g-recaptcha-response" style="display:none">03AFcWeA5</textarea>`,
    typed: { name: ADA.name, _replyto: ADA.email, message: ADA.message },
    data: [
      ['name', ADA.name],
      ['message', ADA.message],
    ],
    location: THANKS,
    subject: 'Question from the site',
    replyTo: ADA.email,
    trap: '_gotcha',
  },
  FormSubmit: {
    html: `
      <input type="hidden" name="_next" value="${THANKS}">
      <input type="hidden" name="_subject" value="Question from the site">
      <input type="hidden" name="_cc" value="other@inbox.test,another@inbox.test">
      <input type="hidden" name="_blacklist" value="spammy pattern, banned term">
      <input type="hidden" name="_captcha" value="false">
      <input type="hidden" name="_autoresponse" value="We have received your message">
      <input type="hidden" name="_template" value="table">
      <input type="hidden" name="_webhook" value="https://hooks.example.test/x">
      <input type="text" name="_honey" style="display:none">
      <input type="text" name="name">
      <input type="email" name="email">
      <textarea name="message"></textarea>`,
    typed: ADA,
    data: DATA,
    location: THANKS,
    subject: 'Question from the site',
    replyTo: ADA.email,
    trap: '_honey',
  },
  Basin: {
    html: `
      <input type="hidden" name="_redirect" value="${THANKS}">
      <input type="hidden" name="_gotcha">
      <input type="text" name="name">
      <input type="email" name="email">
      <textarea name="message"></textarea>
      <input type="hidden" name="cf-turnstile-response" value="0.token">
      <textarea name="h-captcha-response" style="display:none">P1_token</textarea>`,
    typed: ADA,
    data: DATA,
    location: THANKS,
    replyTo: ADA.email,
    trap: '_gotcha',
  },
  Getform: {
    html: `
      <input type="hidden" name="_gotcha" style="display:none !important">
      <input type="hidden" name="_email.subject" value="Question from the site">
      <input type="hidden" name="_email.from" value="Getform notice">
      <input type="text" name="name">
      <input type="email" name="email">
      <textarea name="message"></textarea>`,
    typed: ADA,
    data: DATA,
    subject: 'Question from the site',
    replyTo: ADA.email,
    trap: '_gotcha',
  },
  Web3Forms: {
    html: `
      <input type="hidden" name="access_key" value="YOUR_ACCESS_KEY_HERE">
      <input type="hidden" name="subject" value="Question from the site">
      <input type="hidden" name="from_name" value="Web3Forms notice">
      <input type="hidden" name="replyto" value="desk@inbox.test">
      <input type="hidden" name="ccemail" value="other@inbox.test">
      <input type="hidden" name="redirect" value="${THANKS}">
      <input type="checkbox" name="botcheck" class="hidden" style="display: none;">
      <input type="text" name="name">
      <input type="email" name="email">
      <textarea name="message"></textarea>`,
    typed: ADA,
    data: DATA,
    location: THANKS,
    subject: 'Question from the site',
    replyTo: 'desk@inbox.test',
    trap: 'botcheck',
  },
  StaticForms: {
    html: `
      <input type="hidden" name="apiKey" value="your_api_key_here">
      <input type="hidden" name="replyTo" value="@">
      <input type="hidden" name="redirectTo" value="${THANKS}">
      <input type="text" name="honeypot" style="display:none">
      <input type="text" name="name">
      <input type="email" name="email">
      <textarea name="message"></textarea>`,
    typed: ADA,
    data: DATA,
    location: THANKS,
    replyTo: ADA.email,
    trap: 'honeypot',
  },
  Netlify: {
    html: `
      <input type="hidden" name="form-name" value="contact-netlify">
      <p class="hidden"><label>Leave this empty: <input name="bot-field"></label></p>
      <input type="text" name="name">
      <input type="email" name="email">
      <textarea name="message"></textarea>
      <textarea name="g-recaptcha-response" style="display:none">03AFcWeA5</textarea>`,
    typed: ADA,
    data: DATA,
    replyTo: ADA.email,
    trap: 'bot-field',
  },
};

/** What a browser sends of the controls, filled in. */
function bodyOf(html: string, typed: Readonly<Record<string, string>>): URLSearchParams {
  const body = new URLSearchParams();
  const controls = html.matchAll(/<input([^>]*)>|<textarea([^>]*)>([^<]*)<\/textarea>/g);
  for (const [, input, textarea, text] of controls) {
    const attributes = new Map(
      Array.from((input ?? textarea ?? '').matchAll(/(\w+)="([^"]*)"/g), ([, name = '', value = '']) => [name, value]),
    );
    const name = attributes.get('name') ?? '';
    const value = typed[name] ?? attributes.get('value') ?? text ?? '';
    // A checkbox that is not ticked is not sent.
    if (attributes.get('type') !== 'checkbox' || typed[name] !== undefined) body.append(name, value);
  }
  return body;
}

/** As a browser that goes to the answer; `fetch()` never does. */
async function send(world: TestWorld, body: URLSearchParams) {
  const type = { 'Content-Type': 'application/x-www-form-urlencoded' };
  const {
    statusCode,
    headers,
    body: answer,
  } = await request(`${world.url}/example.test/contact`, {
    method: 'POST',
    headers: { ...BROWSER, ...type },
    body: body.toString(),
  });
  return { status: statusCode, location: headers['location'], text: await answer.text() };
}

/** The fields of the form's submissions of a status, as the API shows them, newest first. */
async function fieldsOf({ url, daemon }: TestWorld, status = 'accepted'): Promise<unknown[]> {
  const { headers } = await testKey(daemon.store, { tenant: OPERATOR });
  const answer = await fetch(`${url}/v1/forms/example.test/contact/submissions?status=${status}`, { headers });
  const { submissions } = (await answer.json()) as { submissions: { fields: unknown }[] };
  return submissions.map(({ fields }) => fields);
}

test.each(Object.entries(SERVICES))(
  'a form of %s works when only the address changes',
  async (_, { html, typed, data, location, subject, replyTo, trap }) => {
    const world = await startTestWorld();
    const answer = await send(world, bodyOf(html, typed));
    expect([200, 303]).toContain(answer.status);
    if (location !== undefined) expect(answer.location).toBe(location);
    expect(await fieldsOf(world)).toEqual([Object.fromEntries(data)]);

    const [mail] = (await world.caught(1)).list();
    if (mail === undefined) throw new Error('no mail');
    const parsed = await simpleParser(await world.mx.mails.source(mail));
    if (subject !== undefined) expect(parsed.subject).toContain(subject);
    expect(parsed.replyTo?.value.map(({ address }) => address)).toEqual([replyTo]);
    const hidden = [...bodyOf(html, {})].filter(([, value]) => value !== '' && value !== replyTo);
    for (const [name, value] of hidden) {
      expect(parsed.text).not.toContain(name);
      if (value !== subject && value !== '@') expect(parsed.text).not.toContain(value);
    }
    // Nobody but the owner, whatever the form says.
    expect((await world.queue()).map(({ recipient }) => recipient)).toEqual(['owner@inbox.test']);

    const bot = await send(world, bodyOf(html, { ...typed, [trap]: 'https://bot.example/' }));
    expect(bot.status).toBe(400);
    expect(await fieldsOf(world, 'spam')).toEqual([Object.fromEntries(data)]);
  },
);

test('what is no control field stays data', async () => {
  const world = await startTestWorld();
  const own = { redirect: 'to my new address', subject: 'Sofa', from_name: 'Ada', replyto: 'in writing' };
  await send(world, new URLSearchParams(own));
  await send(world, new URLSearchParams({ access_key: 'k', replyto: 'by telephone' }));
  expect(await fieldsOf(world)).toEqual([{ replyto: 'by telephone' }, own]);
});

test('a field that the configuration names stays data, and what the configured subject would hide', async () => {
  const project = `
project: { name: Site, slug: site, owner: owner@inbox.test }
domains:
  example.test:
    forms:
      contact:
        to: owner@inbox.test
        subject: From the site
        required: [apiKey]
        fields: { honeypot: { label: Favourite honey } }
`;
  const world = await startTestWorld({ projects: { 'site.yml': project } });
  const sent = { apiKey: 'front door', redirectTo: 'no', honeypot: 'acacia' };
  await send(world, new URLSearchParams(sent));
  await send(world, new URLSearchParams({ apiKey: 'none', access_key: 'k', subject: 'Sofa' }));
  expect(await fieldsOf(world)).toEqual([{ apiKey: 'none', subject: 'Sofa' }, sent]);
});

test('a control field redirects to no other site, and its form is given back with it', async () => {
  const world = await startTestWorld();
  for (const control of [
    { _redirect: 'https://evil.example/' },
    { access_key: 'k', redirect: 'https://evil.example/' },
  ]) {
    const answer = await send(world, new URLSearchParams({ ...ADA, ...control }));
    expect(answer.location ?? '').not.toContain('evil');
  }
  const wrong = { ...ADA, email: 'nobody', access_key: 'k', redirect: 'thanks.html', botcheck: '' };
  const { status, text } = await send(world, new URLSearchParams(wrong));
  expect(status).toBe(400);
  expect(text).toContain('<input type="hidden" name="access_key" value="k">');
  expect(text).toContain(`<input type="hidden" name="redirect" value="${THANKS}">`);
  expect(text).not.toContain('botcheck');
});

test('Web3Forms’ botcheck is false in JSON where it was not ticked', async () => {
  const world = await startTestWorld();
  const answer = await fetch(`${world.url}/example.test/contact`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Origin: PAGE },
    body: JSON.stringify({ access_key: 'k', ...ADA, botcheck: false }),
  });
  expect(answer.status).toBe(200);
});
