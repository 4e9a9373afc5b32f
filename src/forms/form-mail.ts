/**
 * Mail about a submission: loaded, rendered under the revision that accepted it, composed and signed, when it is first tried.
 * The same message gives the same mail, but for the time of its signature. A template that fails is logged and replaced by
 * the built-in one: no lead is lost to a template.
 */
import type { KeyObject } from 'node:crypto';
import type { Revision, RevisionOf } from '../accounts/projects.ts';
import { formSchema, type FormConfig, type ServerConfig } from '../config/schema.ts';
import { labelOf, ruleOf } from '../config/snapshot.ts';
import { translationOf, type Translation } from '../languages/languages.ts';
import { needsSmtpUtf8, parseAddress, type Mailbox } from '../lib/addresses.ts';
import { escapeHtml } from '../lib/html.ts';
import type { Log } from '../lib/log.ts';
import { LruMap } from '../lib/lru.ts';
import { composeMail, signMail, type Mail } from '../mail/compose.ts';
import type { SigningContext } from '../mail/dkim.ts';
import { cleanText, messageIdOf } from '../mail/header.ts';
import { replyAddress, type Conversation } from '../mail/own-addresses.ts';
import type { Source } from '../queue/transport.ts';
import { findMessage } from '../store/messages.ts';
import type { Store } from '../store/store.ts';
import { filesOf, readFile, submissionToMail, type SubmissionToMail } from '../store/submissions.ts';
import type { FileRow, MessageRow, SubmissionRow } from '../store/tables.ts';
import {
  bodyText,
  builtinSender,
  builtinSubject,
  buttonLink,
  firstRow,
  lastRow,
  mailPage,
  smallText,
  titleText,
  visitorName,
  visitorSubject,
  type Builtin,
} from '../templates/builtin.ts';
import { builtinTemplates, isBuiltin, oneLine } from '../templates/engine.ts';
import type { ProjectTemplates, RenderedPart, Renderer, RenderPart } from '../templates/render.ts';
import type { Rendered, TemplateFault, TemplateType, Variables } from '../templates/template.ts';
import {
  emailOf,
  isBlank,
  isEmailField,
  readAcknowledgmentSource,
  readConfirmationSource,
  readControl,
  readFields,
  readNotificationSource,
  replyToOf,
  valuesOf,
  withoutBrackets,
  type AcknowledgmentSource,
  type ConfirmationSource,
  type Field,
  type StoredControl,
} from './fields.ts';
import { findMadeCollection, findOwnForm } from './find.ts';
import { OWNER_LINK_MS, ownerToken, ownerUrl, type SubmissionLink } from './owner-links.ts';

interface FormSourceOptions {
  readonly store: Store;
  readonly log: Log;
  readonly config: () => ServerConfig;
  readonly revisionOf: RevisionOf;
  readonly renderer: Renderer;
  readonly signing: SigningContext;
  /** Signs the links for owners. */
  readonly ownerKey: KeyObject;
}

/** Links for the owner; `stop` is of one recipient. */
interface OwnerLinks {
  readonly view: string;
  readonly spam: string;
  readonly stop?: string | undefined;
}

/** What a form's mail is made from. */
export interface FormMail {
  readonly message: Pick<MessageRow, 'id' | 'tenant' | 'created_at'>;
  readonly submission: Pick<
    SubmissionRow,
    'id' | 'form' | 'domain' | 'revision' | 'created_at' | 'ip' | 'referer' | 'fields' | 'control'
  >;
  readonly fields: readonly Field[];
  readonly control: StoredControl;
  readonly files: readonly FileRow[];
  readonly form: { readonly key: string; readonly name: string; readonly config: FormConfig };
  /** Whose templates the form may name; undefined where it has the built-in ones alone. */
  readonly project: ProjectTemplates | undefined;
  readonly renderer: Renderer;
  readonly builtins: (timezone: string) => Readonly<Record<TemplateType, Builtin>>;
  /** The address that answers go through to the visitor; undefined where they go straight. */
  readonly relay: string | undefined;
  /** The links for the owner. */
  readonly linksFor: (recipient: string | undefined) => OwnerLinks;
  readonly translation: Translation;
  /** Takes what fails in a template, which the built-in one then replaces. */
  readonly onFault: (template: string, fault: TemplateFault) => void;
}

/** Time zones whose built-in templates are kept: making a formatter costs a hundred times what using it does. */
const MAX_ZONES = 100;

