/**
 * Answers certificate authorities that ask for proof of control within the TLS handshake (TLS-ALPN-01, RFC 8737), on the port
 * that visitors use. Node chooses the certificate before it knows which protocols the client offers, so the ClientHello is
 * read first: one that offers `acme-tls/1` gets the handshake of the challenge, all others go on untouched.
 */
import { createHash } from 'node:crypto';
import type { Server } from 'node:https';
import { createSecureContext, createServer, type SecureContext } from 'node:tls';
import { callbackify } from 'node:util';
import { MIN_TLS } from '../lib/certificate.ts';
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { interceptConnections, readBeginning } from '../lib/sockets.ts';
import { challengeCertificate } from '../lib/x509.ts';
import { findNamedChallenge } from '../store/certificates.ts';
import type { Store } from '../store/store.ts';

export interface TlsChallengeParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  /** A client may take so long for its ClientHello, ms. */
  readonly helloMs: number;
}

const PROTOCOL = 'acme-tls/1';
/** As an entry of the ALPN extension (RFC 7301 §3.1). */
const OFFER = Buffer.from(`${String.fromCodePoint(PROTOCOL.length)}${PROTOCOL}`);
/** RFC 8446 §5.1: type, version and length come before the content. */
const HANDSHAKE = 22;
const HEADER_BYTES = 5;
const MAX_RECORD_BYTES = 16 * 1024;

/** Has the server answer challenges. To be called before it listens. */
export function answerTlsChallenges(server: Server, parts: TlsChallengeParts): void {
  const { clock, helloMs } = parts;
  const challenges = createChallengeServer(parts);
  interceptConnections(server, (socket, passOn) => {
    let isChallenge = false;
    readBeginning(socket, {
      clock,
      timeoutMs: helloMs,
      read(hello) {
        if (!isWhole(hello)) return 'incomplete';
        isChallenge = hello.includes(OFFER);
        return { rest: hello };
      },
      passOn: () => (isChallenge ? void challenges.emit('connection', socket) : passOn()),
    });
  });
}

/** It is given its connections, and listens nowhere itself. */
function createChallengeServer({ store, clock, log, helloMs }: TlsChallengeParts) {
  async function contextFor(servername: string): Promise<SecureContext> {
    const name = servername.toLowerCase();
    const found = await findNamedChallenge(store, name);
    if (found === undefined) throw new Error(`no challenge for ${name}`);
    const proof = createHash('sha256').update(found.response).digest();
    return createSecureContext({ ...challengeCertificate(name, proof, clock.now()), minVersion: MIN_TLS });
  }

  const server = createServer({
    ALPNProtocols: [PROTOCOL],
    minVersion: MIN_TLS,
    handshakeTimeout: helloMs,
    SNICallback: callbackify(contextFor),
  });
  // RFC 8737 §3: nothing is sent but the handshake.
  server.on('secureConnection', (socket) => {
    socket.on('error', () => socket.destroy());
    socket.end();
    socket.resume();
  });
  server.on('tlsClientError', (error, socket) => {
    log.debug('http.connection_failed', errorFields(error));
    socket.destroy();
  });
  return server;
}

/** Whether the first record has arrived, or what is none. */
function isWhole(data: Buffer): boolean {
  if (data[0] !== HANDSHAKE) return data.length > 0;
  if (data.length < HEADER_BYTES) return false;
  return data.length >= HEADER_BYTES + Math.min(data.readUInt16BE(3), MAX_RECORD_BYTES);
}
