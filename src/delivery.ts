/**
 * The delivering half of the daemon, composed: claims, renders, signs and sends. It normally runs in a thread of its own
 * (`delivery-thread.ts`), so that neither RSA nor a slow mail server is felt by whoever fills in a form.
 */
import { randomUUID } from 'node:crypto';
import { parseProject } from './config/parse.ts';
import type { ServerConfig } from './config/schema.ts';
import { machineSecrets, type SecretSource } from './config/secrets.ts';
import type { Resolver } from './dns/resolver.ts';
import { createKeyring } from './forms/keyring.ts';
import { createFormSource, type Revision } from './forms/source.ts';
import type { Clock } from './lib/clock.ts';
import type { Log } from './lib/log.ts';
import { createCourier } from './queue/courier.ts';
import type { Random } from './queue/interfaces.ts';
import { createWorker } from './queue/worker.ts';
import { findRevision } from './store/revisions.ts';
import { obtainSecret } from './store/secrets.ts';
import type { Store } from './store/store.ts';
import { compileTemplates } from './templates/engine.ts';

export interface DeliveryParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly resolver: Resolver;
  readonly random: Random;
  /** What is in force now. */
  readonly config: () => ServerConfig;
  /** Where the configuration's references to variables lead. */
  readonly env: Readonly<Record<string, string | undefined>>;
}

export interface Delivery {
  /** There may be something to do. */
  wake(): void;
  /** What keeps the queue from moving, in words; undefined while it moves. */
  problem(): string | undefined;
  /** Claims nothing more, finishes what is in flight for at most `graceMs`, gives the rest back. */
  stop(graceMs: number): Promise<void>;
}

/** The queue is looked through every five seconds at least; after this long it is stuck, ms. */
const STUCK_MS = 30_000;

/** Starts to deliver what is queued. */
export async function startDelivery(parts: DeliveryParts): Promise<Delivery> {
  const { store, clock, log, resolver, random, config, env } = parts;
  const source = createFormSource({
    store,
    clock,
    log,
    config,
    revisionOf: (id) => loadRevision(store, id, machineSecrets(env)),
    keysOf: createKeyring({ store, clock }),
    secret: await obtainSecret(store, 'return-path', clock.now()),
  });
  const courier = createCourier({
    resolver,
    config,
    clock,
    log,
    random,
    ownAddresses: (ip) => config().server.public_ips.includes(ip),
  });
  const worker = createWorker({ store, clock, log, source, courier, config, owner: randomUUID(), random });
  return {
    wake: () => worker.wake(),
    problem() {
      const { fault, lookedAt } = worker.progress();
      if (fault !== undefined) return `the queue cannot be worked on: ${fault}`;
      const idle = clock.now() - lookedAt;
      return idle > STUCK_MS ? `the queue was last looked at ${Math.round(idle / 1000)} s ago` : undefined;
    },
    stop: (graceMs) => worker.stop(graceMs),
  };
}

/** Reads a revision with the code that accepted it; undefined where it is gone or no longer valid. */
async function loadRevision(store: Store, id: string, secrets: SecretSource): Promise<Revision | undefined> {
  const row = await findRevision(store, id);
  if (row === undefined) return undefined;
  const parsed = parseProject(row.yaml, row.file, { files: row.files, env: secrets });
  if (!('ok' in parsed)) return undefined;
  const { templates, settings } = parsed.ok;
  return { config: parsed.ok, templates: compileTemplates(templates, { timezone: settings.timezone }) };
}
