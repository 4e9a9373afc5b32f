/** `postern test config`: whether the project of this folder can be pushed, and, where a server is asked, whether it works there. */
import { z } from 'zod';
import { writtenProject } from '../config/diff.ts';
import { formatProblem } from '../config/problem.ts';
import type { ProjectConfig } from '../config/schema.ts';
import { RequestRefused, type Client } from './client.ts';
import { everyDomain } from './domain-shapes.ts';
import { planOf, type Plan } from './plan.ts';
import { planLines } from './plan-words.ts';
import { readLocalProject, type LocalProject } from './project-folder.ts';
import { EXIT, queryOf, run, writeJson, type CommandOptions } from './run.ts';
import { formsIn } from './sample.ts';
import { printable } from './table.ts';
import type { Terminal } from './terminal.ts';
import { counted } from './words.ts';

export interface TestConfigOptions {
  readonly where: string | undefined;
  readonly json: boolean;
  /** The server that is asked as well (`--check-api`). */
  readonly api: CommandOptions | undefined;
}

/** How one thing stands: a note is nothing wrong, but something left to do. */
interface Check {
  readonly check: 'key' | 'push' | 'domain' | 'form';
  readonly state: 'ok' | 'note' | 'failed';
  readonly message: string;
}

/** Writes every error and warning, and what the server says. Answers the exit code. */
export async function testConfig(terminal: Terminal, { where, json, api }: TestConfigOptions): Promise<number> {
  const project = await readLocalProject(terminal.folder, where);
  const { result } = project;
  if (!('ok' in result)) {
    report(terminal, project, { json, checks: [] });
    return EXIT.configuration;
  }
  if (api === undefined) {
    report(terminal, project, { json, checks: [] });
    return EXIT.done;
  }
  return run(api, async ({ client }) => {
    terminal.progress(`Asking ${client.address} …`);
    const checks = await checksOf(client, project, result.ok);
    terminal.progress('');
    report(terminal, project, { json, checks });
    return checks.some(({ state }) => state === 'failed') ? EXIT.failed : EXIT.done;
  });
}

function report(
  terminal: Terminal,
  { file, result }: Pick<LocalProject, 'file' | 'result'>,
  { json, checks }: { readonly json: boolean; readonly checks: readonly Check[] },
): void {
  const { write, style } = terminal;
  const { warnings } = result;
  const errors = 'ok' in result ? [] : result.errors;
  if (json) return writeJson(terminal, { file, valid: errors.length === 0, errors, warnings, checks });
  for (const error of errors) write(`${formatProblem(error)}\n`);
  for (const warning of warnings) write(`${style('yellow', 'warning:')} ${formatProblem(warning)}\n`);
  write(`${file}: ${counted(errors.length, 'error')}, ${counted(warnings.length, 'warning')}\n`);
  for (const { state, message } of checks) write(`${style(COLOURS[state], state.padEnd(6))}  ${printable(message)}\n`);
}

const COLOURS = { ok: 'green', note: 'yellow', failed: 'red' } as const;

const status = z.object({
  key: z
    .object({ name: z.string(), permissions: z.array(z.string()), environment: z.string(), last4: z.string() })
    .nullable(),
  tenant: z.object({ name: z.string() }),
});

/** Each builds on the one before: without a key nothing else can be asked. */
async function checksOf(client: Client, project: LocalProject, config: ProjectConfig): Promise<Check[]> {
  const refusals = await attempted('key', async () => {
    const { key, tenant } = status.parse(await client.get('/auth/status'));
    return keyChecks(key, tenant.name, client.address);
  });
  if (!Array.isArray(refusals) || refusals.some(({ state }) => state === 'failed')) return [refusals].flat();
  let plan: Plan | undefined;
  const { slug } = config.project;
  const pushing = await attempted('push', async () => {
    plan = await planOf({ client, slug, bundle: project });
    const count = planLines(plan.changes, writtenProject(config)).length;
    return count === 0
      ? [{ check: 'push', state: 'ok', message: `${slug} is in force as it stands here` } as const]
      : [
          {
            check: 'push',
            state: 'ok',
            message: `postern push would be taken, with ${counted(count, 'change')}`,
          } as const,
        ];
  });
  const isPushed = plan !== undefined && plan.changes.length === 0 && plan.revision !== null;
  let states: DomainStates = new Map();
  const domains = await attempted('domain', async () => {
    states = new Map((await everyDomain(client)).map(({ domain, status: state }) => [domain, state]));
    return domainChecks(config, states);
  });
  const forms = await attempted('form', () => formChecks(client, config, { isPushed, states }));
  return [refusals, pushing, domains, forms].flat();
}

