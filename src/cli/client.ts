/**
 * How commands reach the daemon: its HTTP API, at an address with a key, or over the operator's Unix socket, where the
 * file's permissions are the login.
 */
import {
  request as requestClear,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type RequestOptions,
} from 'node:http';
import { request as requestSecure } from 'node:https';
import { Readable } from 'node:stream';
import { z } from 'zod';
import type { Problem } from '../config/problem.ts';
import type { AnswerOffline } from '../contract/offline.ts';
import { pathOf, type ParameterOf } from '../contract/route.ts';
import { codeOf, messageOf, UserError } from '../lib/errors.ts';

/** Where the API is: `https://mail.example.net`, with or without a path before the API's own, or `unix:/path/of/socket`. */
export type Address = string;

export interface ClientOptions {
  readonly address: Address;
  readonly key?: string | undefined;
  /** Idle time-out, ms. Default: 30 s. */
  readonly idleMs?: number;
}

/** A call of a route of the API. */
export interface Call<Path extends string, Answer> {
  readonly route: {
    readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
    readonly path: Path;
    readonly query?: z.ZodType;
    readonly answer: z.ZodType<Answer>;
  };
  readonly params?: Readonly<Record<ParameterOf<Path>, string>>;
  /** Of these only what the route knows is sent; `olderThan` as `older_than`. */
  readonly query?: object;
  /** Goes as JSON. */
  readonly body?: object;
  readonly onSent?: OnSent | undefined;
  /** As the client's, for what takes the daemon longer. */
  readonly idleMs?: number;
}

/** Told how many bytes of a body have gone out, and how many there are. */
export type OnSent = (sent: number, total: number) => void;

export interface Answered<Answer> {
  /** The JSON as it came. */
  readonly data: unknown;
  readonly headers: IncomingHttpHeaders;
  /**
   * The same by the contract; a value that this version does not know, such as a state of a newer server, is kept. Throws
   * CommandFailed if it is another answer.
   */
  read(): Answer;
}

/** All of these throw DaemonUnreachable, or RequestRefused with the daemon's words. */
export interface Client {
  readonly address: Address;
  readonly key: string | undefined;
  /** What the route answers, read by the contract. */
  call<Path extends string, Answer>(call: Call<Path, Answer>): Promise<Answer>;
  ask<Path extends string, Answer>(call: Call<Path, Answer>): Promise<Answered<Answer>>;
  /** The answer as it comes, such as CSV or a file, once its status is a success. */
  open<Path extends string, Answer>(call: Call<Path, Answer>): Promise<IncomingMessage>;
}

const DEFAULT_IDLE_MS = 30_000;
const CHUNK_BYTES = 64 * 1024;

/** A client for the daemon at an address. */
export function createClient({ address, key, idleMs: usualMs = DEFAULT_IDLE_MS }: ClientOptions): Client {
  const transport = transportOf(address);

  async function open<Path extends string, Answer>(call: Call<Path, Answer>): Promise<IncomingMessage> {
    const { route, params, query, body, onSent, idleMs = usualMs } = call;
    const text = body === undefined ? '' : JSON.stringify(body);
    const path = params === undefined ? route.path : pathOf(route, params);
    const search = queryOf(route.query, query);
    const options: RequestOptions = {
      ...transport.options,
      method: route.method,
      path: `${transport.prefix}${path}${search.size === 0 ? '' : '?'}${search.toString()}`,
      timeout: idleMs,
      headers: {
        Accept: 'application/json',
        'Content-Length': Buffer.byteLength(text),
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...(key === undefined ? {} : { Authorization: `Bearer ${key}` }),
      },
    };
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const sent = transport.request(options, resolve);
      sent.on('timeout', () => sent.destroy(new Error(`no answer within ${idleMs / 1000} s`)));
      sent.on('error', reject);
      if (onSent === undefined) sent.end(text);
      else Readable.from(chunksOf(Buffer.from(text), onSent)).pipe(sent);
    }).catch((error: unknown) => {
      throw new DaemonUnreachable(connectionProblem(address, error), { cause: error });
    });
    const { statusCode: status = 0, headers: answered } = response;
    if (status >= 200 && status < 300) return response;
    const words = await readText(response, address);
    throw refusalOf(words, status, answered['retry-after']) ?? new DaemonUnreachable(foreignAnswer(response, address));
  }

  async function ask<Path extends string, Answer>(call: Call<Path, Answer>): Promise<Answered<Answer>> {
    const response = await open(call);
    const data = parse(await readText(response, address));
    if (data === undefined) throw new DaemonUnreachable(foreignAnswer(response, address));
    return { data, headers: response.headers, read: () => readAnswer(call.route.answer, data, address) };
  }

  return { address, key, call: async (call) => (await ask(call)).read(), ask, open };
}