/** Base64 in lines makes 78 bytes of 57. */
const ENCODED = 78 / 57;

interface Composed {
  readonly mail: Mail;
  readonly bytes: Buffer;
}

async function composed(mail: Mail): Promise<Composed> {
  return { mail, bytes: await composeMail(mail) };
}

/** The source of messages of the kinds `notification` and `acknowledgment`. */
export function createFormSource(options: FormSourceOptions): Source {
  const { store, log, config, revisionOf, renderer, signing, ownerKey } = options;
  const zones = new LruMap<ReturnType<typeof builtinTemplates>>(MAX_ZONES);

  function builtins(timezone: string): ReturnType<typeof builtinTemplates> {
    const known = zones.get(timezone) ?? builtinTemplates(timezone);
    zones.set(timezone, known);
    return known;
  }

  async function load(message: MessageRow, submission: SubmissionToMail, key: string): Promise<FormMail> {
    const { revision: id } = submission;
    const revision = id === '' ? undefined : await revisionOf(id);
    const known = await formOf(submission, key, { revision, store, server: config() });
    // The lead arrives even where its form is gone, or its revision cannot be read any more: plainly.
    if (known === undefined) {
      const facts = { form: submission.form, message: message.id };
      if (id === '') log.info('form.gone', facts);
      else log.error('revision.missing', { revision: id, ...facts });
    }
    const form = known ?? formSchema.parse({});
    return {
      message,
      submission,
      fields: readFields(submission.fields),
      control: readControl(submission.control),
      files: submission.has_files === 1 ? await filesOf(store, submission.id) : [],
      form: { key, name: form.name ?? key, config: form },
      project: revision && {
        revision: revision.id,
        templates: revision.config.templates,
        timezone: revision.config.settings.timezone,
      },
      renderer,
      builtins,
      relay:
        form.reply_relay === true
          ? replyAddress({ message: message.id, to: 'visitor' }, message.domain, signing.secret)
          : undefined,
      linksFor(recipient) {
        const about = { submission: submission.id };
        // Of the message, so that each try has the same ones.
        const expiresAt = message.created_at + OWNER_LINK_MS;
        function urlOf(link: SubmissionLink): string {
          return ownerUrl(ownerToken(link, expiresAt, ownerKey), config());
        }
        return {
          view: urlOf({ action: 'view', ...about }),
          spam: urlOf({ action: 'spam', ...about }),
          stop: recipient === undefined ? undefined : urlOf({ action: 'stop', ...about, recipient }),
        };
      },
      translation: translationOf(form.theme?.language ?? 'en'),
      onFault(template, { message: error }) {
        const facts = { form: submission.form, key, template, revision: submission.revision, message: message.id };
        log.error('template.failed', { ...facts, error });
      },
    };
  }

  /** The mail, and before it the one for servers with SMTPUTF8 where that is another. */
  async function compose(message: MessageRow, submission: SubmissionToMail): Promise<Composed[]> {
    if (message.kind === 'acknowledgment') {
      const source = readAcknowledgmentSource(message.source);
      return [await composed(await acknowledgment(await load(message, submission, source.form), source))];
    }
    if (message.kind === 'confirmation') {
      const source = readConfirmationSource(message.source);
      return [await composed(confirmation(await load(message, submission, source.form), source))];
    }
    const { form, ...source } = readNotificationSource(message.source);
    const parts = await load(message, submission, form);
    const plain = await composeWithin(parts, { ...source, smtpUtf8: false });
    // An address beyond ASCII, which not all servers take.
    if (!needsSmtpUtf8(visitorOf(parts) ?? '')) return [plain];
    return [await composeWithin(parts, { ...source, smtpUtf8: true }), plain];
  }

  /** The first of these that fits: all of it, without its files, the beginning of its text. */
  async function composeWithin(parts: FormMail, way: NotificationWay): Promise<Composed> {
    const { files, submission } = parts;
    const { message: largest } = config().limits;
    const bare = withScanNote(await notification(parts, way), parts);
    if (files.reduce((sum, { size }) => sum + size * ENCODED, 0) < largest) {
      const attachments = files.map(async ({ id, filename, content_type: contentType }) => ({
        filename,
        contentType,
        content: await readFile(store, id),
      }));
      const whole = await composed({ ...bare, attachments: await Promise.all(attachments) });
      if (whole.bytes.length <= largest) return whole;
    }
    log.warn('notification.too_big', { message: parts.message.id, submission: submission.id, files: files.length });
    const light = await composed(withoutAttachments(bare, parts));
    if (light.bytes.length <= largest) return light;
    return composed(shortened(light.mail, Math.floor(largest / 4), parts));
  }

  return {
    async prepare(message) {
      const submission = message.submission === null ? undefined : await submissionToMail(store, message.submission);
      if (submission === undefined) return { kind: 'unrenderable', reason: 'the submission no longer exists' };
      const { id, domain, tenant } = message;
      if (submission.domain_status === 'failed') {
        throw new Error(
          `the DNS records of ${domain} have been wrong for too long: its mail waits until they are correct`,
        );
      }
      const mails = await compose(message, submission);
      const signed = await Promise.all(mails.map((one) => signMail({ id, domain, tenant, ...one }, signing)));
      const [first, plain] = signed;
      if (first === undefined) throw new Error('nothing was composed');
      return { ...first, plain };
    },
  };
}

