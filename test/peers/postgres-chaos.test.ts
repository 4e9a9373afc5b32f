/**
 * Several daemons, a primary and its synchronous standby, and everything that fails of them, one after the other in an order
 * that `CHAOS_SEED` chooses: a failover and some other faults, or all of them again and again for `CHAOS_SECONDS`. Meanwhile
 * visitors post to all daemons all the time.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { messageOf } from '../../src/lib/errors.ts';
import { openAppliance, type Appliance, type Run } from '../harness/binary.ts';
import { startCatcher, type Catcher } from '../harness/catcher.ts';
import { until } from '../harness/child.ts';
import { doubles } from '../harness/crash.ts';
import { startLoad, type Load } from '../harness/load.ts';
import { startPostgres, type Postgres } from '../harness/postgres.ts';
import { randomFrom } from '../harness/random.ts';
import { startTcpProxy, type TcpProxy } from '../harness/tcp-proxy.ts';

const { CHAOS_SECONDS, CHAOS_SEED } = process.env;
const LASTS_MS = Number(CHAOS_SECONDS ?? 0) * 1000;
const SEED = Number(CHAOS_SEED ?? Math.floor(Math.random() * 2 ** 31));

/**
 * From the end of a fault until all daemons accept, and all that they had accepted has been delivered: 15 s. The suite's other
 * tests share the machine with the short run.
 */
const MAX_RECOVERY_MS = LASTS_MS > 0 ? 15_000 : 60_000;
/** Others notice a dead daemon after 8 to 12 s, and repeat what it had begun 5 s later. */
const MAX_TAKEOVER_MS = MAX_RECOVERY_MS + 5000;
const DAEMONS = LASTS_MS > 0 ? 3 : 2;
/** So many faults beside a failover has the short run. */
const SHORT = 4;
/** Of a delivery that has failed twice. Who was promised it has waited too long by then; others were told that it may not come. */
const LAST_RETRY_MS = 300_000;
const VISITORS_OF_EACH = 3;
const PAUSE_MS = 60;
const COMMIT = 'COMMIT\0';
const DATABASE = 'chaos';

interface Daemon {
  /** To the world's mail server. */
  readonly wayOut: TcpProxy;
  readonly appliance: Appliance;
  readonly load: Load;
  run: Run;
}

/** A server of the cluster, behind an address that stays. */
interface Place {
  readonly address: TcpProxy;
  postgres: Postgres;
}

interface World {
  readonly catcher: Catcher;
  readonly daemons: readonly Daemon[];
  /** The first takes writes, the second follows it; they change places. */
  readonly places: [Place, Place];
  /** Between the primary and its standby. */
  readonly replication: TcpProxy;
  /** From 0 to 1. */
  readonly random: () => number;
}

/** Resolves when the fault is over, with what is then to be done before the next. */
type Fault = (world: World) => Promise<(() => Promise<void>) | void>;

const FAULTS: Readonly<Record<string, Fault>> = {
  async 'a daemon is killed and started again'({ daemons, random }) {
    const victim = pick(daemons, random);
    await victim.run.end('SIGKILL');
    await sleep(random() * 3000);
    victim.run = await victim.appliance.start();
  },
  async 'a daemon is killed, and its mail waits for the others'({ daemons, catcher, random }) {
    const victim = pick(daemons, random);
    await victim.run.end('SIGKILL');
    const ms = await timed(() => arrival(victim.load.accepted, catcher));
    expect(ms, 'until it was delivered').toBeLessThan(MAX_TAKEOVER_MS);
    victim.run = await victim.appliance.start();
  },
  async 'the database is frozen'({ places: [{ postgres }], random }) {
    postgres.freeze();
    await sleep(3000 + random() * 13_000);
    postgres.thaw();
  },
  async 'the database crashes and comes back'({ places: [{ postgres }], random }) {
    await postgres.crash();
    await sleep(random() * 4000);
    await postgres.restart();
  },
  async 'connections to the database become black holes'({ places: [{ address }] }) {
    address.blackHole();
    // Nobody knows before nothing has come for so long.
    await sleep(12_000);
  },
  'replies to COMMIT are lost': (world) => loseCommits(world, 'server has them'),
  'COMMIT itself is lost': (world) => loseCommits(world, 'server lacks them'),
  async 'a daemon has no way out'({ daemons, catcher, random }) {
    const { wayOut, load } = pick(daemons, random);
    wayOut.refuse(true);
    wayOut.hangUp();
    // Much longer than its own mail would wait for it.
    for (let i = 0; i < 3; i++) {
      await sleep(2000);
      const ms = await timed(() => arrival(load.accepted, catcher));
      expect(ms, 'until the others have delivered what it accepted').toBeLessThan(MAX_RECOVERY_MS);
    }
    wayOut.refuse(false);
  },
};

