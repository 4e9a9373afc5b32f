/**
 * An ACME client (RFC 8555): an account, and one certificate for one name. Every request goes through the guarded function
 * for HTTP, ends at a stop, and all of them together within a deadline, whatever the server says or leaves out. The
 * certificate that it hands out is checked before anybody shows it. docs/dependencies.md says why this is no package.
 */
import {
  createHash,
  createHmac,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  sign,
  X509Certificate,
  type KeyObject,
} from 'node:crypto';
import { z } from 'zod';
import type { HttpClient, HttpReply } from '../dns/guarded-fetch.ts';
import type { Certificate } from '../lib/certificate.ts';
import type { Clock } from '../lib/clock.ts';
import { messageOf } from '../lib/errors.ts';
import { certificateRequest } from '../lib/x509.ts';

export type ChallengeType = 'http-01' | 'tls-alpn-01';

export interface AcmeOptions {
  readonly http: Pick<HttpClient, 'request'>;
  readonly clock: Clock;
  readonly directory: string;
  /** PKCS#8 PEM of the account's P-256 key. */
  readonly accountKey: string;
  readonly signal: AbortSignal;
}

/** Of another account that the authority has given us, by which it knows whose this one is (§7.3.4). */
export interface ExternalAccount {
  readonly key_id: string;
  /** base64url */
  readonly hmac_key: string;
}

export interface Order {
  readonly name: string;
  readonly type: ChallengeType;
  /** Has the challenge answered from when it resolves. */
  readonly publish: (token: string, keyAuthorization: string) => Promise<void>;
}

/** What the authority said against it. */
export class AcmeError extends Error {
  override readonly name = 'AcmeError';
  /** Such as `rateLimited` (§6.7), or empty. */
  readonly type: string;
  /** It asks us to wait as long, ms. */
  readonly waitMs: number;
  /** The challenge by which the name could not be proved; undefined where something else failed. */
  readonly challenge: ChallengeType | undefined;

  constructor(message: string, { type = '', waitMs = 0, challenge }: Partial<Omit<AcmeError, keyof Error>> = {}) {
    super(message);
    this.type = type;
    this.waitMs = waitMs;
    this.challenge = challenge;
  }
}

/** For everything that one certificate takes, ms. */
const ORDER_MS = 120_000;
const FIRST_POLL_MS = 250;
const MAX_POLL_MS = 10_000;
/** A nonce may have expired when it arrives (§6.5). */
const MAX_NONCES = 10;
const MAX_WORDS = 300;
const ERROR_TYPE = 'urn:ietf:params:acme:error:';

const url = z.url({ protocol: /^https?$/ });
const problem = z.object({ type: z.string().default(''), detail: z.string().default('') });
const directorySchema = z.object({
  newNonce: url,
  newAccount: url,
  newOrder: url,
  meta: z.object({ externalAccountRequired: z.boolean().optional() }).optional(),
});
const orderSchema = z.object({
  status: z.string(),
  authorizations: z.array(url).max(10),
  finalize: url,
  certificate: url.optional(),
  error: problem.optional(),
});
const authorizationSchema = z.object({
  status: z.string(),
  challenges: z
    .array(z.object({ type: z.string(), url, token: z.string().default(''), error: problem.optional() }))
    .max(20),
});

type Answered = Extract<HttpReply, { kind: 'answered' }>;

export class AcmeClient {
  readonly #options: AcmeOptions;
  readonly #key: KeyObject;
  readonly #until: number;
  #directory: z.output<typeof directorySchema> | undefined;
  #account: string | undefined;
  #nonce: string | undefined;

  constructor(options: AcmeOptions) {
    this.#options = options;
    this.#key = createPrivateKey(options.accountKey);
    this.#until = options.clock.monotonic() + ORDER_MS;
  }

