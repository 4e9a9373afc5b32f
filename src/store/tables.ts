/**
 * The rows as both dialects hold them. Times are integers (ms since the epoch), flags are 0 or 1, JSON is text, so that
 * one set of queries serves SQLite and PostgreSQL.
 */

export interface Tables {
  tenants: {
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
  };
  /** An account that accepts nothing any more, and goes when its queue is empty. */
  account_deletions: {
    tenant: string;
    /** What becomes of mail that was queued then. */
    queued: 'deliver' | 'cancel';
    created_at: number;
  };
  /** What the owners of a project have taught the spam filter. */
  spam_learned: {
    tenant: string;
    /** Its slug; empty for forms that the API made. */
    project: string;
    /** Compressed. */
    weights: Uint8Array;
    /** How many there were. */
    decisions: number;
    updated_at: number;
  };
  projects: {
    id: string;
    tenant: string;
    slug: string;
    name: string;
    /** What made it: a file, which manages it until it is removed; a push; or POST /projects. */
    source: 'file' | 'push' | 'api';
    /** The active one. */
    revision: string;
    /** The machine whose file manages the project; empty where it is not known, null where no file does. */
    machine: string | null;
    /** The path of that file. */
    file: string | null;
    /** 1: that machine has the file no longer. */
    file_missing: number;
    created_at: number;
  };
  /** What a machine loaded last from one of its project files. */
  project_files: {
    machine: string;
    file: string;
    slug: string;
    /** As of the revision. */
    hash: string;
    loaded_at: number;
  };
  config_revisions: {
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
    /** JSON: who deployed it last; null where that is not known. */
    author: string | null;
    /** Bytes of yaml and files; null where nobody counted. */
    size: number | null;
  };
  domains: {
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
  };
  /** A key pair of a domain, or of the server itself. */
  dkim_keys: {
    domain: string;
    /** Whose mail it signs: two tenants that claim one domain have keys under different selectors. */
    tenant: string;
    selector: string;
    algorithm: 'rsa' | 'ed25519';
    /** The selector that was configured when it was made; its own may have a date behind that. */
    base: string;
    /** `next`: published before it signs. `active`: signs. `retiring`: has signed. `retired`: nobody needs its record. */
    state: 'next' | 'active' | 'retiring' | 'retired';
    /** PKCS#8 PEM; empty once retired. */
    private_key: string;
    /** Base64, as `p=` has it. */
    public_key: string;
    /** When it came into its state. */
    since: number;
    /** Of a retiring key: when its record may go, if no mail that it signed waits by then; else null. */
    keep_until: number | null;
    created_at: number;
  };
  submissions: {
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
    /** As the form's `ip` has it: an address, its network, a hash, or empty. */
    ip: string;
    user_agent: string;
    referer: string;
    /** `pending`: its visitor has not confirmed it yet (`double_opt_in`). */
    status: 'accepted' | 'spam' | 'pending';
    spam_score: number;
    /** JSON: `[{ name, score, detail }]`. */
    spam_reasons: string;
    /** Of the key that it came with: mail of `test` is never delivered. */
    environment: 'live' | 'test';
    /** What stays once its mail is delivered: its metadata, nothing, or (null) all of it. `dropped`: its metadata is left. */
    stored: 'metadata' | 'none' | 'dropped' | null;
    /** What its owner has taught the spam filter by it; null where nothing. */
    learned: 'spam' | 'ham' | null;
    /** When it was confirmed or released; null where it was accepted as it came, or is not accepted. */
    accepted_at: number | null;
    /** 1: nobody has read it yet. */
    unread: number;
    /** 1: files came with it, and are kept. */
    has_files: number;
    created_at: number;
  };
  /** Submissions whose words are not in the search index yet. */
  submissions_to_index: {
    submission: string;
  };
  /** Submissions that are in the search index. */
  submission_documents: {
    submission: string;
  };
  /** A submission that its visitor has to confirm. */
  opt_ins: {
    submission: string;
    tenant: string;
    form: string;
    /** Of the visitor, in canonical form (lib/addresses). */
    mailbox: string;
    /** Whom it came from, as a hash. */
    client: string;
    /** When it is dropped. */
    expires_at: number;
  };
  /** Where mail about a submission fails, its form's `fallback` gets it, once. */
  fallbacks: {
    submission: string;
    /** From then on mail that still waits has failed. */
    late_at: number;
    /** When to look at its mail; null while there is no reason to. */
    due_at: number | null;
    /** When the fallback was used. */
    used_at: number | null;
  };
  submission_files: {
    id: string;
    submission: string;
    /** Its place among the files of the submission, from 0. */
    position: number;
    field: string;
    filename: string;
    content_type: string;
    size: number;
    /** 1: there is a virus scanner, and it did not answer. */
    unscanned: number;
  };
  file_chunks: {
    file: string;
    seq: number;
    bytes: Uint8Array;
    object: ObjectName;
    /** Chunks whose submission never came are swept by age. */
    created_at: number;
  };
  /** An object of the bucket that `storage.url` names (blobs.ts). */
  objects: {
    /** `obj_…`; its key in the bucket, behind the prefix. */
    id: string;
    /**
     * Null: a row names it. Before, when it is removed unless a row names it by then, ms. 0: no row names it any more, or none
     * came in time, and none may from now on; it is being removed.
     */
    remove_at: number | null;
  };
  /** A form that was published; outlives the retention of its submissions. */
  form_counters: {
    form: string;
    /** Accepted before there were `form_counts`, which count on. */
    submissions: number;
    /** When the form was first known. */
    created_at: number;
  };
  /** Accepted submissions of a form, by slot: connections of several daemons count in rows of their own. */
  form_counts: {
    form: string;
    slot: number;
    submissions: number;
  };
  messages: {
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
  };
  message_chunks: {
    message: string;
    seq: number;
    bytes: Uint8Array;
    object: ObjectName;
  };
  /** A piece of what is attached to a message that is yet to be rendered. */
  attachment_chunks: {
    message: string;
    /** Its place among the attachments, from 0. */
    position: number;
    seq: number;
    bytes: Uint8Array;
    object: ObjectName;
  };
  deliveries: {
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
    /** Of its message, as it is searched; null where it is not known before the message is made. */
    subject: string | null;
    /** 1: mail for which nobody waits at a screen goes after other mail for its destination. */
    bulk: number;
    /** Among the mail of its tenant for one destination, what it takes turns by: its form, or its kind; empty for webhooks. */
    flow: string;
  };
  attempts: {
    delivery: string;
    number: number;
    at: number;
    host: string | null;
    address: string | null;
    /** `TLSv1.3`, … ; null for clear text. */
    tls: string | null;
    outcome: 'delivered' | 'deferred' | 'bounced' | 'expired' | 'interrupted' | 'captured';
    reply: string;
    /** The policy of the recipients' domain that applied: `dane`, `mta-sts enforce`, `mta-sts testing`; null where there was none. */
    tls_policy: string | null;
    /** What came of it: `success`, or a failure in the words of RFC 8460 §4.3; null where no session got as far. */
    tls_result: string | null;
    /** What was said in it, a line each: `>` ours, `<` the server's, `-` a note; null where there was no connection. */
    dialogue: string | null;
  };
  /** What domains demand of those who send to them (RFC 8461 §3.2), as it was fetched last. */
  mta_sts_policies: {
    domain: string;
    /** Of the TXT record that announced it. */
    id: string;
    mode: 'enforce' | 'testing' | 'none';
    /** Names and patterns of mail hosts, with spaces between them. */
    mx: string;
    /** Seconds. */
    max_age: number;
    expires_at: number;
    /** When to fetch it again, also where the id has not changed. */
    refresh_at: number;
    /** When mail was last sent there, to the day. */
    used_at: number;
  };
  /** One retry timer per destination: a dead one costs one row, however much waits for it. */
  destinations: {
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
  };
  suppressions: {
    tenant: string;
    address: string;
    /** The form whose notifications it no longer gets, as `submissions.form`; empty: all mail but notifications. */
    form: string;
    reason: 'bounce' | 'complaint' | 'unsubscribe' | 'manual';
    created_at: number;
  };
  /** Links of owners that were used and work no more. */
  used_links: {
    /** SHA-256 of the token. */
    hash: string;
    expires_at: number;
  };
  /** Sessions of people who signed in to the console. */
  sessions: {
    id: string;
    /** SHA-256 of the token in the cookie. */
    hash: string;
    /** The account. */
    tenant: string;
    /** That made it; null: a link did. */
    api_key: string | null;
    /** Of the client that used it last. */
    ip: string;
    user_agent: string;
    created_at: number;
    /** Written at most once a minute. */
    used_at: number;
    /** Whatever it is used for. */
    expires_at: number;
  };
  /** Links that sign in, once. */
  sign_in_links: {
    /** SHA-256 of the token. */
    hash: string;
    tenant: string;
    /** SHA-256 of what the browser that asked for it keeps; null: any browser may use it. */
    browser: string | null;
    /** How often a code was tried with it. */
    tries: number;
    created_at: number;
    expires_at: number;
  };
  /** Mail with such links that somebody asked for and that is not queued yet. */
  sign_in_requests: {
    id: string;
    /** In lower case, whoever has it. */
    email: string;
    /** As of the link. */
    browser: string;
    /** `https://mail.example.net`: where the link leads. */
    origin: string;
    created_at: number;
  };
  /** What the one-time codes of an account are made with (RFC 6238). */
  totp: {
    tenant: string;
    /** Base32. */
    secret: string;
    /** Of the code that was used last: an older one counts no more. */
    last_step: number;
    /** Null: no code has proved yet that the secret arrived. */
    confirmed_at: number | null;
    created_at: number;
  };
  /** Codes that each replace a one-time code once. */
  recovery_codes: {
    tenant: string;
    /** SHA-256 of the code. */
    hash: string;
  };
  /** TLS sessions with mail hosts, counted for reports to their domains (RFC 8460). */
  tls_sessions: {
    /** Its start in UTC, ms. */
    day: number;
    /** Of the recipients. */
    domain: string;
    /** JSON: what was demanded. */
    policy: string;
    /** `success`, or a failure in the words of RFC 8460. */
    result: string;
    /** Of failures alone, as what follows: the mail host, its address, ours, and why. */
    host: string;
    address: string;
    local: string;
    reason: string;
    count: number;
  };
  /** Such reports that are to be posted to an address of HTTPS. */
  tls_reports: {
    id: string;
    domain: string;
    url: string;
    /** As it is posted: JSON, compressed. */
    body: Uint8Array;
    due_at: number;
    /** When it is given up. */
    expires_at: number;
  };
  /** Alerts that the operator was sent. */
  /** The daemons that share a PostgreSQL database. */
  members: {
    /** Also the owner of its leases. */
    id: string;
    machine: string;
    /** Separated by spaces. */
    roles: string;
    /** Rises while it lives. */
    beat: number;
  };
  alerts: {
    /** The cause. */
    name: string;
    mailed_at: number;
  };
  /** Up to when the digests of a project tell what happened. */
  digests: {
    tenant: string;
    /** Its slug. */
    project: string;
    until: number;
  };
  /** When an address was last sent an acknowledgment by any form of the tenant. */
  acknowledged: {
    tenant: string;
    address: string;
    at: number;
  };
  events: {
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
  };
  idempotency_keys: {
    scope: string;
    key: string;
    /** SHA-256 of the body. */
    hash: string;
    /** 0 while the first request is in progress. */
    status: number;
    response: string;
    created_at: number;
  };
  limits: {
    bucket: string;
    /** Start of the fixed window, ms. */
    starts_at: number;
    count: number;
  };
  secrets: {
    name: string;
    value: string;
    created_at: number;
  };
  api_keys: {
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
  };
  /** What a key asked for on one day. */
  usage: {
    tenant: string;
    key: string;
    /** Start of the UTC day, ms. */
    day: number;
    requests: number;
    /** Answers of 400 and more but 429. */
    errors: number;
    rate_limited: number;
  };
  /** How many events of a kind there were in an hour that is over; outlives the events. */
  event_counts: {
    tenant: string;
    /** Its start, ms. */
    hour: number;
    type: string;
    /** Empty for events that belong to none. */
    domain: string;
    /** The same. */
    form: string;
    count: number;
  };
  /** Recipients that count against the plan of a tenant, by the minute; of days that are over by the UTC day. */
  message_counts: {
    tenant: string;
    /** Start of the minute, ms. Minutes to come hold what waits for them. */
    starts_at: number;
    count: number;
  };
  /** Posts that a form kept back because it had too many in an hour, of which its owner is yet to be told. */
  form_overflows: {
    /** As `submissions.form`. */
    form: string;
    tenant: string;
    /** For people. */
    name: string;
    count: number;
    /** When the mail about them is due; between two of them is an hour. */
    mail_at: number;
  };
  /** A form that the API made; those of configurations are in their revisions. */
  forms: {
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
  };
  /** A collection that the API made. */
  collections: {
    /** One per server. */
    name: string;
    tenant: string;
    /** JSON: as `collections.<name>` of a project file. */
    config: string;
    created_at: number;
  };
  /** What a mailed link stands for, once. */
  tokens: {
    /** SHA-256 of the token, hexadecimal. */
    hash: string;
    kind: 'signup' | 'recipient' | 'submission';
    tenant: string;
    /** What it confirms: the id of the tenant, a recipient's address in lower case, or the id of a submission. */
    subject: string;
    expires_at: number;
    created_at: number;
  };
  /** The certificate of a host name, obtained by ACME or still to be. */
  certificates: {
    name: string;
    /** The ACME directory that it is of. */
    directory: string;
    /** PEM with its chain; null until there is one. */
    certificate: string | null;
    /** PKCS#8 PEM. */
    private_key: string | null;
    obtained_at: number | null;
    /** Since when there has been a valid one without a gap. */
    valid_since: number | null;
    expires_at: number | null;
    /** Tries that failed since the last one that did not. */
    failures: number;
    tried_at: number | null;
    /** When it is to be tried next. */
    next_at: number;
    /** The authority wants no try before. */
    not_before: number;
    /** Why the last try failed; null where it did not. */
    reason: string | null;
  };
  /** Our account at an ACME directory. */
  acme_accounts: {
    directory: string;
    /** PKCS#8 PEM. */
    private_key: string;
    /** As the directory names it; null until it does. */
    url: string | null;
    /** That it has of us. */
    email: string | null;
    created_at: number;
  };
  /** What an ACME server is to be answered that asks for a token over HTTP, or for a name by TLS. */
  acme_challenges: {
    token: string;
    name: string;
    response: string;
    created_at: number;
  };
  /** Tokens of pages that were used. */
  used_tokens: {
    id: string;
    /** When nobody takes it any more. */
    expires_at: number;
  };
  /** Whether an address has agreed to get the mail of a tenant. */
  consents: {
    tenant: string;
    /** In lower case. */
    address: string;
    /** When it was last mailed a link; null: never. */
    asked_at: number | null;
    /** When it agreed; null: not yet. */
    confirmed_at: number | null;
  };
  /** What is known of a mailbox, by its canonical form (lib/addresses). */
  mailboxes: {
    mailbox: string;
    /** The tenant whose confirmed account it is; null: none. */
    account: string | null;
    /** When somebody said "never again" there; null: nobody did. */
    refused_at: number | null;
  };
  /** An attempt of a webhook: what was sent, but for the body, which is made from the event, and what was answered. */
  webhook_posts: {
    webhook: string;
    delivery: string;
    /** The attempt. */
    number: number;
    at: number;
    duration_ms: number;
    url: string;
    /** JSON: names and values. */
    request_headers: string;
    /** null where nothing was answered, as are the next two. */
    status: number | null;
    /** JSON: names and values. */
    headers: string | null;
    /** The beginning. */
    body: string | null;
    /** 0 or 1: the answer's body is longer. */
    is_cut: number;
    /** Why nothing was answered. */
    error: string | null;
  };
  webhooks: {
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
  };
  /** A message that was accepted by SMTP, once per transaction; what becomes of it is in `messages`. */
  inbound: {
    /** `inb_…` */
    id: string;
    /** Envelope sender; empty for the null sender. */
    sender: string;
    /** JSON: the recipients that it was accepted for. */
    recipients: string;
    ip: string;
    helo: string;
    /** `TLSv1.3`, … ; null for clear text. */
    tls: string | null;
    /** Of the bytes in raw_chunks. */
    size: number;
    encoding: '7bit' | '8bit' | 'smtputf8';
    /** Header lines of ours that come before those bytes: Received, Received-SPF, Authentication-Results; CRLF ends. */
    trace: string;
    /** JSON: what was found of SPF, DKIM, DMARC and ARC (mail/authenticate). */
    verdicts: string;
    /** JSON: the messages (`msg_…`) that it became; none for a bounce. */
    messages: string;
    created_at: number;
  };
  /** The bytes of an inbound message as they came, in pieces of at most 256 KiB; written while they come in. */
  raw_chunks: {
    inbound: string;
    seq: number;
    bytes: Uint8Array;
    object: ObjectName;
    /** Pieces whose message was never accepted are swept by age. */
    created_at: number;
  };
  /** What we replied about one recipient, or about a whole transaction. */
  inbound_log: {
    /** `inl_…` */
    id: string;
    /** Whose address it was; null where it was nobody's. */
    tenant: string | null;
    domain: string | null;
    ip: string;
    helo: string;
    sender: string;
    /** Empty where it ended before a recipient was named. */
    recipient: string;
    outcome: 'accepted' | 'rejected' | 'deferred';
    /** `550 5.1.1 …` */
    reply: string;
    /** A stable name: `unknown_recipient`, `relay_denied`, `dmarc`, `loop`, … */
    reason: string;
    inbound: string | null;
    created_at: number;
  };
  /** A message that came back to the return path of one of ours, until it was read: taken with 250, and not lost by a crash. */
  bounces: {
    /** `inb_…` */
    inbound: string;
    /** `msg_…`, whose return path it came to. */
    message: string;
    /** How it begins; what a report tells stands there. */
    head: Uint8Array;
    /** How often reading it was begun. */
    tries: number;
    /** When it is to be read, ms; while it is being read, when it is to be read again. */
    due: number;
    created_at: number;
  };
  /** An aggregate report that is taken with 250 and not read yet; its bytes are in raw_chunks. */
  unread_reports: {
    /** `inb_…` */
    inbound: string;
    /** As of bounces. */
    tries: number;
    due: number;
    created_at: number;
  };
  /** An aggregate report that was read, so that it counts once. */
  received_reports: {
    /** SHA-256 of reporter, kind, domain and the id that its sender gave it. */
    hash: string;
    /** Who owned the domain then. */
    tenant: string;
    /** What it is about; of one on several domains the first that is ours. */
    domain: string;
    /** Start of the UTC day that it is about, ms. */
    day: number;
    /** The domain that authenticated it. */
    reporter: string;
    kind: 'dmarc' | 'tls';
    created_at: number;
  };
  /** Mail in the name of a domain as receivers report it (DMARC). */
  dmarc_results: {
    domain: string;
    /** Start of the UTC day, ms. */
    day: number;
    tenant: string;
    /** As of received_reports. */
    reporter: string;
    /** IP address that sent it; empty for all for which there was no room. */
    source: string;
    disposition: 'none' | 'quarantine' | 'reject';
    /** `aligned`: it passed for the domain. `unaligned`: for another one. */
    dkim: 'aligned' | 'unaligned' | 'failed' | 'none';
    spf: 'aligned' | 'unaligned' | 'failed' | 'none';
    /** Empty where there is none. */
    dkim_domain: string;
    spf_domain: string;
    count: number;
  };
  /** Connections of senders to the mail servers of a domain as they report them (TLSRPT). */
  tls_results: {
    domain: string;
    /** Start of the UTC day, ms. */
    day: number;
    tenant: string;
    /** As of received_reports. */
    reporter: string;
    /** `tlsa`, `sts`, `no-policy-found` */
    policy: string;
    /** `success`, or the type of the failure. */
    result: string;
    /** Empty where the report does not say. */
    mx: string;
    count: number;
  };
}

