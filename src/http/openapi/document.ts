/**
 * The OpenAPI 3.1 document, made from the routes of the contract: what it says is what the server checks. Only the addresses
 * that take forms and those of the server itself, which need no key, are described by hand.
 */
import { z } from 'zod';
import { apiError, ERROR_CODES, errorEntry, submissionError, type ErrorCode } from '../../contract/errors.ts';
import { ANY_KEY, errorCodesOf, parametersOf, type Route } from '../../contract/route.ts';
import { acceptedSubmission } from '../../contract/submissions.ts';

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

const DESCRIPTION = `Every API route has three equivalent paths: \`/projects\`, \`/api/projects\` and \`/v1/projects\`.
The URLs that accept form posts have only the path shown.

Send the API key in exactly one of three headers. Success is 200. Every response has \`X-Request-Id\`, which
identifies the request in the server’s log, and the state of the rate limits.`;

const TAGS: Readonly<Record<string, string>> = {
  Accounts: 'Creating an account.',
  'API keys': 'Keys, their permissions and restrictions, and what is left of the rate limits.',
  Sessions: 'Signing in to the console, and one-time codes.',
  Projects: 'Projects and their configuration: pushed, shown, rolled back.',
  Domains: 'Domains, the DNS records that they need, and DKIM keys.',
  Submissions: 'What visitors sent through forms.',
  Erasure: 'Erasing a person’s data.',
  Messages: 'Mail of every kind, sent and received, with its delivery attempts.',
  Email: 'Mail that programs send.',
  'Email (Resend)': 'The same, in the format of the Resend API.',
  Suppressions: 'Email addresses that no mail is sent to.',
  Forms: 'Posting and managing forms.',
  'Instant forms': 'Forms that need only a name and an email address.',
  Collections: 'Groups of forms that belong to no domain.',
  Recipients: 'Email addresses that were asked to agree to receive mail.',
  Analytics: 'Statistics and events.',
  Webhooks: 'Events posted to your own URLs.',
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
  const restricted = domains === 'refuse' ? ' Not for keys restricted to domains.' : '';
  return `${who}${restricted}${readsLive === true ? ' A test key also reads live objects.' : ''}`;
}

function otherContent({ alsoAnswers }: Route): Json {
  return alsoAnswers === undefined ? {} : { [alsoAnswers]: { schema: { type: 'string' } } };
}

