/** A route of the contract with its handler, what handlers have in common, and the way of a request through the checks to its answer. */
import { hash } from 'node:crypto';
import { z } from 'zod';
import type { Authenticator } from '../../accounts/authenticate.ts';
import type { Idempotency } from '../../accounts/idempotency.ts';
import type { AccountRequests } from '../../accounts/plans.ts';
import { accountIdOf, decide, type Principal } from '../../accounts/principal.ts';
import type { PushParts } from '../../accounts/projects.ts';
import type { Limits } from '../../accounts/rate-limits.ts';
import type { Sessions } from '../../accounts/sessions.ts';
import { isRaw, knownKeys, wantedBy } from '../../config/explain.ts';
import { nearest } from '../../config/problem.ts';
import type { Snapshot } from '../../config/snapshot.ts';
import type { ConfigSource, Reload } from '../../config/source.ts';
import type { analytics } from '../../contract/analytics.ts';
import type { ErrorCode } from '../../contract/errors.ts';
import type { mailLog } from '../../contract/queue.ts';
import type { Access, ParameterOf, Route as ContractRoute } from '../../contract/route.ts';
import type { doctor, status } from '../../contract/server.ts';
import type { Domains } from '../../domains/domains.ts';
import type { ReceivedReports } from '../../domains/received-reports.ts';
import type { HostKeys } from '../../domains/rotation.ts';
import type { EventCounts } from '../../events/counts.ts';
import type { EventStreams } from '../../events/streams.ts';
import type { Webhooks } from '../../events/webhooks.ts';
import type { Accepted, Admitted } from '../../forms/accept.ts';
import type { FieldError } from '../../forms/fields.ts';
import type { ReleaseParts } from '../../forms/release.ts';
import type { SpamFilter } from '../../forms/spam/filter.ts';
import { isoTime } from '../../lib/clock.ts';
import type { Log, LogLines } from '../../lib/log.ts';
import type { WaitingMail } from '../../queue/waiting.ts';
import type { ReportSpan } from '../../store/aggregate-reports.ts';
import type { Backups } from '../../store/backup.ts';
import type { FreeSpace } from '../../store/sqlite.ts';
import type { Statement } from '../../store/statement.ts';
import type { TransactionalParts } from '../../transactional/send.ts';
import {
  json,
  lacksPermission,
  refuse,
  refusedA,
  shapeA,
  statusOf,
  unavailable,
  wordsOf,
  type Answer,
  type Refusal,
} from '../answer.ts';
import { answerOnce, principalOf, refuseMissingKey, refuseOver, type RequestContext, type Stored } from '../context.ts';
import {
  collect,
  discardRest,
  isJson,
  malformed,
  parametersOf,
  parseJsonValue,
  refuseBody,
  textOf,
} from '../entries.ts';
import { sessionPrincipal, VIEW_PARAMETERS } from '../session-cookie.ts';

/** What the handlers use. */
export interface Services extends PushParts, ReleaseParts, TransactionalParts {
  readonly log: Log;
  readonly limits: Pick<Limits, 'take' | 'takeAll' | 'peek'>;
  readonly sessions: Sessions;
  readonly requests: Pick<AccountRequests, 'take' | 'count' | 'left' | 'flush'>;
  readonly counts: EventCounts;
  /** Today, as this principal may see it; the day began at `from`, ms. */
  readonly overview: { show(principal: Principal, from: number): Promise<DataOf<typeof analytics.overview>> };
  readonly streams: Pick<EventStreams, 'open'>;
  /** Asked again while a request lasts. */
  readonly authenticator: Authenticator;
  readonly domains: Pick<Domains, 'report' | 'check' | 'rotateKeys' | 'move'>;
  /** What other mail systems reported of a domain. */
  readonly reportsOn: (span: ReportSpan) => Promise<ReceivedReports>;
  readonly hostKeys: Pick<HostKeys, 'rotate' | 'check'>;
  readonly freeSpace: FreeSpace;
  /** Stores a submission, with the mail that it causes. */
  readonly accept: (submission: Admitted) => Promise<Accepted>;
  readonly spamFilter: SpamFilter;
  readonly webhooks: Pick<Webhooks, 'test' | 'objection' | 'enable' | 'replayEvent' | 'replaySince'>;
  readonly backups: Backups;
  /** Of this program. */
  readonly version: string;
  /** The path of server.yml. */
  readonly serverFile: string;
  readonly doctor: (inquiry: {
    dnsbl: readonly string[];
    port25: string | undefined;
  }) => Promise<DataOf<typeof doctor.check>>;
  /** The active settings of server.yml, without secrets. */
  readonly settings: ConfigSource['settings'];
  /** The last hour of the log. */
  readonly logLines: Pick<LogLines, 'find' | 'since'>;
  /** How much waits for each destination. */
  readonly waiting: WaitingMail;
  /** Checks the configuration files as they are on disk. */
  readonly checkConfig: ConfigSource['check'];
  /** What the server does now. */
  readonly status: () => Promise<DataOf<typeof status.show>>;
  /** Reads the configuration again. */
  readonly reload: () => Promise<Reload>;
  readonly snapshot: () => Snapshot;
  /** Undefined where nothing is known of the id. `tenant`: who looks, where that is not the operator. */
  readonly trace: (id: string, tenant?: string) => Promise<DataOf<typeof mailLog.trace> | undefined>;
  /** Undefined for what is neither an address nor a form; with the account that asks, for what is not at its domains. */
  readonly explain: (what: string, tenant?: string) => Promise<DataOf<typeof mailLog.explain> | undefined>;
}