/** The form as the revision that accepted the submission has it; one that the API made, as it is now. */
async function formOf(
  { form, domain, revision: id }: SubmissionToMail,
  key: string,
  { revision, store, server }: { revision: Revision | undefined; store: Store; server: ServerConfig },
): Promise<FormConfig | undefined> {
  const collection = /^c\/([^/]+)\//.exec(form)?.[1];
  if (id === '') {
    const made =
      collection === undefined
        ? await findOwnForm(store, form, server)
        : (await findMadeCollection(store, collection, server))?.forms.get(key);
    return made && { ...made.config, name: made.name };
  }
  if (collection === undefined) return revision?.config.domains[domain]?.forms[key];
  return revision?.config.collections[collection]?.forms[key];
}

/** What all mail of a form has. */
function mailOf({ message, submission }: FormMail, answersTo: Mailbox | undefined) {
  return {
    replyTo: answersTo && [answersTo],
    date: message.created_at,
    messageId: messageIdOf({ id: message.id, domain: submission.domain }),
  };
}

/** The address that the mail of a form comes from; `domain` is the form's. */
export function senderAddress({ from }: Pick<FormConfig, 'from'>, domain: string): string {
  return from ?? `forms@${domain}`;
}

/** The acknowledgment to `to`; answers go to `replyTo`. */
export async function acknowledgment(mail: FormMail, { to, replyTo }: AcknowledgmentSource): Promise<Mail> {
  const { form, submission } = mail;
  const { acknowledgment: config } = form.config;
  const fields = mail.fields.map(([name, value]) => {
    return { name, label: labelOf(form.config, name, mail.translation), value: valuesOf(value).join(', ') };
  });
  const variables = variablesOf(mail, fields);
  const rendered = await renderMail(mail, variables, { type: 'acknowledgment', lines: [config?.subject] });
  return {
    ...mailOf(mail, replyTo === undefined ? undefined : { address: replyTo }),
    from: { name: plainName(form), address: senderAddress(form.config, submission.domain) },
    to: [{ address: to }],
    subject: firstLine([...rendered.lines, rendered.subject], mail.translation.say('acknowledgment.subject')),
    text: rendered.text,
    html: rendered.html,
    headers: AUTOMATIC_REPLY,
  };
}

/** The mail with the link that confirms a submission. Nothing in it but the address is the visitor's. */
export function confirmation(mail: FormMail, { to, link }: ConfirmationSource): Mail {
  const { form, submission, translation } = mail;
  const { say } = translation;
  const name = plainName(form);
  const names = { form: form.name, site: submission.domain };
  const [heading, text, ignore] = [say('optin.question', names), say('optin.mail', names), say('optin.ignore', names)];
  const button = say('optin.button');
  return {
    ...mailOf(mail, undefined),
    from: { name, address: senderAddress(form.config, submission.domain) },
    to: [{ address: to }],
    subject: firstLine([say('optin.subject', names)], heading),
    text: `${text}\n\n${button}: ${link}\n\n${ignore}\n`,
    html: mailPage(
      heading,
      [
        firstRow([titleText(escapeHtml(heading)), bodyText(escapeHtml(text)), buttonLink(link, escapeHtml(button))]),
        lastRow([smallText(escapeHtml(ignore))]),
      ],
      translation,
    ),
    headers: AUTOMATIC_REPLY,
  };
}

/** The sender's name for a visitor: an expression in it is there for the notification, and would bring the visitor's words in here. */
function plainName({ name, config }: FormMail['form']): string {
  const { from_name: fromName } = config;
  return firstLine([fromName === undefined || fromName.includes('{') ? undefined : fromName], name);
}

