/** The addresses that need no key, as the OpenAPI document has them: those of forms, and those of the server itself. */
import type { ErrorCode } from '../../contract/errors.ts';
import {
  type ErrorResponses,
  headers,
  jsonContent,
  ONE_SPELLING,
  pathParameter,
  ref,
  WITH_KEY,
  type Json,
} from './parts.ts';

export const PUBLIC_TAGS = [{ name: 'Server', description: 'The server itself.' }];

const FIELDS: Json = {
  type: 'object',
  additionalProperties: true,
  description:
    'Any fields. `_subject`, `_replyto`, `_next`, `_gotcha` and the honeypot are read and not shown as data.',
  example: { name: 'Ada', email: 'ada@example.com', message: 'Hello' },
};

/** What a form's address can answer. */
const FORM_ERRORS: readonly ErrorCode[] = [
  'VALIDATION_FAILED',
  'BODY_MALFORMED',
  'BLOCKED',
  'NO_FILE_UPLOADS',
  'AUTH_AMBIGUOUS',
  'AUTH_MISSING_KEY',
  'AUTH_INVALID_KEY',
  'AUTH_EXPIRED_KEY',
  'AUTH_REVOKED_KEY',
  'AUTH_FORBIDDEN',
  'AUTH_IP_NOT_ALLOWED',
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

/** By path. */
export function publicPaths(errors: ErrorResponses): Readonly<Record<string, Readonly<Record<string, Json>>>> {
  return {
    '/{domain}/{form}': form(errors, '/{domain}/{form}', 'Submits a form of a domain.'),
    '/v1/{domain}/{form}': form(errors, '/v1/{domain}/{form}', 'Submits a form of a domain.'),
    '/v1/{domain}/send': form(
      errors,
      '/v1/{domain}/send',
      'Submits the form that the field `form` names, or else the default form of the domain.',
    ),
    '/c/{collection}/{form}': form(errors, '/c/{collection}/{form}', 'Submits a form of a collection.'),
    '/f/{formId}': form(errors, '/f/{formId}', 'Submits a form by its id.'),
    '/submit/{form}': form(
      errors,
      '/submit/{form}',
      'Submits a form by its id, or by its name at the domain that `Origin` names.',
    ),
    '/confirm/{token}': {
      get: page(errors, 'getConfirm', 'Shows the page of a mailed link, with a button.', ['token']),
      post: page(errors, 'postConfirm', 'Confirms what the mailed link is for.', ['token']),
    },
    '/unsubscribe/{token}': {
      get: page(errors, 'getUnsubscribe', 'Shows the page of an unsubscribe link.', ['token']),
      post: page(errors, 'postUnsubscribe', 'Unsubscribes the address (RFC 8058).', ['token']),
    },
    '/': { get: page(errors, 'getFront', 'Shows the front page of the server.', []) },
    '/healthz': { get: look(errors, 'getHealthz', 'Answers 200 while the process runs.') },
    '/readyz': {
      get: look(
        errors,
        'getReadyz',
        'Answers 200 if the database can be written and the queue moves, otherwise 503 with the reasons.',
      ),
    },
    '/metrics': {
      get: page(errors, 'getMetrics', 'Shows the metrics for Prometheus; only on the Unix socket.', [], 'text/plain'),
    },
    '/.well-known/security.txt': {
      get: page(errors, 'getSecurityTxt', 'Names the contact for security reports (RFC 9116).', [], 'text/plain'),
    },
    '/.well-known/mta-sts.txt': {
      get: page(
        errors,
        'getMtaSts',
        'Shows the MTA-STS policy of a domain whose mail comes here (RFC 8461); at mta-sts.<domain>.',
        [],
        'text/plain',
      ),
    },
    '/openapi.json': { get: look(errors, 'getOpenapi', 'Shows this document.') },
    '/docs': { get: page(errors, 'getDocs', 'Shows this document as a page.', []) },
  };
}

function form(errors: ErrorResponses, path: string, summary: string): Readonly<Record<string, Json>> {
  const content = Object.fromEntries(
    ['application/x-www-form-urlencoded', 'multipart/form-data', 'application/json'].map((type) => [
      type,
      { schema: FIELDS },
    ]),
  );
  return {
    post: {
      operationId: `post${path
        .split(/[^a-zA-Z0-9]+/)
        .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
        .join('')}`,
      tags: ['Forms'],
      summary,
      description:
        'Needs no key unless the collection says `requireApiKey`; a key needs the permission `forms.submit`. A browser that navigates gets a page or 303, a script gets JSON.',
      servers: ONE_SPELLING,
      security: [{}, ...WITH_KEY],
      parameters: [
        ...[...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => pathParameter(name)),
        {
          name: 'Idempotency-Key',
          in: 'header',
          description: 'For 24 hours, the same key with the same body counts once.',
          schema: { type: 'string', minLength: 1, maxLength: 256 },
        },
        {
          name: 'Postern-Client-IP',
          in: 'header',
          description:
            'The visitor’s address, whose limits then count; for a server that passes posts on with a key that has `forms.submit`.',
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
          description: 'The same, for a browser: the address of the next page is in `Location`.',
          headers: headers(),
        },
        ...errors.of(FORM_ERRORS, 'SubmissionError'),
      },
    },
  };
}

// oxlint-disable-next-line eslint/max-params -- called by one table, in which names would hide what differs
function page(
  errors: ErrorResponses,
  operationId: string,
  summary: string,
  parameters: readonly string[],
  type = 'text/html',
): Json {
  const content = { [type]: { schema: { type: 'string' } } };
  return {
    operationId,
    tags: ['Server'],
    summary,
    description: summary,
    servers: ONE_SPELLING,
    security: [],
    ...(parameters.length > 0 && { parameters: parameters.map(pathParameter) }),
    responses: {
      200: { description: 'Success.', headers: headers(), content },
      ...errors.of(['NOT_FOUND', 'RATE_LIMITED', 'INTERNAL', 'UNAVAILABLE'], 'Error'),
    },
  };
}

function look(errors: ErrorResponses, operationId: string, summary: string): Json {
  const content = jsonContent({ type: 'object' });
  return {
    operationId,
    tags: ['Server'],
    summary,
    description: summary,
    servers: ONE_SPELLING,
    security: [],
    responses: {
      200: { description: 'Yes.', headers: headers(), content },
      ...errors.of(['RATE_LIMITED'], 'Error'),
      503: { description: 'No, with the reasons.', headers: headers('Retry-After'), content },
    },
  };
}
