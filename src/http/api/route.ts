/**
 * One route of the authenticated and administrative API as a value: what it is called, who may, what it takes and
 * answers, and what it does. The table is mounted from these, the OpenAPI document is written from them, and the tests walk
 * them, so that none can say anything else than the others.
 */
import type { z } from 'zod';
import type { Permission } from '../../lib/permission-names.ts';
import type { Principal } from '../../accounts/principal.ts';
import type { Statement } from '../../store/statement.ts';
import type { Answer } from '../answer.ts';
import type { Refusal } from '../errors.ts';
import type { Exchange } from '../context.ts';

export type Outcome = Answer | Refusal;

/** A request that may be done: authenticated, within its limits, its query and body as the schemas say. */
export interface Call<
  Query = unknown,
  Body = unknown,
  Name extends string = string,
  Asker extends Principal | undefined = Principal,
> {
  readonly exchange: Exchange;
  /** Who asks; nobody where the route needs no key. */
  readonly principal: Asker;
  /** The parts of the path, percent-decoded. */
  readonly params: Readonly<Record<Name, string>>;
  readonly query: Query;
  readonly body: Body;
  /**
   * For the unit that does the thing: stores its answer under the request's Idempotency-Key, so that there is never one
   * without the other. Nothing where there is no such key. The unit then fails with UnmetError where the key was taken over.
   */
  stored(answer: Answer): readonly Statement[];
}

export type Needed = Permission | 'any' | 'none';

export interface RouteSpec<Path extends string, Query extends z.ZodType, Body extends z.ZodType, Needs extends Needed> {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Without prefix: `/projects/:slug`. */
  readonly path: Path;
  /** `any`: any valid key. `none`: no key at all; one that is shown is not looked at. */
  readonly permission: Needs;
  /**
   * What a key's `domain_restrictions` do. `narrow`: the handler leaves out, or refuses by `refuseDomain`, what belongs to
   * other domains. `refuse`: the route belongs to no domain, so that such a key may not. `free`: it is about the key itself.
   */
  readonly domains: 'narrow' | 'refuse' | 'free';
  /**
   * Reads what is live for a test key too, after what test keys made. Without it a test key has its partition alone, and
   * what it names of the live account is refused (`AUTH_TEST_KEY`).
   */
  readonly readsLive?: boolean;
  /** Heading in the reference: `Projects`. */
  readonly tag: string;
  /** One line: `Lists the projects of the tenant.` */
  readonly summary: string;
  /** More, in Markdown, where the summary does not say it all. */
  readonly description?: string;
  readonly query?: Query;
  readonly body?: Body;
  /** Bytes of the body at most; 1 MiB unless told. */
  readonly bodyLimit?: (exchange: Exchange) => number;
  /** Shape of the answer of a success. */
  readonly answer: z.ZodType;
  /** Another type that the success may have, such as `text/csv`. */
  readonly alsoAnswers?: string;
  /** Takes `Idempotency-Key`. */
  readonly idempotent?: boolean;
  /** Errors in Resend's shape as well. */
  readonly resend?: boolean;
  readonly handle: (
    call: Call<z.output<Query>, z.output<Body>, ParameterOf<Path>, Needs extends 'none' ? undefined : Principal>,
  ) => Promise<Outcome>;
}

/** The names behind colons (or, of the rest of a path, behind an asterisk) in a path. */
export type ParameterOf<Path extends string> = Path extends `${infer First}/${infer Rest}`
  ? ParameterOf<First> | ParameterOf<Rest>
  : Path extends `:${infer Name}` | `*${infer Name}`
    ? Name
    : never;

export interface Route extends Omit<RouteSpec<string, z.ZodType, z.ZodType, Needed>, 'handle'> {
  readonly handle: (call: Call<unknown, unknown, string, Principal | undefined>) => Promise<Outcome>;
}

/** The route that this says. The handler gets what its own schemas let through. */
export function defineRoute<
  Path extends string,
  Query extends z.ZodType = z.ZodUndefined,
  Body extends z.ZodType = z.ZodUndefined,
  Needs extends Needed = Needed,
>(spec: RouteSpec<Path, Query, Body, Needs>): Route {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- serve.ts parses query and body with these very schemas, and the router gives the path's own parameters
  return spec as unknown as Route;
}
