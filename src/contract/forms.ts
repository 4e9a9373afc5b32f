/** Forms, instant forms and collections of forms, and the recipients who must agree to get their mail. */
import { z } from 'zod';
import { files, finding, MAX_BODY_BYTES } from './projects.ts';
import { route } from './route.ts';
import {
  cursor,
  domainName,
  environment,
  identifier,
  label,
  listing,
  listingByName,
  mailAddress,
  optionalTime,
  page,
  pageSize,
  source,
  time,
} from './values.ts';

const count = z.int().describe('All submissions that it ever accepted, including those that are no longer kept.');
const endpoint = z.string().describe('Where it is posted to.');
const displayName = label.describe('Display name; notifications come from it.');

export const recipientStatus = z.enum(['confirmed', 'pending', 'refused']);

const consent = {
  recipient_status: recipientStatus.describe(
    'pending: a recipient has not agreed yet to receive mail from the account, and mail for it waits; refused: no recipient wants mail from this server.',
  ),
  recipients: z.array(z.object({ address: z.string(), status: recipientStatus })),
};

/** One address, or a list where there are several. */
const addresses = z.union([z.string(), z.array(z.string())]);

const form = z.object({
  id: z.string().describe('`<domain>/<key>`, `c/<collection>/<key>` or `frm_…`.'),
  name: z.string(),
  environment,
  submissions: count,
  created_at: time.describe('When the server first knew it.'),
  to: addresses.describe('Who gets the notifications; a list if there are several.'),
  ...consent,
  subject: z.string().nullable(),
  endpoint,
  source,
});

/** With the settings of one form, as they were given. */
const formWithSettings = form.extend({
  settings: z.record(z.string(), z.unknown()).describe('Its other settings; those at their default are left out.'),
});

const instantForm = z.object({
  id: z.string(),
  name: z.string(),
  environment,
  email: z.string(),
  endpoint,
  submissions: count,
  created_at: time,
  confirmed: z.boolean().describe('false: its recipient has not agreed yet, and notifications wait.'),
  recipient_status: consent.recipient_status,
});

const collection = z.object({
  name: z.string(),
  title: z.string(),
  environment,
  settings: z.object({ requireApiKey: z.boolean() }),
  forms: z.array(
    z.object({
      id: z.string().describe('The key: the API knows the form as `c/<collection>/<id>`.'),
      email: addresses,
      ...consent,
      endpoint,
      submissions: z.int(),
    }),
  ),
  source,
});

const recipient = z.object({
  address: z.string(),
  status: recipientStatus.describe(
    'pending: mail for it waits until it agrees; refused: it wants no mail from this server.',
  ),
  asked_at: optionalTime.describe('When it was last mailed a link; null: never.'),
  confirmed_at: optionalTime.describe('When it agreed; null: it has not, or need not.'),
});

/**
 * What a request says of a form. Every other member is a setting of a form in a project file: the server checks those with
 * the schema of project files, and the OpenAPI document lists them.
 */
export const newForm = z.looseObject({
  name: displayName,
  to: addresses.describe('Who gets the notifications: an address or a list of addresses.'),
  domain: domainName
    .optional()
    .describe('A domain of the account: mail is sent from it, and its pages and those of its subdomains may post.'),
});

const READ = { permission: 'forms.read', tag: 'Forms' } as const;
const WRITE = { permission: 'forms.write', domains: 'narrow', tag: 'Forms' } as const;

/** Kinds of code for web pages. */
export const SNIPPET_STYLES = ['html', 'fetch', 'react', 'htmx', 'formspree'] as const;

export type SnippetStyle = (typeof SNIPPET_STYLES)[number];

const snippet = z.object({
  style: z.enum(SNIPPET_STYLES),
  language: z.enum(['html', 'jsx']),
  code: z.string(),
});

/** What a form shows and mails. */
const PREVIEWS = ['notification', 'acknowledgment', 'confirmation', 'thank_you', 'error'] as const;

const MAX_FIELDS = 200;
const MAX_VALUE = 65_536;
const value = z.string().max(MAX_VALUE, 'must be at most 65,536 characters');
const values = z
  .record(z.string().min(1).max(200), z.union([value, z.array(value).max(MAX_FIELDS)]))
  .refine((all) => Object.keys(all).length <= MAX_FIELDS, 'must be 200 fields at most');

const previewFault = finding.extend({
  file: z.string().describe('`postern.yml`, or the file of the bundle.'),
  template: z.string().nullable().describe('The template that failed, with the part; `line` counts within that part.'),
});

const preview = z.object({
  errors: z
    .array(previewFault)
    .describe(
      'Why it cannot be shown, or what failed in a template. Where the bundle is invalid, nothing is rendered.',
    ),
  language: z.string().nullable().describe('Of the form.'),
  from: z.string().nullable(),
  to: z.array(z.string()),
  reply_to: z.string().nullable(),
  subject: z.string().nullable(),
  text: z.string().nullable(),
  html: z.string().nullable().describe('A mail or a page, as it is sent. It is for a frame that runs no scripts.'),
});

