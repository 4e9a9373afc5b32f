/**
 * What a route of the API is: its address, who may call it, what it takes, what it answers and how it can fail. The
 * server mounts its handlers by these values, the OpenAPI document and the reference are written from them, and clients
 * read answers with them.
 */
import type { z } from 'zod';
import type { Permission } from '../lib/permission-names.ts';
import type { ErrorCode } from './errors.ts';

/** `any`: every valid key. `none`: no key; one that is sent is ignored. */
export type Access = Permission | 'any' | 'none';

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

export interface Route<
  Path extends string = string,
  Query extends z.ZodType = z.ZodType,
  Body extends z.ZodType = z.ZodType,
  Answer extends z.ZodType = z.ZodType,
  Needs extends Access = Access,
> {
  readonly method: Method;
  /** Without prefix: `/projects/:slug`. */
  readonly path: Path;
  readonly permission: Needs;
  /**
   * What a key's `domain_restrictions` do. `narrow`: the route shows and changes what belongs to those domains. `refuse`:
   * the route belongs to no domain, so that such a key is refused. `free`: it is about the key itself.
   */
  readonly domains: 'narrow' | 'refuse' | 'free';
  /** Shows live objects to a test key, too. Otherwise a test key sees only what test keys made (`AUTH_TEST_KEY`). */
  readonly readsLive?: boolean;
  /** Heading in the reference: `Projects`. */
  readonly tag: string;
  /** One line: `Lists the projects of the account.` */
  readonly summary: string;
  /** Details in Markdown, where the summary is not enough. */
  readonly description?: string;
  readonly query?: Query;
  readonly body?: Body;
  /** Largest body in bytes, or the server's `limits.body`; 1 MiB by default. */
  readonly maxBody?: number | 'limits.body';
  /** The answer of a success (status 200). */
  readonly answer: Answer;
  /** Another media type that the answer may have, such as `text/csv`. */
  readonly alsoAnswers?: string;
  /** Takes `Idempotency-Key`. */
  readonly idempotent?: boolean;
  /** Answers errors in Resend's shape as well. */
  readonly resend?: boolean;
  /** Errors beside those that every route of its kind can answer (`errorCodesOf`). */
  readonly errors?: readonly ErrorCode[];
}

/** The names behind colons (or, for the rest of a path, behind an asterisk) in a path. */
export type ParameterOf<Path extends string> = Path extends `${infer First}/${infer Rest}`
  ? ParameterOf<First> | ParameterOf<Rest>
  : Path extends `:${infer Name}` | `*${infer Name}`
    ? Name
    : never;

/** What a client gets. */
export type AnswerOf<R extends Route> = z.output<R['answer']>;

/** The route at `GET /projects/:slug`, with the exact types of its path and schemas. */
export function route<
  const Path extends string,
  Answer extends z.ZodType,
  const Needs extends Access,
  Query extends z.ZodType = z.ZodUndefined,
  Body extends z.ZodType = z.ZodUndefined,
>(
  address: `${Method} ${Path}`,
  spec: Omit<Route<Path, Query, Body, Answer, Needs>, 'method' | 'path'>,
): Route<Path, Query, Body, Answer, Needs> {
  const [method, path] = address.split(' ');
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the parts of the address are of these types
  return { ...spec, method: method as Method, path: path as Path };
}

/** The path of a route with these values in the place of its parameters. */
export function pathOf<Path extends string>(
  { path }: { readonly path: Path },
  parameters: Readonly<Record<ParameterOf<Path>, string>>,
): string {
  const values = new Map(Object.entries<string>(parameters));
  return path.replaceAll(/[:*](\w+)/g, (_, name: string) => encodeURIComponent(values.get(name) ?? ''));
}

/** The parameters of a path, in their order. */
export function parametersOf(path: string): string[] {
  return [...path.matchAll(/[:*](\w+)/g)].map(([, name = '']) => name);
}

/** `AUTH_FORBIDDEN`: the account is not confirmed yet, or the key has no permission for it. */
export const ANY_KEY: readonly ErrorCode[] = [
  'AUTH_AMBIGUOUS',
  'AUTH_MISSING_KEY',
  'AUTH_INVALID_KEY',
  'AUTH_EXPIRED_KEY',
  'AUTH_REVOKED_KEY',
  'AUTH_FORBIDDEN',
  'AUTH_IP_NOT_ALLOWED',
];
const ANY_BODY: readonly ErrorCode[] = [
  'VALIDATION_FAILED',
  'BODY_MALFORMED',
  'BODY_TOO_LARGE',
  'UNSUPPORTED_MEDIA_TYPE',
  'REQUEST_TIMEOUT',
];

/** Every code that the route can answer. */
export function errorCodesOf(route: Route): ErrorCode[] {
  const { method, path, permission, domains, query, body, idempotent = false, errors = [] } = route;
  const withKey = permission !== 'none';
  const isNamed = withKey && permission !== 'any';
  return [
    ...new Set<ErrorCode>([
      ...(withKey ? ANY_KEY : []),
      ...(isNamed ? (['AUTH_TEST_KEY'] as const) : []),
      ...(isNamed && domains !== 'free' ? (['AUTH_DOMAIN_NOT_ALLOWED'] as const) : []),
      ...(query === undefined ? [] : (['VALIDATION_FAILED', 'BODY_MALFORMED'] as const)),
      ...(body === undefined ? [] : ANY_BODY),
      ...(/[:*]/.test(path) ? (['NOT_FOUND'] as const) : []),
      ...(idempotent ? (['IDEMPOTENCY_CONFLICT'] as const) : []),
      ...errors,
      'RATE_LIMITED',
      'INTERNAL',
      ...(method === 'GET' ? [] : (['OUTCOME_UNKNOWN'] as const)),
      'UNAVAILABLE',
    ]),
  ];
}
