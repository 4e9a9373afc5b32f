/** `postern trace`: one thing on its way, from the request to the last SMTP reply. */
import { z } from 'zod';
import { run, writeJson, type CommandOptions } from './run.ts';
import { printable } from './table.ts';

const traced = z.object({
  request: z.string().nullable(),
  submission: z.string().nullable(),
  messages: z.array(z.string()),
  timeline: z.array(z.object({ at: z.string(), step: z.string(), id: z.string(), text: z.string() })),
});

/** Shows what happened, oldest first. */
export function trace(options: CommandOptions, id: string): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/admin/trace/${encodeURIComponent(id)}`);
    if (json) return writeJson(terminal, data);
    const { request, submission, messages, timeline } = traced.parse(data);
    const { write, style } = terminal;
    for (const [name, ids] of Object.entries({ request, submission, messages: messages.join(' ') }))
      if (ids) write(`${name.padEnd(10)}  ${ids}\n`);
    write('\n');
    for (const entry of timeline) {
      const step = entry.step === 'waits' ? style('yellow', 'waits    ') : entry.step.padEnd(9);
      write(`${style('dim', entry.at)}  ${step}  ${printable(entry.text)}\n`);
      write(`${' '.repeat(37)}${style('dim', entry.id)}\n`);
    }
  });
}
