/**
 * A request to a form's address: which form, whether the page that it comes from may use it, and whether it is served. The
 * addresses are `/{domain}/{form}`, `/v1/{domain}/{form}`, `/v1/{domain}/send` (the body names the form),
 * `/c/{collection}/{form}`, `/f/{id}` and `/submit/{form}`. A first segment with a dot is a domain, so that they never
 * collide with other routes.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { type Audience, type Form, type Domain, domainOfHost, findDomain } from '../../config/snapshot.ts';
import { findCollection, findNamedForm, findOwnForm, parseFormId } from '../../forms/find.ts';
import { parseDomain } from '../../lib/addresses.ts';
import { accountOf, environmentOf, claimId } from '../../lib/ids.ts';
import type { Log } from '../../lib/log.ts';
import type { Store } from '../../store/store.ts';
import { refuse, unavailable, wantsPage, type Refusal } from '../answer.ts';
import {
  faultRefusal,
  hostOf,
  isLocalhost,
  isOwnOrigin,
  originAllowed,
  originOf,
  pageSources,
  validOrigin,
  type RequestContext,
} from '../context.ts';
import type { Domains } from '../../domains/domains.ts';
import { isServed } from '../../accounts/tenants.ts';
import { OPERATOR } from '../../store/tenants.ts';
import type { CheckedRecord } from '../../dns/check.ts';
import type { SubmittedValues } from '../pages/refill.ts';
import type { ServerConfig } from '../../config/schema.ts';
import type { FileStore } from '../../forms/files.ts';
import type { SubmittedBody } from '../../forms/fields.ts';
import {
  collect,
  discardRest,
  expectBody,
  isJson,
  parametersOf,
  parseJsonObject,
  parseUrlencoded,
  refuseBody,
  textOf,
  type Parsed,
} from '../entries.ts';
import { type MultipartLimits, type MultipartOptions, readMultipart } from '../multipart.ts';

export interface FormRequest {
  readonly context: RequestContext;
  readonly path: FormPath;
  /** Where the form is one of a domain's. */
  readonly domain: Domain | undefined;
  /** Undefined where there is none; for `send`, until the body is read. */
  readonly form: Form | undefined;
  /** Why nobody can tell what is there: the configuration or the database is out of order. */
  readonly outage?: Refusal;
}

/** What is known of a post when it is refused: more, the later that happens. */
export interface RequestProgress {
  form: Form | undefined;
  submitted?: SubmittedValues | undefined;
  /** Makes the token with which our own page sends the form again. */
  readonly token?: (form: Form) => string;
  /** What a domain that is not verified has to publish. */
  records?: readonly CheckedRecord[] | undefined;
}

export interface FormRequestParts {
  readonly store: Store;
  readonly log: Log;
  readonly domains: Pick<Domains, 'status' | 'report'>;
}

/** What is at the address. Never rejects. */
export async function findFormRequest(
  context: RequestContext,
  path: FormPath,
  { store, log }: Pick<FormRequestParts, 'store' | 'log'>,
): Promise<FormRequest> {
  const configured = findConfigured(context, path);
  // A request that is one too many is refused, whatever is there.
  if (configured.form !== undefined || (!context.limit.allowed && !context.local)) return configured;
  try {
    const form = await findStored(configured, store);
    return form === undefined ? configured : placed(form, configured);
  } catch (error) {
    return { ...configured, outage: faultRefusal(error, context, log) };
  }
}

function findConfigured(context: RequestContext, path: FormPath): FormRequest {
  if (path.kind === 'domain') {
    const domain = findDomain(context.snapshot, path.domain);
    return { context, path, domain, form: path.key === undefined ? undefined : domain?.forms.get(path.key) };
  }
  if (path.kind === 'named') {
    const page = pageOf(context);
    const domain = page === undefined ? undefined : domainOfHost(context.snapshot, hostOf(page));
    return { context, path, domain, form: domain && findNamedForm(domain, path.name) };
  }
  return { context, path, domain: undefined, form: undefined };
}

