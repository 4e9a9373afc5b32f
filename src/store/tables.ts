/**
 * The rows as both dialects hold them. Times are integers (ms since the epoch), flags are 0 or 1, JSON is text, so that
 * one set of queries serves SQLite and PostgreSQL.
 */

import type {
  ApiKeyRow,
  CollectionRow,
  ConsentRow,
  EventCountRow,
  FormOverflowRow,
  FormRow,
  IdempotencyRow,
  LimitRow,
  MailboxRow,
  MessageCountRow,
  TenantRow,
  TokenRow,
  UsageRow,
  WebhookRow,
} from './tables-accounts.ts';

import type { DkimKeyRow } from './tables-keys.ts';
import type { BounceRow, InboundLogRow, InboundRow, RawChunkRow } from './tables-inbound.ts';

export interface Tables {
  tenants: TenantRow;
  projects: ProjectRow;
  project_files: ProjectFileRow;
  config_revisions: RevisionRow;
  domains: DomainRow;
  dkim_keys: DkimKeyRow;
  submissions: SubmissionRow;
  submission_files: FileRow;
  file_chunks: FileChunkRow;
  form_counters: FormCounterRow;
  messages: MessageRow;
  message_chunks: MessageChunkRow;
  attachment_chunks: AttachmentChunkRow;
  deliveries: DeliveryRow;
  attempts: AttemptRow;
  destinations: DestinationRow;
  suppressions: SuppressionRow;
  acknowledged: AcknowledgedRow;
  events: EventRow;
  idempotency_keys: IdempotencyRow;
  limits: LimitRow;
  secrets: SecretRow;
  api_keys: ApiKeyRow;
  usage: UsageRow;
  event_counts: EventCountRow;
  message_counts: MessageCountRow;
  form_overflows: FormOverflowRow;
  forms: FormRow;
  collections: CollectionRow;
  tokens: TokenRow;
  consents: ConsentRow;
  mailboxes: MailboxRow;
  webhooks: WebhookRow;
  inbound: InboundRow;
  raw_chunks: RawChunkRow;
  inbound_log: InboundLogRow;
  bounces: BounceRow;
}

export interface ProjectRow {
  id: string;
  tenant: string;
  slug: string;
  name: string;
  /** What made it: a file, which manages it until it is removed; a push; or POST /projects. */
  source: 'file' | 'push' | 'api';
  /** The one in force. */
  revision: string;
  /** The machine whose file manages the project; empty where it is not known, null where no file does. */
  machine: string | null;
  /** The path of that file. */
  file: string | null;
  /** 1: that machine has the file no longer. */
  file_missing: number;
  created_at: number;
}

/** What a machine loaded last from one of its project files. */
export interface ProjectFileRow {
  machine: string;
  file: string;
  slug: string;
  /** As of the revision. */
  hash: string;
  loaded_at: number;
}

export interface RevisionRow {
  id: string;
  tenant: string;
  slug: string;
  /** The file's name as the operator knows it. */
  file: string;
  yaml: string;
  /** JSON: `{ path: content }` of the files that the YAML names. */
  files: string;
  /** SHA-256 of yaml and files: the same content is the same revision. */
  hash: string;
  created_at: number;
}

export type DomainStatus = 'pending' | 'verified' | 'degraded' | 'failed';

export interface DomainRow {
  name: string;
  tenant: string;
  project: string;
  /** What the ownership record must hold. */
  token: string;
  status: DomainStatus;
  /** JSON: the records as last found, null before the first check. */
  records: string | null;
  checked_at: number | null;
  verified_at: number | null;
  /** Since when the required records have been broken, null while they are right. */
  broken_at: number | null;
  next_check_at: number;
  created_at: number;
}

export interface SubmissionRow {
  id: string;
  tenant: string;
  /** `<domain>/<form_id>`, `c/<collection>/<form_id>` or `frm_…`. */
  form: string;
  /** Whose name its mail is from: the form's domain, else the server's host name. */
  domain: string;
  /** Of the project's configuration; empty for a form that the API made. */
  revision: string;
  /** JSON: `[[name, value | [values]], …]` in the order sent. */
  fields: string;
  /** JSON: the control fields that mail uses (`_subject`, `_replyto`). */
  control: string;
  ip: string;
  user_agent: string;
  referer: string;
  status: 'accepted' | 'spam';
  spam_score: number;
  /** JSON: `[{ name, score, detail }]`. */
  spam_reasons: string;
  /** Of the key that it came with: mail of `test` is never delivered. */
  environment: 'live' | 'test';
  created_at: number;
}

export interface FileRow {
  id: string;
  submission: string;
  /** Its place among the files of the submission, from 0. */
  position: number;
  field: string;
  filename: string;
  content_type: string;
  size: number;
}

export interface FileChunkRow {
  file: string;
  seq: number;
  bytes: Uint8Array;
  /** Chunks whose submission never came are swept by age. */
  created_at: number;
}

/** Accepted submissions of a form; outlives their retention. */
export interface FormCounterRow {
  form: string;
  submissions: number;
  /** When the form was first known. */
  created_at: number;
}

