/**
 * Statements that are built with Kysely once and bound many times: compiling a query costs more than running it, so a
 * hot path compiles it at its first use and from then on only fills in the values.
 */
import {
  OperationNodeTransformer,
  ValueListNode,
  ValueNode,
  type CompiledQuery,
  type Kysely,
  type KyselyPlugin,
  type PluginTransformQueryArgs,
  type PluginTransformResultArgs,
  type PrimitiveValueListNode,
  type QueryResult,
  type RootOperationNode,
  type UnknownRow,
} from 'kysely';
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
  /** How many it has. */
  readonly parameters: number;
  /** The parameters for these values, in the order of their placeholders. */
  bind(values: object): Value[];
}

/** Compiles each definition once for one dialect; the cache lives as long as the store that owns it. */
export class Compiler {
  readonly #db: Kysely<Tables>;
  readonly #dialect: Dialect;
  readonly #compiled = new WeakMap<Definition, CompiledStatement>();

  constructor(db: Kysely<Tables>, dialect: Dialect) {
    this.#db = dialect === 'sqlite' ? db.withPlugin(new LiteralConstants()) : db;
    this.#dialect = dialect;
  }

  compile(definition: Definition): CompiledStatement {
    let compiled = this.#compiled.get(definition);
    if (compiled === undefined) {
      compiled = compiledStatement(definition.compile(this.#db, this.#dialect));
      this.#compiled.set(definition, compiled);
    }
    return compiled;
  }
}

function compiledStatement({ sql, parameters }: CompiledQuery): CompiledStatement {
  return {
    sql,
    parameters: parameters.length,
    bind(values) {
      const given = values as Record<string, Value>;
      return parameters.map((parameter) => {
        if (!(parameter instanceof Placeholder)) return parameter as Value;
        const value = given[parameter.name];
        if (value === undefined) throw new TypeError(`no value for ${parameter.name} in: ${sql}`);
        return value;
      });
    },
  };
}

/**
 * Writes constants into the SQL text and leaves the placeholders as parameters: SQLite uses a partial index only where the
 * text itself implies the index's condition (https://sqlite.org/partialindex.html).
 */
class LiteralConstants extends OperationNodeTransformer implements KyselyPlugin {
  transformQuery({ node }: PluginTransformQueryArgs): RootOperationNode {
    return this.transformNode(node);
  }

  transformResult({ result }: PluginTransformResultArgs): Promise<QueryResult<UnknownRow>> {
    return Promise.resolve(result);
  }

  protected override transformValue(node: ValueNode): ValueNode {
    return literal(node.value);
  }

  protected override transformPrimitiveValueList({ values }: PrimitiveValueListNode): PrimitiveValueListNode {
    // The compiler takes either kind of list; the type of this method knows one alone.
    return ValueListNode.create(values.map(literal)) as unknown as PrimitiveValueListNode;
  }
}

function literal(value: unknown): ValueNode {
  return value instanceof Placeholder ? ValueNode.create(value) : ValueNode.createImmediate(value);
}
