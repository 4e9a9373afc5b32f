/** The promise that a crash loses nothing, kept or not: the real program, killed again and again in the middle of its work. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { openForReading } from '../../src/store/sqlite-connection.ts';
import { openAppliance, PROJECT, type Appliance } from './binary.ts';
import { startCatcher, type Catcher } from './catcher.ts';
import { until } from './child.ts';
import { randomFrom } from './random.ts';
import { startLoad, type Kind, type Load, type Tally } from './load.ts';
import { REFUSALS, startSmtpLoad, type MailKind } from './smtp-load.ts';

const CONNECTIONS = 8;
/** Of each of them between two promises: what they keep busy is not the machine but the daemon, at any moment. */
const PAUSE_MS = 20;
/** Of the kills, in a hundred: before the daemon is ready. */
const EARLY = 25;
/** From which spans the moments are taken, ms: since the launch (a start takes about that long), or since it is ready. */
const MOMENTS = { launched: 1000, ready: 500 };

const INFO = 'info@forms.test';

export interface Crashes {
  readonly crashes: number;
  readonly seed: number;
}

/** What goes on while it is killed. */
interface Traffic {
  begin(appliance: Appliance): Load;
  /** With what the refusable of it is refused, each of which happens. */
  readonly refusals: readonly number[];
}

/**
 * kill -9 at `crashes` moments that `seed` chooses, while visitors send forms all the time. Then every submission that was
 * answered with 200 has arrived, none that was refused has, and what came twice is what the RFC allows: the one message
 * that was in flight on each connection when the daemon died, the same to the letter of its id.
 */
export function expectToSurvive(crashes: Crashes): Promise<void> {
  return survive(crashes, {
    begin: ({ formUrl }) => startLoad({ url: formUrl, connections: CONNECTIONS, kind: kindOf, pauseMs: PAUSE_MS }),
    refusals: [400],
  });
}

/** The same while mail comes in that is forwarded, and 250 is the promise. */
export function expectMailToSurvive(crashes: Crashes): Promise<void> {
  return survive(crashes, {
    begin: ({ smtpPort: port }) =>
      startSmtpLoad({
        port,
        connections: CONNECTIONS,
        to: INFO,
        nobody: 'nobody@forms.test',
        kind: mailKindOf,
        pauseMs: PAUSE_MS,
      }),
    refusals: REFUSALS,
  });
}

async function survive({ crashes, seed }: Crashes, { begin, refusals }: Traffic): Promise<void> {
  const catcher = await startCatcher();
  const appliance = await openAppliance({
    deliverTo: catcher.port,
    server: { limits: { requests_per_minute_per_address: 1_000_000_000, smtp: { errors: 1_000_000_000 } } },
  });
  await appliance.writeProject(withForwarding());
  await (await appliance.startVerified()).end('SIGKILL');
  const random = randomFrom(seed);
  const load = begin(appliance);
  for (let i = 0; i < crashes; i++) {
    const run = await appliance.launch();
    const since = random() * 100 < EARLY ? 'launched' : 'ready';
    if (since === 'ready') await run.ready();
    await sleep(random() * MOMENTS[since]); // the moment is the point
    expect(await run.end('SIGKILL'), `run ${i} of seed ${seed} ended by itself: ${run.output()}`).toBe(null);
  }
  // However busy the machine is, something was promised before the last one, and each kind of refusal was met.
  const last = await appliance.launch();
  await last.ready();
  await until('enough was accepted', () => {
    const met = new Set(load.refused.values());
    return load.accepted.size > crashes && refusals.every((status) => met.has(status));
  });
  await last.end('SIGKILL');
  await load.stop();
  await drain(appliance, { catcher, load });
  const nothing = { lost: [], refusedYetSent: [], otherRefusals: [] };
  expect(loss(catcher, { ...load, refusals }), `seed ${seed}`).toEqual(nothing);
  expect(doubles(catcher), `seed ${seed}`).toMatchObject({ tooMany: [], changed: [] });
  expect(integrityOf(appliance)).toBe('ok');
}

/** One address takes mail, and passes it on. */
function withForwarding(): object {
  const domains = Object.entries(PROJECT.domains).map(([name, domain]) => {
    return [name, { ...domain, forwarding: { [INFO]: 'ana@inbox.test' } }];
  });
  return { ...PROJECT, domains: Object.fromEntries(domains) as object };
}

function mailKindOf(n: number): MailKind {
  if (n % 20 === 7) return 'large';
  if (n % 40 === 17) return 'to nobody';
  return n % 40 === 29 ? 'with a bare newline' : 'plain';
}

function kindOf(n: number): Kind {
  if (n % 40 === 7) return 'file';
  if (n % 40 === 17) return 'without message';
  return n % 160 === 27 ? 'file too big' : 'plain';
}

/** One more start, undisturbed, until there is nothing more to do. */
async function drain(appliance: Appliance, { catcher, load }: { catcher: Catcher; load: Tally }): Promise<void> {
  const run = await appliance.start();
  await until('the queue is empty', async () => (await appliance.waiting()) === 0, 120_000).catch((error: unknown) => {
    throw new Error(`${catcher.count()} of ${load.accepted.size} have arrived; ${run.output()}`, { cause: error });
  });
  expect(await run.end('SIGTERM')).toBe(0);
}

function loss(catcher: Catcher, { accepted, refused, refusals }: Tally & Pick<Traffic, 'refusals'>) {
  const arrived = new Set(catcher.mails.map(({ reference }) => reference));
  return {
    lost: [...accepted].filter((reference) => !arrived.has(reference)),
    refusedYetSent: [...refused.keys()].filter((reference) => arrived.has(reference)),
    otherRefusals: [...refused].filter(([, status]) => !refusals.includes(status)),
  };
}

/**
 * What came again later: all copies but the last of each; of those, more than one on a connection since the same fault; and what
 * came back as another message. `faults` says for each how much had arrived when it began.
 */
export function doubles({ mails }: Pick<Catcher, 'mails'>, faults: readonly number[] = []) {
  const again = [...Map.groupBy(mails, ({ reference }) => reference).values()].filter((copies) => copies.length > 1);
  const repeated = again.flatMap((copies) => copies.slice(0, -1));
  const places = new Map(mails.map((mail, place) => [mail, place]));
  const causes = Map.groupBy(repeated, (mail) => {
    const fault = faults.findLastIndex((arrived) => arrived <= (places.get(mail) ?? 0));
    return `${mail.connection} ${fault}`;
  });
  return {
    repeated,
    tooMany: [...causes.values()].filter(({ length }) => length > 1),
    changed: again.filter((copies) => new Set(copies.map(({ messageId }) => messageId)).size > 1),
  };
}

/** What SQLite's own check says of its database; `ok` where all is well. */
export function integrityOf({ database }: Appliance): unknown {
  const reader = openForReading(database.slice('sqlite:'.length));
  try {
    return reader.pragma('integrity_check', { simple: true });
  } finally {
    reader.close();
  }
}
