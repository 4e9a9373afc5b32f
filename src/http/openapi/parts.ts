/** What many operations of the OpenAPI document share: headers, errors, security. */
import { errorEntry, type ErrorCode } from '../../contract/errors.ts';

export type Json = Readonly<Record<string, unknown>>;

/** Headers of every response. */
const RATE_HEADERS: Readonly<Record<string, Json>> = {
  'X-Request-Id': { description: 'Finds the request in the log of the server.', schema: { type: 'string' } },
  'X-RateLimit-Limit': {
    description: 'Requests that the limit with the least left allows.',
    schema: { type: 'integer' },
  },
  'X-RateLimit-Remaining': { description: 'Requests that it still allows.', schema: { type: 'integer' } },
  'X-RateLimit-Reset': {
    description: 'When it allows all of them again, in seconds since 1970.',
    schema: { type: 'integer' },
  },
};

export const HEADERS: Readonly<Record<string, Json>> = {
  ...RATE_HEADERS,
  'Retry-After': { description: 'Seconds to wait before the next request.', schema: { type: 'integer' } },
  'Idempotent-Replayed': {
    description: '`true` if this is the stored answer of an earlier request with the same `Idempotency-Key`.',
    schema: { type: 'string', enum: ['true'] },
  },
};

export const SECURITY_SCHEMES = {
  bearer: { type: 'http', scheme: 'bearer', description: 'The API key as `Authorization: Bearer <key>`.' },
  xApiKey: { type: 'apiKey', in: 'header', name: 'X-Api-Key', description: 'The API key by itself.' },
  serviceApiKey: { type: 'apiKey', in: 'header', name: 'Service-Api-Key', description: 'The API key by itself.' },
};

/** Any of the three headers. */
export const WITH_KEY = Object.keys(SECURITY_SCHEMES).map((name) => ({ [name]: [] }));

/** The address of the server alone, for what has no other spellings. */
export const ONE_SPELLING = [{ url: '/' }];

export function jsonContent(schema: Json): Json {
  return { 'application/json': { schema } };
}

export function ref(kind: string, name: string): Json {
  return { $ref: `#/components/${kind}/${name}` };
}

/** The headers of every response, and these. */
export function headers(...more: readonly string[]): Json {
  return Object.fromEntries([...Object.keys(RATE_HEADERS), ...more].map((name) => [name, ref('headers', name)]));
}

export function pathParameter(name: string): Json {
  return { name, in: 'path', required: true, schema: { type: 'string' } };
}

const WAITING = new Set([429, 503]);

/** Error responses of the document, each described once under `components.responses`. */
export class ErrorResponses {
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
