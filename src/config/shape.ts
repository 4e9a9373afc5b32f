/** Asks a schema what it is made of, so that hints and reports need no second list of keys. */
import { z } from 'zod';
import type { Finding, Path } from './problem.ts';

type Schema = z.core.$ZodType;

/** The schema without what only says whether and how a value may be absent or written. */
function unwrap(schema: Schema): Schema {
  if (
    schema instanceof z.ZodOptional ||
    schema instanceof z.ZodNullable ||
    schema instanceof z.ZodDefault ||
    schema instanceof z.ZodPrefault
  ) {
    return unwrap(schema.unwrap());
  }
  return schema instanceof z.ZodPipe ? unwrap(schema.in) : schema;
}

/** The schema of the value at this path, or undefined where the path leads out of it. */
export function schemaAt(schema: Schema, path: Path): Schema | undefined {
  let here: Schema | undefined = unwrap(schema);
  for (const key of path) {
    if (here instanceof z.ZodObject) here = propertiesOf(here).get(String(key)) ?? here.def.catchall;
    else if (here instanceof z.ZodRecord) here = here.valueType;
    else if (here instanceof z.ZodArray) here = here.element;
    else return undefined;
    if (here !== undefined) here = unwrap(here);
  }
  return here;
}

/** The keys that may stand in the map at this path; none where any may. */
export function knownKeys(schema: Schema, path: Path): string[] {
  const here = schemaAt(schema, path);
  return here instanceof z.ZodObject ? [...propertiesOf(here).keys()] : [];
}

/** Paths of the keys that are marked `restart: true`. */
export function restartKeys(schema: Schema, path: readonly string[] = []): (readonly string[])[] {
  if (z.globalRegistry.get(schema)?.['restart'] === true) return [path];
  const here = unwrap(schema);
  if (!(here instanceof z.ZodObject)) return [];
  return [...propertiesOf(here)].flatMap(([key, value]) => restartKeys(value, [...path, key]));
}

/** Keys that are written in two ways and mean the same: `Example.com` and `example.com`. */
export function sameKeys(schema: Schema, data: unknown, path: Path = []): Finding[] {
  const here = unwrap(schema);
  if (typeof data !== 'object' || data === null) return [];
  if (here instanceof z.ZodObject) {
    const properties = propertiesOf(here);
    return Object.entries(data).flatMap(([key, value]) => {
      const property = properties.get(key);
      return property === undefined ? [] : sameKeys(property, value, [...path, key]);
    });
  }
  if (!(here instanceof z.ZodRecord)) return [];
  const written = new Map<string, string>();
  return Object.entries(data).flatMap(([key, value]) => {
    const inner = sameKeys(here.valueType, value, [...path, key]);
    const normal = String(z.safeParse(here.keyType, key).data ?? key);
    const first = written.get(normal);
    if (first === undefined) written.set(normal, key);
    return first === undefined ? inner : [{ path: [...path, key], message: `is the same as "${first}"`, key: true }];
  });
}

function propertiesOf(schema: z.ZodObject): Map<string, Schema> {
  const properties: Readonly<Record<string, Schema>> = schema.shape;
  return new Map(Object.entries(properties));
}
