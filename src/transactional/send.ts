/**
 * Mail that programs ask for. `planAll` checks all that can be wrong with it and renders it, so that whatever is accepted can
 * be sent; what it answers is committed by the caller in one unit, and then nothing of it is lost.
 */
import type { KeyObject } from 'node:crypto';
import { accountIdOf, mayTouch, readableTenants, type Principal } from '../accounts/principal.ts';
import { baseUrlOf } from '../config/schema-server.ts';
import type { Project, Snapshot } from '../config/snapshot.ts';
import type { NewEmail } from '../contract/email.ts';
import { parseAddress, type Mailbox } from '../lib/addresses.ts';
import { isFreeHeader } from '../mail/compose.ts';
import { messageIdOf } from '../mail/header.ts';
import { enqueue, type Enqueued } from '../queue/enqueue.ts';
import { SANDBOX_DOMAIN } from '../queue/sandbox.ts';
import { noteDue } from '../store/destinations.ts';
import { keepAttachments, putContent } from '../store/messages.ts';
import type { Statement } from '../store/statement.ts';
import type { Blob, Store } from '../store/store.ts';
import type { Renderer, RenderPart } from '../templates/render.ts';
import { sentenceOf, type Rendered } from '../templates/template.ts';
import { fault, faultAt, type Fault, type KeptEmail } from './email.ts';
import type { Sender, SenderOf } from './sender.ts';
import { unsubscribeHeaders, unsubscribeToken } from './unsubscribe.ts';

export interface Planned {
  readonly kind: 'planned';
  readonly to: readonly string[];
  /** How many it goes to, each once. */
  readonly recipients: number;
  /** `msg_…` */
  readonly id: string;
  /** The Message-ID header. */
  readonly messageId: string;
  /** Its own rows, and when its destinations are due, as `unitOf` writes them. */
  readonly rows: readonly Statement[];
  readonly dues: Enqueued['dues'];
}

export interface Asker {
  readonly principal: Principal;
  /** What is active. */
  readonly snapshot: Snapshot;
  readonly now: number;
  /** `req_…` */
  readonly request?: string | undefined;
}

export interface TransactionalParts {
  readonly senderOf: SenderOf;
  /** Signs the links to unsubscribe. */
  readonly unsubscribeKey: KeyObject;
  readonly renderer: Renderer;
  /** Where what is attached is kept. */
  readonly store: Store;
}

const FARTHEST = 30 * 86_400_000;
/** Base64 in lines makes 78 bytes of 57. */
const ENCODED = 78 / 57;
/** Headers of a message and of its parts. */
const HEADERS = 16 * 1024;

/**
 * What sending each of these mails would commit, or why it cannot be sent. Nothing has happened yet; what is attached may be
 * kept, and goes by itself unless that is committed.
 */
export async function planAll(
  emails: readonly NewEmail[],
  asker: Asker,
  { senderOf, unsubscribeKey, renderer, store }: TransactionalParts,
): Promise<(Planned | Fault)[]> {
  const { principal, snapshot, now } = asker;
  const checked: (Checked | Fault)[] = [];
  for (const email of emails) checked.push(await check(email, asker, senderOf));
  const good = checked.filter((one): one is Checked => !isFault(one));
  const contents = await contentsOf(good, { renderer, tenant: accountIdOf(principal), now });
  const contentOf = new Map(good.map((one, i) => [one, contents[i]]));
  return Promise.all(checked.map(async (one) => (isFault(one) ? one : planOne(one))));

  async function planOne(one: Checked): Promise<Planned | Fault> {
    const content = contentOf.get(one);
    if (content === undefined) throw new Error('a mail has no content');
    if (isFault(content)) return content;
    const wrong = sizeFault(one.email, content, snapshot);
    if (wrong !== undefined) return wrong;
    const headers = [...Object.entries(one.email.headers), ...linksOf(one.email)];
    const attached = await Promise.all(one.email.attachments.map(({ content: bytes }) => putContent(store, [bytes])));
    return planned({ ...one, content, headers, attached }, asker);
  }

  function linksOf({ to: [recipient], unsubscribe }: NewEmail): [string, string][] {
    if (!unsubscribe || recipient === undefined) return [];
    const token = unsubscribeToken({ tenant: principal.tenant.id, address: recipient.address }, unsubscribeKey);
    return unsubscribeHeaders(token, baseUrlOf(snapshot.server));
  }
}

