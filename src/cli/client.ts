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
import { codeOf, messageOf, UserError } from '../lib/errors.ts';

/** Where the API is: `https://mail.example.net`, with or without a path before the API's own, or `unix:/path/of/socket`. */
export type Address = string;

export interface ClientOptions {
  readonly address: Address;
  readonly key?: string | undefined;
  /** Idle time-out, ms. Default: 30 s. */
  readonly idleMs?: number;
}

export interface Call {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** With its query. */
  readonly path: string;
  /** Goes as JSON. */
  readonly body?: object | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  readonly onSent?: OnSent | undefined;
  /** As the client's, for what takes the daemon longer. */
  readonly idleMs?: number;
}

/** Told how many bytes of a body have gone out, and how many there are. */
export type OnSent = (sent: number, total: number) => void;

export interface Answered {
  readonly data: unknown;
  readonly headers: IncomingHttpHeaders;
}

/** All of these throw DaemonUnreachable, or RequestRefused with the daemon's words. */
export interface Client {
  readonly address: Address;
  readonly key: string | undefined;
  /** The JSON of the answer. */
  get(path: string): Promise<unknown>;
  post(path: string, body?: object): Promise<unknown>;
  put(path: string, body: object, onSent?: OnSent): Promise<unknown>;
  patch(path: string, body: object): Promise<unknown>;
  delete(path: string): Promise<unknown>;
  /** The JSON of an answer with its headers. */
  ask(call: Call): Promise<Answered>;
  /** The answer as it comes, such as CSV or a file, once its status is a success. */
  open(call: Call): Promise<IncomingMessage>;
}

/** There is no daemon at the address, or this user may not speak to it. */
export class DaemonUnreachable extends UserError {
  override readonly name = 'DaemonUnreachable';
}

export interface Detail {
  /** What is wrong: `domains.example.com.forms.contact.rateLimit`, `to`. */
  readonly path: string;
  readonly message: string;
  readonly line?: number | undefined;
  readonly column?: number | undefined;
}

interface Refused {
  readonly status: number;
  /** `NOT_FOUND`, `CONFLICT`, … */
  readonly code: string;
  readonly details: readonly Detail[];
  readonly requestId: string | undefined;
  /** `Retry-After`, seconds (RFC 9110 §10.2.3). */
  readonly retryAfter: string | undefined;
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

const DEFAULT_IDLE_MS = 30_000;
const CHUNK_BYTES = 64 * 1024;

/** A client for the daemon at an address. */
export function createClient({ address, key, idleMs: usualMs = DEFAULT_IDLE_MS }: ClientOptions): Client {
  const transport = transportOf(address);

  async function open({ method, path, body, headers, onSent, idleMs = usualMs }: Call): Promise<IncomingMessage> {
    const text = body === undefined ? '' : JSON.stringify(body);
    const options: RequestOptions = {
      ...transport.options,
      method,
      path: transport.prefix + path,
      timeout: idleMs,
      headers: {
        Accept: 'application/json',
        'Content-Length': Buffer.byteLength(text),
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...(key === undefined ? {} : { Authorization: `Bearer ${key}` }),
        ...headers,
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

  async function ask(call: Call): Promise<Answered> {
    const response = await open(call);
    const text = await readText(response, address);
    try {
      return { data: JSON.parse(text), headers: response.headers };
    } catch {
      throw new DaemonUnreachable(foreignAnswer(response, address));
    }
  }

  async function dataOf(call: Call): Promise<unknown> {
    return (await ask(call)).data;
  }

  return {
    address,
    key,
    get: (path) => dataOf({ method: 'GET', path }),
    post: (path, body) => dataOf({ method: 'POST', path, body }),
    put: (path, body, onSent) => dataOf({ method: 'PUT', path, body, onSent }),
    patch: (path, body) => dataOf({ method: 'PATCH', path, body }),
    delete: (path) => dataOf({ method: 'DELETE', path }),
    ask,
    open,
  };
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

/** Both error shapes of the API (docs: /docs of every server). */
const errorBody = z.object({
  error: z.union([z.string(), z.literal(true)]),
  message: z.string().optional(),
  code: z.union([z.string(), z.number()]).optional(),
  request_id: z.string().optional(),
  details: z
    .array(
      z.object({
        path: z.string(),
        message: z.string(),
        line: z.number().optional(),
        column: z.number().optional(),
      }),
    )
    .optional(),
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
  if (location !== undefined) return `${address} redirects to ${location}. If that is your server, use its URL`;
  return `${address} answered ${statusCode}, but not as a Postern server. Check the URL and any proxy in front of the server`;
}

function connectionProblem(address: Address, error: unknown): string {
  const socket = address.startsWith('unix:') ? address.slice('unix:'.length) : undefined;
  switch (codeOf(error)) {
    case 'ENOENT':
      return `Cannot connect to the daemon: no socket at ${socket ?? address} (server.admin_socket). Is the daemon running?`;
    case 'ECONNREFUSED':
      return `Cannot connect to the daemon: connection refused at ${socket ?? address}${socket === undefined ? '' : ' (server.admin_socket)'}. Is the daemon running?`;
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
