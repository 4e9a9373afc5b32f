/** What the server says that a configuration would change: asked for, shown to a person, agreed to, and only then done. */
import { z } from 'zod';
import { PUSHED_FILE, type Bundle } from '../config/bundle.ts';
import { formatProblem, type Problem } from '../config/problem.ts';
import { RequestRefused, type Client, type OnSent } from './client.ts';
import { isConfirmed } from './confirm.ts';
import type { PlanLine } from './plan-data.ts';
import { planLines } from './plan-words.ts';
import { EXIT, writeJson, type CommandOptions } from './run.ts';
import { printable } from './table.ts';
import { counted } from './words.ts';

const answer = z.object({
  changes: z.array(
    z.object({
      op: z.enum(['add', 'remove', 'change']),
      path: z.string(),
      keys: z.array(z.string()),
      from: z.unknown(),
      to: z.unknown(),
    }),
  ),
  warnings: z.array(z.object({ path: z.string(), message: z.string(), line: z.number(), column: z.number() })),
  revision: z.string().nullable(),
});

export interface Plan extends z.output<typeof answer> {
  /** The server's answer as it came. */
  readonly data: unknown;
}

interface Question {
  readonly client: Client;
  readonly slug: string;
  readonly bundle: Bundle;
  readonly onSent?: OnSent;
}

/** What a push of the bundle would do; `revision` is the one that is in force. */
export async function planOf({ client, slug, bundle, onSent }: Question): Promise<Plan> {
  const { yaml, files } = bundle;
  return readPlan(await client.put(`${configPath(slug)}?dry_run=true`, { config: yaml, files }, onSent));
}

/** Reads the server's answer to a push, dry or not. */
export function readPlan(data: unknown): Plan {
  return { ...answer.parse(data), data };
}

/** The address of a project's configuration. */
export function configPath(slug: string): string {
  return `/projects/${encodeURIComponent(slug)}/config`;
}

export interface Asked {
  readonly slug: string;
  readonly plan: Plan;
  /** The whole configuration as it will be, written out with its defaults. */
  readonly after: unknown;
  /** The YAML's name in reports. */
  readonly file?: string | undefined;
  /** `--yes` */
  readonly yes: boolean;
  /** `--dry-run` */
  readonly dryRun: boolean;
}

/** Shows the plan; true where it is agreed to. Throws UsageError where nobody is there to agree. */
export async function isAgreed({ terminal, client, json }: CommandOptions, asked: Asked): Promise<boolean> {
  const { slug, plan, after, file = PUSHED_FILE, yes, dryRun } = asked;
  const { complain, style } = terminal;
  // JSON stands alone on standard output; whoever has to agree still reads what to.
  const say = json ? complain : terminal.write;
  if (!json || !(yes || dryRun)) {
    const lines = planLines(plan.changes, after);
    say(`${style('bold', slug)} at ${client.address}: ${counted(lines.length, 'change')}\n`);
    for (const line of lines) say(`  ${coloured(line, style)}\n`);
    if (plan.changes.length === 0) say('  What it means stays the same; only the text or a file is another.\n');
    for (const warning of plan.warnings)
      say(`${style('yellow', 'warning:')} ${formatProblem(problem(file, warning))}\n`);
  }
  return !dryRun && isConfirmed(terminal, 'Put this in force?', yes);
}

/** The end of what nobody agreed to, or was only to be shown. Answers the exit code. */
export function unchanged({ terminal, json }: CommandOptions, plan: Plan, dryRun: boolean): number {
  if (!dryRun) return EXIT.failed;
  if (json) writeJson(terminal, plan.data);
  else terminal.write('Nothing was changed: this was a dry run.\n');
  return EXIT.done;
}

const COLOURS = { '+': 'green', '-': 'red', '~': 'yellow' } as const;

function coloured({ sign, text }: PlanLine, style: CommandOptions['terminal']['style']): string {
  return `${style(COLOURS[sign], sign)} ${printable(text)}`;
}

/** Does the work; a configuration that the server finds invalid is reported as one that is found so here. */
export async function reportingPlaces(
  { terminal }: CommandOptions,
  file: string,
  work: () => Promise<number | void>,
): Promise<number | void> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof RequestRefused)) throw error;
    const { status, details } = error.refused;
    const places = details.flatMap(({ line, column = 1, ...rest }) =>
      line === undefined ? [] : [problem(file, { ...rest, line, column })],
    );
    if (places.length === 0) throw error;
    terminal.progress('');
    for (const place of places) terminal.complain(`${formatProblem(place)}\n`);
    if (status === 400) return EXIT.configuration;
    terminal.complain(`${printable(error.message)}\n`);
    return EXIT.failed;
  }
}

function problem(file: string, place: Omit<Problem, 'file'>): Problem {
  return { file, ...place };
}
