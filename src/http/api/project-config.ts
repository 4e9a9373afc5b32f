/** The configuration of a project as it is pushed: shown, replaced, rolled back. */
import { normalize } from 'node:path/posix';
import { z } from 'zod';
import { accountIdOf, mayTouch, type Principal } from '../../accounts/principal.ts';
import { managedByFile, placesIn, push, type Push, type PushOutcome, type PushParts } from '../../accounts/projects.ts';
import type { Problem } from '../../config/problem.ts';
import { isoTime } from '../../lib/clock.ts';
import { findProject } from '../../store/projects.ts';
import { findRevision, findRevisionOf, revisionsOf } from '../../store/revisions.ts';
import { json } from '../answer.ts';
import { refuse, type Detail } from '../errors.ts';
import { overLimit, rateLimited } from '../context.ts';
import { findVisible, mayTouchProject, unknownProject } from './projects.ts';
import { defineRoute, type Outcome, type Route } from './route.ts';

export type ProjectConfigParts = PushParts;

const MOST_FILES = 200;
const MOST_BYTES = 5 * 1024 * 1024;
/** Of a body: the files and the YAML, of which JSON may escape some. */
const BODY = 12 * 1024 * 1024;
/** Faults that one answer names. */
const MOST_DETAILS = 100;

const files = z
  .record(
    z.string().refine(isWithin, 'must be a path below the folder of the YAML, such as templates/contact.html'),
    z.string(),
  )
  .refine(
    (all) => new Set(Object.keys(all).map(normalize)).size === Object.keys(all).length,
    'must name each file once: ./a.html and a.html are one',
  )
  .refine((all) => Object.keys(all).length <= MOST_FILES, `must be ${MOST_FILES} files at most`)
  .refine((all) => bytesOf(all) <= MOST_BYTES, 'must be 5 MiB together at most');
const base_revision = z
  .string()
  .nullable()
  .optional()
  .describe(
    'The one that it may replace, null for a project that has none: 409 where another is in force. Without it, whichever is.',
  );
const bundle = z.strictObject({
  base_revision,
  config: z.string().describe('The YAML, 256 KiB at most.'),
  files: files
    .default({})
    .describe('Contents of the files that it names with html_file, by the name as written there.'),
});
const place = z.object({
  path: z.string().describe('Such as domains.example.com.forms.contact.rateLimit.'),
  message: z.string(),
  line: z.int(),
  column: z.int(),
});
const pushed = z.object({
  changes: z.array(
    z.object({
      op: z.enum(['add', 'remove', 'change']),
      path: z.string(),
      keys: z.array(z.string()).describe('The path, key by key: names of domains hold dots.'),
      from: z.json().describe('Null where it was not there.'),
      to: z.json().describe('Null where it is no longer there.'),
    }),
  ),
  warnings: z.array(place),
  revision: z.string().nullable().describe('In force from now on; after a dry run the one that still is.'),
});
const shown = z.object({
  config: z.string().nullable().describe('The YAML; null where there is none.'),
  files: z.record(z.string(), z.string()),
  revision: z.string().nullable().describe('Whose YAML this is: the one in force unless another was asked for.'),
  revisions: z
    .array(z.object({ id: z.string(), created_at: z.iso.datetime(), current: z.boolean() }))
    .describe('The latest 100 that were accepted, newest first; any of them can be restored.'),
});

const READ = { permission: 'projects.read', domains: 'narrow', tag: 'Projects' } as const;
const WRITE = { ...READ, permission: 'projects.write' } as const;