/** What can be wrong beside what it says. */
async function check(email: NewEmail, asker: Asker, senderOf: SenderOf): Promise<Checked | Fault> {
  const { principal, snapshot, now } = asker;
  const wrong = recipientsFault(email, asker) ?? headersFault(email.headers) ?? sendAtFault(email, now);
  if (wrong !== undefined) return wrong;
  const project = projectOf(email, readableProjects(principal, snapshot));
  if (project !== undefined && 'kind' in project) return project;
  const sender = await senderOf({ from: email.from, project, principal, now });
  return 'kind' in sender ? sender : { email, project, domain: sender.domain, sender };
}

interface Checked extends Wording {
  readonly sender: Sender;
}

function isFault(value: Checked | Content | Fault): value is Fault {
  return 'kind' in value;
}

/** The projects whose templates the key may use; a test key's own go before live ones of the same slug. */
function readableProjects(principal: Principal, { projects }: Snapshot): Project[] {
  const tenants = readableTenants(principal);
  const readable = tenants.flatMap((tenant) => projects.filter((project) => project.tenant === tenant));
  return readable
    .filter(({ slug }, i) => readable.findIndex((other) => other.slug === slug) === i)
    .filter(({ config }) => [undefined, ...Object.keys(config.domains)].some((domain) => mayTouch(principal, domain)));
}

function recipientsFault(email: NewEmail, { principal, snapshot }: Asker): Fault | undefined {
  const lists = { to: email.to, cc: email.cc, bcc: email.bcc };
  const addresses = new Set(Object.values(lists).flatMap((list) => list.map(({ address }) => address)));
  const { recipients: most } = snapshot.server.limits;
  if (addresses.size > most) return faultAt('to', `must be at most ${most} recipients, including cc and bcc`);
  if (principal.environment === 'live') {
    for (const [path, list] of Object.entries(lists)) {
      if (list.some(isSandbox)) return faultAt(path, `has an address at ${SANDBOX_DOMAIN}, which is for test keys`);
    }
  }
  if (!email.unsubscribe) return undefined;
  if (addresses.size > 1) return faultAt('unsubscribe', 'needs a separate email for each recipient');
  const given = Object.keys(email.headers).find((name) => name.toLowerCase().startsWith('list-unsubscribe'));
  return given === undefined ? undefined : faultAt(`headers.${given}`, 'cannot be combined with unsubscribe');
}

/** Whether mail for it plays a part instead of leaving, which is for test keys. */
export function isSandbox({ address }: Mailbox): boolean {
  return parseAddress(address)?.domain === SANDBOX_DOMAIN;
}

function sendAtFault({ send_at: sendAt }: NewEmail, now: number): Fault | undefined {
  return sendAt !== undefined && isTooFar(sendAt, now) ? faultAt('send_at', 'must be within 30 days') : undefined;
}

/** Whether a mail may not wait for so long. */
export function isTooFar(sendAt: number, now: number): boolean {
  return sendAt > now + FARTHEST;
}

/** Before anything is encoded: what the finished mail will hold at least and, but for odd characters, at most. */
function sizeFault({ attachments }: NewEmail, { text, html = '' }: Content, { server }: Snapshot): Fault | undefined {
  const attached = attachments.reduce((sum, { content }) => sum + content.length, 0);
  const size = (attached + Buffer.byteLength(text) + Buffer.byteLength(html)) * ENCODED + HEADERS;
  const { message: largest } = server.limits;
  if (size <= largest) return undefined;
  return fault(
    'BODY_TOO_LARGE',
    `The email would have ${Math.ceil(size)} bytes when encoded; at most ${largest} are allowed.`,
  );
}

interface ToPlan extends Checked, Pick<KeptEmail, 'headers'> {
  readonly content: Content;
  /** Each attachment, chunk by chunk. */
  readonly attached: readonly (readonly Blob[])[];
}