/** The answers of the route of a list, page by page. */
export async function everyPage<Answer extends { readonly next_cursor: string | null }>(
  client: Client,
  route: Call<string, Answer>['route'],
): Promise<Answer[]> {
  const pages: Answer[] = [];
  for (let cursor: string | null | undefined; cursor !== null; cursor = pages.at(-1)?.next_cursor)
    pages.push(await client.call({ route, query: { limit: 200, cursor } }));
  return pages;
}

/** What is given and the route knows. */
function queryOf(schema: z.ZodType | undefined, given: object = {}): URLSearchParams {
  const names = schema instanceof z.ZodObject ? Object.keys(schema.shape) : [];
  const query = new URLSearchParams();
  for (const [flag, value] of Object.entries(given)) {
    const name = flag.replaceAll(/[A-Z]/g, (sign) => `_${sign.toLowerCase()}`);
    for (const one of names.includes(name) ? [value ?? []].flat() : []) query.append(name, String(one));
  }
  return query;
}

/** The answer by the contract. Throws CommandFailed if it is another one. */
function readAnswer<Answer>(answer: z.ZodType<Answer>, data: unknown, address: Address): Answer {
  const read = answer.safeParse(data);
  if (read.success) return read.data;
  if (isKnownShape(data, answer)) return data;
  throw new CommandFailed(
    `${address} sent an answer that this version of postern cannot read. Its version may differ; compare with: postern auth status --debug\n${z.prettifyError(read.error)}`,
  );
}

/** Whether an answer differs from the contract by unknown values of enums alone. */
function isKnownShape<Answer>(data: unknown, schema: z.ZodType<Answer>): data is Answer {
  return (schema.safeParse(data).error?.issues ?? []).every(({ code, path }) => {
    const value = path.reduce((parent: unknown, key): unknown => Reflect.get(Object(parent), key), data);
    return code === 'invalid_value' && typeof value === 'string';
  });
}

/** Each chunk is read once the one before was sent. */
function* chunksOf(bytes: Buffer, onSent: OnSent): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += CHUNK_BYTES) {
    onSent(at, bytes.length);
    yield bytes.subarray(at, at + CHUNK_BYTES);
  }
  onSent(bytes.length, bytes.length);
}

interface Transport {
  readonly request: typeof requestClear;
  readonly options: RequestOptions;
  /** Stands before the API's own paths. */
  readonly prefix: string;
}

/** Throws UserError where the address is none. */
function transportOf(address: Address): Transport {
  if (address.startsWith('unix:')) {
    return { request: requestClear, options: { socketPath: address.slice('unix:'.length) }, prefix: '' };
  }
  const url = URL.parse(address);
  if (url === null || !['http:', 'https:'].includes(url.protocol)) {
    throw new UserError(
      `${address} is not a server URL, such as https://mail.example.net or unix:/run/postern/admin.sock`,
    );
  }
  const options = { host: url.hostname.replace(/^\[(.*)\]$/, '$1'), port: url.port === '' ? undefined : url.port };
  const prefix = url.pathname.replace(/\/+$/, '');
  return { request: url.protocol === 'https:' ? requestSecure : requestClear, options, prefix };
}

async function readText(response: IncomingMessage, address: Address): Promise<string> {
  let text = '';
  try {
    for await (const chunk of response.setEncoding('utf8')) text += String(chunk);
  } catch (error) {
    throw new DaemonUnreachable(connectionProblem(address, error), { cause: error });
  }
  return text;
}

/** What is wrong, and where: `domains.example.com.forms.contact.rateLimit`, `to`. */
const detail = z.object({
  path: z.string(),
  message: z.string(),
  line: z.number().optional(),
  column: z.number().optional(),
});

export type Detail = z.output<typeof detail>;

/** Both error shapes of the API (docs: /docs of every server). */
const errorBody = z.object({
  error: z.union([z.string(), z.literal(true)]),
  message: z.string().optional(),
  code: z.union([z.string(), z.number()]).optional(),
  request_id: z.string().optional(),
  details: z.array(detail).optional(),
});

