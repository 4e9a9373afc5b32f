/**
 * The reference of the API for people: how to authenticate, errors, limits, idempotency and pages of lists, then every
 * route with its parameters, its body and a request that a test made. It needs no other file; its one script, which filters
 * the contents list, is allowed by its hash.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { ERROR_CODES, errorEntry } from '../../contract/errors.ts';
import { EVENT_TEXTS } from '../../lib/event-types.ts';
import { PERMISSION_TEXTS } from '../../lib/permission-names.ts';
import { templated, type OpenApi, type Json } from '../openapi/document.ts';
import { Html, html } from '../../lib/html.ts';
import { layout, type Page } from './layout.ts';

const EXAMPLES = new URL('reference-examples.json', import.meta.url);

const examplesSchema = z.array(
  z.object({
    route: z.string(),
    path: z.string(),
    body: z.unknown().optional(),
    status: z.int(),
    answer: z.unknown(),
  }),
);

type Example = z.output<typeof examplesSchema>[number];

const STYLE = `
main{max-width:76rem}
.reference{display:grid;grid-template-columns:17rem minmax(0,1fr);gap:2.5rem;align-items:start}
.contents{position:sticky;top:1rem;max-height:calc(100vh - 2rem);overflow:auto;padding:3px;font-size:.88rem}
.contents input{width:100%;box-sizing:border-box;margin:0 0 .75rem}
.contents ul{list-style:none;margin:.2rem 0 .9rem;padding:0}
.contents li{margin:0;padding:.12rem 0;overflow-wrap:anywhere}
.contents a{text-decoration:none}
.contents h4{margin:.4rem 0 .1rem}
h2{margin-top:3rem;padding-top:1rem;border-top:1px solid var(--line);font-size:1.3rem}
article{margin:2rem 0 0;scroll-margin-top:1rem}
h3{margin:0 0 .3rem;font-size:1rem;font-weight:600;overflow-wrap:anywhere}
h3 code{background:none;padding:0;font-size:1rem}
h4{margin:.9rem 0 .2rem;font-size:.88rem;color:var(--soft);font-weight:600}
.method{display:inline-block;min-width:4.1rem;margin-right:.6rem;padding:.1rem .45rem;border-radius:6px;background:var(--accent);color:var(--button-text);font:600 .78rem/1.5 ui-monospace,Menlo,Consolas,monospace;text-align:center}
.contents .method{min-width:2.7rem;margin-right:.4rem;padding:0 .2rem;font-size:.62rem}
.get{background:var(--good);color:var(--card)}
.delete{background:var(--bad);color:var(--card)}
ul.tree{list-style:none;margin:.2rem 0 0;padding:0 0 0 .9rem;border-left:2px solid var(--line);font-size:.93rem}
ul.tree li{margin:.15rem 0;overflow-wrap:anywhere}
article details{margin:.5rem 0 0;padding:0;border:0}
article summary{font-size:.88rem;font-weight:600;color:var(--soft)}
pre{overflow-x:auto;max-height:24rem;margin:.3rem 0 0;padding:.7rem .9rem;border:1px solid var(--line);border-radius:8px;font-size:.8rem;line-height:1.5}
pre code{background:none;padding:0;font-size:inherit}
td code{white-space:nowrap}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.9rem}
td,th{padding:.35rem .9rem .35rem 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
[hidden]{display:none}
@media(max-width:60rem){.reference{grid-template-columns:minmax(0,1fr);gap:0}.contents{position:static;max-height:22rem}}
`;

/** Filters the contents list while somebody types. */
const SCRIPT = `const field=document.getElementById('search');field.addEventListener('input',()=>{const words=field.value.toLowerCase().split(/\\s+/);for(const group of document.querySelectorAll('.contents section')){let any=false;for(const item of group.querySelectorAll('li')){const text=(item.textContent+' '+item.dataset.words).toLowerCase();const found=words.every((word)=>text.includes(word));item.hidden=!found;any||=found}group.hidden=!any}});`;