function planned(
  { email, sender, content, headers, attached }: ToPlan,
  { principal, snapshot, now, request }: Asker,
): Planned {
  const { to, cc, bcc, reply_to, attachments, tags, send_at: sendAt } = email;
  const source: KeptEmail = {
    from: sender.from,
    to,
    cc,
    bcc,
    reply_to,
    ...content,
    headers,
    attachments: attachments.map(
      ({ filename = '', content_type = mediaTypeOf(filename), content: { length: size } }) => {
        return { filename, content_type, size };
      },
    ),
    tags,
    ...(sendAt !== undefined && { send_at: sendAt }),
  };
  const { id, recipients, rows, dues } = enqueue(
    {
      tenant: principal.tenant.id,
      kind: 'transactional',
      submission: null,
      domain: sender.domain,
      source,
      subject: source.subject,
      recipients: [...to, ...cc, ...bcc].map(({ address }) => address),
      ttl: snapshot.server.delivery.expire.default,
      environment: principal.environment,
      sendAt: sendAt === undefined ? undefined : Math.max(now, sendAt),
      request,
    },
    now,
  );
  const [message, ...rest] = rows;
  return {
    kind: 'planned',
    to: to.map(({ address }) => address),
    recipients,
    id,
    messageId: messageIdOf({ id, domain: sender.domain }),
    rows: message === undefined ? [] : [message, ...keepAttachments(id, attached), ...rest],
    dues,
  };
}

/** The statements that enqueue all of these, with `more` that belongs to them. Afterwards, wake the queue. */
export function unitOf(plans: readonly Planned[], more: readonly Statement[]): Statement[] {
  const dues = new Map<string, number>();
  for (const { name, due } of plans.flatMap((plan) => plan.dues)) {
    dues.set(name, Math.min(due, dues.get(name) ?? due));
  }
  const names = [...dues].sort(([a], [b]) => (a < b ? -1 : 1));
  return [...plans.flatMap(({ rows }) => rows), ...more, ...names.map(([name, due]) => noteDue({ name, due }))];
}