/** Undefined where no Postern says so. */
function refusalOf(text: string, status: number, retryAfter: string | undefined): RequestRefused | undefined {
  const { success, data } = errorBody.safeParse(parse(text));
  if (!success) return undefined;
  const words = typeof data.error === 'string' ? data.error : (data.message ?? `the server answered ${status}`);
  const { code = '', details = [], request_id: requestId } = data;
  return new RequestRefused(words, { status, code: String(code), details, requestId, retryAfter });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** An answer that is none of Postern's, such as that of a proxy before it, or of another server. */
function foreignAnswer({ statusCode, headers }: IncomingMessage, address: Address): string {
  const { location } = headers;
  if (location !== undefined) return `${address} redirects to ${location}. If that is your server, use that URL`;
  return `${address} answered ${statusCode}, but not as a Postern server. Check the URL and any proxy in front of the server`;
}

function connectionProblem(address: Address, error: unknown): string {
  const socket = address.startsWith('unix:') ? address.slice('unix:'.length) : undefined;
  switch (codeOf(error)) {
    case 'ENOENT':
      return `Cannot connect to the daemon: no socket at ${socket ?? address} (server.admin_socket). Is the daemon running? Find out with: postern doctor`;
    case 'ECONNREFUSED':
      return `Cannot connect to the daemon: connection refused at ${socket ?? address}${socket === undefined ? '' : ' (server.admin_socket)'}. Is the daemon running?${socket === undefined ? '' : ' Find out with: postern doctor'}`;
    case 'EACCES':
    case 'EPERM':
      return `Permission denied: only root and the group of the service can use ${socket ?? address}`;
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `Cannot resolve the host name of ${address}. Check the name and the DNS settings of this machine`;
    case 'EPROTO':
    case 'ERR_SSL_WRONG_VERSION_NUMBER':
      return `${address} does not use TLS. Is it http:// instead of https://?`;
    case 'DEPTH_ZERO_SELF_SIGNED_CERT':
    case 'SELF_SIGNED_CERT_IN_CHAIN':
    case 'UNABLE_TO_VERIFY_LEAF_SIGNATURE':
    case 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY':
      return `The certificate of ${address} is not trusted (${messageOf(error)}). To trust it, set NODE_EXTRA_CA_CERTS to a file with its CA certificate`;
    default:
      return `Cannot connect to the daemon at ${socket ?? address}: ${messageOf(error)}`;
  }
}

/** This machine kept the command from its work, such as a file that cannot be written: exit code 1. */
export class CommandFailed extends UserError {
  override readonly name = 'CommandFailed';
}

/** Files of this machine are wrong, or in the way: exit code 78 by default. */
export class FilesRefused extends UserError {
  override readonly name = 'FilesRefused';
  readonly problems: readonly Problem[];
  readonly exitCode: number;

  /** `message` comes after the problems; empty where they say it all. */
  constructor(message: string, problems: readonly Problem[] = [], exitCode = 78) {
    super(message);
    this.problems = problems;
    this.exitCode = exitCode;
  }
}

/** There is no daemon at the address, or this user may not speak to it. */
export class DaemonUnreachable extends UserError {
  override readonly name = 'DaemonUnreachable';

  /** Whether nobody listens there: on a socket of this machine, no daemon runs. */
  get isDown(): boolean {
    return ['ENOENT', 'ECONNREFUSED'].includes(codeOf(this.cause) ?? '');
  }
}

/** The server rejected the request. */
export class RequestRefused extends UserError {
  override readonly name = 'RequestRefused';
  readonly refused: Refused;
  constructor(message: string, refused: Refused) {
    super(message);
    this.refused = refused;
  }
}

export interface Refused {
  readonly status: number;
  /** `NOT_FOUND`, `CONFLICT`, … */
  readonly code: string;
  readonly details: readonly Detail[];
  readonly requestId: string | undefined;
  /** `Retry-After`, seconds (RFC 9110 §10.2.3). */
  readonly retryAfter: string | undefined;
}

/** The command was called in a way that it cannot be: exit code 2. */
export class UsageError extends UserError {
  override readonly name = 'UsageError';
}

// A client that goes on without the daemon: where it does not run on this machine, the server's own code answers what only
// reads, from the database. That code loads native modules, so that it is loaded then alone.

interface OfflineOptions {
  /** server.yml */
  readonly file: string;
  readonly answer: AnswerOffline;
  /** Told where the database answered in place of the daemon, and the answer does not say so itself. */
  readonly onOffline: (source: string) => void;
}

/** The client of a daemon that may be down. */
export function offlineClient(client: Client, { file, answer, onOffline }: OfflineOptions): Client {
  async function ask<Path extends string, Answer>(call: Call<Path, Answer>) {
    try {
      return await client.ask(call);
    } catch (error) {
      if (!(error instanceof DaemonUnreachable && error.isDown)) throw error;
      const { route, params = {} } = call;
      const answered = await answer(file, {
        route: `${route.method} ${route.path}`,
        params,
        query: queryOf(route.query, call.query),
      });
      if (answered.kind === 'refused') {
        const { code, status, message } = answered;
        throw new RequestRefused(message, { code, status, details: [], requestId: undefined, retryAfter: undefined });
      }
      if (answered.source !== undefined) onOffline(answered.source);
      const { data } = answered;
      return { data, headers: {}, read: () => readAnswer(route.answer, data, client.address) };
    }
  }

  return { ...client, ask, call: async (call) => (await ask(call)).read() };
}
