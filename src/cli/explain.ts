/** `postern explain`: what would happen to mail for an address, or to a post to a form, step by step. */
import { z } from 'zod';
import { EXIT, queryOf, run, writeJson, type CommandOptions } from './run.ts';
import { printable } from './table.ts';
import type { Terminal } from './terminal.ts';

const explanation = z.object({
  what: z.string(),
  kind: z.string(),
  steps: z.array(
    z.object({
      step: z.string(),
      about: z.string().optional(),
      verdict: z.string(),
      found: z.string(),
      because: z.string(),
    }),
  ),
});
type Step = z.output<typeof explanation>['steps'][number];

const HEADINGS: ReadonlyMap<string, string> = new Map([
  ['inbound', 'Mail that comes in for'],
  ['outbound', 'Mail that goes to'],
  ['form', 'A post to'],
]);

/** Explains an address or a form. Answers 1 where something on the way stops the mail. */
export function explain(options: CommandOptions, what: string): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/admin/explain${queryOf({ what })}`);
    const { kind, steps, ...asked } = explanation.parse(data);
    if (json) writeJson(terminal, data);
    else {
      terminal.write(`${HEADINGS.get(kind) ?? kind} ${printable(asked.what)}\n`);
      writeSteps(terminal, steps);
    }
    return steps.some(({ verdict }) => verdict === 'stop') ? EXIT.failed : EXIT.done;
  });
}

/** Steps about one recipient stand together, under its address. */
function writeSteps({ write, style }: Terminal, steps: readonly Step[]): void {
  let about: string | undefined;
  for (const step of steps) {
    if (step.about !== about) {
      about = step.about;
      if (about !== undefined) write(`\n${style('bold', `to ${printable(about)}`)}\n`);
    }
    const [first = '', ...more] = step.found.split('\n').map(printable);
    const [mark, colour] = MARKS.get(step.verdict) ?? PASSED;
    write(`${style(colour, mark)} ${step.step.replaceAll('_', ' ').padEnd(14)}  ${first}\n`);
    for (const line of more) write(`${INDENT}${line}\n`);
    write(`${INDENT}${style('dim', `(${printable(step.because)})`)}\n`);
  }
}

const INDENT = ' '.repeat(18);
type Mark = readonly [sign: string, colour: 'green' | 'yellow' | 'red'];
const PASSED: Mark = ['+', 'green'];
const MARKS: ReadonlyMap<string, Mark> = new Map<string, Mark>([
  ['warning', ['!', 'yellow']],
  ['stop', ['x', 'red']],
]);