async function findStored({ context, path, domain }: FormRequest, store: Store): Promise<Form | undefined> {
  const { snapshot } = context;
  if (path.kind === 'collection') return (await findCollection(snapshot, store, path.collection))?.forms.get(path.key);
  if (path.kind === 'own') return findOwnForm(store, path.id, snapshot.server);
  // A form that the API put on the domain.
  if (path.kind === 'named' || domain === undefined || path.key?.startsWith('frm_') !== true) return undefined;
  const own = await findOwnForm(store, path.key, snapshot.server);
  return own?.audience.domain === domain.name ? own : undefined;
}

/** A form that the API put on a domain is served as long as its account has the domain. */
function placed(form: Form, formRequest: FormRequest): FormRequest {
  const { domain: name } = form.audience;
  if (form.kind !== 'api' || name === undefined) return { ...formRequest, form };
  const { claims, domains } = formRequest.context.snapshot;
  const test = environmentOf(form.tenant) === 'test' ? claims.get(claimId(form.tenant, name)) : undefined;
  const live = domains.get(name);
  const domain = test ?? (live?.project.tenant === accountOf(form.tenant) ? live : undefined);
  return domain === undefined ? formRequest : { ...formRequest, domain, form };
}

/** The refusal where the project that has this address is out of service until its file is corrected. */
export function outageOf({ context: { snapshot }, path, domain, form, outage }: FormRequest): Refusal | undefined {
  if (outage !== undefined || snapshot.unavailable.size === 0) return outage;
  if (domain !== undefined || form !== undefined) return undefined;
  const place = placeOf(path);
  return place !== undefined && snapshot.unavailable.has(place) ? unavailable() : undefined;
}

function placeOf(path: FormPath): string | undefined {
  if (path.kind === 'domain') return parseDomain(path.domain);
  return path.kind === 'collection' ? `c/${path.collection}` : undefined;
}

/** The page that sent the request: its origin, or where there is none its address. */
function pageOf({ request }: RequestContext): string | undefined {
  const { origin, referer } = request.headers;
  const page = origin === undefined || origin === 'null' ? referer : origin;
  return page === undefined ? undefined : originOf(page);
}

/**
 * The `Origin` that the answer is readable for: whichever asks. A refusal that a script cannot read is "Failed to fetch" to
 * its developer, and there is nothing in any answer that a request without a browser would not get.
 */
export function readableFor({ context }: FormRequest): string {
  return validOrigin(context.request.headers.origin);
}

/** Whose pages may use the form, or, where it is not known, may at least read so. */
function audienceOf({ context, path, domain, form }: FormRequest): Audience {
  if (form !== undefined) return form.audience;
  if (domain !== undefined) {
    const origins = [...domain.forms.values()].flatMap(({ config }) => config.allowed_origins);
    return { domain: domain.name, origins, anyone: false, localhost: false };
  }
  if (path.kind !== 'domain') return { domain: undefined, origins: [], anyone: true, localhost: false };
  const name = context.snapshot.unavailable.size === 0 ? undefined : parseDomain(path.domain);
  const broken = name !== undefined && context.snapshot.unavailable.has(name);
  return { domain: broken ? name : undefined, origins: [], anyone: false, localhost: false };
}

/** Refuses a post from a foreign page. */
export function refuseOrigin(context: RequestContext, { id, audience }: Form): Refusal | undefined {
  const page = shownPage(context);
  if (page === undefined) return undefined;
  const { domain } = audience;
  const asking = originOf(page);
  if (audience.anyone || mayUse(asking, context, audience)) return undefined;
  const own = domain === undefined ? '' : ` The form accepts submissions from pages on ${domain} and its subdomains.`;
  const allow =
    asking !== undefined && isLocalhost(asking)
      ? FOR_DEVELOPMENT
      : "To allow them, add the origin to the form's allowed_origins.";
  const message = `Pages on ${(asking ?? page).slice(0, 300)} may not use the form ${id}.${own} ${allow}`;
  return refuse('ORIGIN_NOT_ALLOWED', { message });
}