/** A request that may be done: authenticated, within its limits, its query and body as the contract says. */
export interface Call<
  Query = unknown,
  Body = unknown,
  Name extends string = string,
  Client extends Principal | undefined = Principal,
> {
  readonly context: RequestContext;
  /** The client; undefined where the route needs no key. */
  readonly principal: Client;
  /** The parameters of the path, percent-decoded. */
  readonly params: Readonly<Record<Name, string>>;
  readonly query: Query;
  readonly body: Body;
  /**
   * For the unit that does the work: stores its answer under the request's Idempotency-Key, so that both are committed or
   * neither. Empty without such a key. The unit fails with UnmetError if another request took over the key.
   */
  stored(done: Success): readonly Statement[];
}

/** A request to this route. */
export type CallOf<R extends ContractRoute> = Call<
  z.output<NonNullable<R['query']>>,
  z.output<NonNullable<R['body']>>,
  ParameterOf<R['path']>,
  R extends { readonly permission: infer Needs extends Access } ? ('none' extends Needs ? undefined : Principal) : never
>;

/** A success: what the contract's answer is made of. */
export interface Success<Data = unknown> {
  readonly data: Data;
  readonly headers?: Answer['headers'];
}

/** What a handler answers: a success, a download or a refusal. */
export type Outcome<Data = unknown> = Success<Data> | Answer | Refusal;

/**
 * What the answer of a schema is made of: rows as they are. A time may be milliseconds, a flag may be 0 or 1, what is not there is
 * null, and members that the schema does not name are left out.
 */
export type Source<Schema> = Schema extends z.ZodISODateTime
  ? number | string
  : Schema extends z.ZodBoolean
    ? boolean | number
    : Schema extends z.ZodNullable<infer Inner>
      ? Source<Inner> | null | undefined
      : Schema extends z.ZodOptional<infer Inner>
        ? Source<Inner> | undefined
        : Schema extends z.ZodArray<infer Element>
          ? readonly Source<Element>[]
          : Schema extends z.ZodObject<infer Shape>
            ? Members<Shape>
            : Schema extends z.ZodType
              ? Readable<z.input<Schema>>
              : never;

type Readable<T> = unknown extends T
  ? T
  : T extends string | number | boolean | null | undefined
    ? T
    : { readonly [Key in keyof T]: Readable<T[Key]> };

type Members<Shape> = {
  readonly [Name in keyof Shape as Shape[Name] extends z.ZodOptional ? never : Name]: Source<Shape[Name]>;
} & {
  readonly [Name in keyof Shape as Shape[Name] extends z.ZodOptional ? Name : never]?: Source<Shape[Name]>;
};

/** What the answer of this route is made of. */
export type DataOf<R extends ContractRoute> = Source<R['answer']>;

/** A handler for each of these routes. */
type Handlers<Routes extends Readonly<Record<string, ContractRoute>>> = {
  readonly [Name in keyof Routes]: (
    call: CallOf<Routes[Name]>,
  ) => Outcome<DataOf<Routes[Name]>> | Promise<Outcome<DataOf<Routes[Name]>>>;
};

export interface Route extends ContractRoute {
  readonly handle: (
    call: Omit<Call<unknown, unknown, string, Principal | undefined>, 'stored'> & {
      stored(answer: Answer): readonly Statement[];
    },
  ) => Promise<Answer | Refusal>;
}

