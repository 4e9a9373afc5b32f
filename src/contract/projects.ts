/** Projects and their configuration: pushed as YAML, shown, rolled back. */
import { normalize } from 'node:path/posix';
import { z } from 'zod';
import { route } from './route.ts';
import { cursor, environment, flag, label, listing, page, pageSize, slug, source, time } from './values.ts';

const MAX_FILES = 200;
const MAX_FILES_BYTES = 5 * 1024 * 1024;
/** The files and the YAML; JSON may escape some characters. */
export const MAX_BODY_BYTES = 12 * 1024 * 1024;

const project = z.object({
  id: z.string(),
  name: z.string(),
  slug: z.string(),
  environment,
  source: source.describe('Where the project comes from: a file on a server, a push, or `POST /projects`.'),
  managed_by: z
    .object({ machine: z.string(), file: z.string() })
    .nullable()
    .describe('The file that manages the project, and its machine; null if a push may change the project.'),
  file_missing: z.boolean().describe('Whether that file is gone. The project stays deployed until it is deleted.'),
  revision: z.string().describe('The deployed revision.'),
  created_at: time,
});

/** A place in a configuration, and what to say about it. */
export const finding = z.object({
  path: z.string().describe('Such as domains.example.com.forms.contact.rateLimit.'),
  message: z.string(),
  line: z.int(),
  column: z.int(),
});

/** The contents of a bundle's files by name. */
export const files = z
  .record(
    z.string().refine(isWithin, 'must be a path below the folder of the YAML file, such as templates/contact.html'),
    z.string(),
  )
  .refine(
    (all) => new Set(Object.keys(all).map((name) => normalize(name))).size === Object.keys(all).length,
    'must name each file once: ./a.html and a.html are the same file',
  )
  .refine((all) => Object.keys(all).length <= MAX_FILES, `must be at most ${MAX_FILES} files`)
  .refine((all) => bytesOf(all) <= MAX_FILES_BYTES, 'must be at most 5 MiB in total');

const base_revision = z
  .string()
  .nullable()
  .optional()
  .describe(
    'The revision to replace; null for a project without one. 409 if another revision is deployed. Default: any.',
  );

const changes = z.array(
  z.object({
    op: z.enum(['add', 'remove', 'change']),
    path: z.string(),
    keys: z.array(z.string()).describe('The path as a list of keys, because domain names contain dots.'),
    from: z.unknown().describe('null if it was added.'),
    to: z.unknown().describe('null if it was removed.'),
  }),
);

const revision = z.object({
  id: z.string(),
  created_at: time.describe('When it was last deployed.'),
  current: z.boolean().describe('Whether it is deployed now.'),
  size: z.int().nullable().describe('Size of the YAML and its files in bytes.'),
  author: z
    .object({
      kind: z.enum(['key', 'session', 'operator', 'file']),
      id: z.string().nullable().describe('ID of the API key.'),
      name: z.string().nullable().describe('Name of the key or account, or the machine and its file.'),
    })
    .nullable()
    .describe('Who last deployed it; null if this was not recorded yet.'),
});

const pushed = z.object({
  changes,
  warnings: z.array(finding),
  revision: z.string().nullable().describe('The deployed revision. A dry run does not change it.'),
});

const READ = { permission: 'projects.read', domains: 'narrow', tag: 'Projects' } as const;
const WRITE = { ...READ, permission: 'projects.write' } as const;

