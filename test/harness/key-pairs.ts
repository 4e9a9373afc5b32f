/**
 * RSA keys for tests: real ones, of which each process makes a few and hands them out in turn. To make two took a third
 * of the time in which a daemon starts. Two keys in a row differ, and so do as many as one test looks at.
 */
import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import { promisify } from 'node:util';

const KEPT = 16;

const make = promisify(crypto.generateKeyPair);
const kept: Promise<unknown>[] = [];
let given = 0;

function makeOrReuse(type: 'rsa' | 'ed25519', options: crypto.RSAKeyPairKeyObjectOptions): Promise<unknown> {
  if (type !== 'rsa') return make(type, {});
  return (kept[given++ % KEPT] ??= make(type, options));
}

Object.assign(crypto, { generateKeyPair: Object.assign(makeOrReuse, { [promisify.custom]: makeOrReuse }) });
syncBuiltinESMExports();