/** The routes with their handlers, which get what the schemas of the routes let through. */
export function implement<Routes extends Readonly<Record<string, ContractRoute>>>(
  routes: Routes,
  handlers: Handlers<Routes>,
): Route[] {
  return Object.entries(routes).map(([name, route]) => {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- `createServe` parses query and body with these very schemas, and the router gives the path's own parameters
    const handler = handlers[name] as unknown as (call: unknown) => Promise<Outcome>;
    // Made at the first answer: a start waits for no writer that nobody asks for.
    let write: Writer | undefined;
    function answerOf({ data, headers }: Success): Answer {
      write ??= writerOf(route.answer);
      return json(write(data), 200, headers);
    }
    return {
      ...route,
      async handle({ stored, ...call }) {
        const outcome = await handler({ ...call, stored: (done: Success) => stored(answerOf(done)) });
        return 'data' in outcome ? answerOf(outcome) : outcome;
      },
    };
  });
}

type Writer = (value: unknown) => unknown;

/** Makes answers as the schema describes them. To look at the schema for each answer would take a sixth of a small request (bench row 13). */
export function writerOf(schema: unknown): Writer {
  if (schema instanceof z.ZodNullable) {
    const write = writerOf(schema.unwrap());
    return (value) => (value === undefined || value === null ? null : write(value));
  }
  if (schema instanceof z.ZodOptional) {
    const write = writerOf(schema.unwrap());
    return (value) => (value === undefined ? undefined : write(value));
  }
  if (schema instanceof z.ZodISODateTime) return (value) => (typeof value === 'number' ? isoTime(value) : value);
  if (schema instanceof z.ZodBoolean) return Boolean;
  if (schema instanceof z.ZodArray) {
    const write = writerOf(schema.element);
    return (value) => (Array.isArray(value) ? value.map((one) => write(one)) : value);
  }
  return schema instanceof z.ZodObject ? objectWriter(schema) : (value) => value;
}

function objectWriter({ shape }: z.ZodObject): Writer {
  const members = Object.entries(shape).map(([name, member]) => [name, writerOf(member)] as const);
  return (value) => {
    if (typeof value !== 'object' || value === null) return value;
    const given: Record<string, unknown> = { ...value };
    const answer: Record<string, unknown> = {};
    for (const [name, write] of members) answer[name] = write(Object.hasOwn(given, name) ? given[name] : undefined);
    return answer;
  };
}

/** A success. */
export function success<Data>(data: Data, headers?: Answer['headers']): Success<Data> {
  return { data, headers };
}

/** The refusal of a thing that the account does not have: `There is no project my-site.` */
export function notFound(what: string, id: string, code: ErrorCode = 'NOT_FOUND'): Refusal {
  return refuse(code, { message: `There is no ${what} ${id.slice(0, 253)}.` });
}

/** One page of rows that were read with one more than `limit`, and where the next page begins. */
export function pageOf<Row>(
  rows: readonly Row[],
  limit: number,
  cursorOf: (row: Row) => string,
): { readonly page: readonly Row[]; readonly next_cursor: string | null } {
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  return { page, next_cursor: rows.length > limit && last !== undefined ? cursorOf(last) : null };
}

// What a schema says against a query or a body, as the details of a refusal.

type Issue = z.core.$ZodIssue;

const MAX_ERRORS = 50;

/** The refusal of a value that did not pass its schema. */
export function invalid(error: z.ZodError, schema: z.ZodType): Refusal {
  const errors = error.issues.flatMap((issue) => explain(issue, [], schema));
  const [first] = errors;
  const message = errors.length === 1 && first ? sentence(first) : `${errors.length} values are not valid.`;
  return refuse('VALIDATION_FAILED', { message, errors: errors.slice(0, MAX_ERRORS) });
}

/** The refusal of one value, for what no schema can know. */
export function invalidAt(path: string, message: string): Refusal {
  const error = { field: path, code: 'TYPE_TEXT', message };
  return refuse('VALIDATION_FAILED', { message: sentence(error), errors: [error] });
}

/** A value of a request, and what is wrong with it, in English. */
interface Fault extends FieldError {
  readonly message: string;
}

function sentence({ field, message }: Fault): string {
  return `${field === undefined || field === '' ? 'The body' : field} ${message}.`;
}

