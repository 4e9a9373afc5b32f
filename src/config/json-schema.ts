/** The JSON Schema of both kinds of file, for editors: completion, descriptions, and red lines while typing. */
import { z } from 'zod';
import { projectSchema } from './schema.ts';
import { serverSchema } from './schema-server.ts';

export type SchemaKind = 'server' | 'project';

/** What may stand instead of any text (`secrets.ts`). */
const REFERENCE = { pattern: '\\$\\{[A-Z_][A-Z0-9_]*\\}|^file:/' };

/** The schema of what is written, in draft 7, which the editors' language servers know best. */
export function jsonSchema(kind: SchemaKind): Record<string, unknown> {
  const schema = z.toJSONSchema(kind === 'server' ? serverSchema : projectSchema, {
    io: 'input',
    target: 'draft-7',
    override: ({ jsonSchema, path }) => adapt(jsonSchema, path.at(-1) === 'propertyNames'),
  });
  return { ...schema };
}

function adapt(schema: z.core.JSONSchema.BaseSchema, isKey: boolean): void {
  if (schema['restart'] === true) {
    delete schema['restart'];
    schema.description = `${schema.description ?? ''} Takes effect after a restart.`;
  }
  if (schema.type === 'integer' && schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum;
  const { pattern, format } = schema;
  if (schema.type !== 'string' || isKey || (pattern === undefined && format === undefined)) return;
  delete schema.pattern;
  delete schema.format;
  const known = format !== undefined && ['ipv4', 'ipv6', 'uri'].includes(format);
  const check = known || pattern === undefined ? { format: format ?? '' } : { pattern };
  schema.anyOf = [check, REFERENCE];
}

/** The same as the text of a file. */
export function jsonSchemaText(kind: SchemaKind): string {
  return `${JSON.stringify(jsonSchema(kind), null, 2)}\n`;
}