/** `/projects/:slug/config` and `/projects/:slug/rollback` */
export function projectConfigRoutes(parts: ProjectConfigParts): Route[] {
  const { store, snapshot } = parts;

  async function take(
    principal: Principal,
    given: Pick<Push, 'slug' | 'bundle' | 'base' | 'dryRun'>,
  ): Promise<Outcome> {
    const tenant = await tenantOf(principal, given);
    if (tenant === undefined) return refuse('AUTH_TEST_KEY');
    const whose = {
      tenant,
      asks: principal.environment === 'live',
      may: (domain: string | undefined) => mayTouch(principal, domain),
    };
    const outcome = await push({ ...given, ...whose }, parts);
    if (outcome.kind === 'over-limit') return overLimit(outcome, snapshot().server);
    return outcome.kind === 'too-often' ? rateLimited(outcome.verdict, parts.clock.now()) : answerOf(outcome);
  }

  /** Whose project it is; of a live one that a test key names, only where nothing is to change. */
  async function tenantOf(principal: Principal, { slug, dryRun }: Pick<Push, 'slug' | 'dryRun'>) {
    const { id } = principal.tenant;
    const live = accountIdOf(principal);
    if (id === live || (await findProject(store, id, slug)) !== undefined) return id;
    if ((await findProject(store, live, slug)) === undefined) return id;
    return dryRun ? live : undefined;
  }

  function revisionToShow({ tenant, slug, inForce }: InForce, asked: string | undefined) {
    if (asked !== undefined) return findRevisionOf(store, { tenant, slug }, asked);
    return findRevision(store, inForce);
  }

  return [
    defineRoute({
      ...READ,
      readsLive: true,
      method: 'GET',
      path: '/projects/:slug/config',
      summary: 'Shows the configuration in force, or an earlier one, and which revisions there are.',
      query: z.strictObject({ revision: z.string().optional().describe('`rev_…`, one of `revisions`.') }),
      answer: shown,
      async handle({ principal, params: { slug }, query: { revision: asked } }) {
        const row = await findVisible(parts, principal, slug);
        if (row === undefined) return unknownProject(slug);
        const { tenant } = row;
        if (!mayTouchProject(principal, snapshot(), row)) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
        const wanted = await revisionToShow({ tenant, slug, inForce: row.revision }, asked);
        if (asked !== undefined) {
          if (wanted === undefined) return unknownRevision(asked);
          const { result, named } = await parts.reader.read(wanted, { tenant, accepted: true });
          const places = 'ok' in result ? placesIn(result.ok) : [...named.domains, undefined];
          if (!places.every((domain) => mayTouch(principal, domain))) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
        }
        const revisions = await revisionsOf(store, { tenant, slug });
        return json({
          config: wanted?.yaml ?? null,
          files: wanted?.files ?? {},
          revision: wanted?.id ?? null,
          revisions: revisions.map(({ id, created_at }) => ({
            id,
            created_at: isoTime(created_at),
            current: id === row.revision,
          })),
        });
      },
    }),
    defineRoute({
      ...WRITE,
      method: 'PUT',
      path: '/projects/:slug/config',
      summary: 'Pushes a configuration: checks it, and puts it in force as a whole.',
      description:
        'Makes the project where there is none. What is wrong is told with its path, line and column, and changes nothing. Recipients that have to agree first are named in `warnings`, and mailed a link. References to secrets (`${NAME}`, `file:/…`) are refused: they would be the server’s.',
      query: z.strictObject({
        dry_run: z.enum(['true', 'false']).default('false').describe('Only tell what would change.'),
      }),
      body: bundle,
      bodyLimit: () => BODY,
      answer: pushed,
      async handle({ principal, params: { slug }, query: { dry_run }, body }) {
        const { config, files: named, base_revision: base } = body;
        return take(principal, { slug, bundle: { yaml: config, files: named }, base, dryRun: dry_run === 'true' });
      },
    }),
    defineRoute({
      ...WRITE,
      method: 'POST',
      path: '/projects/:slug/rollback',
      summary: 'Puts an earlier revision in force again.',
      body: z.strictObject({ revision: z.string().describe('`rev_…`, one that was in force before.'), base_revision }),
      answer: pushed,
      async handle({ principal, params: { slug }, body: { revision: id, base_revision: base } }) {
        const tenant = principal.tenant.id;
        const row = await findVisible(parts, principal, slug);
        if (row === undefined) return unknownProject(slug);
        const managed = managedByFile(row);
        if (managed !== undefined) return answerOf(managed);
        const revision = await findRevisionOf(store, { tenant, slug }, id);
        if (revision === undefined) return unknownRevision(id);
        return take(principal, { slug, bundle: revision, base, dryRun: false });
      },
    }),
  ];
}

interface InForce {
  readonly tenant: string;
  readonly slug: string;
  readonly inForce: string;
}

function unknownRevision(id: string): Outcome {
  return refuse('NOT_FOUND', { message: `The project has no revision ${id.slice(0, 60)}.` });
}

/** What a push answers, unless a limit ended it. */
export function answerOf(outcome: Exclude<PushOutcome, { kind: 'over-limit' | 'too-often' }>): Outcome {
  switch (outcome.kind) {
    case 'done': {
      const { changes, warnings, revision } = outcome;
      const shownChanges = changes.map(({ op, path, keys, from, to }) => {
        return { op, path, keys: [...keys], from: from ?? null, to: to ?? null };
      });
      return json({ changes: shownChanges, warnings: warnings.map(placeOf), revision });
    }
    case 'invalid':
      return refuse('VALIDATION_FAILED', {
        message: sentenceFor(outcome.problems),
        errors: detailsOf(outcome.problems),
      });
    case 'conflict': {
      const errors = detailsOf(outcome.problems);
      return refuse('CONFLICT', { message: outcome.message, ...(errors.length === 0 ? {} : { errors }) });
    }
    case 'forbidden':
      return refuse('AUTH_DOMAIN_NOT_ALLOWED');
  }
}

function sentenceFor(problems: readonly Problem[]): string {
  const [first, ...others] = problems;
  if (first === undefined) return 'The configuration is not valid.';
  const { line, column, path, message } = placeOf(first);
  if (others.length > 0) return `The configuration has ${problems.length} errors.`;
  return `Line ${line}, column ${column}: ${path === '' ? '' : `${path}: `}${message}.`;
}

function detailsOf(problems: readonly Problem[]): Detail[] {
  return problems.slice(0, MOST_DETAILS).map((problem) => {
    const { path, ...rest } = placeOf(problem);
    return { field: path, code: 'TYPE_TEXT', ...rest };
  });
}

function placeOf({ path, message, suggestion, line, column }: Problem): z.output<typeof place> {
  const hint = suggestion === undefined ? '' : ` (did you mean "${suggestion}"?)`;
  return { path, message: message + hint, line, column };
}

/** A relative path that leads nowhere else. */
function isWithin(path: string): boolean {
  const steps = path.split('/');
  return path.length <= 500 && !/[\\\p{Cc}]/u.test(path) && steps.every((step) => step !== '' && step !== '..');
}

function bytesOf(all: Readonly<Record<string, string>>): number {
  return Object.entries(all).reduce((sum, [name, text]) => sum + Buffer.byteLength(name) + Buffer.byteLength(text), 0);
}