/** What helps to build a form: code for its page, previews, a test. */
export const formTools = {
  snippets: route('GET /forms/*id/snippets', {
    ...READ,
    readsLive: true,
    domains: 'narrow',
    summary: 'Shows code for web pages with the address, the fields and the honeypot of a form.',
    description: 'Instant forms have it as well.',
    answer: z.object({ id: z.string(), endpoint, snippets: z.array(snippet) }),
    errors: ['FORM_NOT_FOUND'],
  }),
  preview: route('POST /forms/*id/preview', {
    ...READ,
    readsLive: true,
    domains: 'narrow',
    summary: 'Renders a mail or a page of a form, also of a configuration that is not pushed yet.',
    description:
      'Nothing is stored or sent. With `config` the form is taken from there; otherwise it is the active one. The mail has the data of a submission, the given fields, or a sample.',
    body: z.strictObject({
      show: z.enum(PREVIEWS).default('notification').describe('`confirmation`: the mail of double opt-in.'),
      config: z.string().optional().describe('The YAML of a project, at most 256 KiB.'),
      files: files.default({}).describe('Contents of the files that it names, as in a push.'),
      fields: values.optional().describe('Values of the fields by name. Default: a sample.'),
      submission: z
        .string()
        .regex(/^sub_[0-9a-z]{26}$/, 'must be the id of a submission')
        .optional()
        .describe('A submission to the form, whose data is shown.'),
    }),
    maxBody: MAX_BODY_BYTES,
    answer: preview,
    errors: ['FORM_NOT_FOUND', 'NOT_FOUND'],
  }),
  test: route('POST /forms/*id/test', {
    ...WRITE,
    summary: 'Posts a test submission to a form, which takes the ordinary path.',
    description:
      'It is checked, judged by the spam filter, stored and mailed like the post of a visitor, and marked with the reason `test`. It counts as a submission.',
    body: z.strictObject({ fields: values.optional().describe('Values of the fields by name. Default: a sample.') }),
    answer: z.object({
      id: z.string().describe('The submission.'),
      status: z.enum(['accepted', 'spam', 'pending']),
    }),
    errors: ['FORM_NOT_FOUND', 'DOMAIN_NOT_VERIFIED'],
  }),
};

export const forms = {
  list: route('GET /forms', {
    ...READ,
    readsLive: true,
    domains: 'narrow',
    summary: 'Lists the forms of domains and collections by id, then those created by the API, newest first.',
    description:
      'Instant forms have a list of their own. A key with `domain_restrictions` sees the forms of its domains.',
    query: z.strictObject({
      limit: pageSize,
      cursor: cursor(/^[\w./:-]{1,400}$/),
      domain: domainName.optional().describe('Only the forms of this domain.'),
    }),
    answer: page({ forms: z.array(form) }),
  }),
  create: route('POST /forms', {
    ...WRITE,
    summary: 'Creates a form at `/f/{id}`, or on a domain of the account at `/{domain}/{id}`.',
    description:
      'Its mail comes from `forms@` the domain, or without one from `forms@` the host name of the server, in the built-in template. Without a domain, pages of any origin may post unless `allowed_origins` names some. All members except `name`, `to` and `domain` are the settings of a form in a project file. Recipients who must agree first are mailed a link.',
    body: newForm,
    answer: formWithSettings,
    errors: ['DOMAIN_NOT_FOUND', 'PLAN_LIMIT'],
  }),
  show: route('GET /forms/*id', {
    ...READ,
    readsLive: true,
    domains: 'narrow',
    summary: 'Shows a form; slashes in its id may be written as they are.',
    answer: formWithSettings,
    errors: ['FORM_NOT_FOUND'],
  }),
  change: route('PATCH /forms/*id', {
    ...WRITE,
    summary: 'Changes settings of a form that the API created; null restores a default.',
    description: 'Forms of a configuration are changed there (409).',
    body: newForm.omit({ domain: true }).partial(),
    answer: formWithSettings,
    errors: ['FORM_NOT_FOUND', 'CONFLICT'],
  }),
  remove: route('DELETE /forms/*id', {
    ...WRITE,
    summary: 'Deletes a form that the API created, and shows it.',
    description:
      'Its submissions are kept as before; queued mail is still sent. Forms of a configuration are removed there (409).',
    answer: formWithSettings,
    errors: ['FORM_NOT_FOUND', 'CONFLICT'],
  }),
};

const READ_INSTANT = { permission: 'forms.read', domains: 'refuse', tag: 'Instant forms' } as const;
const WRITE_INSTANT = { ...READ_INSTANT, permission: 'forms.write' } as const;
const instantBody = z.strictObject({ name: displayName, email: mailAddress.describe('Who gets the notifications.') });