const FAILOVERS: Readonly<Record<string, Fault>> = {
  'the primary is lost, and the standby promoted': failOver,
  async 'the standby is cut off, and then the primary is lost'(world) {
    world.replication.freeze();
    // Longer than a connection waits for an answer.
    await sleep(13_000);
    return failOver(world);
  },
};

/** All of them, or of the short run one failover and some others. */
function faultsOf(random: () => number): [string, Fault][] {
  const others = shuffled(Object.entries(FAULTS), random);
  const failovers = shuffled(Object.entries(FAILOVERS), random);
  const isShort = LASTS_MS === 0;
  return shuffled([...failovers.slice(0, isShort ? 1 : 2), ...others.slice(0, isShort ? SHORT : Infinity)], random);
}

test(
  'nothing accepted is lost and nothing refused is sent, whatever fails',
  async () => {
    const random = randomFrom(SEED);
    const world = await startWorld(random);
    const { daemons, catcher } = world;
    const recoveries: (readonly [fault: string, ms: number])[] = [];
    // A connection to a mail server outlives what happens to the database.
    const faults: number[] = [];
    const end = performance.now() + LASTS_MS;
    do {
      for (const [fault, begin] of faultsOf(random)) {
        if (LASTS_MS > 0 && performance.now() > end) break;
        faults.push(catcher.mails.length);
        recoveries.push([fault, await recoveryFrom(fault, begin, world)]);
      }
    } while (performance.now() < end);
    await Promise.all(daemons.map(({ load }) => load.stop()));
    await Promise.all(daemons.map(({ load }) => arrival(load.accepted, catcher)));
    const [{ appliance } = none()] = daemons;
    const isEmpty = async () => (await appliance.waiting()) === 0;
    const last = `seed ${SEED}: the queue is empty`;
    await watched(last, world, () => until(last, isEmpty, LAST_RETRY_MS + MAX_RECOVERY_MS)).catch(
      async (error: unknown) => {
        throw new Error(`${messageOf(error)}\n${await stillWaiting(world)}`, { cause: error });
      },
    );

    const loads = daemons.map(({ load }) => load);
    const accepted = loads.flatMap((load) => [...load.accepted]);
    const refused = loads.flatMap((load) => [...load.refused]);
    const unknown = loads.flatMap((load) => [...load.unknown]);
    const unanswered = loads.flatMap((load) => [...load.unanswered]);
    const { tooMany, changed, repeated } = doubles(catcher, faults);
    say({
      seed: SEED,
      accepted: accepted.length,
      refused: refused.length,
      unknown: unknown.length,
      unanswered: unanswered.length,
      duplicates: repeated.length,
      recoveries,
    });
    expect({
      lost: accepted.filter((reference) => !catcher.has(reference)),
      refusedYetSent: refused.filter(([reference]) => catcher.has(reference)),
      otherRefusals: refused.filter(([, status]) => status !== 503),
      tooMany,
      changed,
      slow: recoveries.filter(([, ms]) => ms > MAX_RECOVERY_MS),
    }).toEqual({ lost: [], refusedYetSent: [], otherRefusals: [], tooMany: [], changed: [], slow: [] });
  },
  LASTS_MS * 2 + 2 * LAST_RETRY_MS,
);

/** How long it took from the end of the fault until all worked, ms. */
async function recoveryFrom(fault: string, begin: Fault, world: World): Promise<number> {
  try {
    const clearUp = await begin(world);
    const ms = await watched(fault, world, () => recovery(world));
    await clearUp?.();
    return ms;
  } catch (error) {
    const known = await Promise.all([whatBecameOf(world), stillWaiting(world)]).catch(messageOf);
    throw new Error([`seed ${SEED}, ${fault}: ${messageOf(error)}`, known].flat().join('\n'), { cause: error });
  }
}

