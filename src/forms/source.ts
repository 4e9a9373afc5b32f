/**
 * Where the bytes of forms' mail come from: loaded, rendered under the revision that accepted the submission, composed
 * and signed, when it is first tried. The same message gives the same mail, but for the time of its signature.
 */
import { Recent } from '../lib/lru.ts';
import type { Revision, RevisionOf } from '../accounts/projects.ts';
import type { FormConfig, ServerConfig } from '../config/schema.ts';
import { formSchema } from '../config/schema-project.ts';
import type { Log } from '../lib/log.ts';
import { composeMail, type Attachment, type Mail } from '../mail/compose.ts';
import { signMail, type SigningContext } from '../mail/sign.ts';
import { replyAddress } from '../mail/relay.ts';
import type { Prepared, Source } from '../queue/transport.ts';
import { filesOf, readFile, submissionToMail, type SubmissionToMail } from '../store/submissions.ts';
import type { Store } from '../store/store.ts';
import type { FileRow, MessageRow } from '../store/tables.ts';
import { builtinTemplates } from '../templates/engine.ts';
import type { Renderer } from '../templates/render.ts';
import { type FormMail, firstLine, messageIdOf, renderMail, senderOf, variablesOf } from './form-mail.ts';
import { findMadeCollection, findOwnForm } from './find.ts';
import {
  readAcknowledgmentSource,
  readControl,
  readFields,
  readNotificationSource,
  type AcknowledgmentSource,
  emailOf,
  replyToOf,
  type Field,
} from './fields.ts';
import { needsSmtpUtf8 } from '../lib/addresses.ts';

export interface FormSourceOptions {
  readonly store: Store;
  readonly log: Log;
  readonly config: () => ServerConfig;
  readonly revisionOf: RevisionOf;
  readonly renderer: Renderer;
  readonly signing: SigningContext;
}

/** Time zones whose built-in templates are kept: making a formatter costs a hundred times what using it does. */
const MAX_ZONES = 100;

interface Composed {
  readonly mail: Mail;
  readonly bytes: Buffer;
}

/** Base64 in lines makes 78 bytes of 57. */
const ENCODED = 78 / 57;

/** The source of messages of the kinds `notification` and `acknowledgment`. */
export function createFormSource(options: FormSourceOptions): Source {
  const { store, log, config, revisionOf, renderer, signing } = options;
  const zones = new Recent<ReturnType<typeof builtinTemplates>>(MAX_ZONES);

  function builtins(timezone: string): ReturnType<typeof builtinTemplates> {
    const known = zones.get(timezone) ?? builtinTemplates({ timezone });
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
      log,
    };
  }

  /** The mail, and before it the one for servers with SMTPUTF8 where that is another. */
  async function compose(message: MessageRow, submission: SubmissionToMail): Promise<Composed[]> {
    if (message.kind === 'acknowledgment') {
      const source = readAcknowledgmentSource(message.source);
      const mail = await acknowledgment(await load(message, submission, source.form), source);
      return [{ mail, bytes: await composeMail(mail) }];
    }
    const { form, to } = readNotificationSource(message.source);
    const parts = await load(message, submission, form);
    const { message: largest } = config().limits;
    const plain = await composeWithin(largest, parts, { to, smtpUtf8: false });
    if (!hasInternationalVisitor(parts)) return [plain];
    return [await composeWithin(largest, parts, { to, smtpUtf8: true }), plain];
  }

  /** The first of these that fits: all of it, without its files, the beginning of its text. */
  async function composeWithin(
    largest: number,
    parts: FormMail,
    way: { readonly to: readonly string[]; readonly smtpUtf8: boolean },
  ): Promise<Composed> {
    const { files, submission } = parts;
    const bare = await notification(parts, way, []);
    if (files.reduce((sum, { size }) => sum + size * ENCODED, 0) < largest) {
      const mail = { ...bare, attachments: await readAttachments(files) };
      const bytes = await composeMail(mail);
      if (bytes.length <= largest) return { mail, bytes };
    }
    log.warn('notification.too_big', { message: parts.message.id, submission: submission.id, files: files.length });
    const light = withoutAttachments(bare, files, submission.id);
    const bytes = await composeMail(light);
    if (bytes.length <= largest) return { mail: light, bytes };
    const mail = shortened(light, Math.floor(largest / 4), submission.id);
    return { mail, bytes: await composeMail(mail) };
  }

  async function readAttachments(files: readonly FileRow[]): Promise<Attachment[]> {
    return Promise.all(
      files.map(async ({ id, filename, content_type: contentType }) => ({
        filename,
        contentType,
        content: await readFile(store, id),
      })),
    );
  }

  async function prepare(message: MessageRow): Promise<Prepared> {
    const submission = message.submission === null ? undefined : await submissionToMail(store, message.submission);
    if (submission === undefined) return { kind: 'unrenderable', reason: 'the submission that it tells of is gone' };
    const { id, domain, tenant } = message;
    if (submission.domain_status === 'failed') {
      throw new Error(`the DNS records of ${domain} have been wrong for too long: its mail waits until they are right`);
    }
    const about = { id, domain, tenant };
    const mails = await compose(message, submission);
    const [first, plain] = await Promise.all(mails.map((composed) => signMail({ ...about, ...composed }, signing)));
    if (first === undefined) throw new Error('nothing was composed');
    return { ...first, plain };
  }

  return { prepare };
}

export interface Known {
  readonly revision: Revision | undefined;
  readonly store: Store;
  readonly server: ServerConfig;
}

