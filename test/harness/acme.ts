/**
 * A certificate authority that speaks ACME (RFC 8555) on loopback: it checks signatures and nonces, comes to the server for
 * the proof, and signs. It can refuse, be slow and lie.
 */
import {
  createHash,
  createHmac,
  createPublicKey,
  generateKeyPairSync,
  randomBytes,
  verify,
  type JsonWebKey,
  type KeyObject,
} from 'node:crypto';
import { createServer, request, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import { issueCertificate } from '../../src/lib/x509.ts';

/** What it does, which a test may change at any time. */
export interface Manners {
  /** Answers orders with this problem. */
  refuse?:
    | { readonly status: number; readonly type: string; readonly detail: string; readonly retryAfter?: string }
    | undefined;
  /** How often an authorization is still pending when it is asked for. */
  pending?: number;
  /** Certifies another name, or another key, than it was asked for. */
  lie?: 'name' | 'key';
  /** Never answers a new order. */
  hang?: boolean;
  /** Says of every other nonce that it is over. */
  badNonce?: boolean;
  /** How long its certificates last from a day ago on, ms. */
  life?: number;
  /** Serves only accounts that know this key. */
  eab?: { readonly key_id: string; readonly hmac_key: string };
}

export interface AcmeServer {
  readonly directory: string;
  readonly manners: Manners;
  /** Names of the orders that it was sent. */
  readonly orders: readonly string[];
  /** Public keys of the accounts that it made, with their contacts. */
  readonly accounts: ReadonlyMap<string, readonly string[]>;
  /** Where it comes for proofs, whatever the name; until it is known, no proof is looked at. */
  proofPort: number | undefined;
}

interface Order {
  readonly name: string;
  readonly token: string;
  readonly thumbprint: string;
  status: string;
  proof: string;
  certificate: string;
  promised: boolean;
  asked: number;
  problem?: object;
}

export async function startAcmeServer(manners: Manners = {}): Promise<AcmeServer> {
  const authority = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
  const nonces = new Set<string>();
  const accounts = new Map<string, string[]>();
  const keys: JsonWebKey[] = [];
  const orders: Order[] = [];
  let posts = 0;
  const self = { manners, proofPort: undefined as number | undefined, accounts, directory: '', orders: [] as string[] };
  const server = createServer((incoming, response) => {
    answer(incoming).then(
      ({ status = 200, body, headers = {} }) => {
        const nonce = randomBytes(16).toString('base64url');
        nonces.add(nonce);
        const text = typeof body === 'string' ? body : JSON.stringify(body);
        response.writeHead(status, { 'Replay-Nonce': nonce, ...headers }).end(text);
      },
      (error: unknown) => response.writeHead(500).end(JSON.stringify({ type: 'harness', detail: String(error) })),
    );
  });
  await new Promise<void>((done) => void server.listen(0, '127.0.0.1', done));
  onTestFinished(() => {
    server.closeAllConnections();
    return new Promise((done) => void server.close(() => done()));
  });
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  self.directory = `${base}/directory`;

  interface Said {
    readonly status?: number;
    readonly body: unknown;
    readonly headers?: Record<string, string>;
  }

  async function answer(incoming: IncomingMessage): Promise<Said> {
    const [, resource = '', id = '0'] = (incoming.url ?? '').split('/');
    if (resource === 'directory') {
      const meta = { externalAccountRequired: manners.eab !== undefined };
      return { body: { newNonce: `${base}/nonce`, newAccount: `${base}/account`, newOrder: `${base}/orders`, meta } };
    }
    if (resource === 'nonce') return { status: 204, body: '' };
    const { head, payload, account } = await signedBy(incoming);
    if (!nonces.delete(head.nonce) || (manners.badNonce === true && posts++ % 2 === 0))
      return problem(400, 'badNonce', 'the nonce is over');
    const order = orders[Number(id)];
    switch (resource) {
      case 'account':
        return accountFor(head, payload);
      case 'orders':
        if (manners.hang === true) return new Promise(() => undefined);
        return newOrder(account, payload);
      case 'order':
        return { body: order && shown(order, Number(id)) };
      case 'authorization':
        if (order === undefined) break;
        if (self.proofPort !== undefined && order.promised && order.status === 'pending' && order.asked-- <= 0)
          await prove(order, self.proofPort);
        return { body: authorization(order, id) };
      case 'challenge':
        if (order !== undefined) Object.assign(order, { promised: true, asked: manners.pending ?? 0 });
        return { body: {} };
      case 'finalize':
        if (order === undefined) break;
        order.certificate = certify(order.name, Buffer.from(payload.csr ?? '', 'base64url'));
        order.status = 'valid';
        return { body: shown(order, Number(id)) };
      case 'certificate':
        return { body: order?.certificate };
    }
    return problem(404, 'malformed', 'no such resource');
  }

  interface Head {
    readonly nonce: string;
    readonly url: string;
    readonly kid?: string;
    readonly jwk?: JsonWebKey;
  }

  async function signedBy(incoming: IncomingMessage) {
    let text = '';
    for await (const chunk of incoming) text += String(chunk);
    const jose = JSON.parse(text) as Record<'protected' | 'payload' | 'signature', string>;
    const head = parse(jose.protected) as Head;
    const key = head.jwk ?? keys[Number(head.kid?.split('/').at(-1))];
    if (key === undefined) throw new Error('no such account');
    if (head.url !== `${base}${incoming.url}`) throw new Error('signed for another address');
    const data = Buffer.from(`${jose.protected}.${jose.payload}`);
    const publicKey = createPublicKey({ key, format: 'jwk' });
    const signature = Buffer.from(jose.signature, 'base64url');
    if (!verify('sha256', data, { key: publicKey, dsaEncoding: 'ieee-p1363' }, signature))
      throw new Error('the signature is wrong');
    const payload = jose.payload === '' ? {} : (parse(jose.payload) as Payload);
    return { head, payload, account: key };
  }

  interface Payload {
    readonly csr?: string;
    readonly contact?: string[];
    readonly identifiers?: { readonly value: string }[];
    readonly externalAccountBinding?: Record<'protected' | 'payload' | 'signature', string>;
  }

  function accountFor({ jwk }: Head, { contact = [], externalAccountBinding: bound }: Payload): Said {
    if (jwk === undefined) return problem(400, 'malformed', 'no key');
    if (manners.eab !== undefined) {
      const { key_id: kid, hmac_key: secret } = manners.eab;
      const data = `${bound?.protected}.${bound?.payload}`;
      const mac = createHmac('sha256', Buffer.from(secret, 'base64url')).update(data).digest('base64url');
      const isRight = bound?.signature === mac && (parse(bound.protected) as { kid: string }).kid === kid;
      if (!isRight) return problem(401, 'unauthorized', 'unknown external account');
    }
    const at = keys.push(jwk) - 1;
    accounts.set(String(jwk.x), contact);
    return { status: 201, body: {}, headers: { Location: `${base}/accounts/${at}` } };
  }

  function newOrder(account: JsonWebKey, { identifiers = [] }: Payload): Said {
    const name = identifiers[0]?.value ?? '';
    self.orders.push(name);
    const { refuse } = manners;
    if (refuse !== undefined) {
      const said = problem(refuse.status, refuse.type, refuse.detail);
      return { ...said, headers: refuse.retryAfter === undefined ? {} : { 'Retry-After': refuse.retryAfter } };
    }
    const { crv, kty, x, y } = account;
    const thumbprint = createHash('sha256').update(JSON.stringify({ crv, kty, x, y })).digest('base64url');
    const token = randomBytes(24).toString('base64url');
    const order = { name, token, thumbprint, status: 'pending', proof: '', certificate: '', promised: false, asked: 0 };
    const id = orders.push(order) - 1;
    return { status: 201, body: shown(order, id), headers: { Location: `${base}/order/${id}` } };
  }

  function shown({ status }: Order, id: number): object {
    const links = { finalize: `${base}/finalize/${id}`, certificate: `${base}/certificate/${id}` };
    return { status, authorizations: [`${base}/authorization/${id}`], ...links };
  }

  function authorization({ status, token, problem: error }: Order, id: string): object {
    const isDone = status === 'ready' || status === 'valid';
    const challenge = { type: 'http-01', url: `${base}/challenge/${id}`, token, error };
    return { status: isDone ? 'valid' : status, challenges: [challenge] };
  }

  async function prove(order: Order, port: number): Promise<void> {
    const found = await fetchAs(order.name, port, `/.well-known/acme-challenge/${order.token}`);
    const isRight = found === `${order.token}.${order.thumbprint}`;
    order.status = isRight ? 'ready' : 'invalid';
    if (!isRight) order.problem = { type: 'urn:ietf:params:acme:error:unauthorized', detail: `found "${found}"` };
  }

  function certify(name: string, csr: Buffer): string {
    const other = generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey;
    const from = Date.now() - DAY;
    return issueCertificate([manners.lie === 'name' ? `not-${name}` : name], {
      publicKey: manners.lie === 'key' ? other : keyIn(csr),
      issuer: { name: 'Test authority', key: authority },
      from,
      until: from + (manners.life ?? 90 * DAY),
    });
  }

  return self;
}

const DAY = 86_400_000;

function problem(status: number, type: string, detail: string) {
  return { status, body: { type: `urn:ietf:params:acme:error:${type}`, detail } };
}

function parse(text: string): unknown {
  return JSON.parse(Buffer.from(text, 'base64url').toString());
}

function fetchAs(host: string, port: number, path: string): Promise<string> {
  return new Promise((done) => {
    const asking = request({ host: '127.0.0.1', port, path, headers: { host }, agent: false }, (response) => {
      let text = '';
      response.on('data', (chunk) => (text += String(chunk))).on('end', () => done(text));
    });
    asking.on('error', (error) => done(error.message)).end();
  });
}

/** How the DER of a P-256 public key begins (RFC 5480 §2), and how long it is. */
const P256 = { head: Buffer.from('3059301306072a8648ce3d020106082a8648ce3d030107', 'hex'), bytes: 91 };

/** The public key of a request. */
function keyIn(csr: Buffer): KeyObject {
  const at = csr.indexOf(P256.head);
  return createPublicKey({ key: csr.subarray(at, at + P256.bytes), format: 'der', type: 'spki' });
}
