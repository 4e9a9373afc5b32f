/** A route of the contract with its handler, and what handlers have in common. */
import { z } from 'zod';
import type { Authenticator } from '../../accounts/authenticate.ts';
import type { Principal } from '../../accounts/principal.ts';
import type { PushParts } from '../../accounts/projects.ts';
import type { Limits } from '../../accounts/rate-limits.ts';
import type { Sessions } from '../../accounts/sessions.ts';
import type { AccountRequests } from '../../accounts/plans.ts';
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
import { type Answer, json as jsonAnswer, type Refusal, refuse } from '../answer.ts';
import type { Exchange } from '../context.ts';
import { isRaw, wantedBy, knownKeys } from '../../config/explain.ts';
import { nearest } from '../../config/problem.ts';
import type { FieldError } from '../../forms/fields.ts';

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
  readonly exchange: Exchange;
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
  stored(done: Done): readonly Statement[];
}

/** A request to this route. */
export type CallOf<R extends ContractRoute> = Call<
  z.output<NonNullable<R['query']>>,
  z.output<NonNullable<R['body']>>,
  ParameterOf<R['path']>,
  R extends { readonly permission: infer Needs extends Access } ? ('none' extends Needs ? undefined : Principal) : never
>;

/** A success: what the contract's answer is made of. */
export interface Done<Data = unknown> {
  readonly data: Data;
  readonly headers?: Answer['headers'];
}

/** What a handler answers: a success, a download or a refusal. */
export type Outcome<Data = unknown> = Done<Data> | Answer | Refusal;

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
export type Handlers<Routes extends Readonly<Record<string, ContractRoute>>> = {
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
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- serve.ts parses query and body with these very schemas, and the router gives the path's own parameters
    const handler = handlers[name] as unknown as (call: unknown) => Promise<Outcome>;
    const write = writerOf(route.answer);
    function answerOf({ data, headers }: Done): Answer {
      return jsonAnswer(write(data), 200, headers);
    }
    return {
      ...route,
      async handle({ stored, ...call }) {
        const outcome = await handler({ ...call, stored: (done: Done) => stored(answerOf(done)) });
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
export function json<Data>(data: Data, headers?: Answer['headers']): Done<Data> {
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

const MOST = 50;

/** The refusal of a value that did not pass its schema. */
export function invalid(error: z.ZodError, schema: z.ZodType): Refusal {
  const errors = error.issues.flatMap((issue) => explain(issue, [], schema));
  const [first] = errors;
  const message = errors.length === 1 && first ? sentence(first) : `${errors.length} values are not valid.`;
  return refuse('VALIDATION_FAILED', { message, errors: errors.slice(0, MOST) });
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
  return [{ field: path.map(String).join('.'), code: 'TYPE_TEXT', message: wordsOf(issue) }];
}

function wordsOf(issue: Issue): string {
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