/** The types of what is usually attached, by the end of its name: a receiver shows what it knows the type of. */
const TYPES: ReadonlyMap<string, string> = new Map([
  ['csv', 'text/csv'],
  ['doc', 'application/msword'],
  ['docx', 'application/vnd.openxmlformats-officedocument.wordprocessingml.document'],
  ['gif', 'image/gif'],
  ['gz', 'application/gzip'],
  ['htm', 'text/html'],
  ['html', 'text/html'],
  ['ics', 'text/calendar'],
  ['jpeg', 'image/jpeg'],
  ['jpg', 'image/jpeg'],
  ['json', 'application/json'],
  ['md', 'text/markdown'],
  ['mp3', 'audio/mpeg'],
  ['mp4', 'video/mp4'],
  ['odt', 'application/vnd.oasis.opendocument.text'],
  ['pdf', 'application/pdf'],
  ['png', 'image/png'],
  ['pptx', 'application/vnd.openxmlformats-officedocument.presentationml.presentation'],
  ['svg', 'image/svg+xml'],
  ['txt', 'text/plain'],
  ['vcf', 'text/vcard'],
  ['webp', 'image/webp'],
  ['xls', 'application/vnd.ms-excel'],
  ['xlsx', 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet'],
  ['xml', 'application/xml'],
  ['zip', 'application/zip'],
]);

function mediaTypeOf(filename: string): string {
  const end = filename.slice(filename.lastIndexOf('.') + 1).toLowerCase();
  return TYPES.get(end) ?? 'application/octet-stream';
}

const MAX_HEADERS = 50;
const MAX_HEADER_LENGTH = 2000;

/** The fault of the first header that cannot be set; undefined where all can. */
function headersFault(headers: Readonly<Record<string, string>>): Fault | undefined {
  const names = Object.keys(headers);
  if (names.length > MAX_HEADERS) return faultAt('headers', `must have at most ${MAX_HEADERS} entries`);
  const seen = new Set<string>();
  for (const [name, value] of Object.entries(headers)) {
    const path = `headers.${name.slice(0, 100)}`;
    if (!isFreeHeader(name)) {
      return faultAt(
        path,
        'cannot be set; X-…, List-…, In-Reply-To, References, Feedback-ID, Precedence and similar headers can',
      );
    }
    if (seen.has(name.toLowerCase())) return faultAt(path, 'is given twice');
    seen.add(name.toLowerCase());
    // oxlint-disable-next-line no-control-regex -- they are what must not be in it
    if (/[\x00-\x08\x0a-\x1f\x7f]/.test(value)) return faultAt(path, 'must be one line');
    if (value.length > MAX_HEADER_LENGTH) return faultAt(path, `must have at most ${MAX_HEADER_LENGTH} characters`);
  }
  return undefined;
}

// What a mail says: a template of one of the tenant's projects with the data that was given, or the words as they came.

interface Content {
  readonly subject: string;
  readonly text: string;
  readonly html?: string | undefined;
}

/** A mail, and the project that it belongs to. */
interface Wording {
  readonly email: NewEmail;
  readonly project: Project | undefined;
  /** The domain that it is sent as. */
  readonly domain: string;
}

/** Renders what belongs to one request within one budget; where a mail cannot be rendered, the fault says why. */
async function contentsOf(
  wordings: readonly Wording[],
  { renderer, tenant, now }: { readonly renderer: Renderer; readonly tenant: string; readonly now: number },
): Promise<(Content | Fault)[]> {
  const plans = wordings.map((wording) => planOf(wording, now));
  const parts = plans.flatMap((plan) => ('part' in plan ? [plan.part] : []));
  const rendered = parts.length === 0 ? [] : await renderer.render(tenant, parts);
  let next = 0;
  return plans.map((plan) => {
    if (!('part' in plan)) return plan;
    const result = rendered[next++];
    if (result === undefined) throw new Error('a part was not rendered');
    if ('ok' in result) return plan.toContent(result.ok);
    const { fault } = result;
    const why = plan.part.kind === 'template' ? sentenceOf(fault) : fault.message;
    return faultAt(plan.path, `cannot be rendered: ${why}`);
  });
}

/** What has to be rendered of a mail, and what it says then; or what it says without. */
type Plan =
  | Content
  | Fault
  | { readonly part: RenderPart; readonly path: string; readonly toContent: (rendered: Rendered) => Content | Fault };

function planOf({ email, project, domain }: Wording, now: number): Plan {
  const { template, subject, text, html, data } = email;
  if (template !== undefined) {
    if (text !== undefined || html !== undefined) return faultAt('template', 'cannot be combined with text or html');
    if (project === undefined) return notFound(template);
    const { revision, config } = project;
    const { templates, settings } = config;
    return {
      path: 'template',
      part: {
        kind: 'template',
        project: { revision, templates, timezone: settings.timezone },
        name: nameOf(template),
        // `ip` as in a form's mail; no visitor caused this.
        variables: { timestamp: now, domain, ip: '', ...data, data },
      },
      toContent: (rendered) => withSubject(subject ?? rendered.subject, { text: rendered.text, html: rendered.html }),
    };
  }
  if (html !== undefined && text === undefined) {
    return {
      path: 'html',
      part: { kind: 'html', html },
      toContent: (rendered) => withSubject(subject, { text: rendered.text, html }),
    };
  }
  if (text !== undefined) return withSubject(subject, html === undefined ? { text } : { text, html });
  return faultAt('template', 'is missing: an email needs a template, text or html');
}

function withSubject(subject: string | undefined, content: Omit<Content, 'subject'>): Content | Fault {
  if (subject === undefined || subject.trim() === '') {
    return faultAt('subject', 'is missing, and no template provides one');
  }
  return { ...content, subject };
}

/**
 * The project of these that a mail belongs to: the one that was named, else the one that has its template, else the only
 * one. `slug/name` names both.
 */
function projectOf(email: NewEmail, own: readonly Project[]): Project | undefined | Fault {
  const { template } = email;
  const slug = email.project ?? slugOf(template ?? '');
  if (slug !== undefined) {
    const named = own.find((project) => project.slug === slug);
    if (named === undefined) return fault('NOT_FOUND', `There is no project ${JSON.stringify(slug)}.`);
    return template === undefined || has(named, nameOf(template)) ? named : notFound(template);
  }
  if (template === undefined) return own.length === 1 ? own[0] : undefined;
  const [first, ...rest] = own.filter((project) => has(project, template));
  if (first === undefined) return notFound(template);
  if (rest.length === 0) return first;
  const spellings = [first, ...rest].map((project) => `${project.slug}/${template}`);
  return faultAt('template', `is in several projects; choose one: ${spellings.join(', ')}`);
}

function has({ config }: Project, name: string): boolean {
  return Object.hasOwn(config.templates, name);
}

/** `slug` of `slug/name`. */
function slugOf(template: string): string | undefined {
  const at = template.indexOf('/');
  return at === -1 ? undefined : template.slice(0, at);
}

function nameOf(template: string): string {
  return template.slice(template.indexOf('/') + 1);
}

function notFound(template: string): Fault {
  return fault(
    'TEMPLATE_NOT_FOUND',
    `There is no template ${JSON.stringify(template)} in the projects of this account.`,
  );
}
