/** Every error that the API and the forms answer: its code, its status, its usual message, and what a client should do. */
import { z } from 'zod';
import { namesOf } from '../lib/permission-names.ts';

interface ErrorEntry {
  readonly status: number;
  /** For a person; an answer may say more exactly what is wrong. */
  readonly message: string;
  /** What to do, for the reference. */
  readonly advice: string;
  /** The code in the `errors` of a submission, where published form clients know it by another name. */
  readonly formCode?: string;
}

const ERRORS = {
  REQUEST_MALFORMED: {
    status: 400,
    message: 'The request is not valid HTTP.',
    advice: 'Correct the client; the request was not read.',
  },
  BODY_MALFORMED: {
    status: 400,
    message: 'The body of the request cannot be read.',
    advice: 'Correct the body or the query. The message names the position.',
  },
  VALIDATION_FAILED: {
    status: 400,
    message: 'Some fields need your attention.',
    advice: 'Correct the values that `details` (forms: `errors`) names, and send the request again.',
  },
  BLOCKED: {
    status: 400,
    message: 'The message looks like spam and was not sent.',
    advice: 'The submission is kept as spam. If it is not spam, release it with `POST /submissions/{id}/ham`.',
  },
  NO_FILE_UPLOADS: {
    status: 400,
    message: 'This form does not accept files.',
    advice: 'Send the form without files, or set `uploads` for the form.',
  },
  AUTH_AMBIGUOUS: {
    status: 400,
    message: 'Send the API key in one header, not in several.',
    advice: 'Send the key in exactly one of the three headers.',
  },
  AUTH_MISSING_KEY: {
    status: 401,
    message: 'An API key is required.',
    advice: 'Send an API key, for example as `Authorization: Bearer …`.',
  },
  AUTH_INVALID_KEY: {
    status: 401,
    message: 'The API key is not valid.',
    advice: 'Check that you copied the complete key and that it was created on this server.',
  },
  AUTH_EXPIRED_KEY: { status: 401, message: 'The API key has expired.', advice: 'Create a new key.' },
  AUTH_REVOKED_KEY: { status: 401, message: 'The API key was revoked.', advice: 'Use another key.' },
  AUTH_FORBIDDEN: {
    status: 403,
    message: 'The API key may not do this.',
    advice: 'Use a key that has the permission that the message names.',
  },
  AUTH_TEST_KEY: {
    status: 403,
    message: 'Test keys cannot read or change live data. Use a live key.',
    advice: 'Use a live key, or work on an object that a test key created.',
  },
  AUTH_IP_NOT_ALLOWED: {
    status: 403,
    message: 'The API key may not be used from this address.',
    advice: 'Send the request from an address in the `ip_whitelist` of the key.',
  },
  AUTH_DOMAIN_NOT_ALLOWED: {
    status: 403,
    message: 'The API key may not be used for this domain.',
    advice: 'Use a key whose `domain_restrictions` include the domain, or one without restrictions.',
  },
  PLAN_LIMIT: {
    status: 403,
    message: 'The plan of the account does not allow more of these.',
    advice: 'Delete objects that you no longer need, or ask the operator to raise the limit.',
  },
  SIGNUP_CLOSED: {
    status: 403,
    message: 'Sign-up is closed. Only the operator of this server creates accounts.',
    advice: 'Ask the operator for an account.',
  },
  RECIPIENT_NOT_CONFIRMED: {
    status: 403,
    message: 'The recipient has not yet agreed to receive mail from this account.',
    advice: 'Ask the recipient to open the link in the confirmation mail. To send it again, call `POST /recipients`.',
  },
  DOMAIN_NOT_VERIFIED: {
    status: 403,
    message: 'The domain of this form is not verified yet.',
    advice: 'Publish the DNS records of the domain, then call `POST /domains/{domain}/verify`.',
  },
  ORIGIN_NOT_ALLOWED: {
    status: 403,
    message: 'This form may not be used from this page.',
    advice: 'Add the origin of the page to the `allowed_origins` of the form.',
  },
  INACTIVE: {
    status: 403,
    message: 'This form does not accept submissions at the moment.',
    advice: 'The account is suspended or the form is switched off. Ask its owner.',
  },
  NOT_FOUND: {
    status: 404,
    message: 'There is nothing at this address.',
    advice: 'Check the path and the id. An object of another account is not found either.',
  },
  DOMAIN_NOT_FOUND: {
    status: 404,
    message: 'This server has no forms for this domain.',
    advice: 'Check the name of the domain, or add it with `POST /domains`.',
    formCode: 'FORM_NOT_FOUND',
  },
  FORM_NOT_FOUND: {
    status: 404,
    message: 'There is no form at this address.',
    advice: 'Check the id of the form; `GET /forms` lists them.',
  },
  TEMPLATE_NOT_FOUND: {
    status: 404,
    message: 'There is no template of this name.',
    advice: 'Check the name of the template, or name its `project`.',
  },
  METHOD_NOT_ALLOWED: {
    status: 405,
    message: 'This address does not support this method.',
    advice: 'Use one of the methods in the `Allow` header.',
  },
  REQUEST_TIMEOUT: {
    status: 408,
    message: 'The request took too long to arrive.',
    advice: 'Send it again over a faster connection.',
  },
  CONFLICT: {
    status: 409,
    message: 'This conflicts with the current state.',
    advice: 'The message says what is in the way. Change that first.',
  },
  IDEMPOTENCY_CONFLICT: {
    status: 409,
    message: 'This Idempotency-Key was used with another body, or its first request is still in progress.',
    advice: 'Repeat exactly the same request a little later, or use a new key for a new request.',
  },
  BODY_TOO_LARGE: {
    status: 413,
    message: 'The request is too large.',
    advice: 'Reduce the size of the request. The message states the limit.',
  },
  FILES_TOO_BIG: {
    status: 413,
    message: 'A file is too big.',
    advice: 'Send a smaller file, or raise `uploads` of the form.',
  },
  TOO_MANY_FILES: {
    status: 413,
    message: 'There are too many files.',
    advice: 'Send fewer files, or raise `uploads` of the form.',
  },
  UNSUPPORTED_MEDIA_TYPE: {
    status: 415,
    message: 'The content type of the body is not supported.',
    advice: 'Send `application/json`, uncompressed. Forms also take URL-encoded and multipart bodies.',
  },
  RATE_LIMITED: {
    status: 429,
    message: 'Too many requests. Please try again later.',
    advice: 'Wait as many seconds as `Retry-After` says.',
  },
  HEADERS_TOO_LARGE: {
    status: 431,
    message: 'The headers of the request are too large.',
    advice: 'Send fewer or shorter headers.',
  },
  INTERNAL: {
    status: 500,
    message: 'Something went wrong on the server.',
    advice: 'Give the request id to the operator, who can find the error in the log with it.',
  },
  OUTCOME_UNKNOWN: {
    status: 503,
    message:
      'The database did not confirm this, and whether it was accepted is not known. Look it up before you try again.',
    advice: 'Look up the `id` in the answer. Repeat the request if nothing is found.',
  },
  UNAVAILABLE: {
    status: 503,
    message: 'The server is temporarily unavailable. Nothing was sent.',
    advice: 'Nothing was accepted. Repeat the request after `Retry-After` seconds.',
  },
} as const satisfies Readonly<Record<string, ErrorEntry>>;

