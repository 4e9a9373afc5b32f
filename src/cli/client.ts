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
  /** How long nothing may come, ms; 30 s unless told. */
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
  /** Seconds after which it may be asked again (RFC 9110 §10.2.3). */
  readonly retryAfter: string | undefined;
}

/** The daemon did not do what was asked. */
export class RequestRefused extends UserError {
  override readonly name = 'RequestRefused';
  readonly refused: Refused;
  constructor(message: string, refused: Refused) {
    super(message);
    this.refused = refused;
  }
}

const IDLE_MS = 30_000;
const PIECE = 64 * 1024;

/** A client for the daemon at an address. */
export function createClient({ address, key, idleMs: usualMs = IDLE_MS }: ClientOptions): Client {
  const door = doorOf(address);

  async function open({ method, path, body, headers, onSent, idleMs = usualMs }: Call): Promise<IncomingMessage> {
    const text = body === undefined ? '' : JSON.stringify(body);
    const options: RequestOptions = {
      ...door.options,
      method,
      path: door.prefix + path,
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
      const sent = door.request(options, resolve);
      sent.on('timeout', () => sent.destroy(new Error(`no answer within ${idleMs / 1000} s`)));
      sent.on('error', reject);
      if (onSent === undefined) sent.end(text);
      else Readable.from(pieces(Buffer.from(text), onSent)).pipe(sent);
    }).catch((error: unknown) => {
      throw new DaemonUnreachable(whyNot(address, error), { cause: error });
    });
    const { statusCode: status = 0, headers: answered } = response;
    if (status >= 200 && status < 300) return response;
    const words = await readText(response, address);
    throw refusalOf(words, status, answered['retry-after']) ?? new DaemonUnreachable(foreign(response, address));
  }

  async function ask(call: Call): Promise<Answered> {
    const response = await open(call);
    const text = await readText(response, address);
    try {
      return { data: JSON.parse(text), headers: response.headers };
    } catch {
      throw new DaemonUnreachable(foreign(response, address));
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

/** Each is asked for once the one before has gone out. */
function* pieces(bytes: Buffer, onSent: OnSent): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += PIECE) {
    onSent(at, bytes.length);
    yield bytes.subarray(at, at + PIECE);
  }
  onSent(bytes.length, bytes.length);
}

interface Door {
  readonly request: typeof requestClear;
  readonly options: RequestOptions;
  /** Stands before the API's own paths. */
  readonly prefix: string;
}

/** Throws UserError where the address is none. */
function doorOf(address: Address): Door {
  if (address.startsWith('unix:')) {
    return { request: requestClear, options: { socketPath: address.slice('unix:'.length) }, prefix: '' };
  }
  const url = URL.parse(address);
  if (url === null || !['http:', 'https:'].includes(url.protocol)) {
    throw new UserError(
      `${address} is no address of a server, such as https://mail.example.net or unix:/run/postern/admin.sock`,
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
    throw new DaemonUnreachable(whyNot(address, error), { cause: error });
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
function foreign({ statusCode, headers }: IncomingMessage, address: Address): string {
  const { location } = headers;
  if (location !== undefined) return `${address} leads on to ${location}: ask there, if that is your Postern`;
  return `${address} answered ${statusCode} and not as Postern does: is it there, and does a proxy before it reach it?`;
}

function whyNot(address: Address, error: unknown): string {
  const socket = address.startsWith('unix:') ? address.slice('unix:'.length) : undefined;
  switch (codeOf(error)) {
    case 'ENOENT':
      return `is the daemon running? There is no socket ${socket ?? address} (server.admin_socket)`;
    case 'ECONNREFUSED':
      return `is the daemon running? Nobody listens on ${socket ?? address}${socket === undefined ? '' : ' (server.admin_socket)'}`;
    case 'EACCES':
    case 'EPERM':
      return `this user may not speak to the daemon: ${socket ?? address} is for root and the service's group`;
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `the name in ${address} is not found: is it spelled right, and does this machine reach DNS?`;
    case 'EPROTO':
    case 'ERR_SSL_WRONG_VERSION_NUMBER':
      return `${address} does not speak TLS: is it http:// instead of https://?`;
    case 'DEPTH_ZERO_SELF_SIGNED_CERT':
    case 'SELF_SIGNED_CERT_IN_CHAIN':
    case 'UNABLE_TO_VERIFY_LEAF_SIGNATURE':
    case 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY':
      return `the certificate of ${address} is not trusted (${messageOf(error)}): NODE_EXTRA_CA_CERTS names a file with certificates to trust`;
    default:
      return `the daemon at ${socket ?? address} cannot be reached: ${messageOf(error)}`;
  }
}
