/**
 * The shape of the two kinds of YAML file, once: types, defaults, checks and the editors' JSON Schema all come from here.
 * Every key has the feature behind it; names are the YAML's own, in code as well. Values are decoded (`scalars.ts`):
 * durations are milliseconds, sizes are bytes, addresses and domains are in normal form, one address is a list.
 */
import { z } from 'zod';
import type { serverSchema } from './schema-server.ts';
import { PUBLIC_EVENTS } from '../lib/event-types.ts';
import * as is from './scalars.ts';
import { choice, flag, listOf, section } from './scalars.ts';

export type ServerConfig = z.output<typeof serverSchema>;
/** After loading, a template's `html` holds the text of its `html_file`. */
export type ProjectConfig = z.output<typeof projectSchema>;
export type DomainConfig = ProjectConfig['domains'][string];
export type FormConfig = DomainConfig['forms'][string];
export type CollectionConfig = ProjectConfig['collections'][string];
export type TemplateConfig = ProjectConfig['templates'][string];

const TWICE = 'expected each address once';

const spamProtection = z.strictObject({
  level: choice(
    ['normal', 'strict'],
    'normal',
    'What counts as spam: from 10 points at normal, from 5 at strict, which also refuses a post without Origin and Referer that has no key.',
  ),
  honeypot: is
    .text(100)
    .default('_service_honeypot')
    .describe('Field that people do not see; who fills it in is blocked.'),
  rate_limit: is.count.optional().describe('Submissions per hour and IP address, unless rateLimit is set.'),
  content_filter: flag(true, 'Score what the submission says.'),
  on_spam: choice(['reject', 'silent'], 'reject', 'What the sender of spam is told: an error, or success.'),
  blocklist: z.array(is.text(320)).max(1000).default([]).describe('Words, addresses, domains and networks to block.'),
});

const field = z.strictObject({
  type: choice(['text', 'email', 'url', 'tel', 'number', 'date', 'list', 'file'], 'text', 'What the value must be.'),
  max: is.count.optional().describe('Characters at most; for a list, entries.'),
  pattern: z
    .string()
    .min(1)
    .max(500)
    .optional()
    .describe(
      'Regular expression that the whole value must match, as in HTML; without look-around and back-references, repetitions to 100 at most.',
    ),
  options: z.array(z.string()).min(1).optional().describe('The values that may be chosen.'),
  label: is.text(200).optional().describe('Name of the field in mail.'),
});

const acknowledgment = z.strictObject({
  enabled: flag(true, 'Send it.'),
  template: z.string().default('acknowledgment').describe('Name of a template of type acknowledgment.'),
  subject: is.text(1000).optional().describe('Subject, may hold template expressions; goes before the template’s.'),
});

const uploads = z.strictObject({
  enabled: flag(true, 'Take files.'),
  max_files: is.count.optional().describe('Files in one submission.'),
  max_size: is.size.optional().describe('Largest file.'),
  types: z
    .array(is.text(100))
    .min(1)
    .optional()
    .describe('Media types or extensions: image/*, application/pdf, .docx.'),
});

/** A form of a domain. */
export const formSchema = z.strictObject({
  name: is.text(200).optional().describe('Display name; the form’s id when absent.'),
  to: is.addresses.optional().describe('Who gets the notifications; else forwarding decides, else the owner.'),
  from: is.address
    .optional()
    .describe('Sender of the notifications, an address at this domain; else forms@ the domain.'),
  from_name: is.text(500).optional().describe('Name of the sender, may hold template expressions.'),
  subject: is.text(1000).optional().describe('Subject, may hold template expressions; goes before the template’s.'),
  template: z.string().default('default').describe('Name of a template of type form.'),
  replies: flag(true, 'Reply-To is the submitter’s email.'),
  replyTo: is.address.optional().describe('Reply-To where replies is false or no email was given.'),
  reply_relay: z
    .boolean()
    .optional()
    .describe('Answers go through an address of this domain, which hides the owner’s; its MX must be this server.'),
  acknowledgment: acknowledgment.optional().describe('Mail that thanks the submitter.'),
  spam_protection: spamProtection.prefault({}).describe('What keeps spam away.'),
  rateLimit: is.count.optional().describe('Submissions per hour and IP address.'),
  max_per_hour: is.count
    .optional()
    .describe(
      'Submissions per hour from all addresses (1000, or as many as one address may make where that is more); what is beyond is kept as spam, and the owner hears how many.',
    ),
  required: listOf(is.text(200), 'Fields that must be present and not blank.'),
  fields: z.record(is.text(200), field).default({}).describe('What the values of fields must be.'),
  redirect: is.webUrl.optional().describe('Where a browser goes after a submission; else a page of ours.'),
  error_redirect: is.webUrl.optional().describe('Where a browser goes after an error; else a page of ours.'),
  thank_you: is.text(2000).optional().describe('Words on our thank-you page.'),
  allowed_origins: listOf(is.origin, 'Origins beside the domain itself whose pages may post.'),
  uploads: uploads.optional().describe('Files as attachments; refused without this.'),
  retention: is.retention
    .optional()
    .describe('Age at which its submissions go: a duration, 0 (once delivered) or forever; else the server’s.'),
  webhooks: z
    .array(is.hookUrl)
    .max(20)
    .refine((urls) => new Set(urls).size === urls.length, { error: TWICE })
    .default([])
    .describe('Addresses that each submission is posted to.'),
});