export const projects = {
  list: route('GET /projects', {
    ...READ,
    readsLive: true,
    summary: 'Lists the projects of the account, newest first.',
    description: 'A test key sees the live projects and those that test keys created.',
    query: z.strictObject(listing('prj')),
    answer: page({ projects: z.array(project) }),
  }),
  create: route('POST /projects', {
    ...WRITE,
    domains: 'refuse',
    summary: 'Creates a project without domains.',
    description: 'Add domains with `POST /domains`, or push a YAML file.',
    body: z.strictObject({
      name: label.describe('Display name.'),
      slug: slug.optional().describe('Its name in URLs and commands. Default: derived from the name.'),
    }),
    answer: project,
    errors: ['CONFLICT', 'PLAN_LIMIT'],
  }),
  show: route('GET /projects/:slug', { ...READ, readsLive: true, summary: 'Shows a project.', answer: project }),
  remove: route('DELETE /projects/:slug', {
    ...WRITE,
    summary: 'Deletes a project, and shows it as it was.',
    description:
      'Its domains and forms stop working at once. Submissions are kept, and queued mail is still sent. A project managed by a file can be deleted after the file is gone.',
    query: z.strictObject({
      force: flag.describe(
        'Delete it even if its file may still exist, for example on a machine that is gone. If that file is loaded again, it deploys the project again.',
      ),
    }),
    answer: project,
    errors: ['CONFLICT'],
  }),
  config: route('GET /projects/:slug/config', {
    ...READ,
    readsLive: true,
    summary: 'Shows the deployed configuration, or an earlier one, and lists the revisions.',
    query: z.strictObject({ revision: z.string().optional().describe('`rev_…`, one of `revisions`.') }),
    answer: z.object({
      config: z.string().nullable().describe('The YAML; null if there is none.'),
      files: z.record(z.string(), z.string()),
      revision: z.string().nullable().describe('The revision shown: the deployed one, or the one in the query.'),
      revisions: z
        .array(z.object({ id: z.string(), created_at: time, current: z.boolean() }))
        .describe('The latest 100, newest first. Any of them can be restored.'),
    }),
  }),
  revisions: route('GET /projects/:slug/revisions', {
    ...READ,
    readsLive: true,
    summary: 'Lists the revisions of a project, the most recently deployed first.',
    description:
      'The same content is always one revision: if you push it again, that revision moves to the top. Any revision can be restored.',
    query: z.strictObject({ limit: pageSize, cursor: cursor(/^\d{1,16}-rev_[0-9a-z]{26}$/) }),
    answer: page({ revisions: z.array(revision) }),
  }),
  changes: route('GET /projects/:slug/revisions/:revision/changes', {
    ...READ,
    readsLive: true,
    summary: 'Compares a revision with another one.',
    query: z.strictObject({
      from: z.string().optional().describe('`rev_…`, the revision to compare with. Default: the deployed one.'),
    }),
    answer: z.object({ from: z.string(), to: z.string(), changes }),
    errors: ['CONFLICT'],
  }),
  push: route('PUT /projects/:slug/config', {
    ...WRITE,
    summary: 'Pushes a configuration: validates it and deploys all of it.',
    description:
      'Creates the project if it does not exist. If the configuration has errors, nothing changes, and the answer lists them with path, line and column. Recipients who must confirm first are listed in `warnings` and are mailed a link. References to secrets (`${NAME}`, `file:/…`) are rejected, because they would read secrets of the server.',
    query: z.strictObject({ dry_run: flag.describe('Only show what would change.') }),
    body: z.strictObject({
      base_revision,
      config: z.string().describe('The YAML, at most 256 KiB.'),
      files: files
        .default({})
        .describe(
          'Contents of the files named in html_file or logo, by the name as written there. Images are data: URLs.',
        ),
    }),
    maxBody: MAX_BODY_BYTES,
    answer: pushed,
    errors: ['CONFLICT', 'PLAN_LIMIT'],
  }),
  rollback: route('POST /projects/:slug/rollback', {
    ...WRITE,
    summary: 'Deploys an earlier revision again.',
    body: z.strictObject({ revision: z.string().describe('`rev_…`, one that was deployed before.'), base_revision }),
    answer: pushed,
    errors: ['CONFLICT', 'PLAN_LIMIT'],
  }),
};

/** A relative path that stays inside its folder. */
function isWithin(path: string): boolean {
  const steps = path.split('/');
  return path.length <= 500 && !/[\\\p{Cc}]/u.test(path) && steps.every((step) => step !== '' && step !== '..');
}

function bytesOf(all: Readonly<Record<string, string>>): number {
  return Object.entries(all).reduce((sum, [name, text]) => sum + Buffer.byteLength(name) + Buffer.byteLength(text), 0);
}