function explain(issue: Issue, base: readonly PropertyKey[], schema: z.ZodType): Fault[] {
  const path = [...base, ...issue.path];
  if (issue.code === 'unrecognized_keys') return issue.keys.map((key) => unknownKey(key, path, schema));
  if (issue.code === 'invalid_union') {
    const inner = issue.errors.find((branch) => branch.some((nested) => nested.path.length > 0));
    if (inner !== undefined) return inner.flatMap((nested) => explain(nested, path, schema));
  }
  return [{ field: path.map(String).join('.'), code: 'TYPE_TEXT', message: issueText(issue) }];
}

function issueText(issue: Issue): string {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined ? 'is missing' : `must be ${wantedBy(issue)}`;
    case 'invalid_value':
      return `must be ${wantedBy(issue)}`;
    default:
      // Schemas of project files say what they expected.
      return isRaw(issue) ? `must be ${wantedBy(issue)}` : issue.message.replace(/^expected /, 'must be ');
  }
}

function unknownKey(key: string, path: readonly PropertyKey[], schema: z.ZodType): Fault {
  const known = knownKeys(
    schema,
    path.map((step) => (typeof step === 'symbol' ? String(step) : step)),
  );
  const meant = nearest(key, known);
  const words = meant === undefined ? `; known here: ${known.join(', ')}` : `; did you mean ${meant}?`;
  return { field: [...path, key].map(String).join('.'), code: 'TYPE_TEXT', message: `is not known${words}` };
}

// A request to the API, from its route to its answer. The order of the checks is part of the contract: who asks, what it
// may, how often, whether it was answered before, and only then what it says.

export interface ServeParts extends Pick<Services, 'requests'> {
  readonly idempotency: Idempotency;
  readonly log: Log;
  readonly authenticator: Authenticator;
  readonly sessions: Sessions;
}

const DEFAULT_MAX_BODY_BYTES = 1024 * 1024;

/** The function that serves all these routes of the API. Rejects with StoreError, ClientGone or a fault of ours. */
export function createServe(parts: ServeParts, routes: readonly Route[]) {
  const { authenticator, requests } = parts;
  const bodyMemory = new BodyMemory();

  return async (route: Route, context: RequestContext, params: Readonly<Record<string, string>>): Promise<Answer> => {
    // Whoever shows a key is its holder, whatever cookie comes with it.
    const principal =
      route.permission === 'none'
        ? undefined
        : ((await principalOf(context, authenticator)) ?? (await sessionPrincipal(context, parts)));
    if (principal !== undefined && 'kind' in principal) return refusedApi(route, principal, context);
    const denied = deny(route, principal, context);
    const outcome = await (denied ??
      attempt({ route, context, params, principal }).catch((error: unknown) => {
        if (principal !== undefined) requests.count(principal, 500);
        throw error;
      }));
    const answer = 'kind' in outcome ? refusedApi(route, outcome, context) : outcome;
    if (principal !== undefined) requests.count(principal, answer.status);
    return answer;
  };

  async function attempt(request: ApiRequest): Promise<Answer | Refusal> {
    const { context, principal } = request;
    const over = refuseOver(principal && (await requests.take(principal)), context);
    if (over !== undefined) return over;
    const leave = bodyMemory.enter(principal?.tenant.id ?? '', sizeOf(request));
    if (leave === undefined) return unavailable('Too many large requests are in progress.');
    try {
      return await begin(request);
    } finally {
      leave();
    }
  }

  async function begin(request: ApiRequest): Promise<Answer | Refusal> {
    const { route, context, principal } = request;
    const text = route.body === undefined ? '' : await readText(context, route);
    if (typeof text === 'object') return text;
    if (route.idempotent !== true || principal === undefined) return settle(request, text, () => []);
    const scope = `api:${principal.key?.id ?? principal.tenant.id}:${route.method} ${route.path}`;
    return answerOnce(parts, { context, scope, hash: () => hash('sha256', text) }, async (stored) => {
      const outcome = await settle(request, text, stored);
      return 'kind' in outcome ? refusedApi(route, outcome, context) : outcome;
    });
  }

  async function settle(request: ApiRequest, text: string, stored: Stored): Promise<Answer | Refusal> {
    const { route, context, params, principal } = request;
    if (holdsNul(params)) return refuse('NOT_FOUND');
    const query = route.query === undefined ? { ok: undefined } : parseQuery(route.query, context, principal);
    if ('kind' in query) return query;
    const body = route.body === undefined ? { ok: undefined } : parseBody(route.body, text);
    if ('kind' in body) return body;
    const call = { context, params, query: query.ok, body: body.ok, stored };
    const outcome = await route.handle({ ...call, principal });
    if (principal?.environment !== 'test' || !('kind' in outcome) || statusOf(outcome) !== 404) return outcome;
    return (await lookAmongLive(route, { ...call, principal, stored: () => [] })) ?? outcome;
  }

  /** What a test key is told of a thing that its partition has not; undefined where the live account has none either. */
  async function lookAmongLive(
    route: Route,
    { principal, ...call }: Parameters<Route['handle']>[0] & { principal: Principal },
  ): Promise<Answer | Refusal | undefined> {
    const tenant = { ...principal.tenant, id: accountIdOf(principal) };
    if (route.readsLive === true) return route.handle({ ...call, principal: { ...principal, tenant } });
    const look = lookAt(route, routes);
    if (look === undefined) return undefined;
    const query = look === route || look.query === undefined ? { ok: call.query } : parse(look.query, {});
    if ('kind' in query) return undefined;
    const live = { ...principal, tenant, environment: 'live' } as const;
    const found = await look.handle({ ...call, query: query.ok, principal: live });
    return 'kind' in found ? undefined : refuse('AUTH_TEST_KEY');
  }
}