/** What it answers; a refusal is a check that failed, unless the key may push and only not look at this. */
async function attempted(check: Check['check'], work: () => Promise<Check[]>): Promise<Check[]> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof RequestRefused)) throw error;
    const { code, details } = error.refused;
    if (code === 'AUTH_FORBIDDEN' && (check === 'domain' || check === 'form'))
      return [{ check, state: 'note', message: `this key does not see ${check}s` }];
    const places = details.map(({ path, message }) => `${path === '' ? '' : `${path}: `}${message}`);
    return [{ check, state: 'failed', message: [error.message, ...(places.length > 1 ? places : [])].join(' ') }];
  }
}

function keyChecks(key: z.output<typeof status>['key'], tenant: string, address: string): Check[] {
  if (key === null) return [{ check: 'key', state: 'ok', message: `${address} answers, and lets the operator in` }];
  const { name, permissions, environment, last4 } = key;
  const known: Check = {
    check: 'key',
    state: 'ok',
    message: `${address} answers, and knows the key ${name} (…${last4}) of ${tenant}`,
  };
  const lacking: Check = {
    check: 'key',
    state: 'failed',
    message: 'the key may not push: it lacks the permission projects.write',
  };
  const captured: Check = {
    check: 'key',
    state: 'note',
    message: 'it is a test key: mail that it sends is captured, not delivered',
  };
  return [
    known,
    ...(permissions.includes('projects.write') ? [] : [lacking]),
    ...(environment === 'test' ? [captured] : []),
  ];
}

/** Of the account's domains, by name. */
type DomainStates = ReadonlyMap<string, string>;

function domainChecks({ domains }: ProjectConfig, states: DomainStates): Check[] {
  return Object.keys(domains).map((name): Check => {
    const state = states.get(name);
    switch (state) {
      case 'verified':
        return { check: 'domain', state: 'ok', message: `${name} is verified` };
      case undefined:
        return { check: 'domain', state: 'note', message: `${name} is not there yet: postern push brings it` };
      case 'pending':
        return {
          check: 'domain',
          state: 'note',
          message: `${name} is pending: postern domains setup ${name} shows the DNS records that it needs`,
        };
      default:
        return {
          check: 'domain',
          state: 'failed',
          message: `${name} is ${state}: its DNS records no longer stand; postern domains setup ${name} shows them`,
        };
    }
  });
}

const formPage = z.object({ forms: z.array(z.object({ id: z.string() })), next_cursor: z.string().nullable() });

async function formChecks(
  client: Client,
  config: ProjectConfig,
  { isPushed, states }: { readonly isPushed: boolean; readonly states: DomainStates },
): Promise<Check[]> {
  const wanted = formsIn(config);
  if (wanted.length === 0) return [];
  const there = new Set<string>();
  for (let cursor: string | undefined; ;) {
    const page = formPage.parse(await client.get(`/forms${queryOf({ limit: 200, cursor })}`));
    for (const { id } of page.forms) there.add(id);
    if (page.next_cursor === null) break;
    cursor = page.next_cursor;
  }
  return wanted.map(({ id, domain }): Check => {
    if (there.has(id)) return { check: 'form', state: 'ok', message: `form ${id} is there` };
    // Another account's domain of the same name may be the verified one: its forms are served then.
    if (isPushed && domain !== undefined && states.get(domain) === 'pending')
      return { check: 'form', state: 'note', message: `form ${id} is not served before ${domain} is verified` };
    return isPushed
      ? { check: 'form', state: 'failed', message: `form ${id} is not there, although its project is in force` }
      : { check: 'form', state: 'note', message: `form ${id} is not there yet: postern push brings it` };
  });
}
