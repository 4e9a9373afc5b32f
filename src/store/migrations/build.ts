/** Tables as lists of columns, in the words of either dialect. Types are: text, 64-bit integer, bytes. */
import { sql, type ColumnDefinitionBuilder, type CreateTableBuilder, type Kysely } from 'kysely';
import type { Dialect } from '../statement.ts';

type Column = readonly [name: string, type: 'text' | 'int' | 'bytes', ...flags: ('key' | 'null')[]];
/** By table. */
export type Columns = Readonly<Record<string, readonly Column[]>>;
/** `[table, columns, where]` */
export type Indexes = readonly (readonly [table: string, columns: readonly string[], where?: string])[];
/** `table: [column, parent]`: rows that go with their parent. */
export type Children = Readonly<Record<string, readonly [column: string, parent: string]>>;

export interface Schema {
  readonly tables: Columns;
  readonly indexes: Indexes;
  readonly children?: Children;
  /** Tables whose rows do not fit a page many times over: a clustered index would only get in their way. */
  readonly large?: ReadonlySet<string>;
}

/** Creates the tables and their indexes. */
export async function build(db: Kysely<unknown>, dialect: Dialect, schema: Schema): Promise<void> {
  for (const [name, columns] of Object.entries(schema.tables))
    await createTable(db, { name, columns, dialect }, schema);
  for (const [table, columns, where] of schema.indexes) {
    const name = `${table}_by_${columns.join('_')}`;
    const create = db.schema
      .createIndex(name)
      .on(table)
      .columns([...columns]);
    await (where === undefined ? create : create.where(sql.raw<boolean>(where))).execute();
  }
}

/** Makes the columns unique together, among the rows of `where`. */
export async function unique(
  db: Kysely<unknown>,
  table: string,
  { columns, where }: { readonly columns: readonly string[]; readonly where?: string },
): Promise<void> {
  const create = db.schema
    .createIndex(`${table}_unique`)
    .unique()
    .on(table)
    .columns([...columns]);
  await (where === undefined ? create : create.where(sql.raw<boolean>(where))).execute();
}

interface Table {
  readonly name: string;
  readonly columns: readonly Column[];
  readonly dialect: Dialect;
}

async function createTable(db: Kysely<unknown>, table: Table, { children = {}, large }: Schema): Promise<void> {
  const { name, columns, dialect } = table;
  let create: CreateTableBuilder<string, string> = db.schema.createTable(name);
  for (const [column, type, ...flags] of columns) {
    create = create.addColumn(column, sql.raw(typeName(type, dialect)), (builder: ColumnDefinitionBuilder) =>
      flags.includes('null') ? builder : builder.notNull(),
    );
  }
  const keys = columns.filter(([, , ...flags]) => flags.includes('key')).map(([column]) => column);
  create = create.addPrimaryKeyConstraint(`${name}_key`, keys);
  const child = children[name];
  if (child !== undefined) {
    const [column, parent] = child;
    create = create.addForeignKeyConstraint(`${name}_parent`, [column], parent, ['id'], (key) =>
      key.onDelete('cascade'),
    );
  }
  if (dialect === 'sqlite')
    create = create.modifyEnd(sql.raw(large?.has(name) === true ? 'strict' : 'strict, without rowid'));
  await create.execute();
}

function typeName(type: Column[1], dialect: Dialect): string {
  if (type === 'text') return 'text';
  if (type === 'int') return dialect === 'sqlite' ? 'integer' : 'bigint';
  return dialect === 'sqlite' ? 'blob' : 'bytea';
}
