/** What a careful administrator would put between an application and the world: Postfix, signing by OpenDKIM. */
import { generateKeyPairSync } from 'node:crypto';
import { startOpendkim } from '../../test/harness/opendkim.ts';
import { startPostfix } from '../../test/harness/postfix.ts';
import { DOMAIN } from './postern.ts';

export interface SigningPostfix {
  readonly port: number;
  close(): Promise<void>;
}

/** RSA-2048, PEM, as both sides sign with. */
export function newDkimKey(): string {
  return generateKeyPairSync('rsa', {
    modulusLength: 2048,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  }).privateKey;
}

/** A Postfix that signs all mail and hands it to `relayPort` over 20 connections, as many as Postern has. */
export async function startSigningPostfix(relayPort: number): Promise<SigningPostfix> {
  const milter = await startOpendkim({ domain: DOMAIN, selector: 'bench', privateKey: newDkimKey() });
  try {
    const postfix = await startPostfix({
      relayTo: `127.0.0.1:${relayPort}`,
      relayConnections: 20,
      milter: milter.milter,
    });
    return {
      port: postfix.port,
      async close() {
        await postfix.close();
        await milter.close();
      },
    };
  } catch (error) {
    await milter.close();
    throw error;
  }
}
