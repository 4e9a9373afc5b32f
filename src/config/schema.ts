/**
 * The shape of the two kinds of YAML file, once: types, defaults, checks and the editors' JSON Schema all come from here.
 * Every key has the feature behind it; names are the YAML's own, in code as well. Values are decoded (`scalars.ts`):
 * durations are milliseconds, sizes are bytes, addresses and domains are in normal form, one address is a list.
 */
import { z } from 'zod';
import { serverSchema } from './schema-server.ts';
import { LANGUAGES } from '../languages/languages.ts';
import { PUBLIC_EVENTS } from '../lib/event-types.ts';
import * as is from './scalars.ts';
import { choice, flag, listOf, section } from './scalars.ts';

export type ServerConfig = z.output<typeof serverSchema>;
/** After loading, a template's `html` holds the text of its `html_file`, and a theme's `logo` is a data: URL. */
export type ProjectConfig = z.output<typeof projectSchema>;
export type DomainConfig = ProjectConfig['domains'][string];
export type FormConfig = DomainConfig['forms'][string];
export type CollectionConfig = ProjectConfig['collections'][string];
export type TemplateConfig = ProjectConfig['templates'][string];

const TWICE = 'expected each URL once';

const challenge = z.union(
  [
    z.enum(['none', 'pow']),
    z.strictObject({
      provider: z
        .enum(['turnstile', 'hcaptcha', 'recaptcha'])
        .describe('Service whose widget is on the page: Cloudflare Turnstile, hCaptcha, or Google reCAPTCHA.'),
      secret: is.text(500).describe('Secret key of your site at that service.'),
    }),
  ],
  { error: 'expected none, pow, or a provider (turnstile, hcaptcha, recaptcha) and its secret' },
);

const spamProtection = z.strictObject({
  level: choice(
    ['normal', 'strict'],
    'normal',
    'Spam threshold: a spam probability of 79 % (normal) or 60 % (strict). strict also refuses requests that do not name a page (no Origin, Referer or Sec-Fetch-Site header), unless they have an API key.',
  ),
  honeypot: is
    .text(100)
    .default('_service_honeypot')
    .describe('Name of the honeypot field. A submission that fills it in counts as spam.'),
  rate_limit: is.count.optional().describe('Submissions per hour and IP address, if rateLimit is not set.'),
  content_filter: flag(true, 'Score the content of submissions.'),
  on_spam: choice(
    ['reject', 'silent'],
    'reject',
    'What the sender of spam sees: an error (reject) or success (silent).',
  ),
  challenge: challenge
    .default('none')
    .describe(
      'What the page must solve before a submission is accepted: nothing, a proof of work (pow) done by postern.js, or a third-party captcha. Submissions with an API key need none.',
    ),
  blocklist: z
    .array(is.text(320))
    .max(1000)
    .default([])
    .describe('Words, email addresses, domains and IP networks to block.'),
  akismet: z
    .strictObject({
      key: is.text(200).describe('API key of the service.'),
      url: is.webUrl.default('https://rest.akismet.com').describe('URL of the service.'),
    })
    .optional()
    .describe('An Akismet-compatible service that checks submissions. It receives their content.'),
  rspamd: z
    .strictObject({
      url: is.webUrl.describe('URL of an rspamd worker, such as http://rspamd.example.net:11334.'),
      password: is.text(200).optional().describe('Password of the worker.'),
    })
    .optional()
    .describe('An rspamd server that checks submissions. It receives their content.'),
});

