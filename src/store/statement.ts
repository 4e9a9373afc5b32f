/**
 * Statements: in SQL, or of a table and its columns alone; and what lists of all kinds share. Compiling a statement costs
 * more than running it: that is done at its first use, and from then on only its values are filled in.
 */
import {
  sql,
  type CompiledQuery,
  type Insertable,
  type Kysely,
  type RawBuilder,
  type SelectQueryBuilder,
} from 'kysely';
import type { Tables } from './tables.ts';

export type Dialect = 'sqlite' | 'postgres';
export type Value = string | number | null | Uint8Array;

/** What builds a statement in the words of a database, with placeholders for its values. */
export interface Definition<Row = unknown> {
  (dialect: Dialect): RawBuilder<Row>;
  /** How PostgreSQL runs it once for many units; undefined where it cannot. */
  readonly many?: ManyForm | undefined;
}

/** One statement for the values of many units: a table of them is its one parameter, `rows`, as JSON. */
export interface ManyForm {
  readonly definition: Definition;
  /** The values that it reads; of others it takes no notice. */
  readonly columns: readonly string[];
  /** `each`: exactly one row for each of them, or something is wrong with one of the units. */
  readonly touches: 'each' | 'any';
  /** Whether it looks for rows, so that it is planned anew each time: a plan that is kept may be from when the table was small. */
  readonly searches: boolean;
}

/** A definition with its values; part of a unit. */
export interface Statement<Row = unknown> {
  readonly definition: Definition<Row>;
  /** By the names of their placeholders. */
  readonly values: object;
  /** The unit fails with `UnmetError` unless the statement touches exactly this many rows. */
  readonly expect?: number | undefined;
}

/** What a statement did: the rows it returned, and how many it changed. */
export interface Result<Row = unknown> {
  readonly rows: Row[];
  readonly changes: number;
}

/** Stands in for a value while a statement is built. */
class Placeholder {
  readonly name: string;
  readonly dialect: Dialect;
  constructor(name: string, dialect: Dialect) {
    this.name = name;
    this.dialect = dialect;
  }
}

export interface CompiledStatement {
  readonly sql: string;
  /** How many it has. */
  readonly parameters: number;
  /** Appends the parameters for these values to `to`, in the order of their placeholders, and answers it; a list is its JSON. */
  bind<To extends (Value | undefined)[]>(values: object, to: To): To;
}

/** Compiles each definition once for one dialect; the cache lives as long as the store that owns it. */
export function createCompiler(db: Kysely<Tables>, dialect: Dialect): (definition: Definition) => CompiledStatement {
  const known = new WeakMap<Definition, CompiledStatement>();
  return (definition) => {
    let compiled = known.get(definition);
    if (compiled === undefined) known.set(definition, (compiled = compile(definition(dialect).compile(db))));
    return compiled;
  };
}

function compile({ sql: text, parameters }: CompiledQuery): CompiledStatement {
  return {
    sql: text,
    parameters: parameters.length,
    bind(values, to) {
      const given = values as Record<string, Value | readonly string[]>;
      for (const parameter of parameters) {
        if (!(parameter instanceof Placeholder)) {
          to.push(parameter as Value);
          continue;
        }
        const value = given[parameter.name];
        if (value === undefined) throw new TypeError(`no value for ${parameter.name} in: ${text}`);
        to.push(isList(value) ? JSON.stringify(value) : value);
      }
      return to;
    },
  };
}

function isList(value: Value | readonly string[]): value is readonly string[] {
  return Array.isArray(value);
}

type Table = keyof Tables;
type Column<T extends Table> = keyof Tables[T] & string;
/** A column that gets, or has, the value of its name; or an assignment or a condition in SQL. */
type Part<T extends Table> = Column<T> | RawBuilder<unknown>;
type Values<T extends Table, P extends Part<T>> = Pick<Tables[T], Extract<P, Column<T>>>;
/** What runs queries: a store. */
interface Reader {
  select<Row>(statement: Statement<Row>): Promise<Row[]>;
}

/** Names a value of the statement that is built. */
export type Placeholders<Given> = <Name extends keyof Given & string>(name: Name) => Given[Name];

/** The same statement for the values of many units, on PostgreSQL. */
export interface Many<Given> {
  /** The types of the values. */
  readonly columns: { readonly [Name in keyof Given]: 'text' | 'bigint' };
  /** Whether it touches exactly one row for each set of values unless one is refused, or any number: then nobody is told how many. */
  readonly touches: ManyForm['touches'];
  /** `rows` stands in its FROM; `value` names a value of a row. Rows that it shares with other units it locks in one order. */
  readonly build: (rows: RawBuilder<unknown>, value: Placeholders<Given>) => RawBuilder<unknown>;
}

