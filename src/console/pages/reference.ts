/** The routes of the API, to be tried out as whoever is signed in: from the same document that programs read. */
import { ApiError, exchange, loadDocument, type Exchanged } from '../api.ts';
import { Action, Badge, Failed, Page, Ready, type Tone } from '../components/basics.ts';
import { Field, Search } from '../components/fields.ts';
import { confirm } from '../components/messages.ts';
import { useLoaded } from '../data.ts';
import { html, type ComponentChildren, useState } from '../lib.ts';
import { href, setQuery, usePlace } from '../router.ts';

/** As much of OpenAPI as is needed here. */
interface Schema {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly enum?: readonly unknown[];
  readonly default?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly description?: string;
}

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
  readonly description?: string;
  readonly schema?: Schema;
}

interface Operation {
  readonly summary: string;
  readonly description?: string;
  readonly tags?: readonly string[];
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema?: Schema }>> };
  readonly 'x-permission'?: string;
}

interface Listed extends Operation {
  /** `GET /projects/{slug}` */
  readonly address: string;
  readonly method: string;
  readonly path: string;
}

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
}

const METHODS = new Set(['get', 'post', 'put', 'patch', 'delete']);

async function loadRoutes(): Promise<readonly Listed[]> {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- tests hold that the document is OpenAPI
  const { paths } = (await loadDocument('/openapi.json')) as Document;
  return Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).flatMap(([name, operation]) => {
      if (!METHODS.has(name) || operation['x-permission'] === undefined) return [];
      const method = name.toUpperCase();
      return [{ ...operation, method, path, address: `${method} ${path}` }];
    }),
  );
}

const TONES: Readonly<Record<string, Tone>> = { GET: 'good', DELETE: 'bad' };

/** `/reference`, `?route=GET /projects&q=project` */
export function Reference(): ComponentChildren {
  const { query } = usePlace();
  const { route, q = '' } = query;
  const routes = useLoaded('routes', loadRoutes);
  return html`<${Page}
    title="API reference"
    above=${route === undefined ? undefined : { href: href('/reference', { q }), name: 'All routes' }}
    actions=${html`<a class="button quiet" href="/docs">Full reference</a>`}
  >
    <p class="soft">Requests that you send here are real. They act with your session, as with an API key of your account.</p>
    <${Ready} of=${routes} lines=${8}>
      ${(all: readonly Listed[]) => {
        const words = q.toLowerCase().split(/\s+/);
        const found = all.filter(({ address, summary }) =>
          words.every((word) => `${address} ${summary}`.toLowerCase().includes(word)),
        );
        const chosen = all.find(({ address }) => address === route);
        return html`<div class="panes two ${chosen === undefined ? '' : 'open'}">
          <section aria-label="Routes">
            <div class="filters"><${Search} label="Search routes" value=${q} change=${(text: string) => setQuery({ q: text }, { replace: true })} /></div>
            <ul class="list routes">
              ${found.map(
                (each) =>
                  html`<li key=${each.address}>
                    <a href=${href('/reference', { route: each.address, q })} aria-current=${each === chosen ? 'true' : undefined}>
                      <span><${Badge} tone=${TONES[each.method] ?? 'accent'}>${each.method}<//> <code>${each.path}</code></span>
                      <span class="small soft">${each.summary}</span>
                    </a>
                  </li>`,
              )}
            </ul>
            ${found.length === 0 && html`<p class="soft">No route matches these words.</p>`}
          </section>
          ${
            chosen === undefined
              ? html`<p class="soft">Choose a route to try it.</p>`
              : html`<${Try} route=${chosen} key=${chosen.address} />`
          }
        </div>`;
      }}
    <//>
  <//>`;
}

