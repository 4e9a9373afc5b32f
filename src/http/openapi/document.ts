/**
 * The OpenAPI 3.1 document, made from the table of routes: what it says is what the server checks. Only the addresses that
 * take forms are described by hand (public.ts), because their bodies are whatever a form holds.
 */
import { z } from 'zod';
import type { Route } from '../api/route.ts';
import { EVERY_RESPONSE, errorResponses, jsonContent, type Json } from './parts.ts';
import { PUBLIC_PATHS, PUBLIC_TAGS } from './public.ts';

export interface OpenApi {
  readonly openapi: string;
  readonly info: Json;
  readonly servers: readonly Json[];
  readonly tags: readonly { readonly name: string; readonly description?: string }[];
  /** By path, then by method in lower case. */
  readonly paths: Readonly<Record<string, Readonly<Record<string, Json>>>>;
  readonly security: readonly Json[];
  readonly components: Json;
}

const DESCRIPTION = `Every route below answers at three spellings: \`/projects\`, \`/api/projects\` and \`/v1/projects\`.
The addresses that take forms have exactly the one that is shown.

Send the API key in exactly one of three headers. Lists take \`limit\` and \`cursor\` and answer \`next_cursor\`.
Success is 200. Every response carries \`X-Request-Id\`, which finds the line in the server's log, and what the limits leave.`;

/** The document for these routes. */
export function openApi(routes: readonly Route[], version: string): OpenApi {
  const paths: Record<string, Record<string, Json>> = {};
  for (const route of routes) {
    const path = templated(route.path);
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(route) };
  }
  const names = [...new Set(routes.map(({ tag }) => tag))];
  return {
    openapi: '3.1.1',
    info: { title: 'Postern', version, description: DESCRIPTION, license: { name: 'MIT', identifier: 'MIT' } },
    servers: ['/', '/api', '/v1'].map((url) => ({ url })),
    tags: [...PUBLIC_TAGS, ...names.map((name) => ({ name }))],
    paths: { ...PUBLIC_PATHS, ...paths },
    security: Object.keys(SCHEMES).map((name) => ({ [name]: [] })),
    components: {
      securitySchemes: SCHEMES,
      schemas: { Error: schemaOf(errorA, 'output'), SubmissionError: schemaOf(errorB, 'output') },
      headers: EVERY_RESPONSE,
    },
  };
}

/** `/forms/:id` as OpenAPI has it: `/forms/{id}`. */
function templated(path: string): string {
  return path.replaceAll(/[:*](\w+)/g, '{$1}');
}

const SCHEMES = {
  bearer: { type: 'http', scheme: 'bearer', description: 'The API key as the token.' },
  xApiKey: { type: 'apiKey', in: 'header', name: 'X-Api-Key' },
  serviceApiKey: { type: 'apiKey', in: 'header', name: 'Service-Api-Key' },
};

const errorA = z.object({
  error: z.string().describe('What is wrong, for a person.'),
  code: z.string().describe('The same for a program, such as AUTH_INVALID_KEY.'),
  request_id: z.string(),
  details: z
    .array(z.object({ path: z.string(), message: z.string(), line: z.int().optional(), column: z.int().optional() }))
    .optional()
    .describe('What is wrong where, where a body or a file is invalid.'),
});
const errorB = z.object({
  success: z.literal(false),
  error: z.literal(true),
  message: z.string(),
  code: z.int().describe('The HTTP status.'),
  request_id: z.string(),
  errors: z.array(z.object({ field: z.string().optional(), code: z.string(), message: z.string() })).min(1),
});

function operation(route: Route): Json {
  const { method, path, permission, tag, summary, description, query, body, answer, idempotent } = route;
  const words = [description, permissionWords(route)].filter((part) => part !== undefined).join('\n\n');
  return {
    operationId: operationId(method, path),
    tags: [tag],
    summary,
    description: words,
    ...(permission === 'none' ? { security: [] } : { 'x-permission': permission }),
    parameters: [
      ...[...path.matchAll(/[:*](\w+)/g)].map(([, name]) => pathParameter(name ?? '')),
      ...(query === undefined ? [] : queryParameters(query)),
      ...(idempotent === true ? [IDEMPOTENCY] : []),
    ],
    ...(body === undefined ? {} : { requestBody: { required: true, content: jsonContent(schemaOf(body, 'input')) } }),
    responses: {
      200: {
        description: 'Done.',
        headers: Object.fromEntries(Object.keys(EVERY_RESPONSE).map((name) => [name, ref('headers', name)])),
        content: { ...jsonContent(schemaOf(answer, 'output')), ...otherContent(route) },
      },
      ...errorResponses(permission !== 'none'),
    },
  };
}

function permissionWords({ permission, domains, readsLive }: Route): string | undefined {
  if (permission === 'none') return undefined;
  const who = permission === 'any' ? 'Any valid key.' : `Needs the permission \`${permission}\`.`;
  const restricted = domains === 'refuse' ? ' Not for keys that are restricted to domains.' : '';
  return `${who}${restricted}${readsLive === true ? ' A test key also reads what is live.' : ''}`;
}

function otherContent({ alsoAnswers }: Route): Json {
  return alsoAnswers === undefined ? {} : { [alsoAnswers]: { schema: { type: 'string' } } };
}

const IDEMPOTENCY: Json = {
  name: 'Idempotency-Key',
  in: 'header',
  description:
    'The same key with the same body answers what was answered first, for 24 hours; with another body it is 409.',
  schema: { type: 'string', minLength: 1, maxLength: 256 },
};

function pathParameter(name: string): Json {
  return { name, in: 'path', required: true, schema: { type: 'string' } };
}

function queryParameters(query: z.ZodType): Json[] {
  const { properties, required } = z
    .object({ properties: z.record(z.string(), z.record(z.string(), z.unknown())), required: z.array(z.string()) })
    .partial()
    .parse(schemaOf(query, 'input'));
  return Object.entries(properties ?? {}).map(([name, { description, ...schema }]) => ({
    name,
    in: 'query',
    ...(typeof description === 'string' ? { description } : {}),
    required: required?.includes(name) === true,
    schema,
  }));
}

/** `GET /projects/:slug/config` → `getProjectsSlugConfig` */
function operationId(method: string, path: string): string {
  const words = path.split(/[^a-zA-Z0-9]+/).filter((word) => word !== '');
  return method.toLowerCase() + words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('');
}

function ref(kind: string, name: string): Json {
  return { $ref: `#/components/${kind}/${name}` };
}

function schemaOf(schema: z.ZodType, io: 'input' | 'output'): Json {
  const { $schema: _, ...json } = z.toJSONSchema(schema, {
    io,
    target: 'draft-2020-12',
    unrepresentable: 'any',
    override: ({ jsonSchema }) => {
      if (jsonSchema.type !== 'integer') return;
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
    },
  });
  return json;
}
