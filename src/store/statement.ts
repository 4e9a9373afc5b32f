/**
 * Statements that are built with Kysely once and bound many times: compiling a query costs more than running it, so a
 * hot path compiles it at its first use and from then on only fills in the values.
 */
import type { CompiledQuery, Kysely } from 'kysely';
import type { Tables } from './tables.ts';

export type Dialect = 'sqlite' | 'postgres';
export type Value = string | number | null | Uint8Array;

interface Compilable<Row> {
  compile(): CompiledQuery<Row>;
}

/** Stands in for a value while a statement is built. */
export type Placeholders<Values> = <Name extends keyof Values & string>(name: Name) => Values[Name];

export interface Definition<Row = unknown> {
  readonly compile: (db: Kysely<Tables>, dialect: Dialect) => CompiledQuery<Row>;
}

/** A definition with its values; part of a unit. */
export interface Statement<Row = unknown> {
  readonly definition: Definition<Row>;
  readonly values: object;
  /** The unit fails with `UnmetError` unless the statement touches exactly this many rows. */
  readonly expect?: number | undefined;
}

/** What a statement did: the rows it returned, and how many it changed. */
export interface Result<Row = unknown> {
  readonly rows: Row[];
  readonly changes: number;
}

class Placeholder {
  readonly name: string;
  constructor(name: string) {
    this.name = name;
  }
}

/** A statement as a function of its values: `define<{ id: string }>()((db, value) => db.deleteFrom('x').where('id', '=', value('id')))`. */
export function define<Values extends object>() {
  return <Row>(
    build: (db: Kysely<Tables>, value: Placeholders<Values>, dialect: Dialect) => Compilable<Row>,
  ): ((values: Values, expect?: number) => Statement<Row>) => {
    const definition: Definition<Row> = {
      compile: (db, dialect) => build(db, placeholder as unknown as Placeholders<Values>, dialect).compile(),
    };
    return (values, expect) => ({ definition, values, expect });
  };
}

function placeholder(name: string): Placeholder {
  return new Placeholder(name);
}

export interface CompiledStatement {
  readonly sql: string;
  /** How many parameters it has. */
  readonly count: number;
  /** Puts the parameters for these values behind what is in the list, in the order of their placeholders; answers the list. */
  bind(values: object, into?: Value[]): Value[];
}

/** Compiles each definition once for one dialect; the cache lives as long as the store that owns it. */
export class Compiler {
  readonly #db: Kysely<Tables>;
  readonly #dialect: Dialect;
  readonly #compiled = new WeakMap<Definition, CompiledStatement>();

  constructor(db: Kysely<Tables>, dialect: Dialect) {
    this.#db = db;
    this.#dialect = dialect;
  }

  compile(definition: Definition): CompiledStatement {
    let compiled = this.#compiled.get(definition);
    if (compiled === undefined) {
      compiled = this.#compile(definition);
      this.#compiled.set(definition, compiled);
    }
    return compiled;
  }

  #compile(definition: Definition): CompiledStatement {
    const { sql: text, parameters } = definition.compile(this.#db, this.#dialect);
    // What is the same every time need not be bound every time, nor sent to the store thread.
    const sql = this.#dialect === 'sqlite' ? withLiterals(text, parameters) : text;
    const bound = this.#dialect === 'sqlite' ? parameters.filter(isPlaceholder) : parameters;
    return {
      sql,
      count: bound.length,
      bind(values, into = []) {
        const given = values as Record<string, Value>;
        for (const parameter of bound) {
          if (!isPlaceholder(parameter)) {
            into.push(parameter as Value);
            continue;
          }
          const value = given[parameter.name];
          if (value === undefined) throw new TypeError(`no value for ${parameter.name} in: ${sql}`);
          into.push(value);
        }
        return into;
      },
    };
  }
}

function isPlaceholder(parameter: unknown): parameter is Placeholder {
  return parameter instanceof Placeholder;
}

/** The text with its constants in it; only the placeholders' question marks are left. */
function withLiterals(sql: string, parameters: readonly unknown[]): string {
  const [start = '', ...pieces] = sql.split('?');
  if (pieces.length !== parameters.length) throw new TypeError(`a question mark that is no parameter in: ${sql}`);
  return start + pieces.map((piece, i) => literal(parameters[i]) + piece).join('');
}

function literal(parameter: unknown): string {
  if (isPlaceholder(parameter)) return '?';
  if (parameter === null || typeof parameter === 'number') return String(parameter);
  if (typeof parameter === 'string') return `'${parameter.replaceAll("'", "''")}'`;
  throw new TypeError(`no SQL literal for a ${typeof parameter}`);
}