const FOR_DEVELOPMENT =
  "To develop on your own computer, set allow_localhost: true for the form, send an API key of the environment test, or list the origin in the form's allowed_origins.";

/**
 * Refuses at level `strict` a post that shows no page, neither by its headers nor by the browser's word. A token of the page
 * in its body shows one as well, which is for the caller to know.
 */
export function refuseHiddenPage(context: RequestContext, { id, audience, config }: Form): Refusal | undefined {
  if (config.spam_protection.level !== 'strict' || shownPage(context) !== undefined) return undefined;
  const isNull = context.request.headers.origin === 'null';
  if ((audience.localhost && isNull) || isFromPage(context)) return undefined;
  return refuse('ORIGIN_NOT_ALLOWED', {
    message: `The request does not show which page it comes from (${isNull ? 'Origin: null' : 'no Origin, Referer or Sec-Fetch-Site header'}), and the spam protection of the form ${id} is strict. ${FOR_DEVELOPMENT} Programs must send an API key; other pages must be in the form’s allowed_origins.`,
  });
}

function shownPage({ request: { headers } }: RequestContext): string | undefined {
  const { origin = headers.referer } = headers;
  return origin === 'null' || origin === '' ? undefined : origin;
}

/**
 * Whether a browser says that a page sent the request, though not which: its Referrer-Policy is `no-referrer` or
 * `same-origin`, and then a form is sent with `Origin: null` (Fetch, "append a request Origin header"). Of scripts that is
 * said for pages of this site alone: elsewhere they show their origin, unless they have none.
 */
function isFromPage({ request }: RequestContext): boolean {
  const { 'sec-fetch-site': site, 'sec-fetch-mode': mode } = request.headers;
  if (site === 'same-origin' || site === 'same-site') return true;
  return site === 'cross-site' && mode === 'navigate';
}

/** Whether a page of this origin may use a form of this audience. */
export function mayUse(origin: string | undefined, { snapshot, request }: RequestContext, audience: Audience): boolean {
  if (origin === undefined) return false;
  return originAllowed(origin, audience) || isOwnOrigin(origin, snapshot.server.server, request.headers.host);
}

/** CSP sources of the pages that may frame ours. */
export function framers(formRequest: FormRequest): string[] {
  const sources = pageSources(audienceOf(formRequest));
  return sources.length === 0 ? [] : ["'self'", ...sources];
}

/** CSP sources that our page's form may be sent to: here, and where the answer may redirect (browsers ask for those too). */
export function formTargets({ audience, config }: Form): string[] {
  const redirects = [config.redirect, config.error_redirect].flatMap((url) =>
    url === undefined ? [] : (originOf(url) ?? []),
  );
  return [...new Set(["'self'", ...pageSources(audience), ...redirects])];
}

/** What an address says, percent-decoded and otherwise as written. */
export type FormPath =
  /** `key` is undefined for `send`. */
  | { readonly kind: 'domain'; readonly domain: string; readonly key: string | undefined }
  | { readonly kind: 'collection'; readonly collection: string; readonly key: string }
  /** `frm_…`, or what is no id at all. */
  | { readonly kind: 'own'; readonly id: string }
  /** The name of a form of the domain whose page asks. */
  | { readonly kind: 'named'; readonly name: string };

const VERSION = '/v1/';

/** Has a dot and is no domain (RFC 8615). */
const RESERVED = '.well-known';