/** The route that shows the thing which this one is about: `GET /submissions/:id` for `POST /submissions/:id/spam`. */
function lookAt({ path }: Route, routes: readonly Route[]): Route | undefined {
  return routes
    .filter((one) => one.method === 'GET' && /[:*]/.test(one.path) && `${path}/`.startsWith(`${one.path}/`))
    .sort((a, b) => b.path.length - a.path.length)[0];
}

function deny(
  { path, permission, domains }: Route,
  principal: Principal | undefined,
  { ip }: RequestContext,
): Refusal | undefined {
  if (permission === 'none') return undefined;
  if (principal === undefined) return refuseMissingKey();
  if (principal.session?.mustSetUpTotp === true && !path.startsWith('/auth/')) {
    return refuse('AUTH_FORBIDDEN', { message: 'This server requires one-time codes. Set them up first.' });
  }
  const denial = decide(principal, { permission, domain: domains === 'refuse' ? 'none' : 'narrowed', ip });
  if (denial !== 'AUTH_FORBIDDEN') return denial && refuse(denial);
  return lacksPermission(permission);
}

interface ApiRequest {
  readonly route: Route;
  readonly context: RequestContext;
  readonly params: Readonly<Record<string, string>>;
  /** Nobody where the route needs no key. */
  readonly principal: Principal | undefined;
}

/** Bytes of the body at most, as far as they are known before it comes. */
function sizeOf({ route, context }: ApiRequest): number {
  if (route.body === undefined) return 0;
  const { 'content-length': length, 'transfer-encoding': coding } = context.request.headers;
  const most = maxBody(route, context);
  return Math.min(most, coding === undefined ? Number(length ?? 0) : most);
}

function maxBody({ maxBody: most = DEFAULT_MAX_BODY_BYTES }: Route, { snapshot }: RequestContext): number {
  return most === 'limits.body' ? snapshot.server.limits.body : most;
}

/** The body as text, or why it cannot be read. */
async function readText(context: RequestContext, route: Route): Promise<string | Refusal> {
  const { request } = context;
  const { 'content-type': type, 'content-length': length, 'transfer-encoding': coding } = request.headers;
  const most = maxBody(route, context);
  const isEmpty = length === '0' || (length === undefined && coding === undefined);
  const refusal =
    refuseBody(request, most) ?? (isJson(type) || (isEmpty && type === undefined) ? undefined : notJson());
  const bytes = refusal ?? (await collect(context, most));
  if (Buffer.isBuffer(bytes)) return textOf(bytes, parametersOf(type ?? '').get('charset'));
  if (!request.complete) discardRest(request);
  return bytes;
}

function notJson(): Refusal {
  return refuse('UNSUPPORTED_MEDIA_TYPE', {
    message: 'Send the body as application/json.',
    headers: { Accept: 'application/json' },
  });
}

/** No body at all counts as `{}`: many routes need nothing. */
function parseBody(schema: z.ZodType, text: string): { readonly ok: unknown } | Refusal {
  if (text.trim() === '') return parse(schema, {});
  const parsed = parseJsonValue(text);
  if ('kind' in parsed) return parsed;
  if (text.includes(String.raw`\u0000`) && holdsNul(parsed.value)) return malformed('Text must not contain U+0000.');
  return parse(schema, parsed.value);
}