/** How long the work took, ms. Where it takes long, says what waited meanwhile. */
async function watched(what: string, world: World, work: () => Promise<void>): Promise<number> {
  let late: string | undefined;
  const timer = setTimeout(() => {
    void stillWaiting(world)
      .catch(messageOf)
      .then((rows) => (late = rows));
  }, MAX_RECOVERY_MS);
  const ms = await timed(work).finally(() => clearTimeout(timer));
  if (late !== undefined) say({ what, ms, late });
  return ms;
}

async function startWorld(random: () => number): Promise<World> {
  const catcher = await startCatcher();
  const primary = await startPostgres();
  await primary.createDatabase(DATABASE);
  const replication = await startTcpProxy(portOf(primary));
  const standby = await follow(replication);
  const places: [Place, Place] = [
    { address: await startTcpProxy(portOf(primary)), postgres: primary },
    { address: await startTcpProxy(portOf(standby)), postgres: standby },
  ];
  onTestFinished(() => Promise.all(places.map(({ postgres }) => postgres.close())).then(() => undefined));
  await bind(primary);
  const hosts = places.map(({ address }) => `127.0.0.1:${address.port}`).join();
  const url = `postgres://postgres@${hosts}/${DATABASE}?target_session_attrs=read-write`;
  // A transaction that was cut in the middle has failed once; whatever fails again is late.
  const server = { database: { url }, delivery: { retry: ['10s', `${LAST_RETRY_MS / 60_000}m`] } };
  const wayOuts = await Promise.all(Array.from({ length: DAEMONS }, () => startTcpProxy(catcher.port)));
  const daemons: Daemon[] = [];
  for (const wayOut of wayOuts) {
    const [first] = daemons;
    const dns = first?.appliance.dns;
    const appliance = await openAppliance({ deliverTo: wayOut.port, server, ...(dns === undefined ? {} : { dns }) });
    const run = await (first === undefined ? appliance.startVerified() : appliance.start());
    const load = startLoad({ url: appliance.formUrl, connections: VISITORS_OF_EACH, pauseMs: PAUSE_MS });
    daemons.push({ appliance, wayOut, run, load });
  }
  return { catcher, daemons, places, replication, random };
}

function follow(replication: TcpProxy): Promise<Postgres> {
  return startPostgres([], { follows: `host=127.0.0.1 port=${replication.port} user=postgres` });
}

/** From now on a commit waits for the standby. */
async function bind(primary: Postgres): Promise<void> {
  await execute(primary, "ALTER SYSTEM SET synchronous_standby_names = '*'", 'SELECT pg_reload_conf()');
  const waits = "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'sync'";
  await until('commits wait for the standby', async () => (await execute(primary, waits)) === 1);
}

/** As an operator does it: the old primary is gone for good, and afterwards a new standby takes its place. */
async function failOver({ places, replication }: World): Promise<() => Promise<void>> {
  const [lost, left] = places;
  await lost.postgres.crash();
  await execute(
    left.postgres,
    'SELECT pg_promote()',
    // It has no standby yet, for which it would wait.
    "ALTER SYSTEM SET synchronous_standby_names = ''",
    'SELECT pg_reload_conf()',
  );
  places.reverse();
  return async () => {
    await lost.postgres.close();
    replication.leadTo(portOf(left.postgres));
    replication.thaw();
    lost.postgres = await follow(replication);
    lost.address.leadTo(portOf(lost.postgres));
    await bind(left.postgres);
  };
}

/** Cuts connections at some COMMITs, which the server has seen or not. */
async function loseCommits(
  { places: [{ address }] }: World,
  behind: 'server has them' | 'server lacks them',
): Promise<void> {
  const cuts = address.cuts();
  address.cutAt(COMMIT, behind);
  await until('some are cut', () => address.cuts() > cuts + 5, 30_000);
  address.cutAt(undefined);
}

