/** What many operations of the OpenAPI document share. */

export type Json = Readonly<Record<string, unknown>>;

/** Headers of every response. */
export const EVERY_RESPONSE: Readonly<Record<string, Json>> = {
  'X-Request-Id': { description: 'Finds the line in the log.', schema: { type: 'string' } },
  'X-RateLimit-Limit': { description: 'Of the limit with the least left.', schema: { type: 'integer' } },
  'X-RateLimit-Remaining': { description: 'What it leaves.', schema: { type: 'integer' } },
  'X-RateLimit-Reset': {
    description: 'When all of it is there again, in seconds since 1970.',
    schema: { type: 'integer' },
  },
};

export function jsonContent(schema: Json): Json {
  return { 'application/json': { schema } };
}

const FAULTS: Readonly<Record<string, string>> = {
  400: 'The body or the query is not valid.',
  401: 'No key, or one that is not valid.',
  403: 'The key may not do this.',
  404: 'There is no such thing.',
  409: 'Not in the present state.',
  413: 'Too large.',
  415: 'The body is not of a type that is read here.',
  429: 'Too many requests; Retry-After says when to go on.',
  500: 'A fault of the server.',
  503: 'The server cannot take it now; nothing happened.',
};

/** The errors of a route; without a key there is none to be refused. */
export function errorResponses(withKey: boolean, schema = 'Error'): Json {
  const content = jsonContent({ $ref: `#/components/schemas/${schema}` });
  const codes = Object.entries(FAULTS).filter(([status]) => withKey || status !== '401');
  return Object.fromEntries(codes.map(([status, description]) => [status, { description, content }]));
}