/** `webhook`: no mail, but what webhooks are told of an event; it is made from the event at each attempt. */
export type MessageKind =
  'notification' | 'acknowledgment' | 'transactional' | 'forward' | 'reply' | 'dsn' | 'system' | 'webhook';

export interface MessageRow {
  id: string;
  tenant: string;
  kind: MessageKind;
  /** The submission that it tells of, if any. */
  submission: string | null;
  /** The domain whose key signs it and whose form it is. */
  domain: string;
  /** JSON for the renderer of its kind. */
  source: string;
  /**
   * `none`: rendered when first tried. `stored`: the finished bytes are in message_chunks. `prefixed`: how they begin is
   * there, and its source has the rest. `dropped`: settled and swept.
   */
  body: 'none' | 'stored' | 'prefixed' | 'dropped';
  /** Bytes of the finished message, 0 before. */
  size: number;
  /** Envelope sender of the finished message, null before. */
  sender: string | null;
  /** What the finished message needs of the way: nothing, 8BITMIME (RFC 6152) or SMTPUTF8 (RFC 6531). */
  encoding: '7bit' | '8bit' | 'smtputf8';
  /** How many destinations its recipients are in. */
  destinations: number;
  /** `test`: it goes the whole way and ends as captured, or as its sandbox recipient says; nothing leaves. */
  environment: 'live' | 'test';
  created_at: number;
  expires_at: number;
}

export interface MessageChunkRow {
  message: string;
  seq: number;
  bytes: Uint8Array;
}

/** A piece of what is attached to a message that is yet to be rendered. */
export interface AttachmentChunkRow {
  message: string;
  /** Its place among the attachments, from 0. */
  position: number;
  seq: number;
  bytes: Uint8Array;
}

export type DeliveryState =
  'queued' | 'sending' | 'deferred' | 'delivered' | 'bounced' | 'expired' | 'cancelled' | 'suppressed' | 'captured';

export interface DeliveryRow {
  /** `dlv_…`; `whd_…` of a webhook delivery: the `webhook-id`, the same for every attempt. */
  id: string;
  message: string;
  tenant: string;
  /** An address; of a webhook delivery the origin of its URL. */
  recipient: string;
  /** The recipient's domain; `sandbox` for mail of the environment `test`; `whk_…`, the webhook. */
  destination: string;
  state: DeliveryState;
  attempts: number;
  /**
   * When it is due; `HELD` (deliveries.ts) while the operator holds it, null while it waits for its recipient to agree, and
   * once settled.
   */
  next_attempt_at: number | null;
  lease_owner: string | null;
  lease_until: number | null;
  /** 1: somebody was dialled for the try that is claimed, or is about to be. */
  begun: number;
  /** The server's last words, or ours. */
  last_reply: string | null;
  created_at: number;
  expires_at: number;
  settled_at: number | null;
  /** When it counts, or counted, against its tenant's plan; to come: it waits for then. Null: not yet, or never. */
  counted_at: number | null;
  /** `whk_…`: it is posted there; null for mail. */
  webhook: string | null;
  /** `evt_…`: what the webhook is told of; null for mail and for a test. */
  event: string | null;
}

export interface AttemptRow {
  delivery: string;
  number: number;
  at: number;
  host: string | null;
  address: string | null;
  /** `TLSv1.3`, … ; null for clear text. */
  tls: string | null;
  outcome: 'delivered' | 'deferred' | 'bounced' | 'expired' | 'interrupted' | 'captured';
  reply: string;
}

/** One retry timer per destination: a dead one costs one row, however much waits for it. */
export interface DestinationRow {
  name: string;
  /** The earliest due delivery, or the end of a pause; null when nothing waits. */
  next_due_at: number | null;
  /** Connection failures in a row; from the fifth on new mail waits for the end of the pause as well. */
  failures: number;
  /** Pauses in a row: the place in the retry table. A failure within a pause adds none. */
  pauses: number;
  /** Null where none was needed since the last success. */
  paused_until: number | null;
  /** 1: the operator holds it. */
  held: number;
  last_error: string | null;
  /**
   * In which line it waits for connections. Empty once a server there has answered, until nobody can be reached; before
   * that, the tenant whose mail made it known; after that, `again:` and the tenant whose mail failed.
   */
  line: string;
}

export interface SuppressionRow {
  tenant: string;
  address: string;
  reason: 'bounce' | 'complaint' | 'unsubscribe' | 'manual';
  created_at: number;
}

/** When an address was last sent an acknowledgment by any form of the tenant. */
export interface AcknowledgedRow {
  tenant: string;
  address: string;
  at: number;
}

export interface EventRow {
  id: string;
  tenant: string;
  type: string;
  /** JSON. */
  data: string;
  submission: string | null;
  message: string | null;
  domain: string | null;
  /** Of the submission, as `submissions.form`. */
  form: string | null;
  /** `req_…`, whose answer has it as X-Request-Id; null where no request caused it. */
  request: string | null;
  created_at: number;
}

export interface SecretRow {
  name: string;
  value: string;
  created_at: number;
}
