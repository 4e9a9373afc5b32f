/** Projects as they were when something was accepted under them: read once while they are in use. */
import type { BundleReader } from '../config/bundle.ts';
import { parseProject } from '../config/parse.ts';
import type { ProjectConfig } from '../config/schema.ts';
import type { SecretSource } from '../config/secrets.ts';
import { findRevision } from '../store/revisions.ts';
import type { Store } from '../store/store.ts';
import { Recent } from './recent.ts';

export interface Revision {
  /** `rev_…` */
  readonly id: string;
  readonly config: ProjectConfig;
}

export interface RevisionsParts {
  readonly store: Store;
  readonly secrets: SecretSource;
  readonly reader: BundleReader;
}

/** The revision with this id (`rev_…`); undefined where it cannot be read (any more). */
export type RevisionOf = (id: string) => Promise<Revision | undefined>;

const REVISIONS = 100;

/** Revisions as the store has them, read with the code that accepts them. */
export function createRevisions(parts: RevisionsParts): RevisionOf {
  return keepRecent((id) => loadRevision(id, parts));
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

async function loadRevision(id: string, { store, secrets, reader }: RevisionsParts): Promise<Revision | undefined> {
  const row = await findRevision(store, id);
  if (row === undefined) return undefined;
  // Without a file it was pushed.
  const { result } =
    row.file === ''
      ? await reader.read(row, { tenant: row.tenant, accepted: true })
      : { result: parseProject(row.yaml, row.file, { files: row.files, env: secrets, accepted: true }) };
  return 'ok' in result ? { id, config: result.ok } : undefined;
}