/** Rows of what was accepted and has not arrived. */
async function whatBecameOf({ daemons, catcher }: World): Promise<string> {
  const [{ appliance } = none()] = daemons;
  const missing = daemons.flatMap(({ load }) => [...load.accepted].filter((reference) => !catcher.has(reference)));
  const rows = await appliance.look((db) =>
    db
      .selectFrom('submissions')
      .leftJoin('messages', 'messages.submission', 'submissions.id')
      .leftJoin('deliveries', 'deliveries.message', 'messages.id')
      .leftJoin('attempts', 'attempts.delivery', 'deliveries.id')
      .select([
        'submissions.id',
        'fields',
        'status',
        'spam_reasons',
        'messages.id as message',
        'deliveries.id as delivery',
      ])
      .select(['deliveries.state', 'attempts', 'last_reply', 'at', 'outcome', 'reply'])
      .where((eb) => eb.or(missing.slice(0, 10).map((reference) => eb('fields', 'like', `%${reference}"%`))))
      .execute(),
  );
  return [`missing: ${missing.slice(0, 10).join(' ')}`, ...rows.map((row) => JSON.stringify(row))].join('\n');
}

/** What has not arrived, and how it was tried. */
async function stillWaiting({ daemons }: World): Promise<string> {
  const [{ appliance } = none()] = daemons;
  const rows = await appliance.look((db) =>
    db
      .selectFrom('deliveries')
      .leftJoin('attempts', 'attempts.delivery', 'deliveries.id')
      .select([
        'deliveries.id',
        'lease_owner',
        'lease_until',
        'begun',
        'state',
        'attempts',
        'next_attempt_at',
        'last_reply',
        'at',
        'number',
        'outcome',
        'reply',
      ])
      .where('state', 'in', ['queued', 'sending', 'deferred'])
      .orderBy('deliveries.id')
      .limit(20)
      .execute(),
  );
  const unprepared = daemons.flatMap(
    ({ run }) =>
      run
        .output()
        .match(/.*delivery\.unprepared.*/g)
        ?.slice(-3) ?? [],
  );
  return [...rows.map((row) => JSON.stringify({ now: Date.now(), ...row })), ...unprepared].join('\n');
}

/** Until every daemon accepts, and what they had accepted when the fault was over has arrived. */
async function recovery({ daemons, catcher }: World, { isLoaded = true } = {}): Promise<void> {
  await Promise.all(
    daemons.map(async ({ load: { accepted }, appliance }) => {
      const { size } = accepted;
      await arrival(accepted, catcher);
      if (isLoaded) await until(`${appliance.url} accepts`, () => accepted.size > size);
    }),
  );
}

/** Until all that is accepted now has arrived. */
async function arrival(accepted: ReadonlySet<string>, catcher: Catcher): Promise<void> {
  let missing = [...accepted];
  await until('what was accepted arrives', () => {
    missing = missing.filter((reference) => !catcher.has(reference));
    return missing.length === 0;
  }).catch((error: unknown) => {
    throw new Error(`${missing.length} have not arrived, such as ${missing[0]}`, { cause: error });
  });
}

async function timed(work: () => Promise<void>): Promise<number> {
  const began = performance.now();
  await work();
  return Math.round(performance.now() - began);
}

/** Runs statements on a connection of its own; answers how many rows the last of them has. */
async function execute(postgres: Postgres, ...statements: readonly string[]): Promise<number> {
  const client = new pg.Client({ connectionString: postgres.url });
  await client.connect();
  let rows = 0;
  for (const statement of statements) rows = (await client.query(statement)).rowCount ?? 0;
  await client.end();
  return rows;
}

function say(figures: object): void {
  process.stdout.write(`${inspect(figures, { depth: 3 })}\n`);
}

function portOf({ url }: Postgres): number {
  return Number(new URL(url).port);
}

function pick<T>(list: readonly T[], random: () => number): T {
  return list[Math.floor(random() * list.length)] ?? none();
}

function shuffled<T>(list: readonly T[], random: () => number): T[] {
  return list
    .map((item) => ({ item, place: random() }))
    .sort((one, other) => one.place - other.place)
    .map(({ item }) => item);
}

function none(): never {
  throw new Error('the list is empty');
}