/** The object (`obj_…`) that has the bytes; null: the row itself has them. */
export type ObjectName = string | null;

export type DomainStatus = 'pending' | 'verified' | 'degraded' | 'failed';

/** `webhook`: no mail, but what webhooks are told of an event; it is made from the event at each attempt. */
export type MessageKind =
  | 'notification'
  | 'acknowledgment'
  | 'confirmation'
  | 'transactional'
  | 'forward'
  | 'reply'
  | 'dsn'
  | 'system'
  | 'tls_report'
  | 'webhook';

export type DeliveryState =
  'queued' | 'sending' | 'deferred' | 'delivered' | 'bounced' | 'expired' | 'cancelled' | 'suppressed' | 'captured';

export type TenantRow = Tables['tenants'];
export type AccountDeletionRow = Tables['account_deletions'];
export type ProjectRow = Tables['projects'];
export type SpamLearnedRow = Tables['spam_learned'];
export type RevisionRow = Tables['config_revisions'];
export type DomainRow = Tables['domains'];
export type DkimKeyRow = Tables['dkim_keys'];
export type CertificateRow = Tables['certificates'];
export type AcmeAccountRow = Tables['acme_accounts'];
export type SubmissionRow = Tables['submissions'];
export type FallbackRow = Tables['fallbacks'];
export type FileRow = Tables['submission_files'];
export type FileChunkRow = Tables['file_chunks'];
export type MessageRow = Tables['messages'];
export type DeliveryRow = Tables['deliveries'];
export type AttemptRow = Tables['attempts'];
export type MemberRow = Tables['members'];
export type DestinationRow = Tables['destinations'];
export type SuppressionRow = Tables['suppressions'];
export type EventRow = Tables['events'];
export type IdempotencyRow = Tables['idempotency_keys'];
export type LimitRow = Tables['limits'];
export type ApiKeyRow = Tables['api_keys'];
export type UsageRow = Tables['usage'];
export type EventCountRow = Tables['event_counts'];
export type MessageCountRow = Tables['message_counts'];
export type FormOverflowRow = Tables['form_overflows'];
export type FormRow = Tables['forms'];
export type CollectionRow = Tables['collections'];
export type SessionRow = Tables['sessions'];
export type SignInRequestRow = Tables['sign_in_requests'];
export type TokenRow = Tables['tokens'];
export type ConsentRow = Tables['consents'];
export type MailboxRow = Tables['mailboxes'];
export type WebhookRow = Tables['webhooks'];
export type WebhookPostRow = Tables['webhook_posts'];
export type InboundRow = Tables['inbound'];
export type RawChunkRow = Tables['raw_chunks'];
export type InboundLogRow = Tables['inbound_log'];
export type BounceRow = Tables['bounces'];
export type UnreadReportRow = Tables['unread_reports'];
export type ReceivedReportRow = Tables['received_reports'];
export type DmarcResultRow = Tables['dmarc_results'];
export type TlsResultRow = Tables['tls_results'];
