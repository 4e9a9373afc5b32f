/** `postern suppressions …`: addresses that mail is no longer sent to. */
import { z } from 'zod';
import type { PageFlags } from './commands/asking.ts';
import { writePage } from './list.ts';
import { queryOf, run, shortTime, writeJson, type CommandOptions } from './run.ts';
import { printable } from './table.ts';

const suppression = z.object({ address: z.string(), reason: z.string(), created_at: z.string() });
const listing = z.object({
  suppressions: z.array(suppression),
  count: z.number(),
  next_cursor: z.string().nullable(),
});

/** Lists them in their alphabetical order. Answers the exit code, as all of these do. */
export function suppressionsList(options: CommandOptions, page: PageFlags): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/suppressions${queryOf(page)}`);
    if (json) return writeJson(terminal, data);
    const { suppressions, ...where } = listing.parse(data);
    const rows = suppressions.map(({ address, reason, created_at }) => [address, reason, shortTime(created_at)]);
    writePage(
      terminal,
      { headings: ['ADDRESS', 'REASON', 'SINCE'], rows },
      { ...where, nothing: 'Nobody is on the list.' },
    );
  });
}

/** Puts an address on the list. */
export function suppressionsAdd(options: CommandOptions, address: string, reason: string): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.post('/suppressions', { address, reason });
    if (json) return writeJson(terminal, data);
    const row = suppression.parse(data);
    terminal.write(`No mail is sent to ${printable(row.address)} (${row.reason}).\n`);
  });
}

/** Takes an address off the list. */
export function suppressionsRemove(options: CommandOptions, address: string): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.delete(`/suppressions/${encodeURIComponent(address)}`);
    if (json) return writeJson(terminal, data);
    terminal.write(`Mail is sent to ${printable(suppression.parse(data).address)} again.\n`);
  });
}
