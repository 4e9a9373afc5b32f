/** `postern auth status`: which key asks, what it may do, and how the server is reached. */
import { z } from 'zod';
import { systemClock } from '../lib/clock.ts';
import type { AskingOptions } from './commands/asking.ts';
import { keyShape, restrictionFacts } from './key-shapes.ts';
import { writeFacts } from './list.ts';
import { run, shortTime, writeJson } from './run.ts';

const status = z.object({
  key: keyShape.nullable(),
  tenant: z.object({ id: z.string(), name: z.string(), plan: z.string() }),
});
const window = z.object({ limit: z.number(), remaining: z.number(), reset_time: z.string() });
const limits = z.object({
  rate_limits: z.object({
    requests_per_hour: window,
    requests_per_minute: window,
    messages_per_hour: window.nullish(),
    messages_per_day: window.nullish(),
  }),
});
const reference = z.object({ info: z.object({ version: z.string() }) });

/** Shows the key that asks and what its limits leave; with `debug` also how the server is reached. Answers the exit code. */
export function authStatus(
  options: AskingOptions,
  { debug, version }: { debug: boolean; version: string },
): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const begun = systemClock.monotonic();
    const { data, headers } = await client.ask({ method: 'GET', path: '/auth/status' });
    const roundTrip = Math.round(systemClock.monotonic() - begun);
    const ahead = secondsAhead(headers.date);
    const { rate_limits } = limits.parse(await client.get('/rate-limits'));
    const way = debug
      ? { ...(await wayTo(options, version)), round_trip_ms: roundTrip, clock_ahead_s: ahead }
      : undefined;
    if (json) return writeJson(terminal, { ...status.loose().parse(data), rate_limits, ...(way && { debug: way }) });
    const { key, tenant } = status.parse(data);
    writeFacts(terminal, [
      ['account', `${tenant.name} (${tenant.id}), plan ${tenant.plan}`],
      ...(key === null ? ([['key', 'none: the operator, over the Unix socket']] as const) : factsOf(key)),
      ['this hour', roomText(rate_limits.requests_per_hour)],
      ['this minute', roomText(rate_limits.requests_per_minute)],
      ...(way === undefined ? [] : factsOfWay(way)),
    ]);
  });
}

/** Seconds that the server's clock is ahead of ours; null where it does not say. Its header has whole seconds. */
function secondsAhead(date = ''): number | null {
  const seconds = (Date.parse(date) + 500 - systemClock.now()) / 1000;
  return Number.isNaN(seconds) ? null : Math.round(seconds);
}

async function wayTo({ client, target }: AskingOptions, version: string) {
  const { info } = reference.parse(await client.get('/openapi.json'));
  return {
    server: target.address,
    server_from: target.addressFrom,
    key_from: target.keyFrom ?? null,
    server_version: info.version,
    cli_version: version,
    node_version: process.version,
  };
}

type Way = Awaited<ReturnType<typeof wayTo>> & {
  readonly round_trip_ms: number;
  readonly clock_ahead_s: number | null;
};

function factsOfWay(way: Way): [string, string][] {
  const { clock_ahead_s: ahead } = way;
  const clock =
    ahead === null
      ? 'unknown'
      : Math.abs(ahead) < 2
        ? 'as here'
        : `${Math.abs(ahead)} s ${ahead > 0 ? 'ahead' : 'behind'}`;
  return [
    ['server', `${way.server} (${way.server_from})`],
    ['key from', way.key_from ?? 'nowhere: the socket needs none'],
    ['versions', `server ${way.server_version}, here ${way.cli_version} on Node ${way.node_version}`],
    ['round trip', `${way.round_trip_ms} ms`],
    ['its clock', clock],
  ];
}

function roomText({ limit, remaining, reset_time }: z.output<typeof window>): string {
  return `${remaining} of ${limit} requests left${remaining < limit ? `, more from ${shortTime(reset_time)}` : ''}`;
}

function factsOf({
  id,
  name,
  prefix,
  last4,
  permissions,
  restrictions,
  environment,
}: z.output<typeof keyShape>): [string, string][] {
  return [
    ['key', `${name} (${id}), ${prefix}…${last4}, ${environment}`],
    ['permissions', permissions.join(', ')],
    ...restrictionFacts(restrictions),
  ];
}