const field = z.strictObject({
  type: choice(
    ['text', 'textarea', 'email', 'url', 'tel', 'number', 'date', 'checkbox', 'list', 'hidden', 'file'],
    'text',
    'Type of the value. checkbox: ticked or not; it accepts its value (the one in options) or on, yes, true, 1. hidden: the page sets it, and the visitor never sees it.',
  ),
  max: is.count
    .optional()
    .describe('Maximum length in characters; for a number, its maximum; for a list, the maximum number of entries.'),
  pattern: z
    .string()
    .min(1)
    .max(500)
    .optional()
    .describe(
      'Regular expression that the whole value must match, as in HTML. No look-around or back-references; repetitions up to 100.',
    ),
  options: z.array(z.string()).min(1).optional().describe('Allowed values.'),
  label: is.text(200).optional().describe('Label of the field in mail and on pages.'),
  owner_label: is
    .text(200)
    .optional()
    .describe('Label of the field in notifications, if it differs from the label that visitors see.'),
});

const acknowledgment = z.strictObject({
  enabled: flag(true, 'Send the acknowledgment.'),
  template: z.string().default('acknowledgment').describe('Name of a template of type acknowledgment.'),
  subject: is
    .text(1000)
    .optional()
    .describe('Subject. May contain template expressions. Overrides the subject of the template.'),
});

const uploads = z.strictObject({
  enabled: flag(true, 'Accept files.'),
  max_files: is.count.optional().describe('Maximum number of files in a submission.'),
  max_size: is.size.optional().describe('Maximum size of a file.'),
  types: z
    .array(is.text(100))
    .min(1)
    .optional()
    .describe('Accepted media types or extensions, such as image/*, application/pdf, .docx.'),
});

const fallback = z.strictObject({
  to: is.addresses.optional().describe('Recipients to use if the notification cannot be delivered.'),
  after: is.duration.prefault('4h').describe('Age at which undelivered mail counts as failed.'),
  webhook: is.hookUrl.optional().describe('URL that the submission is posted to, as the event submission.fallback.'),
});

const theme = z.strictObject({
  title: is.text(100).optional().describe('Name at the top of the hosted pages. Default: the domain.'),
  message: is
    .text(2000)
    .optional()
    .describe('Text at the bottom of every hosted page, such as other ways to reach you.'),
  color: is.color.optional().describe('Color of buttons and links, such as "#0a7d5a". Text on it stays readable.'),
  logo: is.logo
    .optional()
    .describe('PNG, JPEG, WebP or SVG image of at most 64 KiB: a file, relative to this file, or a data: URL.'),
  language: z
    .enum(LANGUAGES)
    .optional()
    .describe(
      'Language of the hosted pages, errors and built-in mail. Default: the language of the browser; mail: en.',
    ),
});