/** The page. */
export function referencePage(document: OpenApi): Page {
  const examples = new Map(
    examplesSchema.parse(JSON.parse(readFileSync(EXAMPLES, 'utf8'))).map((example) => {
      const [method = '', path = ''] = example.route.split(' ');
      return [`${method} ${templated(path)}`, example];
    }),
  );
  const groups = document.tags.map(({ name, description }) => ({
    name,
    description,
    operations: operationsOf(document, name),
  }));
  const page = layout({
    title: 'Postern: API reference',
    style: STYLE,
    content: html`<div class="reference">
<nav class="contents" aria-label="Contents">
<label for="search">Search</label>
<input id="search" type="search" placeholder="such as domain, PLAN_LIMIT" autocomplete="off">
<section><h4>Basics</h4>
<ul>${BASICS.map(({ id, heading }) => html`<li data-words="${id === 'errors' ? ERROR_CODES.join(' ') : id}"><a href="#${id}">${heading}</a></li>`)}</ul></section>
${groups.map(
  ({ name, operations }) => html`<section><h4>${name}</h4>
<ul>${operations.map(contentsItem)}</ul></section>
`,
)}</nav>
<div><h1>API reference</h1>
${paragraphs(textIn(document.info, 'description'))}
<p>For programs: <a href="/openapi.json">openapi.json</a> (OpenAPI ${document.openapi}), version ${textIn(document.info, 'version')}.</p>
${BASICS.map(({ id, heading, content }) => html`<h2 id="${id}">${heading}</h2>\n${content()}`)}
${groups.map(
  ({ name, description, operations }) => html`<h2>${name}</h2>
<p>${description}</p>
${operations.map((operation) => article(operation, examples.get(`${operation.method} ${operation.path}`), document))}`,
)}
</div></div>
<script>${new Html(SCRIPT)}</script>`,
  });
  const hash = createHash('sha256').update(SCRIPT).digest('base64');
  return { ...page, policy: `${page.policy}; script-src 'sha256-${hash}'` };
}

const BASICS: readonly { readonly id: string; readonly heading: string; readonly content: () => Html }[] = [
  {
    id: 'authentication',
    heading: 'Authentication',
    content:
      () => html`<p>Send the API key in exactly one of these headers. Using two at once is an error (<code>AUTH_AMBIGUOUS</code>).</p>
<pre><code>Authorization: Bearer svc_sk_live_…
X-Api-Key: svc_sk_live_…
Service-Api-Key: svc_sk_live_…</code></pre>
<p>Try a new key with <a href="#getAuthStatus"><code>GET /auth/status</code></a>. A key that begins with <code>svc_sk_test_</code> is a test key: its mail is captured and never delivered, and it cannot change live objects.</p>
<h4>Permissions</h4>
${table(Object.entries(PERMISSION_TEXTS))}`,
  },
  {
    id: 'errors',
    heading: 'Errors',
    content: () => html`<p>The API reports an error as:</p>
<pre><code>${JSON.stringify({ error: 'The API key is not valid.', code: 'AUTH_INVALID_KEY', request_id: 'req_…' }, null, 2)}</code></pre>
<p><code>details</code> lists what is wrong and where, if a body or configuration is not valid. Form URLs report an error to scripts as:</p>
<pre><code>${JSON.stringify({ success: false, error: true, message: '“Email” must be an email address, such as name@example.com.', code: 400, request_id: 'req_…', errors: [{ field: 'email', code: 'TYPE_EMAIL', message: '“Email” must be an email address, such as name@example.com.' }] }, null, 2)}</code></pre>
<p>Rely on <code>code</code>; the messages may change. The request ID identifies the request in the server’s log.</p>
${table(ERROR_CODES.map((code) => [code, `${errorEntry(code).status} ${errorEntry(code).message} ${errorEntry(code).advice}`]))}`,
  },
  {
    id: 'limits',
    heading: 'Rate limits',
    content:
      () => html`<p>Every response has <code>X-RateLimit-Limit</code>, <code>X-RateLimit-Remaining</code> and <code>X-RateLimit-Reset</code> (seconds since 1970) for the limit that has the fewest requests left. All limits are sliding windows. A request over the limit is answered with 429 <code>RATE_LIMITED</code> and <code>Retry-After</code>, the number of seconds to wait.</p>
<p>A JSON body can have at most 1 MiB (more for mail and configurations), 20 levels and 30,000 values. Plans also limit how many objects an account can have (403 <code>PLAN_LIMIT</code>).</p>`,
  },
  {
    id: 'idempotency',
    heading: 'Idempotency',
    content: () =>
      html`<p>Routes that send mail, and form URLs, accept <code>Idempotency-Key</code> (1 to 256 characters). Use a new key for each operation that must happen only once, and repeat the request with the same key after a timeout. For 24 hours, the same key with the same body gets the first answer again, with <code>Idempotent-Replayed: true</code>. With a different body, or while the first request is still in progress, the answer is 409 <code>IDEMPOTENCY_CONFLICT</code>. Answers with 429 and 5xx are not stored.</p>`,
  },
  {
    id: 'pagination',
    heading: 'Pagination',
    content: () =>
      html`<p>Lists accept <code>limit</code> (1 to 200, default 50) and <code>cursor</code>, and return <code>count</code> (the total) and <code>next_cursor</code>. Send <code>next_cursor</code> as <code>cursor</code> to get the next page, until it is null.</p>`,
  },
  {
    id: 'events',
    heading: 'Events',
    content:
      () => html`<p>Webhooks receive these events, signed according to the Standard Webhooks specification; <a href="#getEvents"><code>GET /events</code></a> lists them.</p>
${table(Object.entries(EVENT_TEXTS))}`,
  },
];

function table(rows: readonly (readonly [name: string, text: string])[]): Html {
  return html`<div class="scroll"><table>${rows.map(
    ([name, text]) => html`<tr><td><code>${name}</code></td><td>${prose(text)}</td></tr>\n`,
  )}</table></div>`;
}

