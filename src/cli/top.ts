/** `postern top`: what the server does, in the terminal, as it happens. */
import { status as routes } from '../contract/server.ts';
import { systemClock } from '../lib/clock.ts';
import { messageOf } from '../lib/errors.ts';
import { DaemonUnreachable, UsageError } from './client.ts';
import type { CliCommand } from './command.ts';
import { writeJson } from './output.ts';
import { EXIT, type Api } from './run.ts';
import { openScreen, type Screen } from './screen.ts';
import { topLines, type Status } from './top-view.ts';
import { wholeNumber } from './values.ts';

interface TopFlags {
  readonly interval: number;
  readonly once: boolean;
}

/** Adds `top`. */
export function addCommands(program: CliCommand): void {
  program
    .command('top')
    .summary('Watch the server live')
    .description(
      'Show rates, queue, latencies, the worst destinations and problems, refreshed every few seconds. Keys: q quits, ' +
        'p pauses, r refreshes now. With --json, print one answer of the API and exit',
    )
    .option('--interval <seconds>', 'Time between refreshes', wholeNumber(1, 3600), 2)
    .option('--once', 'Print one screen as text and exit', false)
    .example('top', 'Watch the server until you press q')
    .example('top --once', 'For a script or a mail')
    .operator(top);
}

/** How far back rates and latencies look, ms. */
const WINDOW_MS = 60_000;

async function top(api: Api, { interval, once }: TopFlags): Promise<number | void> {
  const { client, terminal, json } = api;
  const { stdin, stdout } = process;
  if (json) return writeJson(terminal, (await client.ask({ route: routes.show })).data);
  if (!once && (terminal.width === undefined || !stdin.isTTY || !stdout.isTTY))
    throw new UsageError('The terminal is needed for a live view. To print it once, add --once');
  const samples = [await client.call({ route: routes.show })];
  if (once) {
    await systemClock.sleep(interval * 1000);
    samples.push(await client.call({ route: routes.show }));
    const view = { samples, notice: undefined, keys: false };
    const size = { columns: terminal.width ?? 120, rows: Number.POSITIVE_INFINITY, style: terminal.style };
    for (const line of topLines(view, size)) terminal.write(`${line.trimEnd()}\n`);
    return EXIT.done;
  }
  const screen = openScreen(stdin, stdout);
  try {
    await watch(api, screen, { samples, intervalMs: interval * 1000 });
  } finally {
    screen.close();
  }
}

interface Watched {
  readonly samples: Status[];
  readonly intervalMs: number;
}

/** Until a key or a signal ends it. Rejects where the daemon refuses to answer; one that is away is waited for. */
async function watch({ client, terminal }: Api, screen: Screen, { samples, intervalMs }: Watched): Promise<void> {
  let paused = false;
  let failure: Error | undefined;
  let due = systemClock.monotonic() + intervalMs;

  async function refresh(): Promise<void> {
    due = Number.POSITIVE_INFINITY;
    try {
      keep(samples, await client.call({ route: routes.show }), intervalMs);
      failure = undefined;
    } catch (error) {
      failure = error instanceof Error ? error : new Error(messageOf(error));
    }
    due = systemClock.monotonic() + intervalMs;
    screen.happened('answer');
  }

  for (;;) {
    if (failure !== undefined && !(failure instanceof DaemonUnreachable)) throw failure;
    const notice = failure === undefined ? (paused ? 'Paused' : undefined) : messageOf(failure);
    screen.draw(
      topLines({ samples, notice, keys: true }, { columns: screen.columns, rows: screen.rows, style: terminal.style }),
    );
    const left = due - systemClock.monotonic();
    // While an answer is waited for, keys count as well.
    const key = await screen.next(paused ? WINDOW_MS : Math.min(Math.max(0, left), WINDOW_MS));
    if (key === 'q' || key === 'end') return;
    if (key === 'p') paused = !paused;
    const isAsking = due === Number.POSITIVE_INFINITY;
    if (!isAsking && (key === 'r' || (!paused && systemClock.monotonic() >= due))) void refresh();
  }
}

/** Adds a sample, and drops those that are older than the window or of a daemon that was started before. */
function keep(samples: Status[], last: Status, intervalMs: number): void {
  const oldest = Date.parse(last.now) - WINDOW_MS - intervalMs;
  const kept = samples.filter(({ now, started_at }) => Date.parse(now) >= oldest && started_at === last.started_at);
  samples.splice(0, samples.length, ...kept, last);
}
