/** Projects as they were when something was accepted under them: read and compiled once while they are in use. */
import { readBundle } from '../config/bundle.ts';
import { parseProject } from '../config/parse.ts';
import type { ProjectConfig } from '../config/schema.ts';
import type { SecretSource } from '../config/secrets.ts';
import { findRevision } from '../store/revisions.ts';
import type { Store } from '../store/store.ts';
import { compileTemplates, type TemplateSet } from '../templates/engine.ts';
import { Recent } from './recent.ts';

export interface Revision {
  readonly config: ProjectConfig;
  readonly templates: TemplateSet;
}

/** The revision with this id (`rev_…`); undefined where it cannot be read (any more). */
export type RevisionOf = (id: string) => Promise<Revision | undefined>;

const REVISIONS = 100;

/** Revisions as the store has them, read with the code that accepts them. */
export function createRevisions({ store, secrets }: { store: Store; secrets: SecretSource }): RevisionOf {
  return keepRecent((id) => loadRevision(store, id, secrets));
}

/** The same function, which is called once for what is in use; what it rejects with is forgotten. */
export function keepRecent(load: RevisionOf): RevisionOf {
  const known = new Recent<Promise<Revision | undefined>>(REVISIONS);
  return (id) => {
    const kept = known.get(id);
    if (kept !== undefined) return kept;
    const loading = load(id).catch((error: unknown) => {
      known.delete(id);
      throw error;
    });
    known.set(id, loading);
    return loading;
  };
}

async function loadRevision(store: Store, id: string, secrets: SecretSource): Promise<Revision | undefined> {
  const row = await findRevision(store, id);
  if (row === undefined) return undefined;
  // One that was pushed.
  const parsed =
    row.file === ''
      ? readBundle(row, undefined).result
      : parseProject(row.yaml, row.file, { files: row.files, env: secrets });
  if (!('ok' in parsed)) return undefined;
  const { templates, settings } = parsed.ok;
  return { config: parsed.ok, templates: compileTemplates(templates, { timezone: settings.timezone }) };
}