/** A statement in SQL as a function of its values, compiled once. With `many`, units share it (postgres-writer.ts). */
export function query<Given extends object, Row = never>(
  build: (value: Placeholders<Given>, dialect: Dialect) => RawBuilder<Row>,
  many?: Many<Given>,
): (values: Given, expect?: number) => Statement<Row> {
  const definition: Definition<Row> = Object.assign(
    (dialect: Dialect) =>
      build(((name: string) => new Placeholder(name, dialect)) as unknown as Placeholders<Given>, dialect),
    { many: many && manyOf(many) },
  );
  return (values, expect) => ({ definition, values, expect });
}

/** The values are columns `$name` of `given`, so that they are never taken for those of a table. */
function manyOf<Given>({ columns, touches, build }: Many<Given>): ManyForm {
  const types = Object.entries<string>(columns);
  function definition(dialect: Dialect): RawBuilder<unknown> {
    const names = types.map(([name]) => sql`${sql.ref(name)} as ${sql.ref(`$${name}`)}`);
    const list = types.map(([name, type]) => sql`${sql.ref(name)} ${sql.raw(type)}`);
    const rows = sql`(select ${sql.join(names)}
      from json_to_recordset(${new Placeholder('rows', dialect)}) as list (${sql.join(list)})) as given`;
    return build(rows, ((name: string) => sql.ref(`given.$${name}`)) as unknown as Placeholders<Given>);
  }
  return { definition, columns: types.map(([name]) => name), touches, searches: true };
}

/** A query in SQL as a function of the store and its values, compiled once: what it is built with are placeholders. */
export function reader<Given extends readonly unknown[], Row>(
  build: (...values: Given) => RawBuilder<Row>,
): (store: Reader, ...values: Given) => Promise<Row[]> {
  function definition(dialect: Dialect): RawBuilder<Row> {
    const given = Array.from({ length: build.length }, (_, i) => new Placeholder(String(i), dialect));
    return build(...(given as unknown as Given));
  }
  return (store, ...values) => store.select({ definition, values });
}

/** The same where the names of the values are known to its caller alone. */
function queryOf<Row>(build: (value: (name: string) => unknown, dialect: Dialect) => RawBuilder<Row>) {
  return query<Record<string, unknown>, Row>(build) as (values: object, expect?: number) => Statement<Row>;
}

/** What is there already stays as it is. */
export const DO_NOTHING = sql`on conflict do nothing`;

/**
 * The statement that inserts a row, in the columns that it names; `onConflict` says what happens where it is there already.
 * Units share it unless it then changes a row: one statement changes none twice.
 */
export function insertInto<T extends Table>(
  table: T,
  onConflict?: RawBuilder<unknown>,
): <R extends Insertable<Tables[T]>>(
  row: R & Record<Exclude<keyof R, Column<T>>, never>,
  expect?: number,
) => Statement<never> {
  // A table is filled in a few ways at most: to compare names takes less than to join them.
  const known: { readonly columns: readonly string[]; readonly statement: ReturnType<typeof insertOf> }[] = [];
  return (row, expect) => {
    const columns = Object.keys(row);
    const found = known.find((each) => isSame(each.columns, columns));
    if (found !== undefined) return found.statement(row, expect);
    const statement = insertOf(table, columns, onConflict);
    known.push({ columns, statement });
    return statement(row, expect);
  };
}

function isSame(one: readonly string[], other: readonly string[]): boolean {
  if (one.length !== other.length) return false;
  for (let i = 0; i < one.length; i++) if (one[i] !== other[i]) return false;
  return true;
}

function insertOf(table: Table, columns: readonly string[], onConflict?: RawBuilder<unknown>) {
  const names = sql.join(columns.map((column) => sql.ref(column)));
  const into = sql`insert into ${sql.table(table)} (${names})`;
  const otherwise = onConflict ?? sql``;
  function insert(dialect: Dialect): RawBuilder<never> {
    const values = sql.join(columns.map((column) => new Placeholder(column, dialect)));
    return sql`${into} values (${values}) ${otherwise}`;
  }
  /** The table itself knows the types of its columns. */
  function insertMany(dialect: Dialect): RawBuilder<never> {
    const rows = sql`json_populate_recordset(null::${sql.table(table)}, ${new Placeholder('rows', dialect)})`;
    return sql`${into} select ${names} from ${rows} ${otherwise}`;
  }
  const isShared = onConflict === undefined || onConflict === DO_NOTHING;
  const many: ManyForm | undefined = isShared
    ? { definition: insertMany, columns, touches: 'each', searches: false }
    : undefined;
  const definition: Definition<never> = Object.assign(insert, { many });
  return (values: object, expect?: number) => ({ definition, values, expect });
}

