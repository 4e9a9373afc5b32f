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
  source: source.describe('A file on a server, a push, or `POST /projects`.'),
  managed_by: z
    .object({ machine: z.string(), file: z.string() })
    .nullable()
    .describe('The file that manages the project, and its machine; null if a push may change the project.'),
  file_missing: z.boolean().describe('That file is gone. The project stays deployed until it is deleted.'),
  revision: z.string().describe('The deployed revision.'),
  created_at: time,
});

/** A place in a configuration, and what is to be said about it. */
export const finding = z.object({
  path: z.string().describe('Such as domains.example.com.forms.contact.rateLimit.'),
  message: z.string(),
  line: z.int(),
  column: z.int(),
});

/** The contents of a bundle's files by name. */
export const files = z
  .record(
    z.string().refine(isWithin, 'must be a path below the folder of the YAML, such as templates/contact.html'),
    z.string(),
  )
  .refine(
    (all) => new Set(Object.keys(all).map((name) => normalize(name))).size === Object.keys(all).length,
    'must name each file once: ./a.html and a.html are one',
  )
  .refine((all) => Object.keys(all).length <= MAX_FILES, `must be ${MAX_FILES} files at most`)
  .refine((all) => bytesOf(all) <= MAX_FILES_BYTES, 'must be 5 MiB together at most');

const base_revision = z
  .string()
  .nullable()
  .optional()
  .describe(
    'The revision that this one replaces, null for a project without one: 409 if another is deployed. Default: any.',
  );

const changes = z.array(
  z.object({
    op: z.enum(['add', 'remove', 'change']),
    path: z.string(),
    keys: z.array(z.string()).describe('The path, key by key, because names of domains contain dots.'),
    from: z.unknown().describe('null if it is new.'),
    to: z.unknown().describe('null if it was removed.'),
  }),
);

const revision = z.object({
  id: z.string(),
  created_at: time.describe('When it was deployed last.'),
  current: z.boolean().describe('It is deployed now.'),
  size: z.int().nullable().describe('Bytes of the YAML and its files.'),
  author: z
    .object({
      kind: z.enum(['key', 'session', 'operator', 'file']),
      id: z.string().nullable().describe('Of the API key.'),
      name: z.string().nullable().describe('Of the key, the account, or the machine and its file.'),
    })
    .nullable()
    .describe('Who deployed it last; null if that was before Postern recorded it.'),
});

const pushed = z.object({
  changes,
  warnings: z.array(finding),
  revision: z.string().nullable().describe('The deployed revision; after a dry run the one that was deployed before.'),
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
      name: label.describe('For people.'),
      slug: slug.optional().describe('Its name in addresses and commands. Default: made from the name.'),
    }),
    answer: project,
    errors: ['CONFLICT', 'PLAN_LIMIT'],
  }),
  show: route('GET /projects/:slug', { ...READ, readsLive: true, summary: 'Shows a project.', answer: project }),
  remove: route('DELETE /projects/:slug', {
    ...WRITE,
    summary: 'Deletes a project, and shows it as it was.',
    description:
      'Its domains and forms stop working at once. Submissions are kept, and queued mail is still sent. A project that a file manages can be deleted once that file is gone.',
    query: z.strictObject({
      force: flag.describe(
        'Delete it although its file may still be there, such as on a machine that is gone. A file that is loaded again deploys it again.',
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
        .describe('The latest 100, newest first; any of them can be restored.'),
    }),
  }),
  revisions: route('GET /projects/:slug/revisions', {
    ...READ,
    readsLive: true,
    summary: 'Lists the revisions of a project, the one deployed last first.',
    description: 'A content has one revision: pushed again, it moves to the top. Any of them can be restored.',
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
    summary: 'Pushes a configuration: validates it, and deploys it as a whole.',
    description:
      'Creates the project if there is none. Errors are answered with path, line and column, and change nothing. Recipients who must agree first are named in `warnings`, and are mailed a link. References to secrets (`${NAME}`, `file:/…`) are refused, because they would be the server’s.',
    query: z.strictObject({ dry_run: flag.describe('Only show what would change.') }),
    body: z.strictObject({
      base_revision,
      config: z.string().describe('The YAML, at most 256 KiB.'),
      files: files
        .default({})
        .describe(
          'Contents of the files that it names with html_file or logo, by the name as written there; an image as a data: URL.',
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

/** A relative path that leads nowhere else. */
function isWithin(path: string): boolean {
  const steps = path.split('/');
  return path.length <= 500 && !/[\\\p{Cc}]/u.test(path) && steps.every((step) => step !== '' && step !== '..');
}

function bytesOf(all: Readonly<Record<string, string>>): number {
  return Object.entries(all).reduce((sum, [name, text]) => sum + Buffer.byteLength(name) + Buffer.byteLength(text), 0);
}
