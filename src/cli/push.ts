/** `postern push`: the project of this folder comes into force, after a look at what that changes. */
import { z } from 'zod';
import type { Bundle } from '../config/bundle.ts';
import { writtenProject } from '../config/diff.ts';
import type { ProjectConfig } from '../config/schema.ts';
import { RequestRefused, type Client, type OnSent } from './client.ts';
import { everyDomain } from './domain-shapes.ts';
import { configPath, isAgreed, planOf, readPlan, reportingPlaces, unchanged } from './plan.ts';
import { readLocalProject, validProject } from './project-folder.ts';
import { EXIT, run, writeJson, type CommandOptions } from './run.ts';
import type { Terminal } from './terminal.ts';
import { barText } from './words.ts';

export interface PushOptions {
  /** A folder or a file; else this folder, or the nearest above that has a postern.yml. */
  readonly where?: string | undefined;
  readonly yes: boolean;
  readonly dryRun: boolean;
}

const current = z.object({ config: z.string().nullable(), files: z.record(z.string(), z.string()) });

/** Answers the exit code; a configuration that is not valid is 78. */
export function push(options: CommandOptions, { where, yes, dryRun }: PushOptions): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const { folder, progress, write } = terminal;
    const project = await readLocalProject(folder, where);
    const config = validProject(project, terminal);
    if (config === undefined) return EXIT.configuration;
    const { slug } = config.project;
    const { file, yaml, files } = project;
    const bundle = { yaml, files };
    return reportingPlaces(options, file, async () => {
      const onSent = telling('Asking what would change', progress);
      const plan = await planOf({ client, slug, bundle, onSent });
      progress('');
      if (plan.changes.length === 0 && plan.revision !== null && (await isInForce(client, slug, bundle))) {
        if (json) writeJson(terminal, plan.data);
        else write(`${slug} at ${client.address} is as it stands here: nothing to change.\n`);
        return EXIT.done;
      }
      const after = writtenProject(config);
      const agreed = await isAgreed(options, { slug, plan, after, file, yes, dryRun });
      if (!agreed) return unchanged(options, plan, dryRun);
      const body = { config: yaml, files, base_revision: plan.revision };
      const done = readPlan(await client.put(configPath(slug), body, telling('Putting it in force', progress)));
      progress('');
      if (json) return writeJson(terminal, done.data);
      const back = plan.revision === null ? '' : ' postern rollback takes it back.';
      write(`${slug} is in force as ${done.revision}.${back}\n`);
      await tellNextSteps(options, config);
    });
  });
}

/** Shows how far a bundle has gone out, and then that the server works on it. */
function telling(doing: string, progress: Terminal['progress']): OnSent {
  return (sent, total) => progress(`${doing} ${sent < total ? barText(sent, total) : '…'}`);
}

/** Whether text and files are those in force, too: comments and the names of files are no change that a plan tells. */
async function isInForce(client: Client, slug: string, { yaml, files }: Bundle): Promise<boolean> {
  const kept = current.parse(await client.get(configPath(slug)));
  const names = Object.keys(files);
  return (
    kept.config === yaml &&
    names.length === Object.keys(kept.files).length &&
    names.every((name) => kept.files[name] === files[name])
  );
}

/** What is left to do so that its domains send and receive. A key that may push need not see domains. */
async function tellNextSteps({ client, terminal }: CommandOptions, { domains }: ProjectConfig): Promise<void> {
  const names = Object.keys(domains);
  if (names.length === 0) return;
  const known = await everyDomain(client).catch((error: unknown) => {
    if (error instanceof RequestRefused && error.refused.status === 403) return undefined;
    throw error;
  });
  if (known === undefined)
    terminal.write('This key does not see domains: ask with another whether their DNS records stand.\n');
  for (const { domain, status } of known ?? []) {
    if (!names.includes(domain) || status === 'verified') continue;
    terminal.write(`${domain} is ${status}: postern domains setup ${domain} shows the DNS records that it needs.\n`);
  }
}
