/**
 * The OpenAPI 3.1 document, made from the routes of the contract: what it says is what the server checks. Only the addresses
 * that take forms and those of the server itself are described by hand (public.ts).
 */
import { z } from 'zod';
import { apiError, ERROR_CODES, errorEntry, submissionError } from '../../contract/errors.ts';
import { errorCodesOf, parametersOf, type Route } from '../../contract/route.ts';
import { acceptedSubmission } from '../../contract/submissions.ts';
import {
  ErrorResponses,
  HEADERS,
  headers,
  jsonContent,
  pathParameter,
  ref,
  SECURITY_SCHEMES,
  WITH_KEY,
  type Json,
} from './parts.ts';
import { publicPaths, PUBLIC_TAGS } from './public.ts';

export interface OpenApi {
  readonly openapi: string;
  readonly info: Json;
  readonly servers: readonly Json[];
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  /** By path, then by method in lower case. */
  readonly paths: Readonly<Record<string, Readonly<Record<string, Json>>>>;
  readonly security: readonly Json[];
  readonly components: Json;
}

const DESCRIPTION = `Every route of the API answers at three spellings: \`/projects\`, \`/api/projects\` and \`/v1/projects\`.
The addresses that take forms have exactly the one that is shown.

Send the API key in exactly one of three headers. Success is 200. Every response carries \`X-Request-Id\`, which finds the
request in the log of the server, and the state of the rate limits.`;

const TAGS: Readonly<Record<string, string>> = {
  Accounts: 'Creating an account.',
  'API keys': 'Keys, their permissions and restrictions, and what the limits leave.',
  Projects: 'Projects and their configuration: pushed, shown, rolled back.',
  Domains: 'Domains, the DNS records that they need, and DKIM keys.',
  Submissions: 'What visitors sent through forms.',
  Email: 'Mail that programs send.',
  'Email (Resend)': 'The same in the shape that clients of Resend know.',
  Suppressions: 'Addresses that no mail is sent to.',
  Forms: 'Where pages post their forms to, and how forms are managed.',
  'Instant forms': 'Forms that need a name and an address only.',
  Collections: 'Forms under one name that belong to no domain.',
  Recipients: 'Addresses that were asked to agree to mail.',
  Analytics: 'Statistics and events.',
  Webhooks: 'Events posted to your own addresses.',
  Administration: 'For the operator of the server.',
};

/** The document for these routes. */
export function openApi(routes: readonly Route[], version: string): OpenApi {
  const errors = new ErrorResponses();
  const paths: Record<string, Record<string, Json>> = { ...publicPaths(errors) };
  for (const route of routes) {
    const path = templated(route.path);
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(route, errors) };
  }
  const tags = [...new Set(routes.map(({ tag }) => tag))].map((name) => ({ name, description: TAGS[name] ?? name }));
  return {
    openapi: '3.1.1',
    info: {
      title: 'Postern',
      version,
      description: DESCRIPTION,
      contact: { name: 'The operator of this server' },
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: ['/', '/api', '/v1'].map((url) => ({ url })),
    tags: [...tags, ...PUBLIC_TAGS],
    paths,
    security: WITH_KEY,
    components: {
      securitySchemes: SECURITY_SCHEMES,
      schemas: {
        Error: withCodes(schemaOf(apiError, 'output')),
        ErrorCode: {
          type: 'string',
          enum: ERROR_CODES,
          description: ERROR_CODES.map(
            (code) => `- \`${code}\` (${errorEntry(code).status}): ${errorEntry(code).message}`,
          ).join('\n'),
        },
        SubmissionError: schemaOf(submissionError, 'output'),
        AcceptedSubmission: schemaOf(acceptedSubmission, 'output'),
      },
      responses: errors.components(),
      headers: HEADERS,
    },
  };
}

/** The schema of an error, whose `code` is described by itself. */
function withCodes(schema: Json): Json {
  const { properties } = schema;
  return {
    ...schema,
    properties: { ...(typeof properties === 'object' ? properties : {}), code: ref('schemas', 'ErrorCode') },
  };
}

/** `/forms/:id` as OpenAPI has it: `/forms/{id}`. */
export function templated(path: string): string {
  return path.replaceAll(/[:*](\w+)/g, '{$1}');
}

/** `GET /projects/:slug/config` → `getProjectsSlugConfig` */
function operationId(method: string, path: string): string {
  const words = path.split(/[^a-zA-Z0-9]+/).filter((word) => word !== '');
  return method.toLowerCase() + words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('');
}

function operation(route: Route, errors: ErrorResponses): Json {
  const { method, path, permission, tag, summary, description, query, body, answer, idempotent = false } = route;
  const words = [description, accessWords(route)].filter((part) => part !== undefined).join('\n\n');
  return {
    operationId: operationId(method, path),
    tags: [tag],
    summary,
    description: words,
    ...(permission === 'none' ? { security: [] } : { security: WITH_KEY, 'x-permission': permission }),
    parameters: [
      ...parametersOf(path).map(pathParameter),
      ...(query === undefined ? [] : queryParameters(query)),
      ...(idempotent ? [IDEMPOTENCY] : []),
    ],
    ...(body === undefined ? {} : { requestBody: { required: true, content: jsonContent(schemaOf(body, 'input')) } }),
    responses: {
      200: {
        description: 'Success.',
        headers: idempotent ? headers('Idempotent-Replayed') : headers(),
        content: { ...jsonContent(schemaOf(answer, 'output')), ...otherContent(route) },
      },
      ...errors.of(errorCodesOf(route), 'Error'),
    },
  };
}

function accessWords({ permission, domains, readsLive }: Route): string {
  if (permission === 'none') return 'Needs no key.';
  const who = permission === 'any' ? 'Any valid key.' : `Needs the permission \`${permission}\`.`;
  const restricted = domains === 'refuse' ? ' Not for keys that are restricted to domains.' : '';
  return `${who}${restricted}${readsLive === true ? ' A test key also reads live objects.' : ''}`;
}

function otherContent({ alsoAnswers }: Route): Json {
  return alsoAnswers === undefined ? {} : { [alsoAnswers]: { schema: { type: 'string' } } };
}

const IDEMPOTENCY: Json = {
  name: 'Idempotency-Key',
  in: 'header',
  description: 'For 24 hours, the same key with the same body gets the first answer again; with another body, 409.',
  schema: { type: 'string', minLength: 1, maxLength: 256 },
};

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
