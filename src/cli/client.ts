/** How commands reach the running daemon: HTTP over the operator's Unix socket, where the file's permissions are the login. */
import { request, type IncomingMessage } from 'node:http';
import { UserError, codeOf, messageOf } from '../lib/errors.ts';

export interface Client {
  /** The JSON of the answer. Throws DaemonUnreachable, or RequestRefused with the daemon's words. */
  get(path: string): Promise<unknown>;
  post(path: string, body?: object): Promise<unknown>;
}

/** There is no daemon behind the socket, or this user may not speak to it. */
export class DaemonUnreachable extends UserError {
  override readonly name = 'DaemonUnreachable';
}

/** The daemon did not do what was asked. */
export class RequestRefused extends UserError {
  override readonly name = 'RequestRefused';
  readonly status: number;
  /** `NOT_FOUND`, `CONFLICT`, … */
  readonly code: string;
  constructor(message: string, { status, code }: { status: number; code: string }) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

const TIMEOUT_MS = 30_000;

/** A client for the daemon that listens on this socket (`server.admin_socket`). */
export function createClient(socket: string): Client {
  return {
    get: (path) => call(socket, { path, method: 'GET' }),
    post: (path, body) => call(socket, { path, method: 'POST', body }),
  };
}

interface Call {
  readonly path: string;
  readonly method: 'GET' | 'POST';
  readonly body?: object | undefined;
}

async function call(socket: string, { path, method, body }: Call): Promise<unknown> {
  const text = body === undefined ? '' : JSON.stringify(body);
  const headers = {
    'Content-Length': Buffer.byteLength(text),
    ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
  };
  const answer = await new Promise<{ status: number; text: string }>((resolve, reject) => {
    const sent = request({ socketPath: socket, path, method, headers, timeout: TIMEOUT_MS }, (response) => {
      readText(response).then((read) => resolve({ status: response.statusCode ?? 0, text: read }), reject);
    });
    sent.on('timeout', () => sent.destroy(new Error(`no answer within ${TIMEOUT_MS / 1000} s`)));
    sent.on('error', reject);
    sent.end(text);
  }).catch((error: unknown) => {
    throw new DaemonUnreachable(whyNot(socket, error), { cause: error });
  });
  const data = parse(answer.text);
  if (answer.status >= 200 && answer.status < 300 && data !== undefined) return data;
  throw new RequestRefused(wordsOf(data) ?? `the daemon answered ${answer.status}`, {
    status: answer.status,
    code: memberOf(data, 'code') ?? '',
  });
}

async function readText(response: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of response.setEncoding('utf8')) text += String(chunk);
  return text;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The message of an error body. */
function wordsOf(data: unknown): string | undefined {
  return memberOf(data, 'error');
}

function memberOf(data: unknown, name: string): string | undefined {
  if (typeof data !== 'object' || data === null) return undefined;
  const value: unknown = Object.entries(data).find(([key]) => key === name)?.[1];
  return typeof value === 'string' ? value : undefined;
}

function whyNot(socket: string, error: unknown): string {
  switch (codeOf(error)) {
    case 'ENOENT':
      return `is the daemon running? There is no socket ${socket} (server.admin_socket)`;
    case 'ECONNREFUSED':
      return `is the daemon running? Nobody listens on ${socket} (server.admin_socket)`;
    case 'EACCES':
    case 'EPERM':
      return `this user may not speak to the daemon: ${socket} is for root and the service's group`;
    default:
      return `the daemon behind ${socket} cannot be reached: ${messageOf(error)}`;
  }
}