/** The form's address that a path is, or undefined for every other path. One slash at the end is forgiven. */
export function parseFormPath(path: string): FormPath | undefined {
  const versioned = path.startsWith(VERSION);
  const start = versioned ? VERSION.length : 1;
  const slash = path.indexOf('/', start);
  if (slash === -1) return undefined;
  const end = path.endsWith('/') ? path.length - 1 : path.length;
  const first = decode(path.slice(start, slash));
  const rest = decode(path.slice(slash + 1, end));
  if (first === undefined || rest === undefined || rest === '') return undefined;
  if (!first.includes('.')) return versioned ? undefined : withoutDomain(first, rest);
  if (first === RESERVED || first.includes('/') || rest.includes('/')) return undefined;
  return { kind: 'domain', domain: first, key: versioned && rest === 'send' ? undefined : rest };
}

function withoutDomain(first: string, rest: string): FormPath | undefined {
  switch (first) {
    case 'c': {
      const [collection = '', key = '', ...more] = rest.split('/');
      return collection === '' || key === '' || more.length > 0 ? undefined : { kind: 'collection', collection, key };
    }
    // Whoever knows a form's id may use it, whatever kind of form it is: `/f/example.com/contact`.
    case 'f':
      return parseFormId(rest) ?? { kind: 'own', id: rest };
    case 'submit':
      return parseFormId(rest) ?? { kind: 'named', name: rest };
    default:
      return undefined;
  }
}

function decode(segment: string): string | undefined {
  if (!segment.includes('%')) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}

/** Why nothing is served at the address, or nothing; `progress` then knows what a domain that is not verified has to publish. */
export async function refuseUnserved(
  formRequest: FormRequest,
  { domains, store }: Pick<FormRequestParts, 'domains' | 'store'>,
  progress: RequestProgress,
): Promise<Refusal | undefined> {
  const { domain, form, path } = formRequest;
  const outage = outageOf(formRequest);
  if (outage !== undefined) return outage;
  if (domain === undefined && path.kind === 'domain') return refuse('DOMAIN_NOT_FOUND');
  const tenant = domain?.project.tenant ?? form?.tenant;
  // The operator's own is always served; asking would cost each of its forms a turn.
  if (tenant !== undefined && tenant !== OPERATOR && !(await isServed(store, tenant))) return refuse('INACTIVE');
  // A domain that only a test key added needs no records: its mail does not leave.
  if (domain === undefined || environmentOf(domain.project.tenant) === 'test') return undefined;
  const status = domains.status(domain.name);
  if (status !== undefined && status !== 'pending') return undefined;
  progress.records = (await domains.report(domain.name))?.records ?? [];
  return refuse('DOMAIN_NOT_VERIFIED', { members: { domain: domain.name, records: progress.records } });
}

// The body of a submission, of whichever type, within the limits; nothing of it is interpreted yet.

export interface ReadBody {
  readonly body: SubmittedBody;
  /** What can be given back to the visitor: the fields, and the names of files. */
  readonly submitted: SubmittedValues;
  /** Why it is not taken; `body` holds what was read until then. */
  readonly refusal?: Refusal | undefined;
  /** What the store said of its files. */
  readonly fault?: Error | undefined;
}

/**
 * What a refused post would have said, for a page to give it back: nobody has read its body, and none of it is stored.
 * Rejects with ClientGone.
 */
export async function readRefused(context: RequestContext, files: FileStore): Promise<SubmittedValues> {
  const { limits } = context.snapshot.server;
  const { submitted } = await readBody(context, { limits: { ...limits, uploads: false }, files, hash: false });
  return submitted;
}

/**
 * Bodies without files are parsed at once, not in slices, so that they must be smaller: two million bytes take less than
 * 50 ms, whatever they hold. Where the configuration allows longer fields, four of the longest fit.
 */
const TEXT_BODY = 2 * 1024 * 1024;
const FIELDS_IN_TEXT = 4;

/** The limits for a form's bodies: the server's, and whether it takes files. */
export function limitsFor({ limits }: ServerConfig, form: Form | undefined): MultipartLimits {
  return { ...limits, uploads: form === undefined || form.config.uploads?.enabled === true };
}

