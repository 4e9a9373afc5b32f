/** `postern auth create-key`, `list-keys`, `revoke-key` and `permissions`: the keys of an account. */
import { z } from 'zod';
import type { PageFlags } from './commands/asking.ts';
import { isConfirmed } from './confirm.ts';
import { keyShape, restrictionFacts, restrictionsShape } from './key-shapes.ts';
import { writeFacts, writePage } from './list.ts';
import { EXIT, queryOf, run, shortTime, writeJson, type CommandOptions } from './run.ts';
import { printable } from './table.ts';

const listedKey = keyShape.extend({ revoked_at: z.string().nullable() });
const family = listedKey.extend({ active_children: z.array(listedKey) });
const revoked = family.extend({ revoked_children: z.array(listedKey) });
const listing = z.object({ api_keys: z.array(listedKey), count: z.number(), next_cursor: z.string().nullable() });
const newKey = z.object({
  id: z.string(),
  key: z.string(),
  name: z.string(),
  environment: z.string(),
  permissions: z.array(z.string()),
  restrictions: restrictionsShape,
});

export interface NewKey {
  readonly name: string;
  readonly environment?: string | undefined;
  readonly permissions: readonly string[];
  readonly rateLimit?: number | undefined;
  readonly burstLimit?: number | undefined;
  readonly ip?: readonly string[] | undefined;
  readonly domain?: readonly string[] | undefined;
  /** ISO 8601. */
  readonly expires?: string | undefined;
}

/** Makes a key and shows its value, once. Answers the exit code, as all of these do. */
export function createKey(options: CommandOptions, wanted: NewKey): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const { name, environment, permissions, rateLimit, burstLimit, ip, domain, expires } = wanted;
    const data = await client.post('/api-keys', {
      name,
      environment,
      permissions,
      restrictions: {
        rate_limit: rateLimit,
        burst_limit: burstLimit,
        ip_whitelist: ip,
        domain_restrictions: domain,
        expires_at: expires,
      },
    });
    if (json) return writeJson(terminal, data);
    const made = newKey.parse(data);
    writeFacts(terminal, [
      ['key', made.key],
      ['id', made.id],
      ['name', made.name],
      ['environment', made.environment],
      ['permissions', made.permissions.join(', ')],
      ...restrictionFacts(made.restrictions),
    ]);
    terminal.complain('Keep the key now: it is not shown again.\n');
  });
}

/** Lists the account's keys, newest first. */
export function listKeys(options: CommandOptions, page: PageFlags): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/api-keys${queryOf(page)}`);
    if (json) return writeJson(terminal, data);
    const { api_keys: keys, ...where } = listing.parse(data);
    const rows = keys.map((row) => [
      row.id,
      row.name,
      `${row.prefix}…${row.last4}`,
      row.revoked_at === null ? 'active' : 'revoked',
      shortTime(row.last_used_at),
      row.permissions.join(' '),
    ]);
    const headings = ['KEY', 'NAME', 'VALUE', 'STATE', 'LAST USED', 'PERMISSIONS'];
    writePage(terminal, { headings, rows }, { ...where, nothing: 'There are no keys.' });
  });
}

/** Ends a key, and on request the keys that it made, once a person has agreed. */
export function revokeKey(
  options: CommandOptions,
  id: string,
  { yes, withChildren }: { yes: boolean; withChildren: boolean },
): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const path = `/api-keys/${encodeURIComponent(id)}`;
    const { name, revoked_at, active_children: children } = family.parse(await client.get(path));
    const ending = [...(revoked_at === null ? [{ id, name }] : []), ...(withChildren ? children : [])];
    if (ending.length > 0) {
      const named = ending.map((key) => `${key.id} (${printable(key.name)})`).join(', ');
      const question = `Revoke ${named}? Whoever uses ${ending.length === 1 ? 'it' : 'one of them'} is refused from then on.`;
      if (!(await isConfirmed(terminal, question, yes))) return EXIT.failed;
    }
    const data = await client.delete(`${path}${queryOf({ with_children: withChildren ? 'true' : undefined })}`);
    if (json) return writeJson(terminal, data);
    const done = revoked.parse(data);
    for (const key of [done, ...done.revoked_children]) {
      terminal.write(`${key.id} was revoked ${shortTime(key.revoked_at)}\n`);
    }
    if (done.active_children.length === 0) return undefined;
    const left = done.active_children.map((key) => `${key.id} (${printable(key.name)})`).join(', ');
    terminal.complain(`Keys that it made are still active: ${left}.\n`);
    terminal.complain(`If it was stolen, revoke them too: postern auth revoke-key ${id} --with-children\n`);
    return undefined;
  });
}

/** Lists what a key may do. */
export function keyPermissions(options: CommandOptions, { keyId }: { keyId: string }): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const data = await client.get(`/api-keys/${encodeURIComponent(keyId)}`);
    const { permissions, restrictions: held } = listedKey.parse(data);
    if (json) return writeJson(terminal, { id: keyId, permissions, restrictions: held });
    for (const permission of permissions) terminal.write(`${permission}\n`);
    const facts = restrictionFacts(held);
    if (terminal.width !== undefined && facts.length > 0) writeFacts(terminal, facts);
  });
}