export type ErrorCode = keyof typeof ERRORS;

/** All codes, in the order of their statuses. */
export const ERROR_CODES = namesOf(ERRORS);

/** What is known of a code, with its optional members. */
export function errorEntry(code: ErrorCode): ErrorEntry {
  return ERRORS[code];
}

/** The body of an error of the API. */
export const apiError = z.object({
  error: z.string().describe('What is wrong, for a person.'),
  code: z.enum(ERROR_CODES).describe('The same for a program.'),
  request_id: z.string().describe('Finds the request in the log of the server.'),
  details: z
    .array(z.object({ path: z.string(), message: z.string(), line: z.int().optional(), column: z.int().optional() }))
    .optional()
    .describe('What is wrong where, if a body or a file is not valid.'),
});

/** The body of an error of a form's address. */
export const submissionError = z.object({
  success: z.literal(false),
  error: z.literal(true),
  message: z.string().describe('What is wrong, for a person.'),
  code: z.int().describe('The HTTP status.'),
  request_id: z.string().describe('Finds the request in the log of the server.'),
  errors: z
    .array(
      z.object({
        field: z.string().optional().describe('Absent if the whole form is meant.'),
        code: z.string().describe('Such as `REQUIRED_FIELD_MISSING` or `TYPE_EMAIL`.'),
        message: z.string(),
      }),
    )
    .min(1),
});