interface Operation {
  readonly path: string;
  /** In capitals. */
  readonly method: string;
  readonly operation: Json;
}

function operationsOf({ paths }: OpenApi, tag: string): Operation[] {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([, operation]) => listIn(operation, 'tags').includes(tag))
      .map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  );
}

function contentsItem({ path, method, operation }: Operation): Html {
  return html`<li data-words="${textIn(operation, 'summary')}"><a href="#${textIn(operation, 'operationId')}"><span class="method ${method.toLowerCase()}">${method}</span>${path}</a></li>`;
}

function article({ path, method, operation }: Operation, example: Example | undefined, document: OpenApi): Html {
  const parameters = listIn(operation, 'parameters').map(asObject);
  const body = contentOf(objectIn(operation, 'requestBody'), document);
  const answer = contentOf(objectIn(objectIn(operation, 'responses'), '200'), document);
  return html`<article id="${textIn(operation, 'operationId')}">
<h3><span class="method ${method.toLowerCase()}">${method}</span><code>${path}</code></h3>
<p>${prose(textIn(operation, 'summary'))}</p>
${paragraphs(textIn(operation, 'description'))}
${parameters.length > 0 && html`<h4>Parameters</h4>\n<ul class="tree">${parameters.map(parameter)}</ul>`}
${body !== undefined && html`<details><summary>Body</summary>${schemaTree(body)}</details>`}
${answer !== undefined && html`<details><summary>Answer</summary>${schemaTree(answer)}</details>`}
${example !== undefined && exampleOf(method, example)}
</article>
`;
}

const SERVER = 'https://mail.example.net';

function exampleOf(method: string, { path, body, answer }: Example): Html {
  const json = body === undefined ? undefined : JSON.stringify(body, null, 2);
  const curl = [
    `curl ${method === 'GET' ? '' : `-X ${method} `}'${SERVER}${path}' \\`,
    `  -H 'Authorization: Bearer svc_sk_live_…'${json === undefined ? '' : ' \\'}`,
    ...(json === undefined
      ? []
      : [`  -H 'Content-Type: application/json' \\`, `  -d '${json.replaceAll("'", String.raw`'\''`)}'`]),
  ].join('\n');
  const fetch = `const response = await fetch('${SERVER}${path}', {
  method: '${method}',
  headers: { Authorization: 'Bearer svc_sk_live_…'${json === undefined ? '' : ", 'Content-Type': 'application/json'"} },${
    json === undefined ? '' : `\n  body: JSON.stringify(${json.replaceAll('\n', '\n  ')}),`
  }
});
const answer = await response.${typeof answer === 'string' ? 'text' : 'json'}();`;
  return html`<details><summary>Example with curl</summary><pre><code>${curl}</code></pre></details>
<details><summary>Example with fetch</summary><pre><code>${fetch}</code></pre></details>
<details><summary>Example answer</summary><pre><code>${typeof answer === 'string' ? answer : JSON.stringify(answer, null, 2)}</code></pre></details>`;
}

function parameter(value: Json): Html {
  const place = textIn(value, 'in');
  const words = prose(textIn(value, 'description'));
  const needed = value['required'] === true && place !== 'path';
  return html`<li><code>${textIn(value, 'name')}</code> <span class="soft">${place}${needed && ', required'}</span> ${words}</li>`;
}

/** The schema of the JSON among the contents, or undefined. */
function contentOf(holder: Json, { components }: OpenApi): Json | undefined {
  const given = objectIn(objectIn(objectIn(holder, 'content'), 'application/json'), 'schema');
  const [, name] = /^#\/components\/schemas\/(\w+)$/.exec(textIn(given, '$ref')) ?? [];
  const json = name === undefined ? given : objectIn(objectIn(components, 'schemas'), name);
  return Object.keys(json).length === 0 ? undefined : json;
}

/** Plain paragraphs; what stands between backquotes is code. */
function paragraphs(text: string): Html[] {
  const blocks = text.split(/\n{2,}/).filter((block) => block.trim() !== '');
  return blocks.map((block) => html`<p class="soft">${prose(block)}</p>\n`);
}

/** The members of the schema, theirs below them. */
function schemaTree(schema: Json): Html {
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
  const alternatives = variants(schema);
  if (alternatives.length > 0) return [...new Set(alternatives.map(typeOf))].join(' | ');
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
function prose(text: string): Html[] {
  return text.split('`').map((part, i) => (i % 2 === 1 ? html`<code>${part}</code>` : html`${part}`));
}

function textIn(json: Json, key: string): string {
  const value = json[key];
  return typeof value === 'string' ? value : '';
}

function objectIn(json: Json, key: string): Json {
  return asObject(json[key]);
}

function listIn(json: Json, key: string): readonly unknown[] {
  const value = json[key];
  return Array.isArray(value) ? value : [];
}

function asObject(value: unknown): Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {};
}
