/** Signing in to the console: sessions, one-time codes, and the operator's link. */
import { z } from 'zod';
import { PERMISSIONS } from '../lib/permission-names.ts';
import { route } from './route.ts';
import { environment, listing, mailAddress, page, time } from './values.ts';

const TAG = 'Sessions';
const OPEN = { permission: 'none', domains: 'free', tag: TAG } as const;
const READ = { permission: 'keys.read', domains: 'refuse', tag: TAG } as const;
const WRITE = { ...READ, permission: 'keys.write' } as const;

const MAX_CODE_LENGTH = 40;
const MAX_TOKEN_LENGTH = 200;

const code = z
  .string()
  .trim()
  .min(1, 'must not be empty')
  .max(MAX_CODE_LENGTH, 'must be a one-time code or a recovery code')
  .describe('A one-time code of six digits, or a recovery code.');

const secretText = z.string().min(1, 'must not be empty').max(MAX_TOKEN_LENGTH, 'is too long');

const session = z.object({
  id: z.string(),
  tenant: z.object({ id: z.string(), name: z.string(), email: z.string() }).describe('The account that signed in.'),
  operator: z.boolean().describe('Whether it is an operator session, which may do everything and act for any account.'),
  acting_for: z
    .object({ id: z.string(), name: z.string() })
    .nullable()
    .describe('The account named by `X-Postern-Tenant`; null: its own.'),
  environment,
  created_at: time,
  expires_at: time.describe('When it ends, even if it is in use.'),
  permissions: z.array(z.enum(PERMISSIONS)).describe('Empty until one-time codes are set up, if they are required.'),
  totp: z.object({
    enabled: z.boolean().describe('Whether the account requires one-time codes.'),
    required: z.boolean().describe('server.console.require_totp.'),
  }),
});

/** A session as lists show it. */
const listedSession = z.object({
  id: z.string(),
  created_at: time,
  used_at: time.describe('Updated at most once a minute.'),
  ip: z.string().describe('IP address of the client that last used it.'),
  user_agent: z.string(),
  current: z.boolean().describe('Whether this request uses it.'),
});

const IN_BROWSER =
  'Only for pages of this server: the request must come from a browser and from the server’s origin (`Sec-Fetch-Site: same-origin`, `Origin`).';

export const sessions = {
  show: route('GET /auth/session', {
    ...OPEN,
    summary: 'Shows who is signed in to the console.',
    description: `Needs no sign-in. ${IN_BROWSER} Any other request counts as not signed in.`,
    answer: z.object({
      session: session.nullable().describe('null: nobody is signed in.'),
      dev: z.boolean().describe('Whether this is the local environment of `postern dev`.'),
    }),
    errors: ['AUTH_FORBIDDEN', 'NOT_FOUND'],
  }),
  signIn: route('POST /auth/session', {
    ...OPEN,
    summary: 'Signs in to the console with an API key or a link, or mails a link.',
    description: `${IN_BROWSER} \`signed_in\` sets a cookie; with it, requests from the console need no API key. \`code_needed\`: repeat the request with \`code\`. \`mail_sent\`: if the address belongs to an account, a link is mailed to it. The link works once, within 15 minutes, in the same browser.`,
    body: z
      .strictObject({
        key: secretText
          .optional()
          .describe('An API key. The session has the permissions of the key, and ends with it.'),
        email: mailAddress.optional().describe('The email address of an account.'),
        token: secretText.optional().describe('The token of a link that was mailed, or printed by `postern console`.'),
        code: code.optional(),
      })
      .refine(({ key, email, token }) => [key, email, token].filter((one) => one !== undefined).length === 1, {
        message: 'must have exactly one of key, email and token',
      }),
    answer: z.object({ state: z.enum(['signed_in', 'mail_sent', 'code_needed']) }),
    errors: [
      'ORIGIN_NOT_ALLOWED',
      'AUTH_INVALID_KEY',
      'AUTH_EXPIRED_KEY',
      'AUTH_REVOKED_KEY',
      'AUTH_IP_NOT_ALLOWED',
      'AUTH_FORBIDDEN',
      'AUTH_INVALID_LINK',
      'AUTH_INVALID_CODE',
      'NOT_FOUND',
    ],
  }),
  signOut: route('DELETE /auth/session', {
    ...OPEN,
    summary: 'Ends the session of this browser.',
    description: IN_BROWSER,
    answer: z.object({ state: z.enum(['signed_out']) }),
    errors: ['ORIGIN_NOT_ALLOWED', 'NOT_FOUND'],
  }),
  list: route('GET /auth/sessions', {
    ...READ,
    summary: 'Lists the console sessions of the account, newest first.',
    description:
      'A session ends after 12 hours without use, and after 30 days at the latest. An account has at most 100.',
    query: z.strictObject(listing('ses')),
    answer: page({ sessions: z.array(listedSession) }),
  }),
  end: route('DELETE /auth/sessions/:id', {
    ...WRITE,
    summary: 'Ends a session of the account, and shows it.',
    answer: listedSession,
  }),
};

export const totp = {
  start: route('POST /auth/totp', {
    ...WRITE,
    summary: 'Starts setting up one-time codes (TOTP) for signing in to the console.',
    description:
      'Add the secret to an authenticator app, then confirm it with a code. Until then nothing changes; another call replaces the secret.',
    body: z.strictObject({}),
    answer: z.object({
      secret: z.string().describe('In Base32. It is shown only once.'),
      uri: z.string().describe('The secret as an `otpauth:` URI, for a QR code.'),
    }),
    errors: ['CONFLICT'],
  }),
  confirm: route('POST /auth/totp/confirm', {
    ...WRITE,
    summary: 'Completes the setup of one-time codes with the first code.',
    body: z.strictObject({ code }),
    answer: z.object({
      recovery_codes: z.array(z.string()).describe('Each replaces a one-time code once. They are shown only once.'),
    }),
    errors: ['AUTH_INVALID_CODE', 'CONFLICT'],
  }),
  remove: route('DELETE /auth/totp', {
    ...WRITE,
    summary: 'Turns off one-time codes for signing in to the console.',
    description:
      'Needs a code. The operator needs none on the Unix socket or when acting for an account, as its owner may have lost access to the codes.',
    body: z.strictObject({ code: code.optional() }),
    answer: z.object({ enabled: z.boolean() }),
    errors: ['AUTH_INVALID_CODE', 'CONFLICT'],
  }),
};

export const consoleLink = {
  create: route('POST /admin/console-link', {
    permission: 'admin',
    domains: 'refuse',
    tag: 'Administration',
    summary: 'Creates a one-time link, valid for 5 minutes, to sign in to the console as the operator.',
    description: 'Only over the Unix socket, because the link gives access to everything on this server.',
    answer: z.object({ url: z.string(), expires_at: time }),
    errors: ['CONFLICT'],
  }),
};