/** A form for one route, and what it answered last. */
function Try({ route }: { readonly route: Listed }): ComponentChildren {
  const { method, path, parameters = [], requestBody } = route;
  const schema = requestBody?.content['application/json']?.schema;
  const [values, setValues] = useState<Readonly<Record<string, string>>>({});
  const [body, setBody] = useState(() => (schema === undefined ? '' : JSON.stringify(exampleOf(schema), undefined, 2)));
  const [answer, setAnswer] = useState<Exchanged>();
  const [error, setError] = useState<ApiError>();
  const asked = parameters.filter(({ in: place }) => place === 'path' || place === 'query');
  const target = targetOf(path, asked, values);
  const missing = asked.filter(({ name, required }) => required === true && (values[name] ?? '') === '');

  async function send(): Promise<void> {
    const isSafe = method === 'GET';
    if (!isSafe && !(await confirm({ title: `${method} ${path}`, text: route.summary, action: 'Send' }))) return;
    try {
      setError(undefined);
      setAnswer(await exchange(method, `/api${target}`, schema === undefined ? undefined : body));
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      setError(failure);
    }
  }

  return html`<section class="card" aria-labelledby="route">
    <h2 id="route"><${Badge} tone=${TONES[method] ?? 'accent'}>${method}<//> <code>${path}</code></h2>
    <p>${route.summary}</p>
    ${route.description !== undefined && html`<p class="soft small">${route.description.replaceAll('`', '')}</p>`}
    ${asked.map(
      ({ name, required = false, description, schema: kind }) =>
        html`<${Field}
          key=${name}
          label=${required ? name : `${name} (optional)`}
          value=${values[name] ?? ''}
          hint=${description?.replaceAll('`', '')}
          options=${kind?.enum === undefined ? undefined : [['', ''], ...kind.enum.map((each) => [String(each), String(each)])]}
          change=${(value: string) => setValues({ ...values, [name]: value })}
        />`,
    )}
    ${schema !== undefined && html`<div class="mono"><${Field} label="Body (JSON)" value=${body} rows=${Math.min(16, body.split('\n').length + 1)} change=${setBody} /></div>`}
    <p class="actions"><${Action} run=${send} disabled=${missing.length > 0}>Send<//> <code class="line">${target}</code></p>
    ${error && html`<${Failed} error=${error} />`}
    <div aria-live="polite">
      ${
        answer &&
        html`<h3>
            <${Badge} tone=${answer.status < 400 ? 'good' : 'bad'}>${answer.status}<//>
            <span class="soft small"> in ${Math.round(answer.ms)} ms, ${answer.requestId}</span>
          </h3>
          <pre tabindex="0" class="answer"><code>${prettyOf(answer)}</code></pre>`
      }
    </div>
  </section>`;
}

function targetOf(path: string, parameters: readonly Parameter[], values: Readonly<Record<string, string>>): string {
  const search = new URLSearchParams();
  let filled = path;
  for (const { name, in: place } of parameters) {
    const value = values[name] ?? '';
    if (value === '') continue;
    if (place === 'query') search.set(name, value);
    else filled = filled.replace(`{${name}}`, encodeURIComponent(value));
  }
  return search.size === 0 ? filled : `${filled}?${search.toString()}`;
}

function prettyOf({ type, text }: Exchanged): string {
  if (!type.startsWith('application/json')) return text;
  return JSON.stringify(JSON.parse(text), undefined, 2);
}

const DEPTH = 4;

/** A value of this schema with what it requires. */
function exampleOf(schema: Schema, depth = 0): unknown {
  if (schema.default !== undefined) return schema.default;
  if (schema.enum !== undefined) return schema.enum[0];
  if (schema.anyOf?.[0] !== undefined) return exampleOf(schema.anyOf[0], depth);
  switch (schema.type) {
    case 'object': {
      const { properties = {}, required = [] } = schema;
      const names = required.length > 0 ? required : Object.keys(properties).slice(0, 3);
      if (depth === DEPTH) return {};
      return Object.fromEntries(names.map((name) => [name, exampleOf(properties[name] ?? {}, depth + 1)]));
    }
    case 'array':
      return [];
    case 'integer':
    case 'number':
      return 0;
    case 'boolean':
      return false;
    default:
      return '';
  }
}