const AUTOMATIC_REPLY: Mail['headers'] = [
  ['Auto-Submitted', 'auto-replied'],
  ['X-Auto-Response-Suppress', 'All'],
];

interface NotificationWay {
  /** Who is named as its recipients. */
  readonly to: readonly string[];
  /** Who gets this one; undefined where that is everybody. */
  readonly recipient?: string | undefined;
  /** Of a fallback: whom it could not be delivered to. */
  readonly insteadOf?: readonly string[] | undefined;
  /** For servers that take addresses beyond ASCII in it. */
  readonly smtpUtf8: boolean;
}

/** The notification, without attachments. */
export async function notification(
  mail: FormMail,
  { to, insteadOf, recipient = to.length === 1 ? to[0] : undefined, smtpUtf8 }: NotificationWay,
): Promise<Mail> {
  const { message, submission, control, fields, form, translation } = mail;
  const visitor = visitorName(fields);
  const answersTo = answersGoTo(mail, { name: visitor ?? '', smtpUtf8 });
  const { subject, from_name } = form.config;
  const shown = ownerFields([...fields, ...unseenReplyTo(mail, answersTo?.address)], form.config, translation);
  const variables = { ...variablesOf(mail, shown), links: mail.linksFor(recipient) };
  const rendered = await renderMail(mail, variables, { type: 'form', lines: [subject, from_name] });
  const [line, fromName] = rendered.lines;
  const about = {
    form: form.name,
    visitor: visitor ?? visitorOf(mail) ?? emailOf(fields, form.config),
    about: visitorSubject(fields),
  };
  const whole: Mail = {
    ...mailOf(mail, answersTo),
    from: {
      name: fromName ?? builtinSender(form.name, visitor, translation),
      address: senderAddress(form.config, submission.domain),
    },
    to: to.map((address) => ({ address })),
    subject: firstLine([line, rendered.subject, control.subject], builtinSubject(about, translation)),
    text: rendered.text,
    html: rendered.html,
    headers: [
      ['Auto-Submitted', 'auto-generated'],
      // Gmail shows mails with one subject as one conversation, unless this differs.
      ['X-Entity-Ref-ID', message.id],
    ],
  };
  if (insteadOf === undefined) return whole;
  const addresses = insteadOf.join(', ');
  return withNote(whole, translation.say('mail.fallback', { addresses }));
}

/**
 * The visitor (through the relay where the form has it), while `replies` is true, else the form's `replyTo`. An address
 * that needs SMTPUTF8 is in the text alone where the server does not take it: it would refuse the whole mail.
 */
function answersGoTo(
  mail: FormMail,
  { name, smtpUtf8 }: { readonly name: string; readonly smtpUtf8: boolean },
): Mailbox | undefined {
  const { form, relay } = mail;
  const { replyTo } = form.config;
  const own = replyTo === undefined ? undefined : { address: replyTo };
  const visitor = visitorOf(mail);
  if (visitor === undefined) return own;
  if (needsSmtpUtf8(visitor)) return smtpUtf8 ? { name, address: visitor } : own;
  return { name, address: relay ?? visitor };
}

/** The visitor's address, where answers go to him. */
function visitorOf({ form, fields, control }: FormMail): string | undefined {
  return form.config.replies ? (replyToOf(control) ?? emailOf(fields, form.config)) : undefined;
}

/** `_replyto` is no data, but where it is all that is known of the visitor and no header has it, it must be seen. */
function unseenReplyTo({ form, fields, control }: FormMail, replyTo: string | undefined): Field[] {
  const visitor = replyToOf(control);
  if (visitor === undefined || visitor === replyTo || emailOf(fields, form.config) === visitor) return [];
  return [['email', visitor]];
}

/** The same mail with a warning where the virus scanner did not answer. */
function withScanNote(mail: Mail, { files, translation }: FormMail): Mail {
  const unscanned = files.filter((file) => file.unscanned === 1);
  if (unscanned.length === 0) return mail;
  const names = unscanned.map(({ filename }) => filename).join(', ');
  return withNote(mail, translation.say('mail.filesNotScanned', { names }));
}

/** The same mail without attachments, which are named instead: the lead arrives whatever was uploaded. */
function withoutAttachments(mail: Mail, { files, submission, translation: { say, size: sizeOf } }: FormMail): Mail {
  if (files.length === 0) return mail;
  const names = files.map(
    ({ filename, size }) => `${filename === '' ? say('mail.unnamedFile') : filename} (${sizeOf(size)})`,
  );
  const note = say('mail.filesTooLarge', { submission: submission.id, names: names.join(', ') });
  return { ...withNote(mail, note), attachments: [] };
}

