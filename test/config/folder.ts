/** A configuration folder of a test's own, gone after it. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { StoredProjects } from '../../src/config/stored.ts';
import type { NewRevision, Revision, Revisions } from '../../src/config/assemble.ts';

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
  write(name: string, text: string): Promise<void>;
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

  async function write(name: string, text: string): Promise<void> {
    await mkdir(dirname(path(name)), { recursive: true });
    await writeFile(path(name), text);
  }
}

/** A database without projects. */
export const NOTHING_STORED: StoredProjects = {
  list: async () => [],
  revision: async () => undefined,
  standings: async () => [],
};

/** The store's part, in memory. */
export function memoryRevisions(): Revisions & { readonly saved: NewRevision[] } {
  const saved: NewRevision[] = [];
  return {
    saved,
    save: async (project) => {
      const key = JSON.stringify(project);
      const index = saved.findIndex((other) => JSON.stringify(other) === key);
      return `rev_${index < 0 ? saved.push(project) : index + 1}`;
    },
    lastGood: async (file): Promise<Revision | undefined> => {
      const index = saved.findLastIndex((other) => other.file === file);
      const found = saved[index];
      return found === undefined ? undefined : { id: `rev_${index + 1}`, yaml: found.yaml, files: found.files };
    },
  };
}
