/**
 * Calls of the API, with the types of the contract. The session's cookie authorises them; the operator may act for an account, and
 * the test view shows what test keys made.
 */
import type { AnswerOf, ParameterOf, Route } from '../contract/route.ts';

/** What the server refused, or why it could not be asked. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  /** HTTP; 0 where there was no answer. */
  readonly status: number;
  /** `NOT_FOUND`, or `UNREACHABLE`. */
  readonly code: string;
  readonly requestId: string | undefined;
  readonly details: readonly Detail[];

  constructor(message: string, refusal: Omit<ApiRefusal, 'error'> & { readonly status: number }) {
    super(message);
    this.status = refusal.status;
    this.code = refusal.code ?? 'INTERNAL';
    this.requestId = refusal.request_id;
    this.details = refusal.details ?? [];
  }
}

/** What is wrong with one value; `line` and `column` count from 1. */
export interface Detail {
  readonly path: string;
  readonly message: string;
  readonly line?: number;
  readonly column?: number;
}

interface ApiRefusal {
  readonly error?: string;
  readonly code?: string;
  readonly request_id?: string | undefined;
  readonly details?: readonly Detail[];
}

type Address<R extends Route> = `${R['method']} ${R['path']}`;
type Values = Readonly<Record<string, unknown>>;

/** The parts of a call: values for the path's parameters, the query and the body. */
export interface Parts<R extends Route> {
  readonly params?: Readonly<Record<ParameterOf<R['path']>, string>>;
  /** What is undefined or empty is left out. */
  readonly query?: Values;
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
  /** Goes on although the page is left. */
  readonly keepalive?: boolean;
  /** The media type of the answer, where it is not JSON. */
  readonly accept?: string;
}

const VIEW = 'postern-view';
const headers = new Map(new URLSearchParams(sessionStorage.getItem(VIEW) ?? ''));
const listeners = new Set<(error: ApiError) => void>();

/** Each call from now on is for this account (`X-Postern-Tenant`), or for one's own. */
export function actFor(tenant: string | undefined): void {
  setHeader('X-Postern-Tenant', tenant);
}

/** Each call from now on sees what test keys made, or what is live. */
export function viewEnvironment(environment: 'live' | 'test'): void {
  setHeader('X-Postern-Environment', environment === 'test' ? environment : undefined);
}

function setHeader(name: string, value: string | undefined): void {
  if (value === undefined) headers.delete(name);
  else headers.set(name, value);
  // Of this tab alone: a reload goes on with what was looked at.
  sessionStorage.setItem(VIEW, new URLSearchParams([...headers]).toString());
}

/** Each call from now on is for one's own account, live; answers whether that is a change. */
export function resetView(): boolean {
  const isChange = headers.size > 0;
  headers.clear();
  sessionStorage.removeItem(VIEW);
  return isChange;
}

/** Calls this function when an answer says that nobody is signed in. */
export function onSignedOut(listener: (error: ApiError) => void): void {
  listeners.add(listener);
}

/**
 * Asks the API: `call<typeof submissions.show>('GET /submissions/:id', { params: { id } })`. Rejects with an ApiError.
 */
export async function call<R extends Route>(address: Address<R>, parts: Parts<R> = {}): Promise<AnswerOf<R>> {
  const response = await send(address, parts);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the server writes its answers by this very contract
  return (await response.json()) as AnswerOf<R>;
}

/** The same for a file, as the visitor sent it. Rejects with an ApiError. */
export async function callBlob<R extends Route>(address: Address<R>, parts: Parts<R> = {}): Promise<Blob> {
  return (await send(address, parts)).blob();
}

/** A document of the server that is no route of its API. Rejects with an ApiError. */
export async function loadDocument(path: string): Promise<unknown> {
  const response = await ask(path, { method: 'GET', body: undefined });
  if (!response.ok) throw await refusalOf(response);
  return response.json();
}

/** Reads an answer that shows its progress, a JSON object in each line, as the lines come. Rejects with an ApiError. */
export async function* callLines<Line>(address: Address<Route>, parts: Parts<Route>): AsyncGenerator<Line> {
  const { body } = await send(address, { ...parts, accept: 'application/x-ndjson' });
  const reader = body?.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done = true, value = '' } = (await reader?.read().catch(() => Promise.reject(unreachable()))) ?? {};
    const lines = (rest + value).split('\n');
    rest = lines.pop() ?? '';
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the server writes its lines by the contract
    for (const line of lines) yield JSON.parse(line) as Line;
    if (done) return;
  }
}

