/**
 * Mail of a form as it would be sent, made with the code that makes the real one: nothing is stored, signed or queued. What fails in a
 * template is told, instead of being logged and replaced in silence.
 */
import { createHash } from 'node:crypto';
import { sampleFields } from '../config/sample.ts';
import type { Form } from '../config/snapshot.ts';
import type { ServerConfig } from '../config/schema.ts';
import { baseUrlOf } from '../config/schema-server.ts';
import { newId } from '../lib/ids.ts';
import type { Mail } from '../mail/compose.ts';
import type { FileRow, SubmissionRow } from '../store/tables.ts';
import { translationOf } from '../languages/languages.ts';
import { builtinTemplates } from '../templates/engine.ts';
import type { Renderer } from '../templates/render.ts';
import type { TemplateFault } from '../templates/template.ts';
import { readControl, readFields, type Field } from './fields.ts';
import { acknowledgment, confirmation, notification, type FormMail } from './form-mail.ts';
import { acknowledgmentTo, visitorOf } from './messages.ts';

export interface PreviewRequest {
  readonly form: Form;
  readonly show: 'notification' | 'acknowledgment' | 'confirmation';
  readonly fields: readonly Field[];
  /** Whose data it has. */
  readonly submission: SubmissionRow | undefined;
  readonly files: readonly FileRow[];
}

export interface PreviewParts {
  readonly server: ServerConfig;
  readonly renderer: Renderer;
  readonly now: number;
}

export interface MailPreview {
  readonly mail: Mail;
  readonly faults: readonly TemplateFault[];
}

/** The fields of a sample. */
export function sampleOfForm({ config }: Pick<Form, 'config'>): Field[] {
  return Object.entries(sampleFields(config));
}

/** Renders the mail. */
export async function previewMail(request: PreviewRequest, parts: PreviewParts): Promise<MailPreview> {
  const faults: TemplateFault[] = [];
  const { form, show } = request;
  const mail = mailFor(request, parts, (fault) => faults.push(fault));
  const visitor = visitorOf({ ...mail, form }) ?? 'ada@example.com';
  switch (show) {
    case 'notification':
      return { mail: await notification(mail, { to: form.to, smtpUtf8: true }), faults };
    case 'acknowledgment':
      return { mail: await acknowledgment(mail, acknowledgmentTo(visitor, form)), faults };
    case 'confirmation': {
      const link = `${baseUrlOf(parts.server)}/confirm/preview`;
      return { mail: confirmation(mail, { form: form.key, to: visitor, link }), faults };
    }
  }
}

function mailFor(
  { form, fields, submission, files }: PreviewRequest,
  { server, renderer, now }: PreviewParts,
  onFault: (fault: TemplateFault) => void,
): FormMail {
  const { project, config } = form;
  const at = submission?.created_at ?? now;
  const base = baseUrlOf(server);
  return {
    message: { id: newId('msg', at), tenant: form.tenant, created_at: at },
    submission: submission ?? {
      id: newId('sub', at),
      form: form.id,
      domain: form.domain,
      revision: '',
      created_at: at,
      ip: '192.0.2.1',
      referer: form.audience.domain === undefined ? '' : `https://${form.audience.domain}/`,
      fields: '[]',
      control: '{}',
    },
    fields: submission === undefined ? fields : readFields(submission.fields),
    control: submission === undefined ? { subject: undefined, replyTo: undefined } : readControl(submission.control),
    files,
    form: { key: form.key, name: form.name, config },
    project: project && {
      // Processes keep the templates of a revision: what is typed has one by its content.
      revision: `preview ${createHash('sha256').update(JSON.stringify(project.config.templates)).digest('hex')}`,
      templates: project.config.templates,
      timezone: project.config.settings.timezone,
    },
    renderer,
    builtins: builtinTemplates,
    relay: undefined,
    linksFor: () => ({ view: `${base}/s/preview`, spam: `${base}/s/preview`, stop: `${base}/s/preview` }),
    translation: translationOf(config.theme?.language ?? 'en'),
    onFault: (_, fault) => onFault(fault),
  };
}
