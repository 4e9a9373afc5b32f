/** Tables as lists of columns, in the words of either dialect. Types are: text, 64-bit integer, bytes. */
import { sql, type Kysely, type RawBuilder } from 'kysely';
import type { Dialect } from '../statement.ts';

/** By table, its columns: `name type`, and `key` where it belongs to the primary key, `null` where it may be null. */
export type Tables = Readonly<Record<string, string>>;
/** `[table, columns, where]` */
export type Indexes = readonly (readonly [table: string, columns: readonly string[], where?: string])[];
/** `table: [column, parent]`: rows that go with their parent. */
export type Children = Readonly<Record<string, readonly [column: string, parent: string]>>;

export interface Schema {
  readonly tables: Tables;
  readonly indexes: Indexes;
  readonly children?: Children;
  /** Tables whose rows do not fit a page many times over: a clustered index would only get in their way. */
  readonly large?: ReadonlySet<string>;
}

/** Creates the tables and their indexes. */
export async function build(
  db: Kysely<unknown>,
  dialect: Dialect,
  { tables, indexes, children = {}, large }: Schema,
): Promise<void> {
  for (const [table, columns] of Object.entries(tables)) {
    const list = columns.split(/,\s+/).map((column) => column.split(' '));
    const keys = list.filter((column) => column.includes('key')).map(([name]) => sql.ref(String(name)));
    const parts = list.map(([name, type, ...flags]) => {
      const nullable = flags.includes('null') ? sql`` : sql` not null`;
      return sql`${sql.ref(String(name))} ${typeName(type, dialect)}${nullable}`;
    });
    parts.push(sql`constraint ${sql.ref(`${table}_key`)} primary key (${sql.join(keys)})`);
    const [column, parent] = children[table] ?? [];
    if (column !== undefined && parent !== undefined) {
      parts.push(sql`constraint ${sql.ref(`${table}_parent`)} foreign key (${sql.ref(column)})
        references ${sql.table(parent)} (id) on delete cascade`);
    }
    const options = dialect === 'postgres' ? '' : large?.has(table) === true ? 'strict' : 'strict, without rowid';
    await sql`create table ${sql.table(table)} (${sql.join(parts)}) ${sql.raw(options)}`.execute(db);
  }
  for (const [table, columns, where] of indexes) {
    await index(db, { name: `${table}_by_${columns.join('_')}`, table, columns, where });
  }
}

/** Makes the columns unique together, among the rows of `where`. */
export async function unique(
  db: Kysely<unknown>,
  table: string,
  { columns, where }: { readonly columns: readonly string[]; readonly where?: string },
): Promise<void> {
  await index(db, { name: `${table}_unique`, table, columns, where }, sql`unique`);
}

async function index(
  db: Kysely<unknown>,
  {
    name,
    table,
    columns,
    where,
  }: { name: string; table: string; columns: readonly string[]; where?: string | undefined },
  kind = sql``,
): Promise<void> {
  const names = sql.join(columns.map((column) => sql.ref(column)));
  const condition = sql.raw(where === undefined ? '' : `where ${where}`);
  await sql`create ${kind} index ${sql.ref(name)} on ${sql.table(table)} (${names}) ${condition}`.execute(db);
}

/** `text`, `int` (of 64 bits) or `bytes`, as the database calls it. */
export function typeName(type: string | undefined, dialect: Dialect): RawBuilder<unknown> {
  if (type === 'text') return sql`text`;
  if (type === 'int') return sql.raw(dialect === 'sqlite' ? 'integer' : 'bigint');
  return sql.raw(dialect === 'sqlite' ? 'blob' : 'bytea');
}