/** The address of a route, for links and images: they are read with the session's cookie, and have no headers. */
export function urlOf<R extends Route>(address: Address<R>, parts: Parts<R> = {}): string {
  return withView(targetOf(address, parts));
}

/** The address for the account and the environment that are looked at. */
export function withView(url: string): string {
  const view = searchOf(Object.fromEntries([...headers].map(([name, value]) => [name.toLowerCase(), value])));
  return view === '' ? url : `${url}${url.includes('?') ? '&' : '?'}${view}`;
}

function targetOf<R extends Route>(address: Address<R>, { params, query }: Parts<R>): string {
  const values = new Map(Object.entries<string>(params ?? {}));
  const [, path = ''] = address.split(' ');
  const filled = path.replaceAll(/[:*](\w+)/g, (_, name: string) => encodeURIComponent(values.get(name) ?? ''));
  const search = searchOf(query);
  return `/api${filled}${search === '' ? '' : `?${search}`}`;
}

/** What any request of the session got, success or not, for who tries the API out. Rejects with an ApiError without an answer. */
export async function exchange(method: string, path: string, body: string | undefined): Promise<Exchanged> {
  const began = performance.now();
  const response = await ask(path, { method, body });
  const text = await response.text();
  return {
    status: response.status,
    requestId: response.headers.get('X-Request-Id') ?? '',
    type: response.headers.get('Content-Type') ?? '',
    text,
    ms: performance.now() - began,
  };
}

export interface Exchanged {
  readonly status: number;
  readonly requestId: string;
  readonly type: string;
  readonly text: string;
  readonly ms: number;
}

async function send<R extends Route>(address: Address<R>, parts: Parts<R>): Promise<Response> {
  const [method = 'GET'] = address.split(' ');
  const body = parts.body === undefined ? undefined : JSON.stringify(parts.body);
  const { signal, keepalive = false, accept } = parts;
  const response = await ask(targetOf(address, parts), { method, body, signal, keepalive, accept });
  if (response.ok) return response;
  const error = await refusalOf(response);
  // Other codes of 401 are about a code or a link that was entered.
  if (error.code === 'AUTH_MISSING_KEY') for (const listener of listeners) listener(error);
  throw error;
}

interface RequestOptions {
  readonly method: string;
  /** JSON. */
  readonly body: string | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly keepalive?: boolean;
  readonly accept?: string | undefined;
}

async function ask(
  url: string,
  { method, body, signal, keepalive = false, accept }: RequestOptions,
): Promise<Response> {
  const init: RequestInit = {
    method,
    headers: {
      ...Object.fromEntries(headers),
      ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
      ...(accept === undefined ? {} : { Accept: accept }),
    },
    credentials: 'same-origin',
    cache: 'no-store',
    keepalive,
  };
  if (signal !== undefined) init.signal = signal;
  if (body !== undefined) init.body = body;
  try {
    return await fetch(url, init);
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw unreachable();
  }
}

/** What is thrown where an answer did not come, or did not come whole. */
export function unreachable(): ApiError {
  const message = 'The server is not responding. Check your connection and try again.';
  return new ApiError(message, { status: 0, code: 'UNREACHABLE' });
}

async function refusalOf(response: Response): Promise<ApiError> {
  const { status } = response;
  const requestId = response.headers.get('X-Request-Id') ?? undefined;
  const text = await response.text().catch(() => '');
  try {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the shape of refusals is part of the contract
    const refusal = JSON.parse(text) as ApiRefusal;
    return new ApiError(refusal.error ?? response.statusText, { request_id: requestId, ...refusal, status });
  } catch {
    return new ApiError(`The server responded with ${status} ${response.statusText}.`, {
      status,
      request_id: requestId,
    });
  }
}

/** A query as URLs have it; what is undefined or empty is left out. */
export function searchOf(values: Values = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (typeof value === 'string' ? value !== '' : typeof value === 'number' || value === true) {
      search.set(name, String(value));
    }
  }
  return search.toString();
}
