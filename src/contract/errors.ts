/** Every error that the API and the forms answer: its code, its status, its usual message, and what a client should do. */
import { z } from 'zod';
import { namesOf } from '../lib/permission-names.ts';

/**
 * `message` is for a person, and an answer may say more exactly what is wrong; `advice` is what to do, for the reference;
 * `formCode` is the code in the `errors` of a submission, where published form clients know it by another name.
 */
type Entry = readonly [status: number, message: string, advice: string, formCode?: string];

const ERRORS = {
  REQUEST_MALFORMED: [400, 'The request is not valid HTTP.', 'Correct the client; the request was not read.'],
  BODY_MALFORMED: [
    400,
    'The body of the request cannot be read.',
    'Correct the body or the query. The message says where.',
  ],
  VALIDATION_FAILED: [
    400,
    'Some fields need your attention.',
    'Correct the values listed in `details` (forms: `errors`), and send the request again.',
  ],
  BLOCKED: [
    400,
    'The message looks like spam and was not sent.',
    'The submission is kept as spam. If it is not spam, release it with `POST /submissions/{id}/ham`.',
  ],
  CHALLENGE_REQUIRED: [
    400,
    'This form checks that messages are sent by people, and that check is missing. Please turn on JavaScript and send the message again.',
    'Add `postern.js`, or the form’s captcha widget, to the page. Servers send an API key instead.',
  ],
  CHALLENGE_FAILED: [
    400,
    'The check that messages are sent by people failed or has expired. Please send the message again.',
    'Get a new challenge (`GET /challenge`), or reset the captcha widget; each answer is valid only once.',
  ],
  NO_FILE_UPLOADS: [
    400,
    'This form does not accept files.',
    'Send the form without files, or set `uploads` for the form.',
  ],
  AUTH_AMBIGUOUS: [
    400,
    'Several headers contain an API key. Send only one.',
    'Send the key in exactly one of the three headers.',
  ],
  AUTH_MISSING_KEY: [401, 'An API key is required.', 'Send an API key, for example as `Authorization: Bearer …`.'],
  AUTH_INVALID_KEY: [
    401,
    'The API key is not valid.',
    'Check that you copied the complete key and that it was created on this server.',
  ],
  AUTH_EXPIRED_KEY: [401, 'The API key has expired.', 'Create a new key.'],
  AUTH_REVOKED_KEY: [401, 'The API key was revoked.', 'Use another key.'],
  AUTH_INVALID_LINK: [
    401,
    'This link no longer works. Request a new one.',
    'Request a new link. A link works once, for a few minutes, and a mailed one only in the browser that requested it.',
  ],
  AUTH_INVALID_CODE: [
    401,
    'The code is not correct. Each code works once, for about a minute.',
    'Enter the code that the authenticator app shows now, or an unused recovery code.',
  ],
  AUTH_FORBIDDEN: [403, 'The API key may not do this.', 'Use a key with the permission that the message names.'],
  AUTH_TEST_KEY: [
    403,
    'Test keys cannot read or change live data. Use a live key.',
    'Use a live key, or work on an object that a test key created.',
  ],
  AUTH_IP_NOT_ALLOWED: [
    403,
    'The API key may not be used from this IP address.',
    'Send the request from an IP address in the `ip_whitelist` of the key.',
  ],
  AUTH_DOMAIN_NOT_ALLOWED: [
    403,
    'The API key may not be used for this domain.',
    'Use a key whose `domain_restrictions` include the domain, or one without restrictions.',
  ],
  PLAN_LIMIT: [
    403,
    'The account’s plan does not allow any more of these.',
    'Delete objects that you no longer need, or ask the operator to raise the limit.',
  ],
  SIGNUP_CLOSED: [
    403,
    'Sign-up is closed. Only the operator of this server creates accounts.',
    'Ask the operator for an account.',
  ],
  RECIPIENT_NOT_CONFIRMED: [
    403,
    'The recipient has not yet agreed to receive mail from this account.',
    'Ask the recipient to open the link in the confirmation mail. To send it again, call `POST /recipients`.',
  ],
  DOMAIN_NOT_VERIFIED: [
    403,
    'The domain of this form is not verified yet.',
    'Publish the DNS records of the domain, then call `POST /domains/{domain}/verify`.',
  ],
  ORIGIN_NOT_ALLOWED: [
    403,
    'This form cannot be used from this page.',
    'Add the origin of the page to the `allowed_origins` of the form.',
  ],
  INACTIVE: [
    403,
    'This form does not accept submissions at the moment.',
    'The account is suspended or the form is turned off. Ask its owner.',
  ],
  NOT_FOUND: [
    404,
    'There is nothing at this address.',
    'Check the path and the ID. Objects of other accounts are not found either.',
  ],
  DOMAIN_NOT_FOUND: [
    404,
    'This server has no forms for this domain.',
    'Check the name of the domain, or add it with `POST /domains`.',
    'FORM_NOT_FOUND',
  ],
  FORM_NOT_FOUND: [404, 'There is no form at this address.', 'Check the ID of the form; `GET /forms` lists the forms.'],
  TEMPLATE_NOT_FOUND: [
    404,
    'There is no template with this name.',
    'Check the name of the template, or add its `project`.',
  ],
  METHOD_NOT_ALLOWED: [
    405,
    'This address does not support this method.',
    'Use one of the methods in the `Allow` header.',
  ],
  REQUEST_TIMEOUT: [408, 'The request took too long to arrive.', 'Send it again over a faster connection.'],
  CONFLICT: [409, 'This conflicts with the current state.', 'The message says what conflicts. Change that first.'],
  IDEMPOTENCY_CONFLICT: [
    409,
    'This Idempotency-Key was used with another body, or its first request is still in progress.',
    'Repeat exactly the same request a little later, or use a new key for a new request.',
  ],
  BODY_TOO_LARGE: [413, 'The request is too large.', 'Reduce the size of the request. The message states the limit.'],
  FILES_TOO_BIG: [413, 'A file is too large.', 'Send a smaller file, or raise the form’s `uploads` limits.'],
  TOO_MANY_FILES: [413, 'There are too many files.', 'Send fewer files, or raise the form’s `uploads` limits.'],
  UNSUPPORTED_MEDIA_TYPE: [
    415,
    'The content type of the body is not supported.',
    'Send `application/json`, uncompressed. Forms also take URL-encoded and multipart bodies.',
  ],
  RATE_LIMITED: [429, 'Too many requests. Please try again later.', 'Wait for the number of seconds in `Retry-After`.'],
  HEADERS_TOO_LARGE: [431, 'The headers of the request are too large.', 'Send fewer or shorter headers.'],
  INTERNAL: [
    500,
    'Something went wrong on the server.',
    'Give the request ID to the operator, who can use it to find the error in the log.',
  ],
  OUTCOME_UNKNOWN: [
    503,
    'The database did not confirm the request, so it may or may not have been accepted. Check before you try again.',
    'Look up the `id` in the answer, and repeat the request if nothing is found.',
  ],
  UNAVAILABLE: [
    503,
    'The server is temporarily unavailable. Nothing was sent.',
    'Nothing was accepted. Repeat the request after `Retry-After` seconds.',
  ],
} as const satisfies Readonly<Record<string, Entry>>;

