/** Forms in bodies and answers: what the routes of forms, instant forms and collections have in common. */
import { z } from 'zod';
import type { BundleReader } from '../../config/bundle.ts';
import type { FormPlace } from '../../config/checks.ts';
import type { Form } from '../../config/forms.ts';
import { formSchema } from '../../config/schema.ts';
import type * as contract from '../../contract/forms.ts';
import { isoTime } from '../../lib/clock.ts';
import { environmentOf } from '../../lib/ids.ts';
import type { RecipientStatuses } from '../../store/consents.ts';
import type { FormCounterRow } from '../../store/tables.ts';
import { type Exchange, endpointOf } from '../context.ts';
import { type Refusal, refuse } from '../errors.ts';
import { invalidAt } from './issues.ts';

const { shape } = formSchema;

/** What a form says beside its name and recipients, in the words of a project file. Its templates are the built-in ones. */
export const formSettings = z.strictObject({
  subject: shape.subject,
  from_name: shape.from_name,
  replies: bare(shape.replies).optional(),
  replyTo: shape.replyTo,
  acknowledgment: bare(shape.acknowledgment).omit({ template: true }).optional(),
  spam_protection: bare(shape.spam_protection).optional(),
  rateLimit: shape.rateLimit,
  max_per_hour: shape.max_per_hour,
  required: bare(shape.required).optional(),
  fields: bare(shape.fields).optional(),
  redirect: shape.redirect,
  error_redirect: shape.error_redirect,
  thank_you: shape.thank_you,
  allowed_origins: bare(shape.allowed_origins)
    .optional()
    .describe('Origins whose pages may post; those of any origin when nothing is listed.'),
  uploads: shape.uploads,
  retention: shape.retention,
});

/** The schema without its default, so that what is absent can be told from what is given. */
function bare<T extends z.ZodType>(schema: z.ZodType & { unwrap(): T }): T {
  return schema.unwrap().describe(schema.description ?? '');
}

export interface Shown {
  readonly form: Form;
  readonly exchange: Exchange;
  /** What is counted of it; undefined for one that is only just known. */
  readonly counter: FormCounterRow | undefined;
  /** Of its recipients at least. */
  readonly statuses: RecipientStatuses;
}

/** What is said of these recipients. */
export function shownConsent(
  to: readonly string[],
  statuses: RecipientStatuses,
): Pick<z.output<typeof contract.form>, 'recipient_status' | 'recipients'> {
  const recipients = to.map((address) => ({ address, status: statuses.get(address) ?? 'pending' }));
  const found = new Set(recipients.map(({ status }) => status));
  const recipient_status = found.has('pending') ? 'pending' : found.has('confirmed') ? 'confirmed' : 'refused';
  return { recipient_status, recipients };
}

export function shownForm({ form, exchange, counter, statuses }: Shown): z.output<typeof contract.form> {
  const [first = '', ...others] = form.to;
  return {
    id: form.id,
    name: form.name,
    environment: environmentOf(form.tenant),
    submissions: counter?.submissions ?? 0,
    created_at: isoTime(counter?.created_at ?? exchange.at),
    to: others.length === 0 ? first : [...form.to],
    ...shownConsent(form.to, statuses),
    subject: form.config.subject ?? null,
    endpoint: endpointOf(exchange, form),
    source: form.project?.source ?? 'api',
  };
}

export function shownInstantForm({ form, exchange, counter, statuses }: Shown): z.output<typeof contract.instantForm> {
  const { recipient_status } = shownConsent(form.to, statuses);
  return {
    id: form.id,
    name: form.name,
    environment: environmentOf(form.tenant),
    email: form.to[0] ?? '',
    endpoint: endpointOf(exchange, form),
    submissions: counter?.submissions ?? 0,
    created_at: isoTime(counter?.created_at ?? exchange.at),
    confirmed: recipient_status === 'confirmed',
    recipient_status,
  };
}

/** The refusal of more recipients than a form may have; `path` is where they stand in the body. */
export function refuseRecipients(
  to: readonly string[] | undefined,
  { snapshot }: Pick<Exchange, 'snapshot'>,
  path: string,
): Refusal | undefined {
  const { form_recipients: most } = snapshot.server.limits;
  if (to === undefined || new Set(to).size <= most) return undefined;
  return invalidAt(path, `must be ${most} addresses at most`);
}

/** The refusal of what no schema can know of forms: patterns, expressions; paths are where they stand in the body. */
export async function refuseForms(
  forms: readonly FormPlace[],
  tenant: string,
  reader: BundleReader,
): Promise<Refusal | undefined> {
  const findings = await reader.checkForms(forms, { tenant });
  const errors = findings.map(({ path, message }) => ({ field: path.join('.'), code: 'TYPE_TEXT', message }));
  return errors.length === 0 ? undefined : refuse('VALIDATION_FAILED', { errors });
}