/** Reads the body. Rejects with ClientGone, or a fault of ours. */
export async function readBody(context: RequestContext, options: MultipartOptions): Promise<ReadBody> {
  const read = await readByType(context, options);
  if (read.refusal !== undefined && !context.request.complete) discardRest(context.request);
  return read;
}

async function readByType({ request, response }: RequestContext, options: MultipartOptions): Promise<ReadBody> {
  const { 'content-type': type, 'content-length': length = '0', 'transfer-encoding': coding } = request.headers;
  const { limits } = options;
  const isMultipart = type !== undefined && /^multipart\/form-data\s*;/i.test(type);
  // Where a page gives back what was typed, fields that come before a file which is too big are read all the same.
  const early = refuseBody(request, isMultipart && takesHtml(request.headers) ? Infinity : limits.body);
  if (early !== undefined) return refused(early);
  if (type === undefined) return Number(length) === 0 && coding === undefined ? NOTHING : unsupported();
  const json = isJson(type);
  if (!json && !/^application\/x-www-form-urlencoded\s*(?:;|$)/i.test(type)) {
    if (!isMultipart) return unsupported();
    expectBody({ request, response });
    const { entries, files, chosen, refusal, fault } = await readMultipart(request, options);
    return { body: { entries, files }, submitted: { entries, files: chosen }, refusal, fault };
  }
  const most = Math.min(limits.body, Math.max(TEXT_BODY, limits.field * FIELDS_IN_TEXT));
  const bytes = await collect({ request, response }, most);
  if ('kind' in bytes) return refused(bytes);
  const charset = parametersOf(type).get('charset');
  const { entries, refusal } = json ? parseJson(bytes, charset, limits) : parseUrlencoded(bytes, charset, limits);
  const body = { entries, files: [] };
  return { body, submitted: body, refusal };
}

function parseJson(bytes: Buffer, charset: string | undefined, limits: MultipartLimits): Parsed {
  const text = textOf(bytes, charset);
  return typeof text === 'string' ? parseJsonObject(text, limits) : { entries: [], refusal: text };
}

const NOTHING: ReadBody = { body: { entries: [], files: [] }, submitted: { entries: [], files: [] } };
const TYPES = 'application/x-www-form-urlencoded, multipart/form-data';

function refused(refusal: Refusal): ReadBody {
  return { ...NOTHING, refusal };
}

function unsupported(): ReadBody {
  const headers = { Accept: `${TYPES}, application/json` };
  return refused(refuse('UNSUPPORTED_MEDIA_TYPE', { message: `Send ${TYPES} or application/json.`, headers }));
}

/**
 * - `navigation`: a browser that says so (Fetch Metadata). It gets pages; success is a redirect, so that a reload sends nothing.
 * - `visit`: a script that navigates for the browser: Turbo, Unpoly, boosted links of htmx. It gets the same.
 * - `browser`: may be one that says nothing. It gets pages, with a status that tells success.
 * - `htmx`: gets a fragment for the page on which it runs.
 * - `program`: gets JSON.
 */
export type Client = 'navigation' | 'visit' | 'browser' | 'htmx' | 'program';

/** Who asks, by the headers of the request. */
export function clientOf(headers: IncomingHttpHeaders): Client {
  if (headers['sec-fetch-mode'] === 'navigate') return 'navigation';
  if (headers['hx-request'] === 'true') return headers['hx-boosted'] === 'true' ? 'visit' : 'htmx';
  if (headers['x-up-version'] !== undefined || headers.accept?.includes('text/vnd.turbo-stream.html') === true) {
    return 'visit';
  }
  return wantsPage(headers, isJson(headers['content-type'])) ? 'browser' : 'program';
}

/** Whether it is answered in HTML. */
export function takesHtml(headers: IncomingHttpHeaders): boolean {
  return clientOf(headers) !== 'program';
}
