/** A JSON Schema as a list of its members, for people. */
import type { Json } from '../openapi/document.ts';
import { html, type Html } from './html.ts';

/** The members of the schema, theirs below them. */
export function schemaTree(schema: Json): Html {
  const members = membersOf(schema);
  if (members.length === 0) return html`<p class="soft">${typeOf(schema)} ${prose(textIn(schema, 'description'))}</p>`;
  const required = listIn(schema, 'required');
  return html`<ul class="tree">${members.map(([name, member]) => {
    const needed = required.includes(name);
    const inner = innerOf(member);
    return html`<li><code>${name}</code> <span class="soft">${typeOf(member)}${needed && ', required'}</span> ${prose(textIn(member, 'description'))}${inner !== undefined && schemaTree(inner)}</li>`;
  })}</ul>`;
}

function membersOf(schema: Json): [name: string, member: Json][] {
  const own = Object.entries(objectIn(schema, 'properties')).map(([name, member]): [string, Json] => [
    name,
    asObject(member),
  ]);
  const more = objectIn(schema, 'additionalProperties');
  return Object.keys(more).length === 0 ? own : [...own, ['<name>', more]];
}

/** What has members of its own: the schema, that of a list's items, or that of one of several kinds. */
function innerOf(schema: Json): Json | undefined {
  if (membersOf(schema).length > 0) return schema;
  const inner = [objectIn(schema, 'items'), ...variants(schema)];
  return inner
    .map((one) => (Object.keys(one).length === 0 ? undefined : innerOf(one)))
    .find((one) => one !== undefined);
}

function typeOf(schema: Json): string {
  const { const: only, enum: values, type } = schema;
  if (only !== undefined) return JSON.stringify(only);
  if (Array.isArray(values)) return values.map((value) => JSON.stringify(value)).join(' | ');
  const others = variants(schema);
  if (others.length > 0) return [...new Set(others.map(typeOf))].join(' | ');
  if (type === 'array') return `list of ${typeOf(objectIn(schema, 'items'))}`;
  if (Array.isArray(type)) return type.join(' | ');
  const format = textIn(schema, 'format');
  const name = typeof type === 'string' ? type : 'anything';
  return format === '' ? name : `${name} (${format})`;
}

function variants(schema: Json): Json[] {
  return [...listIn(schema, 'anyOf'), ...listIn(schema, 'oneOf')].map(asObject);
}

/** Text in which what stands between backquotes is code. */
export function prose(text: string): Html[] {
  return text.split('`').map((part, i) => (i % 2 === 1 ? html`<code>${part}</code>` : html`${part}`));
}

/** The text at this key; empty where there is none. */
export function textIn(json: Json, key: string): string {
  const value = json[key];
  return typeof value === 'string' ? value : '';
}

/** The object at this key; empty where there is none. */
export function objectIn(json: Json, key: string): Json {
  return asObject(json[key]);
}

/** The list at this key; empty where there is none. */
export function listIn(json: Json, key: string): readonly unknown[] {
  const value = json[key];
  return Array.isArray(value) ? value : [];
}

function asObject(value: unknown): Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {};
}
