/** The reference of the API as one page, from its OpenAPI document: nothing to fetch, no script, searchable by the browser. */
import type { OpenApi } from '../openapi/document.ts';
import type { Json } from '../openapi/parts.ts';
import { html, type Html } from './html.ts';
import { layout, type Page } from './layout.ts';
import { listIn, objectIn, prose, schemaTree, textIn } from './schema-tree.ts';

const STYLE = `
main{max-width:64rem}
nav ul{list-style:none;margin:.75rem 0 0;padding:0;columns:18rem;font-size:.93rem}
nav li{break-inside:avoid;margin:0 0 .2rem}
nav a{text-decoration:none}
h2{margin-top:3rem;padding-top:1rem;border-top:1px solid var(--line);font-size:1.3rem}
article{margin:1.75rem 0 0}
h3{margin:0 0 .3rem;font-size:1rem;font-weight:600}
h3 code{background:none;padding:0;font-size:1rem}
h4{margin:.9rem 0 .2rem;font-size:.88rem;color:var(--soft);font-weight:600}
.method{display:inline-block;min-width:4.1rem;margin-right:.6rem;padding:.1rem .45rem;border-radius:6px;background:var(--accent);color:var(--accent-text);font:600 .78rem/1.5 ui-monospace,Menlo,Consolas,monospace;text-align:center}
.get{background:var(--good);color:var(--card)}
.delete{background:var(--bad);color:var(--card)}
ul.tree{list-style:none;margin:.2rem 0 0;padding:0 0 0 .9rem;border-left:2px solid var(--line);font-size:.93rem}
ul.tree li{margin:.15rem 0}
article details{margin:.5rem 0 0;padding:0;border:0}
article summary{font-size:.88rem;font-weight:600;color:var(--soft)}
`;

/** The page. */
export function referencePage(document: OpenApi): Page {
  const groups = document.tags.map((tag) => ({ tag, operations: operationsOf(document, tag.name) }));
  return layout({
    title: 'Postern: API reference',
    style: STYLE,
    content: html`<h1>API reference</h1>
${paragraphs(textIn(document.info, 'description'))}
<p>The same for programs: <a href="/openapi.json">openapi.json</a> (OpenAPI ${document.openapi}), version ${textIn(document.info, 'version')}.</p>
<nav aria-label="Routes">${groups.map(
      ({ tag, operations }) => html`
<h4>${tag.name}</h4>
<ul>${operations.map(
        ({ method, path, operation }) =>
          html`<li><a href="#${textIn(operation, 'operationId')}">${method} ${path}</a></li>`,
      )}</ul>`,
    )}
</nav>
${groups.map(
  ({ tag, operations }) => html`<h2>${tag.name}</h2>
${tag.description !== undefined && html`<p>${tag.description}</p>`}
${operations.map(article)}`,
)}`,
  });
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

function article({ path, method, operation }: Operation): Html {
  const parameters = listIn(operation, 'parameters').flatMap((value) => objectOf(value));
  const body = contentOf(objectIn(operation, 'requestBody'));
  const answer = contentOf(objectIn(objectIn(operation, 'responses'), '200'));
  return html`<article id="${textIn(operation, 'operationId')}">
<h3><span class="method ${method.toLowerCase()}">${method}</span><code>${path}</code></h3>
<p>${prose(textIn(operation, 'summary'))}</p>
${paragraphs(textIn(operation, 'description'))}
${parameters.length > 0 && html`<h4>Parameters</h4>\n<ul class="tree">${parameters.map(parameter)}</ul>`}
${body !== undefined && html`<h4>Body</h4>\n${schemaTree(body)}`}
${answer !== undefined && html`<details><summary>Answer</summary>${schemaTree(answer)}</details>`}
</article>
`;
}

function parameter(value: Json): Html {
  const place = textIn(value, 'in');
  const words = prose(textIn(value, 'description'));
  const needed = value['required'] === true && place !== 'path';
  return html`<li><code>${textIn(value, 'name')}</code> <span class="soft">${place}${needed && ', required'}</span> ${words}</li>`;
}

/** The schema of the JSON among the contents, or undefined. */
function contentOf(holder: Json): Json | undefined {
  const json = objectIn(objectIn(objectIn(holder, 'content'), 'application/json'), 'schema');
  return Object.keys(json).length === 0 ? undefined : json;
}

function objectOf(value: unknown): Json[] {
  return typeof value === 'object' && value !== null ? [{ ...value }] : [];
}

/** Plain paragraphs; what stands between backquotes is code. */
function paragraphs(text: string): Html[] {
  const blocks = text.split(/\n{2,}/).filter((block) => block.trim() !== '');
  return blocks.map((block) => html`<p class="soft">${prose(block)}</p>\n`);
}