/** The statement that sets columns of the rows with these values. */
export function update<T extends Table, S extends Part<T>, W extends Part<T>>(
  table: T,
  set: readonly S[],
  where: readonly W[],
): (values: Values<T, S> & Values<T, W>, expect?: number) => Statement<never> {
  return queryOf(
    (value) => sql`update ${sql.table(table)} set ${equal(set, value, ', ')} where ${equal(where, value)}`,
  );
}

/** The statement that deletes the rows with these values. */
export function deleteFrom<T extends Table, const W extends readonly Part<T>[]>(
  table: T,
  ...where: W
): (values: Values<T, W[number]>, expect?: number) => Statement<never> {
  return queryOf((value) => sql`delete from ${sql.table(table)} where ${equal(where, value)}`);
}

/**
 * A function that lists the rows with these values, which it takes in the order of their columns; `rest` is what follows in
 * the query.
 */
export function lister<T extends Table, const C extends readonly Column<T>[]>(table: T, columns: C, rest = sql``) {
  const where = columns.length === 0 ? sql`` : sql`where `;
  const list = queryOf(
    (value) => sql<Tables[T]>`select * from ${sql.table(table)} ${where}${equal(columns, value)} ${rest}`,
  );
  return (store: Reader, ...values: { -readonly [K in keyof C]: Tables[T][C[K]] }): Promise<Tables[T][]> =>
    store.select(list(Object.fromEntries(columns.map((column, i) => [column, values[i]]))));
}

/** A function that finds the one row with these values. */
export function finder<T extends Table, const C extends readonly Column<T>[]>(table: T, ...columns: C) {
  const list = lister(table, columns);
  return async (
    store: Reader,
    ...values: { -readonly [K in keyof C]: Tables[T][C[K]] }
  ): Promise<Tables[T] | undefined> => (await list(store, ...values))[0];
}

function equal(parts: readonly (string | RawBuilder<unknown>)[], value: (name: string) => unknown, by = ' and ') {
  const each = parts.map((part) => (typeof part === 'string' ? sql`${sql.ref(part)} = ${value(part)}` : part));
  return sql.join(each, sql.raw(by));
}

/** A function that lists the rows in which the column has one of these values. */
export function listerAmong<T extends Table>(
  table: T,
  column: Column<T>,
  orderBy = column,
): (store: Reader, ids: readonly string[]) => Promise<Tables[T][]> {
  return reader(
    (ids: readonly string[]) =>
      sql<
        Tables[T]
      >`select * from ${sql.table(table)} where ${sql.ref(column)} in ${listed(ids)} order by ${sql.ref(orderBy)}`,
  );
}

/** The statement that deletes the rows in which the column has one of these values. */
export function deleteAmong(table: Table, column: string): (ids: readonly string[]) => Statement<never> {
  const among = query<{ ids: readonly string[] }>(
    (value) => sql`delete from ${sql.table(table)} where ${sql.ref(column)} in ${listed(value('ids'))}`,
  );
  return (ids) => among({ ids });
}

/**
 * The texts of a list that is a value of the statement, for `in`: bound as JSON, a list of any length is one parameter, so
 * that a statement which takes one is compiled once. The two databases call it differently.
 */
export function listed(list: readonly string[]): RawBuilder<string> {
  const { dialect } = list as unknown as Placeholder;
  return dialect === 'sqlite'
    ? sql`(select value from json_each(${list}))`
    : sql`(select value from json_array_elements_text(${list}::json) as list(value))`;
}

/** How many rows the query has. */
export async function countOf<T extends Table>(rows: SelectQueryBuilder<Tables, T, object>): Promise<number> {
  const { count } = await rows.select(sql<number>`count(*)`.as('count')).executeTakeFirstOrThrow();
  return count;
}

/** Up to `limit` rows of the query, newest first, older than `before`. */
export function newestFirst<T extends Table, Row>(
  rows: SelectQueryBuilder<Tables, T, Row>,
  { before, limit }: { readonly before?: string | undefined; readonly limit: number },
): Promise<Row[]> {
  const page = before === undefined ? rows : rows.where(sql<boolean>`id < ${before}`);
  return page
    .orderBy(sql`id`, 'desc')
    .limit(limit)
    .execute();
}
