/** A wall clock that is set while the daemon runs, by Debian's libfaketime: nothing stops, nothing is sent twice. */
import { globSync } from 'node:fs';
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openAppliance, type Appliance } from '../harness/binary.ts';
import { startCatcher } from '../harness/catcher.ts';
import { until } from '../harness/child.ts';
import { unpacked } from '../harness/debian.ts';
import { startLoad } from '../harness/load.ts';
import { startPostgres, type Postgres } from '../harness/postgres.ts';
import { temporaryFolder } from '../harness/store.ts';

let postgres: Postgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.close());

/** A clock of its own for a program, and how to set it: seconds beside ours. */
async function startClock(): Promise<{ env: Record<string, string>; set(seconds: number): Promise<void> }> {
  const [library] = globSync(join(unpacked('libfaketime'), 'usr/lib/*/faketime/libfaketime.so.1'));
  const file = join(await temporaryFolder(), 'clock');
  async function set(seconds: number): Promise<void> {
    await writeFile(`${file}.new`, `${seconds < 0 ? '' : '+'}${seconds}s`);
    await rename(`${file}.new`, file);
  }
  await set(0);
  const env = {
    LD_PRELOAD: library ?? '',
    FAKETIME_TIMESTAMP_FILE: file,
    FAKETIME_CACHE_DURATION: '1',
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
  };
  return { env, set };
}

/** When its domain was last looked up, by its clock. */
async function lookedUp(appliance: Appliance): Promise<number> {
  const { checked_at: at } = await appliance.look((db) =>
    db.selectFrom('domains').select('checked_at').executeTakeFirstOrThrow(),
  );
  return at ?? 0;
}

/** Whether that is `seconds` beside our own clock, as far as the daemon's is set. */
function isAt(at: number, seconds: number): boolean {
  return isNear(at - Date.now(), seconds);
}

function isNear(ms: number, seconds: number): boolean {
  return Math.abs(ms - seconds * 1000) < 60_000;
}

test.for(['sqlite', 'postgres'] as const)(
  'an hour back and a day forward: one warning each, jobs go on, all mail arrives once (%s)',
  async (dialect) => {
    const clock = await startClock();
    const catcher = await startCatcher();
    const appliance = await openAppliance({
      deliverTo: catcher.port,
      env: clock.env,
      server: {
        log: { level: 'warn' },
        ...(dialect === 'postgres' ? { database: { url: await postgres.createDatabase('clock') } } : {}),
      },
    });
    const run = await appliance.startVerified();
    const accepted: string[] = [];
    let offset = 0;
    for (const seconds of [-3600, 24 * 3600]) {
      const { length } = run.output();
      const load = startLoad({ url: appliance.formUrl, connections: 4, count: 500 });
      await until('mail flows', () => catcher.count() > accepted.length + 50);
      await clock.set(seconds);
      await load.done;
      expect([...load.refused.values()]).toEqual([]);
      accepted.push(...load.accepted);
      await until('the queue is empty', async () => (await appliance.waiting()) === 0);
      await until('jobs go on', async () => isAt(await lookedUp(appliance), seconds));
      const once = await lookedUp(appliance);
      await until('and on', async () => (await lookedUp(appliance)) > once);
      const lines = run.output().slice(length).trim().split('\n');
      expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
        expect.objectContaining({
          event: 'clock.stepped',
          by_ms: expect.toSatisfy((by) => isNear(by, seconds - offset)),
        }),
      ]);
      offset = seconds;
    }
    expect(catcher.mails.map(({ reference }) => reference).sort()).toEqual(accepted.sort());
    expect(accepted).toHaveLength(1000);
    expect(await run.end('SIGTERM')).toBe(0);
  },
);