/** A form of a domain. */
export const formSchema = z.strictObject({
  name: is.text(200).optional().describe('Display name. Default: the form ID.'),
  to: is.addresses
    .optional()
    .describe(
      'Recipients of notifications. Default: the forwarding targets of <form ID>@<domain>, else the project owner.',
    ),
  from: is.address.optional().describe('Sender of notifications, an address of this domain. Default: forms@<domain>.'),
  from_name: is.text(500).optional().describe('Display name of the sender. May contain template expressions.'),
  subject: is
    .text(1000)
    .optional()
    .describe('Subject. May contain template expressions. Overrides the subject of the template.'),
  template: z.string().default('default').describe('Name of a template of type form.'),
  replies: flag(true, 'Set Reply-To to the email address of the submitter.'),
  replyTo: is.address.optional().describe('Reply-To if replies is false or the submission has no email address.'),
  reply_relay: z
    .boolean()
    .optional()
    .describe(
      'Relay replies through an address of this domain, so that the owner’s email address stays private. The MX record of the domain must point to this server.',
    ),
  acknowledgment: acknowledgment.optional().describe('Automatic reply to the submitter.'),
  spam_protection: spamProtection.prefault({}).describe('Spam protection.'),
  rateLimit: is.count.optional().describe('Submissions per hour and IP address.'),
  max_per_hour: is.count
    .optional()
    .describe(
      'Submissions per hour from all IP addresses. Default: 1000, or rateLimit if that is higher. Further submissions are kept as spam, and the owner is told how many.',
    ),
  required: listOf(is.text(200), 'Required fields.'),
  fields: z.record(is.text(200), field).default({}).describe('Rules for individual fields, by name.'),
  redirect: is.webUrl
    .optional()
    .describe('URL that browsers are redirected to after a submission. Default: the built-in page.'),
  error_redirect: is.webUrl
    .optional()
    .describe('URL that browsers are redirected to after an error. Default: the built-in page.'),
  thank_you: is.text(2000).optional().describe('Text of the built-in thank-you page.'),
  theme: theme.optional().describe('Look and language of the hosted pages.'),
  allowed_origins: listOf(is.origin, 'Additional origins whose pages may use the form.'),
  allow_localhost: flag(
    false,
    'Accept submissions from pages on localhost, 127.0.0.1, [::1] and from files, for development.',
  ),
  uploads: uploads.optional().describe('File uploads, sent as attachments. Without this, files are refused.'),
  retention: is.retention
    .optional()
    .describe(
      'How long submissions are kept: a duration, 0 (until delivered) or forever. Default: retention.submissions of the server.',
    ),
  store: choice(
    ['all', 'metadata', 'none'],
    'all',
    'What is kept of a submission once its mail is delivered: all of it, everything except its fields and files (metadata), or nothing. Applies to new submissions.',
  ),
  ip: choice(
    ['full', 'truncated', 'hashed', 'none'],
    'full',
    'How the IP address of the visitor is stored and shown. Limits and the spam filter use the full address while the request is handled.',
  ),
  double_opt_in: flag(
    false,
    'Keep a submission as pending, without notification, until the visitor confirms it with an emailed link. Needs a field with the email address.',
  ),
  fallback: fallback
    .optional()
    .describe('Where a submission goes if its notification cannot be delivered to any of its recipients.'),
  webhooks: z
    .array(is.hookUrl)
    .max(20)
    .refine((urls) => new Set(urls).size === urls.length, { error: TWICE })
    .default([])
    .describe('URLs that each submission is posted to.'),
});

const webhook = z.strictObject({
  url: is.hookUrl.describe('URL that events are posted to.'),
  events: listOf(z.enum(PUBLIC_EVENTS), 'Event types. If empty, all.'),
  secret: is.webhookSecret.optional().describe('Signing secret. Default: generated by the server.'),
});

const template = z.strictObject({
  type: choice(['form', 'acknowledgment'], 'form', 'Kind of mail that the template is for.'),
  subject: is.text(1000).optional().describe('Subject. May contain template expressions.'),
  text: z.string().optional().describe('Text part. Default: generated from the HTML part.'),
  html: z.string().optional().describe('HTML part.'),
  html_file: is.text(500).optional().describe('File with the HTML part, relative to this file.'),
  variables: z.record(z.string(), z.json()).default({}).describe('Additional variables for this template.'),
});

/** Forms under one name that belong to no domain. */
export const collectionSchema = z.strictObject({
  name: is.text(200).optional().describe('Display name. Default: the key of the collection.'),
  settings: section('Settings for all forms of the collection.', {
    requireApiKey: flag(false, 'Require an API key for submissions.'),
  }),
  allowed_origins: listOf(is.origin, 'Origins whose pages may use the forms. If empty, any origin.'),
  forms: z
    .record(
      is.identifier,
      formSchema
        // Their mail is from the server's host name.
        .omit({ to: true, from: true, reply_relay: true })
        .extend({
          email: is.addresses.optional().describe('Recipients of notifications. Default: the project owner.'),
        }),
    )
    .default({})
    .describe('Forms by ID: POST /c/<collection>/<id>.'),
});

