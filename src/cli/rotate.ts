/** `postern domains rotate-dkim`: the next DKIM key, what to publish for it, and what happens then. */
import { z } from 'zod';
import { domainPath } from './domain-shapes.ts';
import { poll } from './poll.ts';
import { EXIT, run, shortTime, UsageError, writeJson, type CommandOptions } from './run.ts';
import { printable } from './table.ts';
import type { Terminal } from './terminal.ts';

const keys = z.object({
  keys: z.array(
    z.object({
      selector: z.string(),
      algorithm: z.string(),
      state: z.string(),
      since: z.string(),
      record: z.object({ type: z.string(), name: z.string(), value: z.string() }),
      advice: z.string(),
    }),
  ),
});
type Key = z.output<typeof keys>['keys'][number];

export interface RotateOptions {
  /** The server's own key instead of a domain's. */
  readonly host: boolean;
  /** Looks again until the new keys sign. */
  readonly wait: boolean;
  /** For how long, s. */
  readonly timeout: number;
}

/** Between two looks at DNS, ms. */
const SLOWEST_LOOK = 15_000;

/** Makes the next keys, or shows those that are made and wait. Answers 1 where they do not sign when the time to wait is over. */
export function rotateDkim(
  options: CommandOptions,
  domain: string | undefined,
  { host, wait, timeout }: RotateOptions,
): Promise<number> {
  const [rotate, verify] = addressesOf(domain, host);
  return run(options, async ({ client, terminal, json }) => {
    const asked = await client.post(rotate);
    if (!json) writeNext(terminal, keys.parse(asked).keys);
    if (!wait) return json ? writeJson(terminal, asked) : terminal.write(LATER);
    const answer = await poll({
      ask: () => client.post(verify),
      isDone: (data) => nextOf(data).length === 0,
      onWait: (data, left) =>
        terminal.progress(`Waiting until DNS has ${nextOf(data)[0]?.record.name ?? 'it'} (${left} s left)`),
      patience: timeout * 1000,
      slowest: SLOWEST_LOOK,
    });
    terminal.progress('');
    const isDone = nextOf(answer).length === 0;
    if (json) writeJson(terminal, answer);
    else writeKeys(terminal, answer, isDone);
    return isDone ? EXIT.done : EXIT.failed;
  });
}

const LATER = `
The present key signs until then. The daemon looks by itself, every 20 seconds at first;
the same command with --wait looks on until the new key signs.
`;

/** Where to ask for the keys, and where for a look at DNS. */
function addressesOf(domain: string | undefined, host: boolean): [rotate: string, verify: string] {
  if (host && domain === undefined) return ['/admin/host-keys/rotate', '/admin/host-keys/verify'];
  if (!host && domain !== undefined) return [`${domainPath(domain)}/rotate-dkim`, `${domainPath(domain)}/verify`];
  throw new UsageError('Name the domain whose key is to be rotated, or --host for the key of the server itself.');
}

function nextOf(data: unknown): Key[] {
  return keys.parse(data).keys.filter(({ state }) => state === 'next');
}

function writeNext({ write, style }: Terminal, all: readonly Key[]): void {
  const next = all.filter(({ state }) => state === 'next');
  write(`Publish ${next.length === 1 ? 'this record' : 'these records'}, and leave those that stand:\n`);
  for (const { record, algorithm } of next) {
    write(`\n${style('bold', `DKIM key (${algorithm})`)}\n`);
    for (const [name, value] of Object.entries(record)) write(`  ${name.padEnd(5)}  ${printable(value)}\n`);
  }
}

function writeKeys({ write, style }: Terminal, data: unknown, isDone: boolean): void {
  write(
    isDone
      ? `\n${style('green', 'DNS has it. In a minute at most the new key signs all mail.')}\n`
      : `\n${style('red', 'DNS does not have it yet.')} The present key signs on, and the daemon goes on looking.\n`,
  );
  for (const { selector, state, since, record, advice } of keys.parse(data).keys)
    write(`\n${selector}  ${state} since ${shortTime(since)}\n  ${printable(record.name)}\n  ${printable(advice)}\n`);
}