/** What is left when even the fields are too big for one mail: the beginning of the text, at most `bytes` of UTF-8. */
function shortened(mail: Mail, bytes: number, { submission, translation, linksFor }: FormMail): Mail {
  const start = Buffer.from(mail.text ?? '')
    .subarray(0, bytes)
    .toString();
  const note = `${translation.say('mail.tooLarge', { submission: submission.id })}\n${linksFor(undefined).view}`;
  return { ...mail, attachments: [], text: `${note}\n\n${start}\n\n[…]\n`, html: undefined };
}

function withNote(mail: Mail, note: string): Mail {
  const { text = '', html } = mail;
  return {
    ...mail,
    text: `${text.trimEnd()}\n\n${note}\n`,
    html: html === undefined ? undefined : withHtmlNote(html, note),
  };
}

function withHtmlNote(html: string, note: string): string {
  const paragraph = `<p style="margin:16px;font-family:sans-serif;font-size:14px">${escapeHtml(note)}</p>`;
  const end = html.toLowerCase().lastIndexOf('</body');
  return end === -1 ? html + paragraph : html.slice(0, end) + paragraph + html.slice(end);
}

/** What templates see; `shown` are the fields as the reader of the mail sees them. */
function variablesOf({ submission, fields, files, form, translation }: FormMail, shown: readonly ShownField[]) {
  return {
    form: byName(fields),
    fields: shown,
    language: translation.language,
    form_name: form.name,
    domain: submission.domain,
    timestamp: submission.created_at,
    ip: submission.ip,
    submission_id: submission.id,
    referer: submission.referer,
    files: files.map(({ filename, size, content_type }) => ({ filename, size, content_type })),
  };
}

/** Values by name, in an object that inherits nothing: `__proto__` and `toString` are names like any other. */
function byName(fields: readonly Field[]): Readonly<Record<string, unknown>> {
  const form: Record<string, unknown> = {};
  Object.setPrototypeOf(form, null);
  for (const [name, value] of fields) form[name] = value;
  return form;
}

/** What the templates and expressions of a form came to. */
interface RenderedMail extends Rendered {
  /** Of the lines that were given: undefined where one is not given, blank or fails. */
  readonly lines: readonly (string | undefined)[];
}

/**
 * The form's template, or the built-in one of its type where that fails, and lines that may hold expressions: all within
 * one budget.
 */
async function renderMail(
  mail: FormMail,
  variables: Variables,
  { type, lines }: { readonly type: TemplateType; readonly lines: readonly (string | undefined)[] },
): Promise<RenderedMail> {
  const { form, project, renderer, builtins, message } = mail;
  const name = type === 'form' ? form.config.template : (form.config.acknowledgment?.template ?? 'acknowledgment');
  const expressions = lines.filter((line) => line !== undefined).filter((line) => line.includes('{'));
  const { timezone = 'UTC' } = project ?? {};
  const own = project !== undefined && Object.hasOwn(project.templates, name);
  const parts: RenderPart[] = expressions.map((source) => ({ kind: 'line', source, timezone, variables }));
  if (own) parts.push({ kind: 'template', project, name, variables });
  const results = parts.length === 0 ? [] : await renderer.render(message.tenant, parts);
  const values = new Map(expressions.map((source, i) => [source, okOr(mail, source, results[i])?.text]));
  const custom = own ? okOr(mail, name, results.at(-1)) : undefined;
  if (!own && !isBuiltin(name))
    mail.onFault(name, { ...NO_PLACE, template: name, message: 'the template does not exist' });
  return {
    ...(custom ?? builtins(timezone)[type](variables)),
    lines: lines.map((line) => {
      if (line === undefined) return undefined;
      const text = values.has(line) ? values.get(line) : oneLine(line);
      return text === '' ? undefined : text;
    }),
  };
}

function okOr(mail: FormMail, template: string, result: RenderedPart | undefined): Rendered | undefined {
  if (result !== undefined && 'ok' in result) return result.ok;
  mail.onFault(template, result?.fault ?? { ...NO_PLACE, template, message: 'it was not rendered' });
  return undefined;
}

const NO_PLACE = { part: 'text', line: 1, column: 1 } as const;