const domain = z.strictObject({
  dkim: section('DKIM signing.', {
    selector: is.dnsLabel.default('postern').describe('DKIM selector: the key is at <selector>._domainkey.<domain>.'),
    algorithms: z
      .array(z.enum(['rsa', 'ed25519']))
      .min(1)
      .default(['rsa'])
      .describe('Key types to sign with.'),
  }),
  forwarding: z
    .record(
      is.forwardingKey,
      z.union([z.enum(['reject', 'discard']), is.addresses], {
        error: 'expected an email address, a list of them, reject or discard',
      }),
    )
    .default({})
    .describe('Forwarding targets by address of this domain; "*@domain" is the catch-all.'),
  forms: z.record(is.identifier, formSchema).default({}).describe('Forms by ID: POST /<domain>/<id>.'),
  default_form: is.identifier.optional().describe('Form that /v1/<domain>/send submits to.'),
});

export const projectSchema = z
  .strictObject({
    project: z
      .strictObject({
        name: is.text(200).describe('Display name.'),
        slug: is.slug.describe('Short name of the project in URLs and commands.'),
        owner: is.address.optional().describe('Email address for alerts, the digest, and forms without a recipient.'),
        digest: choice(
          ['daily', 'weekly', 'off'],
          'daily',
          'Email to the owner listing the submissions kept as spam and the notifications that failed. Sent at 07:00 in settings.timezone, weekly on Mondays, and only if there are any.',
        ),
      })
      .describe('The project.'),
    settings: section('Defaults for the project.', {
      rate_limit: is.count.optional().describe('Submissions per hour and IP address, for forms that set none.'),
      from: is.mailbox
        .optional()
        .describe('Default sender of mail sent through the API: shop@example.com or Shop <shop@example.com>.'),
      timezone: z.string().default('UTC').describe('Time zone for dates in mail, such as Europe/Berlin.'),
    }),
    domains: z.record(is.domainName, domain).default({}).describe('Domains by name.'),
    collections: z
      .record(is.identifier, collectionSchema)
      .default({})
      .describe('Form collections by name. Names are unique on a server.'),
    webhooks: z
      .array(webhook)
      .max(100)
      .refine((list) => new Set(list.map(({ url }) => url)).size === list.length, { error: TWICE })
      .default([])
      .describe('Webhooks for events of this project.'),
    templates: z.record(is.identifier, template).default({}).describe('Templates by name.'),
  })
  .meta({
    title: 'Postern: a project',
    description: 'Domains with forms and forwarding, form collections, webhooks, and templates.',
  });

export type SchemaKind = 'server' | 'project';

/** What may be instead of any text (`secrets.ts`). */
const REFERENCE = { pattern: '\\$\\{[A-Z_][A-Z0-9_]*\\}|^file:/' };

/** The JSON Schema of what is written, for editors: in draft 7, which their language servers know best. */
export function jsonSchema(kind: SchemaKind): Record<string, unknown> {
  const schema = z.toJSONSchema(kind === 'server' ? serverSchema : projectSchema, {
    io: 'input',
    target: 'draft-7',
    override: ({ jsonSchema, path }) => adapt(jsonSchema, path.at(-1) === 'propertyNames'),
  });
  return { ...schema };
}

function adapt(schema: z.core.JSONSchema.BaseSchema, isKey: boolean): void {
  if (schema['restart'] === true) {
    delete schema['restart'];
    schema.description = `${schema.description ?? ''} Takes effect after a restart.`;
  }
  if (schema.type === 'integer' && schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum;
  const { pattern, format } = schema;
  if (schema.type !== 'string' || isKey || (pattern === undefined && format === undefined)) return;
  delete schema.pattern;
  delete schema.format;
  const known = format !== undefined && ['ipv4', 'ipv6', 'uri'].includes(format);
  const check = known || pattern === undefined ? { format: format ?? '' } : { pattern };
  schema.anyOf = [check, REFERENCE];
}

/** The same as the text of a file. */
export function jsonSchemaText(kind: SchemaKind): string {
  return `${JSON.stringify(jsonSchema(kind), null, 2)}\n`;
}
