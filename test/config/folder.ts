/** A configuration folder of a test's own, gone after it. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { onTestFinished } from 'vitest';
import { readHere } from '../../src/config/bundle.ts';
import { loadServer } from '../../src/config/folder.ts';
import { machineSecrets } from '../../src/config/secrets.ts';
import { createConfigSource, type ConfigSource } from '../../src/config/source.ts';
import { projectStore } from '../../src/daemon/configuration.ts';
import { systemClock, type Clock } from '../../src/lib/clock.ts';
import { silentLog, type Log } from '../../src/lib/log.ts';
import { OPERATOR, saveOperator } from '../../src/store/tenants.ts';
import type { Store } from '../../src/store/store.ts';
import { unclosed } from './templates.ts';

export const SERVER = 'server:\n  hostname: mail.example.net\n  operator: ops@example.net\n';

/** A project with one form at one domain. */
export function projectText(slug: string, domain: string, more = ''): string {
  return `project: { name: ${slug}, slug: ${slug} }
domains:
  ${domain}:
    forms:
      contact:
        to: anna@example.org
${more}`;
}

export interface Folder {
  readonly server: string;
  path(name: string): string;
  write(name: string, content: string | Uint8Array): Promise<void>;
  remove(name: string): Promise<void>;
}

/** A folder with these files; a minimal server.yml unless given. */
export async function configFolder(files: Readonly<Record<string, string>> = {}): Promise<Folder> {
  const root = await mkdtemp(join(tmpdir(), 'postern-config-'));
  onTestFinished(async () => {
    await rm(root, { recursive: true });
  });
  for (const [name, text] of Object.entries({ 'server.yml': SERVER, ...files })) await write(name, text);
  return { server: path('server.yml'), path, write, remove: async (name) => rm(path(name)) };

  function path(name: string): string {
    return join(root, name);
  }

  async function write(name: string, content: string | Uint8Array): Promise<void> {
    await mkdir(dirname(path(name)), { recursive: true });
    await writeFile(path(name), content);
  }
}

/** What a source is opened with, apart from its folder and its database. */
export interface SourceSetting {
  readonly machine?: string;
  readonly log?: Log;
  readonly clock?: Clock;
}

/** The configuration of this folder over this database, as a daemon on this machine has it. */
export async function openSource(folder: Folder, store: Store, setting: SourceSetting = {}): Promise<ConfigSource> {
  const { machine = 'mx1', log = silentLog, clock = systemClock } = setting;
  const secrets = machineSecrets({ HOME: '/root' });
  const server = await loadServer(folder.server, secrets);
  if (!('ok' in server)) throw new Error('server.yml');
  await saveOperator(store, 'ops@example.net', 1);
  return createConfigSource({
    file: folder.server,
    server: server.ok,
    tenant: OPERATOR,
    machine,
    reading: { secrets, checkTemplates: unclosed },
    reader: readHere(unclosed),
    projects: projectStore({ store, clock, machine }),
    log,
  });
}