const IDEMPOTENCY: Json = {
  name: 'Idempotency-Key',
  in: 'header',
  description: 'For 24 hours, the same key with the same body gets the first answer again; with a different body, 409.',
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

export type Json = Readonly<Record<string, unknown>>;

/** Headers of every response. */
const RATE_HEADERS: Readonly<Record<string, Json>> = {
  'X-Request-Id': { description: 'Identifies the request in the server’s log.', schema: { type: 'string' } },
  'X-RateLimit-Limit': {
    description: 'Requests allowed by the limit that has the fewest left.',
    schema: { type: 'integer' },
  },
  'X-RateLimit-Remaining': { description: 'Requests left in that limit.', schema: { type: 'integer' } },
  'X-RateLimit-Reset': {
    description: 'When that limit is fully available again, in seconds since 1970.',
    schema: { type: 'integer' },
  },
};

const HEADERS: Readonly<Record<string, Json>> = {
  ...RATE_HEADERS,
  'Retry-After': { description: 'Seconds to wait before the next request.', schema: { type: 'integer' } },
  'Idempotent-Replayed': {
    description: '`true` if this is the stored answer of an earlier request with the same `Idempotency-Key`.',
    schema: { type: 'string', enum: ['true'] },
  },
};

const SECURITY_SCHEMES = {
  bearer: { type: 'http', scheme: 'bearer', description: 'The API key as `Authorization: Bearer <key>`.' },
  xApiKey: { type: 'apiKey', in: 'header', name: 'X-Api-Key', description: 'The API key by itself.' },
  serviceApiKey: { type: 'apiKey', in: 'header', name: 'Service-Api-Key', description: 'The API key by itself.' },
};

/** Any of the three headers. */
const WITH_KEY = Object.keys(SECURITY_SCHEMES).map((name) => ({ [name]: [] }));

/** The address of the server alone, for what has no other spellings. */
const ONE_SPELLING = [{ url: '/' }];

function jsonContent(schema: Json): Json {
  return { 'application/json': { schema } };
}

function ref(kind: string, name: string): Json {
  return { $ref: `#/components/${kind}/${name}` };
}

/** The headers of every response, and these. */
function headers(...more: readonly string[]): Json {
  return Object.fromEntries([...Object.keys(RATE_HEADERS), ...more].map((name) => [name, ref('headers', name)]));
}

function pathParameter(name: string): Json {
  return { name, in: 'path', required: true, schema: { type: 'string' } };
}

const WAITING = new Set([429, 503]);

/** Error responses of the document, each described once under `components.responses`. */
class ErrorResponses {
  readonly #known = new Map<string, { readonly name: string; readonly response: Json }>();

  /** The responses for these codes, by status. */
  of(codes: readonly ErrorCode[], shape: 'Error' | 'SubmissionError'): Json {
    const byStatus = [...Map.groupBy(codes, (code) => errorEntry(code).status)].sort(([a], [b]) => a - b);
    return Object.fromEntries(
      byStatus.map(([status, own]) => [status, ref('responses', this.#nameOf(status, own, shape))]),
    );
  }

  /** All of them, by name. */
  components(): Json {
    return Object.fromEntries([...this.#known.values()].map(({ name, response }) => [name, response]));
  }

  #nameOf(status: number, codes: readonly ErrorCode[], shape: 'Error' | 'SubmissionError'): string {
    const key = [status, shape, ...codes].join(' ');
    const known = this.#known.get(key);
    if (known !== undefined) return known.name;
    const name = `${shape}${status}_${this.#known.size + 1}`;
    this.#known.set(key, { name, response: responseOf(status, codes, shape) });
    return name;
  }
}

function responseOf(status: number, codes: readonly ErrorCode[], shape: 'Error' | 'SubmissionError'): Json {
  const own = { type: 'object', properties: { code: { type: 'string', enum: codes } } };
  const schema = shape === 'Error' ? { allOf: [ref('schemas', 'Error'), own] } : ref('schemas', shape);
  const more = WAITING.has(status) ? ['Retry-After'] : [];
  return {
    description: codes.map((code) => `\`${code}\`: ${errorEntry(code).message}`).join('\n\n'),
    headers: headers(...more),
    content: jsonContent(schema),
  };
}

const PUBLIC_TAGS = [{ name: 'Server', description: 'The server itself.' }];

const FIELDS: Json = {
  type: 'object',
  additionalProperties: true,
  description:
    'Any fields. `_subject`, `_replyto`, `_next`, `_challenge`, honeypots, captcha answers and the control fields of other form services are processed, but not shown as data.',
  example: { name: 'Ada', email: 'ada@example.com', message: 'Hello' },
};

/** What a form's address can answer. */
const FORM_ERRORS: readonly ErrorCode[] = [
  'VALIDATION_FAILED',
  'BODY_MALFORMED',
  'BLOCKED',
  'CHALLENGE_REQUIRED',
  'CHALLENGE_FAILED',
  'NO_FILE_UPLOADS',
  ...ANY_KEY,
  'AUTH_DOMAIN_NOT_ALLOWED',
  'DOMAIN_NOT_VERIFIED',
  'ORIGIN_NOT_ALLOWED',
  'INACTIVE',
  'DOMAIN_NOT_FOUND',
  'FORM_NOT_FOUND',
  'REQUEST_TIMEOUT',
  'IDEMPOTENCY_CONFLICT',
  'BODY_TOO_LARGE',
  'FILES_TOO_BIG',
  'TOO_MANY_FILES',
  'UNSUPPORTED_MEDIA_TYPE',
  'RATE_LIMITED',
  'INTERNAL',
  'OUTCOME_UNKNOWN',
  'UNAVAILABLE',
];

const FORMS: Readonly<Record<string, string>> = {
  '/:domain/:form': 'Submits to a form of a domain.',
  '/v1/:domain/:form': 'Submits to a form of a domain.',
  '/v1/:domain/send': 'Submits to the form named in the field `form`, or to the domain’s default form.',
  '/c/:collection/:form': 'Submits to a form of a collection.',
  '/f/:formId': 'Submits to a form by its ID.',
  '/submit/:form': 'Submits to a form by its ID, or by its name at the domain in `Origin`.',
};

/** What answers pages and texts, and what answers JSON about the server itself. */
const PAGES: readonly (readonly [path: string, operationId: string, summary: string, type?: string])[] = [
  ['/confirm/:token', 'getConfirm', 'Shows the page of an emailed link, with a button.'],
  ['/confirm/:token', 'postConfirm', 'Confirms what the emailed link is for.'],
  ['/unsubscribe/:token', 'getUnsubscribe', 'Shows the page of an unsubscribe link.'],
  ['/unsubscribe/:token', 'postUnsubscribe', 'Unsubscribes the address (RFC 8058).'],
  ['/', 'getFront', 'Shows the front page of the server.'],
  ['/healthz', 'getHealthz', 'Answers 200 while the process runs.', 'application/json'],
  [
    '/readyz',
    'getReadyz',
    'Answers 200 if the database, disk, queue and storage are working, otherwise 503 with the reasons.',
    'application/json',
  ],
  ['/metrics', 'getMetrics', 'Shows the Prometheus metrics; only on the Unix socket.', 'text/plain'],
  ['/.well-known/security.txt', 'getSecurityTxt', 'Shows the contact for security reports (RFC 9116).', 'text/plain'],
  [
    '/.well-known/mta-sts.txt',
    'getMtaSts',
    'Shows the MTA-STS policy (RFC 8461) of a domain that receives mail here; at mta-sts.<domain>.',
    'text/plain',
  ],
  ['/postern.js', 'getPosternJs', 'Serves the script that sends forms without leaving the page.', 'text/javascript'],
  ['/postern.mjs', 'getPosternMjs', 'Serves the same script as an ES module.', 'text/javascript'],
  ['/postern.d.mts', 'getPosternTypes', 'Serves the TypeScript types of the module.', 'text/plain'],
  ['/openapi.json', 'getOpenapi', 'Shows this document.', 'application/json'],
  ['/docs', 'getDocs', 'Shows this document as a page.'],
];

/** By path. */
function publicPaths(errors: ErrorResponses): OpenApi['paths'] {
  const paths: Record<string, Record<string, Json>> = {};
  for (const [path, summary] of Object.entries(FORMS)) {
    paths[templated(path)] = { post: formPost(errors, path, summary) };
  }
  paths['/challenge'] = { get: challenge(errors) };
  for (const [path, operationId, summary, type = 'text/html'] of PAGES) {
    const isJson = type === 'application/json';
    const content = { [type]: { schema: { type: isJson ? 'object' : 'string' } } };
    const method = operationId.startsWith('post') ? 'post' : 'get';
    const operation: Json = {
      operationId,
      tags: ['Server'],
      summary,
      description: summary,
      servers: ONE_SPELLING,
      security: [],
      parameters: parametersOf(path).map(pathParameter),
      responses: {
        200: { description: 'Success.', headers: headers(), content },
        ...errors.of(isJson ? ['RATE_LIMITED'] : ['NOT_FOUND', 'RATE_LIMITED', 'INTERNAL', 'UNAVAILABLE'], 'Error'),
        ...(isJson && {
          503: { description: 'Not ready, with the reasons.', headers: headers('Retry-After'), content },
        }),
      },
    };
    paths[templated(path)] = { ...paths[templated(path)], [method]: operation };
  }
  return paths;
}

const CHALLENGE: Json = {
  type: 'object',
  required: ['token', 'minimum_age', 'unreachable'],
  properties: {
    token: { type: 'string', description: 'Goes into the field `_challenge`. Valid once, for a day.' },
    minimum_age: { type: 'integer', description: 'Minimum number of seconds to wait before sending the form.' },
    unreachable: { type: 'string', description: 'What to tell the visitor if the server cannot be reached.' },
    algorithm: { type: 'string', const: 'SHA-256', description: 'Only for proof of work, like all members below.' },
    challenge: { type: 'string', description: 'SHA-256 of `salt` and the number to find, in hexadecimal.' },
    salt: { type: 'string' },
    maxnumber: { type: 'integer', description: 'The number is between 0 and this.' },
    signature: { type: 'string' },
  },
};

function challenge(errors: ErrorResponses): Json {
  return {
    operationId: 'getChallenge',
    tags: ['Forms'],
    summary: 'Shows what a page needs to send a form.',
    description:
      'A token for the page and, if the form requires proof of work, a challenge as in ALTCHA (version 1). Send the solution (JSON in base64), or without a challenge the token, in the form’s field `_challenge`.',
    servers: ONE_SPELLING,
    security: [],
    parameters: [
      {
        name: 'form',
        in: 'query',
        required: true,
        description: 'The path of the form’s URL, or the form’s ID.',
        schema: { type: 'string' },
      },
      {
        name: 'name',
        in: 'query',
        description: 'For `/v1/{domain}/send`: the value of the field `form`.',
        schema: { type: 'string' },
      },
    ],
    responses: {
      200: { description: 'Success.', headers: headers(), content: jsonContent(CHALLENGE) },
      ...errors.of(['FORM_NOT_FOUND', 'RATE_LIMITED', 'INTERNAL', 'UNAVAILABLE'], 'SubmissionError'),
    },
  };
}

function formPost(errors: ErrorResponses, path: string, summary: string): Json {
  const types = ['application/x-www-form-urlencoded', 'multipart/form-data', 'application/json'];
  const content = Object.fromEntries(types.map((type) => [type, { schema: FIELDS }]));
  return {
    operationId: operationId('post', path),
    tags: ['Forms'],
    summary,
    description:
      'Needs no key unless the collection sets `requireApiKey`; a key needs the permission `forms.submit`. A browser gets a page or 303, a script gets JSON.',
    servers: ONE_SPELLING,
    security: [{}, ...WITH_KEY],
    parameters: [
      ...parametersOf(path).map(pathParameter),
      IDEMPOTENCY,
      {
        name: 'Postern-Client-IP',
        in: 'header',
        description:
          'The visitor’s IP address, whose limits then apply. For a server that forwards posts with a key that has `forms.submit`.',
        schema: { type: 'string' },
      },
    ],
    requestBody: { required: true, content },
    responses: {
      200: {
        description: 'Accepted and stored.',
        headers: headers('Idempotent-Replayed'),
        content: jsonContent(ref('schemas', 'AcceptedSubmission')),
      },
      303: {
        description: 'The same, for a browser: `Location` is the URL of the next page.',
        headers: headers(),
      },
      ...errors.of(FORM_ERRORS, 'SubmissionError'),
    },
  };
}