/** Whether a text in it holds the one character that not every database can keep. The reader has bounded its depth. */
function holdsNul(value: unknown): boolean {
  if (typeof value === 'string') return value.includes('\0');
  if (typeof value !== 'object' || value === null) return false;
  return Object.entries(value).some(([name, member]) => name.includes('\0') || holdsNul(member));
}

function parse(schema: z.ZodType, value: unknown): { readonly ok: unknown } | Refusal {
  const result = schema.safeParse(value, { reportInput: true });
  return result.success ? { ok: result.data } : invalid(result.error, schema);
}

function parseQuery(
  schema: z.ZodType,
  { query: text }: RequestContext,
  principal: Principal | undefined,
): { readonly ok: unknown } | Refusal {
  const all = queryOf(text);
  const query = principal?.session === undefined ? all : withoutView(all);
  return holdsNul(query) ? malformed('The query must not contain U+0000.') : parse(schema, query);
}

/** What a session is asked for was read before. */
function withoutView(query: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(query).filter(([name]) => !VIEW_PARAMETERS.has(name)));
}

/** Parameters of the query; one that is repeated is a list. */
function queryOf(text: string): Record<string, unknown> {
  const parameters = new URLSearchParams(text);
  return Object.fromEntries(
    [...new Set(parameters.keys())].map((name) => {
      const values = parameters.getAll(name);
      return [name, values.length === 1 ? values[0] : values];
    }),
  );
}

// The answer of a request to the API that is not done.

/** Names of errors as Resend's clients know them. */
const RESEND: Partial<Record<ErrorCode, string>> = {
  AUTH_MISSING_KEY: 'missing_api_key',
  AUTH_INVALID_KEY: 'invalid_api_key',
  AUTH_EXPIRED_KEY: 'invalid_api_key',
  AUTH_REVOKED_KEY: 'invalid_api_key',
  AUTH_FORBIDDEN: 'restricted_api_key',
  AUTH_IP_NOT_ALLOWED: 'restricted_api_key',
  AUTH_DOMAIN_NOT_ALLOWED: 'restricted_api_key',
  PLAN_LIMIT: 'restricted_api_key',
  DOMAIN_NOT_VERIFIED: 'invalid_from_address',
  VALIDATION_FAILED: 'validation_error',
  BODY_MALFORMED: 'validation_error',
  NOT_FOUND: 'not_found',
  TEMPLATE_NOT_FOUND: 'not_found',
  METHOD_NOT_ALLOWED: 'method_not_allowed',
  IDEMPOTENCY_CONFLICT: 'invalid_idempotent_request',
  RATE_LIMITED: 'rate_limit_exceeded',
  INTERNAL: 'internal_server_error',
  OUTCOME_UNKNOWN: 'internal_server_error',
  UNAVAILABLE: 'internal_server_error',
};

/** Shape A; with Resend's members beside it where the route is Resend's. */
function refusedApi({ resend }: Pick<Route, 'resend'>, refusal: Refusal, { id }: Pick<RequestContext, 'id'>): Answer {
  if (resend !== true) return refusedA(refusal, id);
  const status = statusOf(refusal);
  const name = RESEND[refusal.code] ?? 'application_error';
  return json({ statusCode: status, name, message: wordsOf(refusal), ...shapeA(refusal, id) }, status, refusal.headers);
}

// Large bodies are in memory as a whole: so many of them at a time, in all and of one tenant. Small ones do not count.

const LARGE = 1024 * 1024;
const MAX_BYTES_IN_PROGRESS = 128 * LARGE;
const MAX_BYTES_OF_TENANT = MAX_BYTES_IN_PROGRESS / 2;

export class BodyMemory {
  readonly #taken = new Map<string, number>();
  #all = 0;

  /** Takes room for a body; answers how to give it back, or undefined where there is none now. */
  enter(tenant: string, bytes: number): (() => void) | undefined {
    if (bytes <= LARGE) return () => undefined;
    const own = this.#taken.get(tenant) ?? 0;
    if (this.#all + bytes > MAX_BYTES_IN_PROGRESS || own + bytes > MAX_BYTES_OF_TENANT) return undefined;
    this.#move(tenant, bytes);
    return () => this.#move(tenant, -bytes);
  }

  #move(tenant: string, bytes: number): void {
    const own = (this.#taken.get(tenant) ?? 0) + bytes;
    this.#all += bytes;
    if (own === 0) this.#taken.delete(tenant);
    else this.#taken.set(tenant, own);
  }
}
