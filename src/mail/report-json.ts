/** Notices that the large senders write as JSON, where they come as mail: Amazon SES (by SNS), SendGrid, Mailgun, Postmark. */
import * as z from 'zod';
import type { Report, ParsedRecipient } from './report-parts.ts';

const text = z.string().catch('');

const ses = z.object({
  bounce: z
    .object({
      bounceType: text,
      bouncedRecipients: z.array(
        z.object({ emailAddress: z.string(), action: text, status: text, diagnosticCode: text }),
      ),
    })
    .optional(),
  complaint: z
    .object({
      complainedRecipients: z.array(z.object({ emailAddress: z.string() })),
      complaintFeedbackType: z.string().catch('abuse'),
    })
    .optional(),
  notificationType: text,
  eventType: text,
});

const sendGrid = z
  .array(z.object({ email: z.string(), event: z.string(), reason: text, status: text, type: text }))
  .min(1);

const mailgun = z.object({
  'event-data': z.object({
    event: z.string(),
    severity: text,
    recipient: z.string(),
    'delivery-status': z
      .object({ code: z.number().catch(0), message: text, description: text })
      .catch({ code: 0, message: '', description: '' }),
  }),
});

const postmark = z.object({ RecordType: z.string(), Type: text, Email: z.string(), Description: text, Details: text });

export type JsonReport =
  { readonly kind: 'bounce'; readonly recipients: readonly ParsedRecipient[] } | Exclude<Report, { kind: 'bounce' }>;

const AUTOMATIC: JsonReport = { kind: 'automatic' };

/** The report in a text that is one JSON value; undefined where it is none, or about something else. */
export function readJsonReport(body: string): JsonReport | undefined {
  const start = body.search(/\S/);
  if (start < 0 || (body[start] !== '{' && body[start] !== '[')) return undefined;
  const end = Math.max(body.lastIndexOf('}'), body.lastIndexOf(']'));
  const value = parse(body.slice(start, end + 1));
  return value === undefined ? undefined : readSns(value);
}

/** Mail servers fold long lines, and a JSON string may hold no line end: those are the folds. */
function parse(json: string): unknown {
  for (const candidate of [json, json.replaceAll(/!?\n ?/g, '')]) {
    try {
      return JSON.parse(candidate);
    } catch {
      continue;
    }
  }
  return undefined;
}

/** SNS wraps the notice of SES in a string of its own, unless it is set not to. */
function readSns(value: unknown): JsonReport | undefined {
  const wrapped = z.object({ Type: z.string(), Message: z.string() }).safeParse(value);
  const inner = wrapped.success ? parse(wrapped.data.Message) : value;
  return readSes(inner) ?? readSendGrid(inner) ?? readMailgun(inner) ?? readPostmark(inner);
}

function readSes(value: unknown): JsonReport | undefined {
  const { data } = ses.safeParse(value);
  if (data?.complaint !== undefined) {
    const { complainedRecipients, complaintFeedbackType: feedback } = data.complaint;
    return complaint(
      complainedRecipients.map((one) => one.emailAddress),
      feedback.toLowerCase(),
    );
  }
  if (data?.bounce !== undefined) {
    const { bounceType, bouncedRecipients } = data.bounce;
    const vague = bounceType === 'Transient' ? '4.0.0' : '5.0.0';
    return bounce(
      bouncedRecipients.map(({ emailAddress, action, status, diagnosticCode }) =>
        recipient(emailAddress, {
          action: action || 'failed',
          status: status || vague,
          diagnostic: diagnosticCode.replace(/^smtp;\s*/i, ''),
        }),
      ),
    );
  }
  return /^(?:delivery|send|open|click)/i.test(data?.notificationType || data?.eventType || '') ? AUTOMATIC : undefined;
}

function readSendGrid(value: unknown): JsonReport | undefined {
  const { data } = sendGrid.safeParse(value);
  if (data === undefined) return undefined;
  const complaints = data.filter(({ event }) => event === 'spamreport');
  if (complaints.length > 0) return complaint(complaints.map(({ email }) => email));
  const failed = data.filter(({ event }) => event === 'bounce' || event === 'dropped' || event === 'deferred');
  if (failed.length === 0) return AUTOMATIC;
  return bounce(
    failed.map(({ email, event, status, reason }) =>
      recipient(email, { action: event === 'deferred' ? 'delayed' : 'failed', status, diagnostic: reason }),
    ),
  );
}

function readMailgun(value: unknown): JsonReport | undefined {
  const data = mailgun.safeParse(value).data?.['event-data'];
  if (data === undefined) return undefined;
  const { event, severity, recipient: address, 'delivery-status': reply } = data;
  if (event === 'complained') return complaint([address]);
  if (event !== 'failed') return AUTOMATIC;
  const diagnostic = [reply.code === 0 ? '' : String(reply.code), reply.message || reply.description].join(' ').trim();
  return bounce([
    recipient(address, { action: severity === 'temporary' ? 'delayed' : 'failed', status: '', diagnostic }),
  ]);
}

function readPostmark(value: unknown): JsonReport | undefined {
  const { data } = postmark.safeParse(value);
  if (data === undefined) return undefined;
  const { RecordType: record, Type: type, Email: address, Description: description, Details: details } = data;
  if (record === 'SpamComplaint') return complaint([address]);
  if (record !== 'Bounce') return AUTOMATIC;
  if (/^(?:autoresponder|subscribe|challengeverification|addresschange)$/i.test(type)) return AUTOMATIC;
  const isLater = /^(?:transient|dnserror|softbounce)$/i.test(type);
  const [action, status] = isLater ? ['delayed', '4.0.0'] : ['failed', '5.0.0'];
  return bounce([recipient(address, { action, status, diagnostic: details || description })]);
}

function bounce(recipients: readonly ParsedRecipient[]): JsonReport {
  return { kind: 'bounce', recipients };
}

function complaint(recipients: readonly string[], feedback = 'abuse'): JsonReport {
  return { kind: 'complaint', feedback, recipients };
}

function recipient(address: string, given: Pick<ParsedRecipient, 'action' | 'status' | 'diagnostic'>): ParsedRecipient {
  return { ...given, address, original: '', remote: '' };
}
