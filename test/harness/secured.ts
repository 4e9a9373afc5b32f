/** The daemon with certificates by ACME, and what TLS clients and the operator see of them. */
import { once } from 'node:events';
import { connect, type PeerCertificate } from 'node:tls';
import { ask } from './binary.ts';
import { movedClock, type MovedClock } from './clock.ts';
import { freePort } from './child.ts';
import { startTestWorld, type TestWorld, type WorldSettings } from './daemon.ts';
import { systemClock } from '../../src/lib/clock.ts';

export const HOSTNAME = 'mail.postern.test';

export interface Secured {
  readonly world: TestWorld;
  /** Of the listener that speaks TLS, and of the one that does not. */
  readonly port: number;
  readonly plainPort: number;
  readonly clock: MovedClock;
}

/** For HTTP without TLS and with it. */
export interface Ports {
  readonly plain: number;
  readonly secure: number;
}

export interface SecuredSettings extends WorldSettings {
  /** Of `tls.acme`. */
  readonly acme: { readonly directory: string } & Readonly<Record<string, unknown>>;
  readonly ports?: Ports;
  /** Whether it listens without TLS, too; default: yes. */
  readonly plain?: boolean;
}

export async function startSecured({ acme, plain: isPlain = true, ...more }: SecuredSettings): Promise<Secured> {
  const clock = movedClock();
  const { plain, secure } = more.ports ?? { plain: await freePort(), secure: await freePort() };
  const listen = [`https://127.0.0.1:${secure}`, ...(isPlain ? [`127.0.0.1:${plain}`] : [])];
  const world = await startTestWorld({
    ...more,
    parts: { clock, ...more.parts },
    server: {
      ...more.server,
      tls: { mode: 'acme', acme, ...more.server?.['tls'] },
      server: { http: { listen }, ...more.server?.['server'] },
    },
  });
  return { world, port: secure, plainPort: plain, clock };
}

/** The certificate for this name. */
export async function shownAt(port: number, servername = HOSTNAME): Promise<PeerCertificate> {
  const socket = connect({ host: '127.0.0.1', port, servername, rejectUnauthorized: false });
  await once(socket, 'secureConnect');
  const certificate = socket.getPeerCertificate();
  socket.destroy();
  return certificate;
}

export interface CertificateStatus {
  readonly name: string;
  readonly expires_at: string | null;
  readonly failure: { readonly reason: string; readonly next: string } | null;
}

/** As the operator sees them. */
export async function statesOf({ world }: Pick<Secured, 'world'>): Promise<readonly CertificateStatus[]> {
  const { body } = await ask({ socketPath: world.daemon.addresses?.socket, path: '/readyz' });
  return (body as { certificates: CertificateStatus[] }).certificates;
}

/** Once each name has a certificate, or a reason why not. */
export async function settled(secured: Pick<Secured, 'world' | 'clock'>): Promise<readonly CertificateStatus[]> {
  for (let i = 0; i < 2000; i++) {
    const states = await statesOf(secured);
    if (states.every(({ expires_at: at, failure }) => at !== null || failure !== null)) return states;
    await systemClock.sleep(10);
    // Names are looked after one at a time.
    await secured.clock.later(0);
  }
  throw new Error('no certificate was obtained, nor was there a reason');
}
