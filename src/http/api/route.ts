/** A route of the contract with its handler, and what handlers have in common. */
import type { z } from 'zod';
import type { Access, ParameterOf, Route as ContractRoute } from '../../contract/route.ts';
import type { Principal } from '../../accounts/principal.ts';
import { isoTime } from '../../lib/clock.ts';
import type { Statement } from '../../store/statement.ts';
import type { Answer } from '../answer.ts';
import type { Refusal } from '../errors.ts';
import type { Exchange } from '../context.ts';

/** What a handler answers: a success whose body is as the contract says, or a refusal. */
export type Outcome<Body = unknown> = Answer<Body> | Refusal;

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
  stored(answer: Answer): readonly Statement[];
}

/** A request to this route. */
export type CallOf<R extends ContractRoute> = Call<
  z.output<NonNullable<R['query']>>,
  z.output<NonNullable<R['body']>>,
  ParameterOf<R['path']>,
  R extends { readonly permission: infer Needs extends Access } ? ('none' extends Needs ? undefined : Principal) : never
>;

/** The answer of this route, as a handler may build it. */
export type BodyOf<R extends ContractRoute> = Readable<z.input<R['answer']>>;

type Readable<T> = unknown extends T
  ? T
  : T extends string | number | boolean | null | undefined
    ? T
    : { readonly [Key in keyof T]: Readable<T[Key]> };

/** A handler for each of these routes. */
export type Handlers<Routes extends Readonly<Record<string, ContractRoute>>> = {
  readonly [Name in keyof Routes]: (call: CallOf<Routes[Name]>) => Promise<Outcome<BodyOf<Routes[Name]>>>;
};

export interface Route extends ContractRoute {
  readonly handle: (call: Call<unknown, unknown, string, Principal | undefined>) => Promise<Outcome>;
}

/** The routes with their handlers, which get what the schemas of the routes let through. */
export function implement<Routes extends Readonly<Record<string, ContractRoute>>>(
  routes: Routes,
  handlers: Handlers<Routes>,
): Route[] {
  return Object.entries(routes).map(([name, route]) => {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- serve.ts parses query and body with these very schemas, and the router gives the path's own parameters
    return { ...route, handle: handlers[name] as unknown as Route['handle'] };
  });
}

/** One page of rows that were read with `limit + 1`. */
export function pageOf<Row extends { readonly id: string }>(
  rows: readonly Row[],
  limit: number,
): { readonly page: readonly Row[]; readonly next_cursor: string | null } {
  const page = rows.slice(0, limit);
  return { page, next_cursor: rows.length > limit ? (page.at(-1)?.id ?? null) : null };
}

/** A time of a row, if it has one. */
export function timeOf(ms: number | null | undefined): string | null {
  return ms === null || ms === undefined ? null : isoTime(ms);
}