export type ErrorCode = keyof typeof ERRORS;

/** All codes, in the order of their statuses. */
export const ERROR_CODES = namesOf(ERRORS);

/** What is known of a code. */
export function errorEntry(code: ErrorCode): { status: number; message: string; advice: string; formCode?: string } {
  const [status, message, advice, formCode]: Entry = ERRORS[code];
  return { status, message, advice, ...(formCode === undefined ? {} : { formCode }) };
}

/** The body of an error of the API. */
export const apiError = z.object({
  error: z.string().describe('What is wrong, in words.'),
  code: z.enum(ERROR_CODES).describe('The same, for programs.'),
  request_id: z.string().describe('Identifies the request in the server’s log.'),
  details: z
    .array(z.object({ path: z.string(), message: z.string(), line: z.int().optional(), column: z.int().optional() }))
    .optional()
    .describe('What is wrong and where, if a body or file is not valid.'),
});

/** The body of an error of a form's address. */
export const submissionError = z.object({
  success: z.literal(false),
  error: z.literal(true),
  message: z.string().describe('What is wrong, in words.'),
  code: z.int().describe('The HTTP status.'),
  request_id: z.string().describe('Identifies the request in the server’s log.'),
  errors: z
    .array(
      z.object({
        field: z.string().optional().describe('Absent if the error concerns the whole form.'),
        code: z.string().describe('Such as `REQUIRED_FIELD_MISSING` or `TYPE_EMAIL`.'),
        message: z.string(),
      }),
    )
    .min(1),
});
