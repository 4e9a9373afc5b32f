/**
 * The script for forms that are sent without leaving the page: `/postern.js` starts by itself, `/postern.mjs` is the same as a
 * module, and `/postern.d.mts` has its types. All are made of `postern.mjs`, in which comments and indentation are for its
 * readers here. Anybody's page may load them, and keep them for good under an address that names their version.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import type { Challenges } from '../../forms/challenges.ts';
import { findSendForm } from '../../forms/find.ts';
import { json, refuse, shapeB, statusOf, type Answer, type Refusal } from '../answer.ts';
import { header, refuseOver, translationFor, type RequestContext } from '../context.ts';
import { findFormRequest, outageOf, parseFormPath, type FormRequest, type FormRequestParts } from '../forms/request.ts';

const SOURCE = new URL('postern.mjs', import.meta.url);
const TYPES = new URL('postern.d.mts', import.meta.url);

const JAVASCRIPT = 'text/javascript; charset=utf-8';

/** What is served at an address, ready to be sent. */
interface Asset {
  readonly type: string;
  readonly text: string;
  readonly gzipped: Buffer;
  readonly etag: string;
}

export type KitFile = '/postern.js' | '/postern.mjs' | '/postern.d.mts';

/** Serves the files of the kit, which are read at their first use. `version` is that of the program. */
export function createKit(version: string): (context: RequestContext, path: KitFile) => Answer {
  let assets: Readonly<Record<KitFile, Asset>> | undefined;
  return (context, path) => {
    assets ??= readKit();
    return answer(assets[path], context, version);
  };
}

function readKit(): Readonly<Record<KitFile, Asset>> {
  const module = withoutComments(readFileSync(SOURCE, 'utf8'));
  return {
    '/postern.js': assetOf(JAVASCRIPT, scriptOf(module)),
    '/postern.mjs': assetOf(JAVASCRIPT, module),
    '/postern.d.mts': assetOf('text/plain; charset=utf-8', readFileSync(TYPES, 'utf8')),
  };
}

function assetOf(type: string, text: string): Asset {
  const hash = createHash('sha256').update(text).digest('base64url').slice(0, 22);
  return { type, text, gzipped: gzipSync(text, { level: 9 }), etag: `"${hash}"` };
}

/** Without lines that are nothing but a comment, and without indentation. */
function withoutComments(source: string): string {
  return source.replaceAll(/^\s*(?:\/\/|\/\*|\*).*\n/gm, '').replaceAll(/^\s+/gm, '');
}

/** The module as a script that starts by itself. */
function scriptOf(module: string): string {
  return `(()=>{\n${module.replaceAll(/^export /gm, '')}window.postern={start,send,challenge};\nstart();\n})();\n`;
}

const HOUR = 'public, max-age=3600';
const FOR_GOOD = 'public, max-age=31536000, immutable';

function answer({ type, text, gzipped, etag }: Asset, { request, query }: RequestContext, version: string): Answer {
  const headers = {
    ETag: etag,
    // Another version than ours is one of before, or to come: what is said of it must not be kept.
    'Cache-Control': new URLSearchParams(query).get('v') === version ? FOR_GOOD : HOUR,
    'Access-Control-Allow-Origin': '*',
    'Cross-Origin-Resource-Policy': 'cross-origin',
    Vary: 'Accept-Encoding',
  };
  if (header(request, 'if-none-match')?.includes(etag) === true) return { status: 304, type, body: '', headers };
  if (!/\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/i.test(header(request, 'accept-encoding') ?? '')) {
    return { status: 200, type, body: text, headers };
  }
  const size = { 'Content-Encoding': 'gzip', 'Content-Length': String(gzipped.length) };
  return { status: 200, type, body: '', stream: once(gzipped), headers: { ...headers, ...size } };
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

// `GET /challenge?form=…`: what a page needs to send a form, as JSON that a script of any origin may read. `form` is the
// path of the form's address, or its id. With proof of work it is also what the ALTCHA widget (version 1) takes from its
// `challengeurl`.

export interface ChallengeParts extends Pick<FormRequestParts, 'store' | 'log'> {
  readonly challenges: Pick<Challenges, 'issue'>;
}

/** Readable for all: no cookie is ever read here. */
const READABLE = { 'Access-Control-Allow-Origin': '*' };

/** The handler of `/challenge`. */
export function createChallengeHandler(parts: ChallengeParts): (context: RequestContext) => Promise<Answer> {
  return async (context) => {
    const query = new URLSearchParams(context.query);
    const asked = query.get('form') ?? '';
    const path = parseFormPath(asked.startsWith('/') ? asked : `/f/${asked}`);
    const formRequest = path === undefined ? undefined : await findFormRequest(context, path, parts);
    const outage = formRequest && (outageOf(formRequest) ?? refuseOver(context.limit, context));
    if (outage !== undefined) return refusal(outage, context);
    const form = formRequest && formOf(formRequest, query.get('name'));
    if (form === undefined) return refusal(refuse('FORM_NOT_FOUND'), context);
    const { token, minimum_age, proof } = await parts.challenges.issue(form);
    const unreachable = translationFor(context, form).say('kit.unreachable');
    return json({ token, minimum_age, unreachable, ...proof }, 200, READABLE);
  };
}

/** `/v1/{domain}/send` names the form in its field `form`, which the page sends along. */
function formOf({ form, path, domain }: FormRequest, name: string | null) {
  const isSend = path.kind === 'domain' && path.key === undefined;
  return isSend && domain !== undefined ? findSendForm(domain, name ?? undefined) : form;
}

function refusal(refused: Refusal, context: RequestContext): Answer {
  return json(shapeB(refused, context.id, translationFor(context)), statusOf(refused), {
    ...refused.headers,
    ...READABLE,
  });
}