/** The form as the revision that accepted the submission has it; one that the API made, as it is now. */
export async function formOf(
  { form, domain, revision: id }: SubmissionToMail,
  key: string,
  { revision, store, server }: Known,
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

/** The acknowledgment to `to`; answers go to `replyTo`. */
async function acknowledgment(mail: FormMail, { to, replyTo }: AcknowledgmentSource): Promise<Mail> {
  const { message, form } = mail;
  const { from_name: fromName, acknowledgment: config } = form.config;
  const variables = variablesOf(mail);
  const rendered = await renderMail(mail, variables, { type: 'acknowledgment', lines: [config?.subject] });
  const subjects = [...rendered.lines, rendered.subject];
  // An expression in the sender's name is there for the notification: it would bring the visitor's words in here.
  const plainName = fromName === undefined || fromName.includes('{') ? undefined : fromName;
  return {
    from: { name: firstLine([plainName], form.name), address: senderOf(mail) },
    to: [{ address: to }],
    replyTo: replyTo === undefined ? undefined : [{ address: replyTo }],
    subject: firstLine(subjects, 'We have received your message'),
    text: rendered.text,
    html: rendered.html,
    date: message.created_at,
    messageId: messageIdOf(mail),
    headers: [
      ['Auto-Submitted', 'auto-replied'],
      ['X-Auto-Response-Suppress', 'All'],
    ],
  };
}

/** The notification, to `to`, with these attachments; `smtpUtf8`: for servers that take addresses beyond ASCII in it. */
export async function notification(
  mail: FormMail,
  { to, smtpUtf8 }: { readonly to: readonly string[]; readonly smtpUtf8: boolean },
  attachments: readonly Attachment[],
): Promise<Mail> {
  const { message, control, form } = mail;
  const replyTo = answersGoTo(mail, smtpUtf8);
  const variables = variablesOf(mail, unseenReplyTo(mail, replyTo));
  const { subject, from_name } = form.config;
  const rendered = await renderMail(mail, variables, { type: 'form', lines: [subject, from_name] });
  const [line, fromName] = rendered.lines;
  const subjects = [line, rendered.subject, control.subject];
  return {
    from: { name: fromName ?? form.name, address: senderOf(mail) },
    to: to.map((address) => ({ address })),
    replyTo: replyTo === undefined ? undefined : [{ address: replyTo }],
    subject: firstLine(subjects, `New submission: ${form.name}`),
    text: rendered.text,
    html: rendered.html,
    date: message.created_at,
    messageId: messageIdOf(mail),
    headers: [['Auto-Submitted', 'auto-generated']],
    attachments,
  };
}

/**
 * The visitor (through the relay where the form has it), while `replies` is true, else the form's `replyTo`. An address
 * that needs SMTPUTF8 stands in the text alone where the server does not take it: it would refuse the whole mail.
 */
function answersGoTo(mail: FormMail, smtpUtf8: boolean): string | undefined {
  const { form, relay } = mail;
  const visitor = visitorOf(mail);
  if (visitor === undefined) return form.config.replyTo;
  if (needsSmtpUtf8(visitor)) return smtpUtf8 ? visitor : form.config.replyTo;
  return relay ?? visitor;
}

/** The visitor's address, where answers go to him. */
function visitorOf({ form, fields, control }: FormMail): string | undefined {
  return form.config.replies ? (replyToOf(control) ?? emailOf(fields, form.config)) : undefined;
}

/** Whether answers go to an address beyond ASCII, which not all servers take. */
function hasInternationalVisitor(mail: FormMail): boolean {
  return needsSmtpUtf8(visitorOf(mail) ?? '');
}

/** `_replyto` is no data, but where it is all that is known of the visitor and no header has it, it must be seen. */
function unseenReplyTo({ form, fields, control }: FormMail, replyTo: string | undefined): Field[] {
  const visitor = replyToOf(control);
  if (visitor === undefined || visitor === replyTo || emailOf(fields, form.config) === visitor) return [];
  return [['email', visitor]];
}

/** The same mail without attachments, which are named instead: the lead arrives whatever was uploaded. */
function withoutAttachments(mail: Mail, files: readonly FileRow[], submission: string): Mail {
  if (files.length === 0) return mail;
  const names = files.map(({ filename, size }) => `${filename === '' ? 'a file' : filename} (${shown(size)})`);
  const note = `The files of this submission are too large for one email. They are kept on the server (${submission}): ${names.join(', ')}.`;
  const { text = '', html } = mail;
  return {
    ...mail,
    attachments: [],
    text: `${text.trimEnd()}\n\n${note}\n`,
    html: html === undefined ? undefined : withNote(html, note),
  };
}

/** What is left when even the fields are too big for one mail: the beginning of the text, at most `bytes` of UTF-8. */
function shortened(mail: Mail, bytes: number, submission: string): Mail {
  const start = Buffer.from(mail.text ?? '')
    .subarray(0, bytes)
    .toString();
  const note = `This submission is too large for one email. All of it is kept on the server (${submission}).`;
  return { ...mail, attachments: [], text: `${note}\n\n${start}\n\n[…]\n`, html: undefined };
}

function withNote(html: string, note: string): string {
  const escaped = note.replaceAll(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
  const paragraph = `<p style="margin:16px;font-family:sans-serif;font-size:14px">${escaped}</p>`;
  const end = html.toLowerCase().lastIndexOf('</body');
  return end === -1 ? html + paragraph : html.slice(0, end) + paragraph + html.slice(end);
}

function shown(bytes: number): string {
  return bytes < 1_048_576 ? `${Math.ceil(bytes / 1024)} KiB` : `${(bytes / 1_048_576).toFixed(1)} MiB`;
}
