/** Statements that differ in their table and columns alone, statements in SQL, and what lists of all kinds share. */
import { sql, type Insertable, type RawBuilder, type SelectQueryBuilder } from 'kysely';
import { define, type Dialect, type Placeholders, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import type { Tables } from './tables.ts';

type Table = keyof Tables;
type Column<T extends Table> = keyof Tables[T] & string;
/** A column that gets, or has, the value of its name; or an assignment or a condition in SQL. */
type Part<T extends Table> = Column<T> | RawBuilder<unknown>;
type Values<T extends Table, P extends Part<T>> = Pick<Tables[T], Extract<P, Column<T>>>;

/** A statement in SQL as a function of its values, compiled once. */
export function query<Given extends object, Row = never>(
  build: (value: Placeholders<Given>, dialect: Dialect) => RawBuilder<Row>,
): (values: Given, expect?: number) => Statement<Row> {
  return define<Given>()((db, value, dialect) => ({ compile: () => build(value, dialect).compile(db) }));
}

/** The same where the names of the values are known to its caller alone. */
function queryOf<Row>(build: (value: (name: string) => unknown, dialect: Dialect) => RawBuilder<Row>) {
  return query<Record<string, unknown>, Row>(build) as (values: object, expect?: number) => Statement<Row>;
}

/** The statement that inserts a row, in the columns that it names; `onConflict` says what happens where it is there already. */
export function insertInto<T extends Table>(
  table: T,
  onConflict = sql``,
): <R extends Insertable<Tables[T]>>(
  row: R & Record<Exclude<keyof R, Column<T>>, never>,
  expect?: number,
) => Statement<never> {
  const statements = new Map<string, (row: object, expect?: number) => Statement<never>>();
  return (row, expect) => {
    const columns = Object.keys(row);
    const key = columns.join();
    let statement = statements.get(key);
    if (statement === undefined) {
      const names = sql.join(columns.map((column) => sql.ref(column)));
      statement = queryOf(
        (value) =>
          sql`insert into ${sql.table(table)} (${names}) values (${sql.join(columns.map((column) => value(column)))}) ${onConflict}`,
      );
      statements.set(key, statement);
    }
    return statement(row, expect);
  };
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

/** The query of the rows with these values. */
export function selectFrom<T extends Table, W extends Part<T>>(
  table: T,
  where: readonly W[],
  orderBy?: Column<T>,
): (values: Values<T, W>) => Statement<Tables[T]> {
  const order = orderBy === undefined ? sql`` : sql` order by ${sql.ref(orderBy)}`;
  return queryOf((value) => sql<Tables[T]>`select * from ${sql.table(table)} where ${equal(where, value)}${order}`);
}

/** A function that finds the one row with these values, which it takes in the order of their columns. */
export function finder<T extends Table, const C extends readonly Column<T>[]>(table: T, ...columns: C) {
  const one = queryOf((value) => sql<Tables[T]>`select * from ${sql.table(table)} where ${equal(columns, value)}`);
  return async (
    store: Pick<Store, 'select'>,
    ...values: { -readonly [K in keyof C]: Tables[T][C[K]] }
  ): Promise<Tables[T] | undefined> => {
    const [row] = await store.select(one(Object.fromEntries(columns.map((column, i) => [column, values[i]]))));
    return row;
  };
}

function equal(parts: readonly (string | RawBuilder<unknown>)[], value: (name: string) => unknown, by = ' and ') {
  const each = parts.map((part) => (typeof part === 'string' ? sql`${sql.ref(part)} = ${value(part)}` : part));
  return sql.join(each, sql.raw(by));
}

/** The query of the rows in which the column has one of these values. */
export function selectAmong<T extends Table>(
  table: T,
  column: Column<T>,
  orderBy = column,
): (ids: readonly string[]) => Statement<Tables[T]> {
  const among = query<{ ids: string }, Tables[T]>(
    (value, dialect) =>
      sql`select * from ${sql.table(table)} where ${sql.ref(column)} in ${listed(value('ids'), dialect)} order by ${sql.ref(orderBy)}`,
  );
  return (ids) => among({ ids: JSON.stringify(ids) });
}

/** The statement that deletes the rows in which the column has one of these values. */
export function deleteAmong(table: Table, column: string): (ids: readonly string[]) => Statement<never> {
  const among = query<{ ids: string }>(
    (value, dialect) =>
      sql`delete from ${sql.table(table)} where ${sql.ref(column)} in ${listed(value('ids'), dialect)}`,
  );
  return (ids) => among({ ids: JSON.stringify(ids) });
}

/**
 * The rows of a JSON array of texts, for `in`: a list of any length is one parameter, so that a statement which takes one
 * is compiled once. The two databases call it differently.
 */
export function listed(json: string, dialect: Dialect): RawBuilder<string> {
  return dialect === 'sqlite'
    ? sql`(select value from json_each(${json}))`
    : sql`(select value from json_array_elements_text(${json}::json) as list(value))`;
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
