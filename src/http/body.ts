/** The body of a submission, of whichever type, within the limits; nothing of it is interpreted yet. */
import type { ServerConfig } from '../config/schema.ts';
import type { Form } from '../config/snapshot.ts';
import type { SubmittedBody } from '../forms/fields.ts';
import { parametersOf, textOf, bodyTooLarge, collect, discardRest, type Parsed, parseUrlencoded } from './entries.ts';
import { refuse, type Refusal } from './errors.ts';
import type { Exchange } from './context.ts';
import { parseJsonObject } from './json-entries.ts';
import { type MultipartLimits, type MultipartOptions, readMultipart } from './multipart.ts';
import type { SubmittedValues } from './pages/error.ts';

export interface ReadBody {
  readonly body: SubmittedBody;
  /** What can be given back to the visitor: the fields, and the names of files. */
  readonly submitted: SubmittedValues;
  /** Why it is not taken; `body` holds what was read until then. */
  readonly refusal?: Refusal | undefined;
}

type Requested = Pick<Exchange, 'request' | 'response'>;

/**
 * Bodies without files are parsed at once, not in slices, so that they must be smaller: two million bytes take less than
 * 50 ms, whatever they hold. Where the configuration allows longer fields, four of the longest fit.
 */
const TEXT_BODY = 2 * 1024 * 1024;
const FIELDS_IN_TEXT = 4;

/** The limits for a form's bodies: the server's, and whether it takes files. */
export function limitsFor({ limits }: ServerConfig, form: Form | undefined): MultipartLimits {
  return { ...limits, uploads: form === undefined || form.config.uploads?.enabled === true };
}

/** Whether the request says that its body is JSON. */
export function isJson(contentType: string | undefined): boolean {
  return contentType !== undefined && /^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(contentType);
}

/** Reads the body. Rejects with ClientGone, StoreError, or a fault of ours. */
export async function readBody(requested: Requested, options: MultipartOptions): Promise<ReadBody> {
  const read = await readByType(requested, options);
  if (read.refusal !== undefined && !requested.request.complete) discardRest(requested.request);
  return read;
}

async function readByType({ request, response }: Requested, options: MultipartOptions): Promise<ReadBody> {
  const { headers } = request;
  const { limits } = options;
  const length = Number(headers['content-length'] ?? 0);
  const type = headers['content-type'];
  const coding = headers['content-encoding'];
  if (coding !== undefined && coding.toLowerCase() !== 'identity') {
    return refused(unsupportedCoding());
  }
  if (length > limits.body) return refused(bodyTooLarge(limits.body));
  if (type === undefined) return length === 0 && headers['transfer-encoding'] === undefined ? NOTHING : unsupported();
  const json = isJson(type);
  if (!json && !/^application\/x-www-form-urlencoded\s*(?:;|$)/i.test(type)) {
    if (!/^multipart\/form-data\s*;/i.test(type)) return unsupported();
    expectBody({ request, response });
    const { entries, files, chosen, refusal } = await readMultipart(request, options);
    return { body: { entries, files }, submitted: { entries, files: chosen }, refusal };
  }
  const most = Math.min(limits.body, Math.max(TEXT_BODY, limits.field * FIELDS_IN_TEXT));
  if (length > most) return refused(bodyTooLarge(most));
  expectBody({ request, response });
  const bytes = await collect(request, most);
  if (bytes === undefined) return refused(bodyTooLarge(most));
  const charset = parametersOf(type).get('charset');
  const { entries, refusal } = json ? parseJson(bytes, charset, options) : parseUrlencoded(bytes, charset, limits);
  const body = { entries, files: [] };
  return { body, submitted: body, refusal };
}

/** Sends for a body that the client holds back until it is asked for (RFC 9110 §10.1.1). */
function expectBody({ request, response }: Requested): void {
  if (request.headers.expect !== undefined) response.writeContinue();
}

function parseJson(bytes: Buffer, charset: string | undefined, { limits }: MultipartOptions): Parsed {
  const text = textOf(bytes, charset);
  return typeof text === 'string' ? parseJsonObject(text, limits) : { entries: [], refusal: text };
}

const NOTHING: ReadBody = { body: { entries: [], files: [] }, submitted: { entries: [], files: [] } };
const TYPES = 'application/x-www-form-urlencoded, multipart/form-data';

function refused(refusal: Refusal): ReadBody {
  return { ...NOTHING, refusal };
}

function unsupported(): ReadBody {
  const headers = { Accept: `${TYPES}, application/json` };
  return refused(refuse('UNSUPPORTED_MEDIA_TYPE', { message: `Send ${TYPES} or application/json.`, headers }));
}

/** The refusal of a body that is compressed. */
export function unsupportedCoding(): Refusal {
  return refuse('UNSUPPORTED_MEDIA_TYPE', {
    message: 'Send the body without a Content-Encoding.',
    headers: { 'Accept-Encoding': 'identity' },
  });
}
