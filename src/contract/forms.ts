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

const count = z.int().describe('All submissions ever accepted, including those no longer kept.');
const endpoint = z.string().describe('URL that the form is posted to.');
const displayName = label.describe('Display name; also the sender name of notifications.');

export const recipientStatus = z.enum(['confirmed', 'pending', 'refused']);

const consent = {
  recipient_status: recipientStatus.describe(
    'pending: a recipient has not yet agreed to receive mail from the account; its mail waits. refused: all recipients refuse mail from this server.',
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
  created_at: time.describe('When the server first loaded it.'),
  to: addresses.describe('Who gets the notifications; a list if there are several.'),
  ...consent,
  subject: z.string().nullable(),
  endpoint,
  source,
});

/** With the settings of one form, as they were given. */
const formWithSettings = form.extend({
  settings: z.record(z.string(), z.unknown()).describe('Its other settings, except those with default values.'),
});

const instantForm = z.object({
  id: z.string(),
  name: z.string(),
  environment,
  email: z.string(),
  endpoint,
  submissions: count,
  created_at: time,
  confirmed: z.boolean().describe('false: the recipient has not agreed yet; notifications wait.'),
  recipient_status: consent.recipient_status,
});

const collection = z.object({
  name: z.string(),
  title: z.string(),
  environment,
  settings: z.object({ requireApiKey: z.boolean() }),
  forms: z.array(
    z.object({
      id: z.string().describe('Its key; the form’s ID elsewhere in the API is `c/<collection>/<id>`.'),
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
    'pending: its mail waits until it agrees; refused: it refuses all mail from this server.',
  ),
  asked_at: optionalTime.describe('When a link was last mailed to it; null: never.'),
  confirmed_at: optionalTime.describe('When it agreed; null: it has not agreed, or does not have to.'),
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
    .describe('A domain of the account. Mail is sent from it; pages on it and its subdomains may post.'),
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
  .refine((all) => Object.keys(all).length <= MAX_FIELDS, 'must be at most 200 fields');

const previewFault = finding.extend({
  file: z.string().describe('`postern.yml`, or the file in `files`.'),
  template: z.string().nullable().describe('The template and part that failed; `line` is counted within that part.'),
});

const preview = z.object({
  errors: z
    .array(previewFault)
    .describe(
      'Why it cannot be shown, or what failed in a template. If the configuration or a file is invalid, nothing is rendered.',
    ),
  language: z.string().nullable().describe('Language of the form.'),
  from: z.string().nullable(),
  to: z.array(z.string()),
  reply_to: z.string().nullable(),
  subject: z.string().nullable(),
  text: z.string().nullable(),
  html: z.string().nullable().describe('The email or page as sent. Show it in a frame that runs no scripts.'),
});

/** What helps to build a form: code for its page, previews, a test. */
export const formTools = {
  snippets: route('GET /forms/*id/snippets', {
    ...READ,
    readsLive: true,
    domains: 'narrow',
    summary: 'Shows code for web pages with the URL, fields and honeypot of a form.',
    description: 'Also for instant forms.',
    answer: z.object({ id: z.string(), endpoint, snippets: z.array(snippet) }),
    errors: ['FORM_NOT_FOUND'],
  }),
  preview: route('POST /forms/*id/preview', {
    ...READ,
    readsLive: true,
    domains: 'narrow',
    summary: 'Renders an email or page of a form, even from a configuration that is not pushed yet.',
    description:
      'Nothing is stored or sent. With `config`, the form is read from there; otherwise the active form is used. The data comes from a submission, the given fields, or a sample.',
    body: z.strictObject({
      show: z.enum(PREVIEWS).default('notification').describe('`confirmation`: the double opt-in email.'),
      config: z.string().optional().describe('The YAML of a project, at most 256 KiB.'),
      files: files.default({}).describe('Contents of the files named in `config`, as in a push.'),
      fields: values.optional().describe('Values of the fields by name. Default: a sample.'),
      submission: z
        .string()
        .regex(/^sub_[0-9a-z]{26}$/, 'must be the ID of a submission')
        .optional()
        .describe('A submission of the form whose data is used.'),
    }),
    maxBody: MAX_BODY_BYTES,
    answer: preview,
    errors: ['FORM_NOT_FOUND', 'NOT_FOUND'],
  }),
  test: route('POST /forms/*id/test', {
    ...WRITE,
    summary: 'Posts a test submission to a form, processed like any other.',
    description:
      'It is validated, checked for spam, stored and mailed like a visitor’s submission, and marked with the reason `test`. It counts as a submission.',
    body: z.strictObject({ fields: values.optional().describe('Values of the fields by name. Default: a sample.') }),
    answer: z.object({
      id: z.string().describe('ID of the submission.'),
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
    summary: 'Lists the forms of domains and collections by ID, then forms created through the API, newest first.',
    description:
      'Instant forms are listed separately. A key with `domain_restrictions` sees only the forms of its domains.',
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
      'Its mail is sent from `forms@` the domain, or without a domain from `forms@` the server’s host name, with the built-in template. Without a domain, pages of any origin may post unless `allowed_origins` lists some. All members except `name`, `to` and `domain` are form settings as in a project file. Recipients who must confirm first are mailed a link.',
    body: newForm,
    answer: formWithSettings,
    errors: ['DOMAIN_NOT_FOUND', 'PLAN_LIMIT'],
  }),
  show: route('GET /forms/*id', {
    ...READ,
    readsLive: true,
    domains: 'narrow',
    summary: 'Shows a form. Slashes in its ID need no escaping.',
    answer: formWithSettings,
    errors: ['FORM_NOT_FOUND'],
  }),
  change: route('PATCH /forms/*id', {
    ...WRITE,
    summary: 'Changes settings of a form created through the API; null restores a default.',
    description: 'A form of a configuration can be changed only there (409).',
    body: newForm.omit({ domain: true }).partial(),
    answer: formWithSettings,
    errors: ['FORM_NOT_FOUND', 'CONFLICT'],
  }),
  remove: route('DELETE /forms/*id', {
    ...WRITE,
    summary: 'Deletes a form created through the API, and shows it.',
    description:
      'Its submissions are kept; queued mail is still sent. A form of a configuration can be removed only there (409).',
    answer: formWithSettings,
    errors: ['FORM_NOT_FOUND', 'CONFLICT'],
  }),
};

const READ_INSTANT = { permission: 'forms.read', domains: 'refuse', tag: 'Instant forms' } as const;
const WRITE_INSTANT = { ...READ_INSTANT, permission: 'forms.write' } as const;
const instantBody = z.strictObject({
  name: displayName,
  email: mailAddress.describe('Email address that gets the notifications.'),
});

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
      'If the recipient must confirm first, a link is mailed to `email`; notifications wait until then (`recipient_status`).',
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
    summary: 'Changes the name or the recipient of an instant form.',
    description:
      'A new recipient may have to confirm first. An address that has not confirmed yet is mailed a new link; older links stop working.',
    body: instantBody.partial(),
    answer: instantForm,
    errors: ['FORM_NOT_FOUND'],
  }),
  remove: route('DELETE /instant/forms/:id', {
    ...WRITE_INSTANT,
    summary: 'Deletes an instant form, and shows it.',
    description: 'Its submissions are kept; queued mail is still sent.',
    answer: instantForm,
    errors: ['FORM_NOT_FOUND'],
  }),
};

/** As with forms, the server checks the settings of each form with the schema of project files. */
export const newCollection = z.strictObject({
  name: identifier.describe('Its name in the URL `/c/{collection}/{form}`, unique on the server.'),
  title: label.optional().describe('Display name.'),
  settings: z
    .strictObject({ requireApiKey: z.boolean().optional().describe('Whether submissions require an API key.') })
    .optional(),
  allowed_origins: z.array(z.string()).optional().describe('Origins whose pages may post.'),
  forms: z
    .record(identifier, z.looseObject({ name: label.optional().describe('Display name.'), email: addresses }))
    .describe('Forms by their ID, each with form settings as in a project file.'),
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
    summary: 'Creates a collection; its forms are at `/c/{collection}/{form}`.',
    description:
      'Its mail is sent from `forms@` the server’s host name, with the built-in templates. With `settings.requireApiKey`, a submission needs a key of the account with `forms.submit`. 409 if the name is taken; a client that tries many taken names must wait (429).',
    body: newCollection,
    answer: collection,
    errors: ['CONFLICT', 'PLAN_LIMIT'],
  }),
  remove: route('DELETE /collections/:name', {
    ...WRITE_COLLECTIONS,
    summary: 'Deletes a collection created through the API, and shows it.',
    description:
      'The submissions of its forms are kept. A collection of a configuration can be removed only there (409).',
    answer: collection,
    errors: ['CONFLICT'],
  }),
};

const READ_RECIPIENTS = { permission: 'forms.read', domains: 'refuse', tag: 'Recipients' } as const;

export const recipients = {
  list: route('GET /recipients', {
    ...READ_RECIPIENTS,
    summary: 'Lists the addresses that were asked to agree to mail from the account.',
    query: z.strictObject(listingByName()),
    answer: page({ recipients: z.array(recipient) }),
  }),
  ask: route('POST /recipients', {
    ...READ_RECIPIENTS,
    permission: 'forms.write',
    summary:
      'Asks an address to agree to mail from the account. A link is mailed to it, which replaces the previous one.',
    description:
      'Not needed if the account is trusted or owns the address’s domain. A mailbox is asked at most 3 times a day in total; 403 if it refuses mail from this server.',
    body: z.strictObject({ address: mailAddress.describe('Case is ignored.') }),
    answer: recipient,
    errors: ['RECIPIENT_NOT_CONFIRMED'],
  }),
};