/** The first that says something, as one line. */
function firstLine(candidates: readonly (string | undefined)[], fallback: string): string {
  for (const text of candidates) {
    const line = cleanText(text ?? '', 250);
    if (line !== '') return line;
  }
  return fallback;
}

/** The conversation that this notification (`msg_…`) began; undefined where it, or what it tells of, is forgotten. */
export async function conversationOf(
  notification: string,
  { store, config, revisionOf }: Pick<FormSourceOptions, 'store' | 'config' | 'revisionOf'>,
): Promise<Conversation | undefined> {
  const message = await findMessage(store, notification);
  if (message?.kind !== 'notification' || message.submission === null) return undefined;
  const submission = await submissionToMail(store, message.submission);
  if (submission === undefined) return undefined;
  const { form: key, to: owners } = readNotificationSource(message.source);
  const revision = submission.revision === '' ? undefined : await revisionOf(submission.revision);
  const form = await formOf(submission, key, { revision, store, server: config() });
  if (form === undefined) return undefined;
  const visitor = replyToOf(readControl(submission.control)) ?? emailOf(readFields(submission.fields), form);
  if (visitor === undefined || needsSmtpUtf8(visitor)) return undefined;
  const { tenant, domain, environment } = message;
  return { tenant, domain, submission: submission.id, environment, name: form.name ?? key, visitor, owners };
}

// How the owner of a form is shown what a visitor sent: by the owner's labels, with answers in words, and with links to write
// or call back.

/** A field as a template sees it. */
export interface ShownField {
  readonly name: string;
  readonly label: string;
  readonly value: string;
  /** `mailto:` or `tel:`, where the value is an address or a telephone number. */
  readonly link?: string | undefined;
}

/**
 * The fields for the owner: without those that were left empty, and with the checkboxes of the form that were not ticked,
 * which browsers do not send.
 */
export function ownerFields(fields: readonly Field[], config: FormConfig, translation: Translation): ShownField[] {
  const { say } = translation;
  const sent = new Set(fields.map(([name]) => withoutBrackets(name)));
  function labelOfOwner(name: string): string {
    return ruleOf(config, name)?.owner_label ?? labelOf(config, name, translation);
  }
  const unticked = Object.keys(config.fields).filter((name) => isCheckbox(name, config) && !sent.has(name));
  return [
    ...fields.flatMap((field) => {
      const [name, value] = field;
      const label = labelOfOwner(name);
      if (isCheckbox(name, config)) return [{ name, label, value: say(isTicked(value) ? 'mail.yes' : 'mail.no') }];
      if (valuesOf(value).every(isBlank)) return [];
      return [{ name, label, value: valuesOf(value).join(', '), link: linkOf(field, config) }];
    }),
    ...unticked.map((name) => ({ name, label: labelOfOwner(name), value: say('mail.no') })),
  ];
}

function isCheckbox(name: string, config: FormConfig): boolean {
  const type: string | undefined = ruleOf(config, name)?.type;
  return type === 'checkbox';
}

const UNTICKED = new Set(['', '0', 'false', 'no', 'off']);

function isTicked(value: Field[1]): boolean {
  return valuesOf(value).some((text) => !UNTICKED.has(text.trim().toLowerCase()));
}

const TELEPHONE =
  /^(?:(?:your|my|contact|work|home|mobile|cell)[ _-]?)?(?:tel|telephone|phone|mobile|cell|cellphone|whatsapp|telefon|telefono|teléfono|téléphone|handy|mobil)(?:[ _-]?(?:no|nr|number|nummer))?$/i;
/** What people write between digits; a text with words in it is no number. */
const NUMBER = /^\+?[\d\s()/.-]{5,40}$/;

function linkOf([name, value]: Field, config: FormConfig): string | undefined {
  const [text = '', ...more] = valuesOf(value);
  if (more.length > 0) return undefined;
  if (isEmailField(name, config)) {
    const address = parseAddress(text.trim())?.address;
    return address === undefined ? undefined : `mailto:${encodeURIComponent(address).replace('%40', '@')}`;
  }
  const isTelephone = ruleOf(config, name)?.type === 'tel' || TELEPHONE.test(withoutBrackets(name));
  if (!isTelephone || !NUMBER.test(text.trim())) return undefined;
  // "+44 (0)20": the trunk prefix is dialled within the country alone.
  const digits = text
    .trim()
    .replace(/^(\+.*)\(0\)/, '$1')
    .replaceAll(/[^+\d]/g, '');
  return digits.length < 4 ? undefined : `tel:${digits}`;
}