  /** Uses the account at this URL, or makes it; answers its URL. */
  async useAccount(
    known: string | null,
    { email, external }: { readonly email: string; readonly external: ExternalAccount | null },
  ): Promise<string> {
    if (known !== null) return (this.#account = known);
    const { newAccount, meta } = await this.#find();
    if (meta?.externalAccountRequired === true && external === null)
      throw new AcmeError('It accepts only accounts that it knows. Set tls.acme.eab to the key that it gave you.');
    const reply = await this.#post(newAccount, {
      termsOfServiceAgreed: true,
      contact: [`mailto:${email}`],
      ...(external === null ? {} : { externalAccountBinding: this.#bind(newAccount, external) }),
    });
    const account = headerOf(reply, 'location');
    if (!url.safeParse(account).success) throw new AcmeError('It created an account without a URL.');
    return (this.#account = account);
  }

  /** Tells the directory another address of ours. */
  async changeEmail(email: string): Promise<void> {
    await this.#post(this.#account ?? '', { contact: [`mailto:${email}`] });
  }

  /** Obtains a certificate for the name, with a new key. Throws where there is none within the deadline. */
  async obtain({ name, type, publish }: Order): Promise<Certificate> {
    const { newOrder } = await this.#find();
    const made = await this.#post(newOrder, { identifiers: [{ type: 'dns', value: name }] });
    const orderUrl = headerOf(made, 'location');
    const order = read(orderSchema, made);
    for (const authorization of order.authorizations) await this.#prove(authorization, { name, type, publish });
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    await this.#post(order.finalize, { csr: certificateRequest(name, privateKey).toString('base64url') });
    const done = await this.#poll(orderUrl, orderSchema);
    if (done.status !== 'valid' || done.certificate === undefined)
      throw refusal(done.error, `The order is ${done.status}.`);
    const cert = (await this.#post(done.certificate)).text;
    const found = { cert, key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString() };
    const fault = faultIn(found, { name, now: this.#options.clock.now() });
    if (fault !== undefined) throw new AcmeError(`Its certificate ${fault}.`);
    return found;
  }

  async #prove(authorizationUrl: string, { name, type, publish }: Order): Promise<void> {
    const { status, challenges } = read(authorizationSchema, await this.#post(authorizationUrl));
    if (status === 'valid') return;
    const challenge = challenges.find((one) => one.type === type);
    if (challenge === undefined) throw new AcmeError(`It offers no ${type} challenge.`, { challenge: type });
    if (!TOKEN.test(challenge.token)) throw new AcmeError('Its challenge has no valid token.');
    await publish(challenge.token, `${challenge.token}.${thumbprint(this.#key)}`);
    await this.#post(challenge.url, {});
    const after = await this.#poll(authorizationUrl, authorizationSchema);
    if (after.status === 'valid') return;
    const error = after.challenges.find((one) => one.error !== undefined)?.error;
    const { message, type: fault } = refusal(error, `The authorization is ${after.status}.`);
    const text = `${type.toUpperCase()}: ${message.replace(/\.?$/, '.')} ${adviceOn(fault, type, name)}`.trim();
    throw new AcmeError(text, { type: fault, challenge: type });
  }

  /** The resource once it is neither pending nor processing (§7.1.6). */
  async #poll<T extends { status: string }>(resource: string, schema: z.ZodType<T>): Promise<T> {
    const { clock, signal } = this.#options;
    for (let pause = FIRST_POLL_MS; ; pause = Math.min(pause * 2, MAX_POLL_MS)) {
      const reply = await this.#post(resource);
      const found = read(schema, reply);
      if (found.status !== 'pending' && found.status !== 'processing') return found;
      await clock.sleep(Math.min(waitOf(reply, clock) || pause, MAX_POLL_MS), signal);
    }
  }

  async #find(): Promise<z.output<typeof directorySchema>> {
    return (this.#directory ??= read(directorySchema, await this.#request('GET', this.#options.directory)));
  }

  /** A signed request (§6.2); without a payload it reads (§6.3). */
  async #post(target: string, payload?: object): Promise<Answered> {
    for (let tries = 1; ; tries++) {
      const nonce = this.#nonce ?? headerOf(await this.#request('GET', (await this.#find()).newNonce), NONCE);
      this.#nonce = undefined;
      const identity = this.#account === undefined ? { jwk: jwkOf(this.#key) } : { kid: this.#account };
      const head = encode({ alg: 'ES256', nonce, url: target, ...identity });
      const body = payload === undefined ? '' : encode(payload);
      const signature = sign('sha256', Buffer.from(`${head}.${body}`), { key: this.#key, dsaEncoding: 'ieee-p1363' });
      try {
        return await this.#request('POST', target, joseOf(head, body, signature));
      } catch (error) {
        if (tries === MAX_NONCES || !(error instanceof AcmeError) || error.type !== 'badNonce') throw error;
      }
    }
  }

  async #request(method: 'GET' | 'POST', target: string, body?: object): Promise<Answered> {
    const { http, clock, signal } = this.#options;
    if (signal.aborted) throw new AcmeError('The daemon was stopped.');
    if (clock.monotonic() > this.#until) throw new AcmeError(`It did not finish within ${ORDER_MS / 1000} s.`);
    const headers = { 'content-type': 'application/jose+json' };
    const reply = await http.request({
      method,
      url: target,
      signal,
      ...(body === undefined ? {} : { headers, body: JSON.stringify(body) }),
    });
    if (reply.kind === 'refused') throw new AcmeError(`Its URL ${printable(target)} ${reply.reason}.`);
    if (reply.kind === 'failed') throw new AcmeError(`${printable(target)} cannot be reached: ${reply.reason}.`);
    this.#nonce = headerOf(reply, NONCE) || undefined;
    if (reply.status >= 200 && reply.status < 300) return reply;
    const { data } = problem.safeParse(jsonOrNothing(reply.text));
    throw refusal(data, `It answered ${reply.status}.`, waitOf(reply, clock));
  }

  #bind(target: string, { key_id: kid, hmac_key: secret }: ExternalAccount): object {
    const head = encode({ alg: 'HS256', kid, url: target });
    const body = encode(jwkOf(this.#key));
    const mac = createHmac('sha256', Buffer.from(secret, 'base64url')).update(`${head}.${body}`).digest();
    return joseOf(head, body, mac);
  }
}

/** RFC 8555 §8.3: base64url of 128 random bits at least. */
const TOKEN = /^[\w-]{16,512}$/;
const NONCE = 'replay-nonce';

function encode(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}

function joseOf(head: string, payload: string, signature: Buffer): object {
  return { protected: head, payload, signature: signature.toString('base64url') };
}

/** In the order of RFC 7638 §3.2. */
function jwkOf(key: KeyObject): object {
  const { crv, kty, x, y } = createPublicKey(key).export({ format: 'jwk' });
  return { crv, kty, x, y };
}

function thumbprint(key: KeyObject): string {
  return createHash('sha256')
    .update(JSON.stringify(jwkOf(key)))
    .digest('base64url');
}

function headerOf({ headers }: Answered, name: string): string {
  const value = headers?.[name];
  return typeof value === 'string' ? value : '';
}

/** `Retry-After`, seconds or a date, as ms from now; 0 where it says none. */
function waitOf({ retryAfter = '' }: Answered, clock: Clock): number {
  if (/^\d{1,9}$/.test(retryAfter)) return Number(retryAfter) * 1000;
  return Math.max(0, (Date.parse(retryAfter) || 0) - clock.now());
}

function read<T>(schema: z.ZodType<T>, { text }: Answered): T {
  const { data } = schema.safeParse(jsonOrNothing(text));
  if (data === undefined) throw new AcmeError('Its answer does not conform to RFC 8555.');
  return data;
}

function jsonOrNothing(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function refusal(said: z.output<typeof problem> | undefined, otherwise: string, waitMs = 0): AcmeError {
  const type = said?.type.startsWith(ERROR_TYPE) === true ? said.type.slice(ERROR_TYPE.length) : '';
  return new AcmeError(printable(said?.detail || otherwise), { type, waitMs });
}

/** What to do where the authority could not verify a name (§6.7). */
function adviceOn(fault: string, type: ChallengeType, name: string): string {
  const port = type === 'http-01' ? 80 : 443;
  switch (fault) {
    case 'dns':
      return `Check the A and AAAA records of ${name}.`;
    case 'connection':
    case 'tls':
    case 'incorrectResponse':
    case 'unauthorized':
      return `Every address of ${name}, including IPv6, must lead to port ${port} of this server.`;
    case 'caa':
      return 'Add this certificate authority to the CAA records of the domain, or remove them.';
    default:
      return '';
  }
}

/** What a server wrote, for the log and the terminal. */
function printable(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\s]+/gu, ' ').slice(0, MAX_WORDS);
}

/** Why clients could not use it; undefined where they can. */
function faultIn({ cert, key }: Certificate, { name, now }: { name: string; now: number }): string | undefined {
  try {
    const found = new X509Certificate(cert);
    if (!found.checkPrivateKey(createPrivateKey(key))) return 'is for another key';
    if (found.checkHost(name) === undefined) return `is not for ${name}`;
    return found.validToDate.getTime() <= now ? 'has already expired' : undefined;
  } catch (error) {
    return `cannot be read: ${messageOf(error)}`;
  }
}
