/** The smarthost (`delivery.relay`), written as keys or as a URL: where it is, who we are there, and what its TLS must be like. */
import { readFile } from 'node:fs/promises';
import { isThisMachine } from '../config/scalars.ts';
import type { ServerConfig } from '../config/schema.ts';
import { messageOf } from '../lib/errors.ts';

type RelayConfig = NonNullable<ServerConfig['delivery']['relay']>;

export interface Relay {
  readonly host: string;
  readonly port: number;
  /** `implicit`: TLS from the first byte. */
  readonly tls: 'opportunistic' | 'implicit';
  readonly credentials?: { readonly user: string; readonly password: string } | undefined;
  /** `required`: with a certificate of the host that is trusted. */
  readonly security: 'required' | 'opportunistic' | 'off';
  /** PEM file of the only authorities that may have signed its certificate. */
  readonly ca?: string | undefined;
}

const IMPLICIT_TLS_PORT = 465;

/** Both forms come to the same. Without a password a URL asks for no TLS, and neither within this machine. */
export function readRelay(relay: RelayConfig): Relay {
  if (typeof relay === 'string') return fromUrl(new URL(relay));
  const { host, port, user, password, tls: security, ca } = relay;
  const isImplicit = port === IMPLICIT_TLS_PORT && security !== 'off';
  return { host, port, tls: isImplicit ? 'implicit' : 'opportunistic', security, ca, ...credentialsOf(user, password) };
}

function fromUrl({ protocol, hostname, port, username, password }: URL): Relay {
  const isImplicit = protocol === 'smtps:';
  const usual = isImplicit ? IMPLICIT_TLS_PORT : username === '' ? 25 : 587;
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  const isOpen = isThisMachine(host) || (username === '' && !isImplicit);
  return {
    host,
    port: port === '' ? usual : Number(port),
    tls: isImplicit ? 'implicit' : 'opportunistic',
    security: isOpen ? 'opportunistic' : 'required',
    ...(username === '' ? {} : credentialsOf(decodeURIComponent(username), decodeURIComponent(password))),
  };
}

function credentialsOf(user: string | undefined, password: string | undefined): Pick<Relay, 'credentials'> {
  return user === undefined || password === undefined ? {} : { credentials: { user, password } };
}

export interface RelayTls extends Pick<Relay, 'security'> {
  /** Text of the file. */
  readonly ca?: string;
}

/** What TLS to it must be like, with the authorities as the file has them now. */
export async function relayTls({ security, ca: file }: Relay): Promise<RelayTls> {
  if (file === undefined) return { security };
  try {
    return { security, ca: await readFile(file, 'utf8') };
  } catch (error) {
    throw new Error(`delivery.relay.ca cannot be read: ${messageOf(error)}`, { cause: error });
  }
}