const webhook = z.strictObject({
  url: is.hookUrl.describe('Address that events are posted to.'),
  events: listOf(z.enum(PUBLIC_EVENTS), 'Kinds of events; empty: all.'),
  secret: is.webhookSecret.optional().describe('Signs what is posted; one of the server’s own when absent.'),
});

const template = z.strictObject({
  type: choice(['form', 'acknowledgment'], 'form', 'Which kind of mail it is for.'),
  subject: is.text(1000).optional().describe('Subject, may hold template expressions.'),
  text: z.string().optional().describe('The text part; made from the HTML when absent.'),
  html: z.string().optional().describe('The HTML part.'),
  html_file: is.text(500).optional().describe('File with the HTML part, relative to this file.'),
  variables: z.record(z.string(), z.json()).default({}).describe('More variables for this template.'),
});

/** Forms under one name that belong to no domain. */
export const collectionSchema = z.strictObject({
  name: is.text(200).optional().describe('Display name; the collection’s key when absent.'),
  settings: section('Rules for all forms of the collection.', {
    requireApiKey: flag(false, 'Whether a submission needs an API key.'),
  }),
  allowed_origins: listOf(
    is.origin,
    'Origins whose pages may post to any of its forms; those of any origin when nothing is listed.',
  ),
  forms: z
    .record(
      is.identifier,
      formSchema
        // Their mail is from the server's host name.
        .omit({ to: true, from: true, reply_relay: true })
        .extend({ email: is.addresses.optional().describe('Who gets the notifications; else the owner.') }),
    )
    .default({})
    .describe('Forms by their id: POST /c/<collection>/<id>.'),
});

const domain = z.strictObject({
  dkim: section('How mail of this domain is signed.', {
    selector: is.dnsLabel.default('postern').describe('Name of the key: <selector>._domainkey.<domain>.'),
    algorithms: z
      .array(z.enum(['rsa', 'ed25519']))
      .min(1)
      .default(['rsa'])
      .describe('Keys to sign with.'),
  }),
  forwarding: z
    .record(
      is.forwardingKey,
      z.union([z.enum(['reject', 'discard']), is.addresses], {
        error: 'expected a mail address, a list of them, reject or discard',
      }),
    )
    .default({})
    .describe('Address of this domain, or "*@domain" for all others, to where its mail goes.'),
  forms: z.record(is.identifier, formSchema).default({}).describe('Forms by their id: POST /<domain>/<id>.'),
  default_form: is.identifier.optional().describe('The form of /v1/<domain>/send.'),
});

export const projectSchema = z
  .strictObject({
    project: z
      .strictObject({
        name: is.text(200).describe('Display name.'),
        slug: is.slug.describe('Name of the project in addresses and commands.'),
        owner: is.address.optional().describe('Address for alerts and for forms without a recipient.'),
      })
      .describe('Identity of the project.'),
    settings: section('Defaults of the project.', {
      rate_limit: is.count.optional().describe('Submissions per hour and IP address for every form.'),
      from: is.mailbox
        .optional()
        .describe('Sender of the API’s mail that names none: shop@example.com or Shop <shop@example.com>.'),
      timezone: z.string().default('UTC').describe('Zone of the times in mail, such as Europe/Berlin.'),
    }),
    domains: z.record(is.domainName, domain).default({}).describe('Domains by their name.'),
    collections: z
      .record(is.identifier, collectionSchema)
      .default({})
      .describe('Collections of forms by their name, which is unique on a server.'),
    webhooks: z
      .array(webhook)
      .max(100)
      .refine((list) => new Set(list.map(({ url }) => url)).size === list.length, { error: TWICE })
      .default([])
      .describe('Who is told of what happens in this project.'),
    templates: z.record(is.identifier, template).default({}).describe('Templates by their name.'),
  })
  .meta({
    title: 'Postern: a project',
    description: 'Domains, their forms and forwarding, collections of forms, and templates.',
  });
