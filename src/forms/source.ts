/**
 * Where the bytes of forms' mail come from: loaded, rendered under the revision that accepted the submission, composed
 * and signed, when it is first tried. The same message gives the same mail, but for the time of its signature.
 */
import { Recent } from '../access/recent.ts';
import type { Revision, RevisionOf } from '../access/revisions.ts';
import type { FormConfig, ServerConfig } from '../config/schema.ts';
import { formSchema } from '../config/schema-project.ts';
import type { Log } from '../lib/log.ts';
import { composeMail, type Attachment, type Mail } from '../mail/compose.ts';
import { finishMail, type Desk } from '../mail/finish.ts';
import { replyAddress } from '../mail/relay.ts';
import type { Prepared, Source } from '../queue/interfaces.ts';
import { filesOf, readFile } from '../store/files.ts';
import type { Store } from '../store/store.ts';
import { submissionToMail, type SubmissionToMail } from '../store/submissions.ts';
import type { FileRow, MessageRow } from '../store/tables.ts';
import { builtinTemplates } from '../templates/engine.ts';
import type { Renderer } from '../templates/render.ts';
import { acknowledgment } from './acknowledge.ts';
import type { FormMail } from './form-mail.ts';
import { findMadeCollection, findOwnForm } from './find.ts';
import { hasInternationalVisitor, notification, shortened, withoutAttachments } from './notify.ts';
import { readAcknowledgmentSource, readControl, readFields, readNotificationSource } from './stored.ts';

export interface FormSourceOptions {
  readonly store: Store;
  readonly log: Log;
  readonly config: () => ServerConfig;
  readonly revisionOf: RevisionOf;
  readonly renderer: Renderer;
  readonly desk: Desk;
}

/** Time zones whose built-in templates are kept: making a formatter costs a hundred times what using it does. */
const KEPT_ZONES = 100;

interface Composed {
  readonly mail: Mail;
  readonly bytes: Buffer;
}

/** Base64 in lines makes 78 bytes of 57. */
const ENCODED = 78 / 57;

/** The source of messages of the kinds `notification` and `acknowledgment`. */
export function createFormSource(options: FormSourceOptions): Source {
  const { store, log, config, revisionOf, renderer, desk } = options;
  const zones = new Recent<ReturnType<typeof builtinTemplates>>(KEPT_ZONES);

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
          ? replyAddress({ message: message.id, to: 'visitor' }, message.domain, desk.secret)
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
    const [first, plain] = await Promise.all(mails.map((composed) => finishMail({ ...about, ...composed }, desk)));
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