export const instantForms = {
  list: route('GET /instant/forms', {
    ...READ_INSTANT,
    readsLive: true,
    summary: 'Lists the instant forms, newest first.',
    query: z.strictObject(listing('frm')),
    answer: page({ forms: z.array(instantForm) }),
  }),
  create: route('POST /instant/forms', {
    ...WRITE_INSTANT,
    summary: 'Creates an instant form at `/f/{id}`.',
    description:
      'If the recipient must agree first, a link is mailed to `email`; notifications wait until it is confirmed (`recipient_status`).',
    body: instantBody,
    answer: instantForm,
    errors: ['PLAN_LIMIT'],
  }),
  show: route('GET /instant/forms/:id', {
    ...READ_INSTANT,
    readsLive: true,
    summary: 'Shows an instant form.',
    answer: instantForm,
    errors: ['FORM_NOT_FOUND'],
  }),
  change: route('PATCH /instant/forms/:id', {
    ...WRITE_INSTANT,
    summary: 'Changes the name of an instant form, or its recipient, who must then agree.',
    description: 'An address that has not agreed yet is sent a new link; older links stop working.',
    body: instantBody.partial(),
    answer: instantForm,
    errors: ['FORM_NOT_FOUND'],
  }),
  remove: route('DELETE /instant/forms/:id', {
    ...WRITE_INSTANT,
    summary: 'Deletes an instant form, and shows it.',
    description: 'Its submissions are kept as before; queued mail is still sent.',
    answer: instantForm,
    errors: ['FORM_NOT_FOUND'],
  }),
};

/** As with forms, the server checks the settings of each form with the schema of project files. */
export const newCollection = z.strictObject({
  name: identifier.describe('Its part of the address `/c/{collection}/{form}`, unique on a server.'),
  title: label.optional().describe('Display name.'),
  settings: z
    .strictObject({ requireApiKey: z.boolean().optional().describe('Require an API key for submissions.') })
    .optional(),
  allowed_origins: z.array(z.string()).optional().describe('Origins whose pages may post.'),
  forms: z
    .record(identifier, z.looseObject({ name: label.optional().describe('Display name.'), email: addresses }))
    .describe('Forms by their id, each with the settings of a form in a project file.'),
});

const READ_COLLECTIONS = { permission: 'collections.read', domains: 'refuse', tag: 'Collections' } as const;
const WRITE_COLLECTIONS = { ...READ_COLLECTIONS, permission: 'collections.write' } as const;

export const collections = {
  list: route('GET /collections', {
    ...READ_COLLECTIONS,
    readsLive: true,
    summary: 'Lists the collections of the account by name.',
    query: z.strictObject({ limit: pageSize, cursor: cursor(/^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/) }),
    answer: page({ collections: z.array(collection) }),
  }),
  show: route('GET /collections/:name', {
    ...READ_COLLECTIONS,
    readsLive: true,
    summary: 'Shows a collection with its forms.',
    answer: collection,
  }),
  create: route('POST /collections', {
    ...WRITE_COLLECTIONS,
    summary: 'Creates a collection; its forms are posted to at `/c/{collection}/{form}`.',
    description:
      'Its mail comes from `forms@` the host name of the server, in the built-in templates. With `settings.requireApiKey` a submission needs a key of the account that holds `forms.submit`. 409 if the name is taken; a client that finds many taken names has to wait (429).',
    body: newCollection,
    answer: collection,
    errors: ['CONFLICT', 'PLAN_LIMIT'],
  }),
  remove: route('DELETE /collections/:name', {
    ...WRITE_COLLECTIONS,
    summary: 'Deletes a collection that the API created, and shows it.',
    description:
      'The submissions of its forms are kept as before. A collection of a configuration is removed there (409).',
    answer: collection,
    errors: ['CONFLICT'],
  }),
};

const READ_RECIPIENTS = { permission: 'forms.read', domains: 'refuse', tag: 'Recipients' } as const;

export const recipients = {
  list: route('GET /recipients', {
    ...READ_RECIPIENTS,
    summary: 'Lists the addresses that were asked to agree to mail of the account.',
    query: z.strictObject(listingByName()),
    answer: page({ recipients: z.array(recipient) }),
  }),
  ask: route('POST /recipients', {
    ...READ_RECIPIENTS,
    permission: 'forms.write',
    summary: 'Asks an address to agree to mail of the account: mails it a link, which replaces the one before.',
    description:
      'Not needed if the account is trusted or owns the domain of the address. A mailbox is asked at most 3 times a day, whoever asks; 403 if it wants no mail from this server.',
    body: z.strictObject({ address: mailAddress.describe('Compared without case.') }),
    answer: recipient,
    errors: ['RECIPIENT_NOT_CONFIRMED'],
  }),
};
