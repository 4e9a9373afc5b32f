/** The rows of accounts: tenants, their keys, what was counted of them, and what the API made for them. As in tables.ts. */

export interface TenantRow {
  id: string;
  name: string;
  email: string;
  /** A name under `plans` of server.yml. */
  plan: string;
  /** In place of the plan's; null: the plan's. */
  requests_per_hour: number | null;
  /** The same. */
  messages_per_hour: number | null;
  messages_per_day: number | null;
  /** 1: nothing is accepted from it or for it. */
  suspended: number;
  /** 1: its recipients need not agree to get its mail: the operator answers for it. */
  trusted: number;
  /** When the mailed link of an open sign-up was followed; null: its keys do not work yet. */
  confirmed_at: number | null;
  created_at: number;
}

export interface ApiKeyRow {
  id: string;
  tenant: string;
  name: string;
  environment: 'live' | 'test';
  /** `svc_sk_live_`, `svc_sk_test_` or `svc_rk_`. */
  prefix: string;
  /** SHA-256 of the value, hexadecimal. */
  hash: string;
  last4: string;
  /** JSON: the permissions, sorted, no coarse names. */
  permissions: string;
  /** JSON: `{ ip_whitelist?, domain_restrictions?, rate_limit?, burst_limit?, expires_at? }`. */
  restrictions: string;
  /** The key that made it; null where the operator or a sign-up did. */
  created_by: string | null;
  created_at: number;
  expires_at: number | null;
  revoked_at: number | null;
  last_used_at: number | null;
}

/** What a key asked for on one day. */
export interface UsageRow {
  tenant: string;
  key: string;
  /** Start of the UTC day, ms. */
  day: number;
  requests: number;
  /** Answers of 400 and more but 429. */
  errors: number;
  rate_limited: number;
}

export interface IdempotencyRow {
  scope: string;
  key: string;
  /** SHA-256 of the body. */
  hash: string;
  /** 0 while the first request is in progress. */
  status: number;
  response: string;
  created_at: number;
}

export interface LimitRow {
  bucket: string;
  /** Start of the fixed window, ms. */
  starts_at: number;
  count: number;
}

/** Recipients that count against the plan of a tenant, by the minute; of days that are over by the UTC day. */
export interface MessageCountRow {
  tenant: string;
  /** Start of the minute, ms. Minutes to come hold what waits for them. */
  starts_at: number;
  count: number;
}

/** Posts that a form kept back because it had too many in an hour, of which its owner is yet to be told. */
export interface FormOverflowRow {
  /** As `submissions.form`. */
  form: string;
  tenant: string;
  /** For people. */
  name: string;
  count: number;
  /** When the mail about them is due; between two of them is an hour. */
  mail_at: number;
}

/** How many events of a kind there were in an hour that is over; outlives the events. */
export interface EventCountRow {
  tenant: string;
  /** Its start, ms. */
  hour: number;
  type: string;
  /** Empty for events that belong to none. */
  domain: string;
  /** The same. */
  form: string;
  count: number;
}

/** A form that the API made; those of configurations are in their revisions. */
export interface FormRow {
  /** `frm_…` */
  id: string;
  tenant: string;
  kind: 'api' | 'instant';
  name: string;
  /** The account's domain that its mail is from; null: the server's host name. */
  domain: string | null;
  /** JSON: as `domains.<d>.forms.<id>` of a project file. */
  config: string;
  created_at: number;
}

/** Whether an address has agreed to get the mail of a tenant. */
export interface ConsentRow {
  tenant: string;
  /** In lower case. */
  address: string;
  /** When it was last mailed a link; null: never. */
  asked_at: number | null;
  /** When it agreed; null: not yet. */
  confirmed_at: number | null;
}

/** What is known of a mailbox, by its canonical form (lib/addresses). */
export interface MailboxRow {
  mailbox: string;
  /** The tenant whose confirmed account it is; null: none. */
  account: string | null;
  /** When somebody said "never again" there; null: nobody did. */
  refused_at: number | null;
}

/** A collection that the API made. */
export interface CollectionRow {
  /** One per server. */
  name: string;
  tenant: string;
  /** JSON: as `collections.<name>` of a project file. */
  config: string;
  created_at: number;
}

/** What a mailed link stands for, once. */
export interface TokenRow {
  /** SHA-256 of the token, hexadecimal. */
  hash: string;
  kind: 'signup' | 'recipient';
  tenant: string;
  /** What it confirms: the id of the tenant, or a recipient's address in lower case. */
  subject: string;
  expires_at: number;
  created_at: number;
}

export interface WebhookRow {
  /** `whk_…` */
  id: string;
  tenant: string;
  /** Of the configuration that names it; null where the API made it. */
  project: string | null;
  /** The form whose submissions alone it is told of, as the API names it; empty: no one form. */
  form: string;
  url: string;
  /** JSON: the types that it wants; empty: all. */
  events: string;
  description: string;
  /** `whsec_…` */
  secret: string;
  /** Signs as well until then, so that a receiver can change over. */
  old_secret: string | null;
  old_secret_until: number | null;
  status: 'active' | 'disabled';
  /** Why it was disabled, in words. */
  reason: string | null;
  /** Since when every try has failed; null while they succeed. */
  failing_since: number | null;
  /** The last try that failed. */
  failed_at: number | null;
  /** Older events are not for it: when it was made or last enabled. */
  starts_at: number;
  /** Up to here, but for stragglers, its events have their deliveries. */
  cursor: number;
  created_at: number;
}
