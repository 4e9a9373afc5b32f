/** The routes that need no key, as the OpenAPI document has them: addresses of forms, and what is for everybody. */
import { errorResponses, jsonContent, type Json } from './parts.ts';

export const PUBLIC_TAGS = [
  { name: 'Forms', description: 'Where pages post their forms to.' },
  { name: 'Server', description: 'The server itself.' },
];

const FIELDS: Json = {
  type: 'object',
  additionalProperties: true,
  description:
    'Any fields. `_subject`, `_replyto`, `_next`, `_gotcha` and the honeypot are read and not shown as data.',
  example: { name: 'Ada', email: 'ada@example.com', message: 'Hello' },
};

const ACCEPTED: Json = {
  type: 'object',
  properties: {
    success: { const: true },
    ok: { const: true },
    message: { type: 'string' },
    id: { type: 'string', description: 'Of the submission: `sub_…`.' },
    next: { type: 'string', description: 'Where a browser would go on.' },
  },
  required: ['success', 'ok', 'message', 'id', 'next'],
};

const ONE_SPELLING = [{ url: '/' }];

/** By path. */
export const PUBLIC_PATHS: Readonly<Record<string, Readonly<Record<string, Json>>>> = {
  '/{domain}/{form}': form('/{domain}/{form}', 'Posts a form of a domain.'),
  '/v1/{domain}/{form}': form('/v1/{domain}/{form}', 'The same.'),
  '/v1/{domain}/send': form(
    '/v1/{domain}/send',
    'Posts to the form that the field `form` names, else to the default form of the domain.',
  ),
  '/c/{collection}/{form}': form('/c/{collection}/{form}', 'Posts a form of a collection.'),
  '/f/{formId}': form('/f/{formId}', 'Posts a form by its id.'),
  '/submit/{form}': form('/submit/{form}', 'Posts a form by its id, or by its name at the domain that Origin names.'),
  '/confirm/{token}': {
    get: page('getConfirm', 'Shows what a mailed link confirms, with a button.', ['token']),
    post: page('postConfirm', 'Confirms it.', ['token']),
  },
  '/unsubscribe/{token}': {
    get: page('getUnsubscribe', 'Asks whether mail to this address shall end.', ['token']),
    post: page('postUnsubscribe', 'Ends it (RFC 8058).', ['token']),
  },
  '/': { get: page('getFront', 'What this server is, and where to go on.', []) },
  '/healthz': { get: look('getHealthz', 'Whether the process is up.') },
  '/readyz': {
    get: look('getReadyz', 'Whether the database can be written and the queue moves; 503 with the reasons.'),
  },
  '/metrics': { get: page('getMetrics', 'Figures for Prometheus; on the Unix socket alone.', []) },
  '/.well-known/security.txt': { get: page('getSecurityTxt', 'Whom to tell of a weakness (RFC 9116).', []) },
  '/.well-known/mta-sts.txt': {
    get: page('getMtaSts', 'At mta-sts.<domain>: the MTA-STS policy of a domain whose mail comes here (RFC 8461).', []),
  },
  '/openapi.json': { get: look('getOpenapi', 'This document.') },
  '/docs': { get: page('getDocs', 'This document as a page.', []) },
};

function form(path: string, summary: string): Readonly<Record<string, Json>> {
  const content = Object.fromEntries(
    ['application/x-www-form-urlencoded', 'multipart/form-data', 'application/json'].map((type) => [
      type,
      { schema: FIELDS },
    ]),
  );
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name ?? '');
  return {
    post: {
      operationId: `post${path
        .split(/[^a-zA-Z0-9]+/)
        .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
        .join('')}`,
      tags: ['Forms'],
      summary,
      description:
        'No key is needed but where the collection says `requireApiKey`; a key needs `forms.submit`. A browser that navigates gets a page or 303, a script gets JSON.',
      servers: ONE_SPELLING,
      security: [{}, { bearer: [] }, { xApiKey: [] }, { serviceApiKey: [] }],
      parameters: [
        ...names.map(inPath),
        {
          name: 'Idempotency-Key',
          in: 'header',
          description: 'The same key with the same body counts once, for 24 hours.',
          schema: { type: 'string', maxLength: 256 },
        },
        {
          name: 'Postern-Client-IP',
          in: 'header',
          description:
            'With a key of `forms.submit`: the visitor’s address, whose limits then count, where a server passes posts on.',
          schema: { type: 'string' },
        },
      ],
      requestBody: { required: true, content },
      responses: {
        200: { description: 'Accepted: nothing of it is lost any more.', content: jsonContent(ACCEPTED) },
        303: { description: 'The same, for a browser: on to the page that follows.' },
        ...errorResponses(true, 'SubmissionError'),
      },
    },
  };
}

function page(operationId: string, summary: string, parameters: readonly string[]): Json {
  return {
    operationId,
    tags: ['Server'],
    summary,
    servers: ONE_SPELLING,
    security: [],
    parameters: parameters.map(inPath),
    responses: { 200: { description: 'A page, or text.', content: { 'text/html': { schema: { type: 'string' } } } } },
  };
}

function look(operationId: string, summary: string): Json {
  const content = jsonContent({ type: 'object' });
  return {
    operationId,
    tags: ['Server'],
    summary,
    servers: ONE_SPELLING,
    security: [],
    responses: { 200: { description: 'Yes.', content }, 503: { description: 'No.', content } },
  };
}

function inPath(name: string): Json {
  return { name, in: 'path', required: true, schema: { type: 'string' } };
}
