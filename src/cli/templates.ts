/** `postern templates …`: what the mail of this folder's project looks like, before anybody gets it. */
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { ProjectConfig } from '../config/schema.ts';
import { projectSchema } from '../config/schema-project.ts';
import { type Variables, TemplateRenderError } from '../templates/template.ts';
import { formatMailbox } from '../lib/addresses.ts';
import { messageOf, UserError } from '../lib/errors.ts';
import { writeTable } from './list.ts';
import { openFile } from './opener.ts';
import { BUILTINS, placeOf, previewOf, uses, type Preview } from './preview.ts';
import { readLocalProject, validProject, type LocalProject } from './project-folder.ts';
import { CommandFailed, EXIT, UsageError, writeJson } from './run.ts';
import { formsIn } from './sample.ts';
import { printable } from './table.ts';
import type { Terminal } from './terminal.ts';

export interface PreviewFlags {
  /** Folder or file of the project. */
  readonly path?: string | undefined;
  readonly form?: string | undefined;
  /** JSON file with variables. */
  readonly data?: string | undefined;
  /** File that the HTML part is written to. */
  readonly html?: string | undefined;
  readonly open: boolean;
  readonly json: boolean;
}

/** Prints a template's mail, writes or opens its HTML. Answers the exit code, as both of these do. */
export async function templatesPreview(terminal: Terminal, name: string, flags: PreviewFlags): Promise<number> {
  const { folder, complain, write } = terminal;
  const project = await projectFor(folder, name, flags.path);
  const config = project === undefined ? NO_PROJECT : validProject(project, terminal);
  if (config === undefined) return EXIT.configuration;
  const data = flags.data === undefined ? undefined : await readData(resolve(folder, flags.data));
  let preview: Preview;
  try {
    preview = previewOf({ config, name, form: flags.form, data });
  } catch (error) {
    if (!(error instanceof TemplateRenderError)) throw error;
    const place = project && placeOf(error, project);
    complain(`${place ?? printable(error.message)}\n`);
    return EXIT.configuration;
  }
  const file = await htmlFile(terminal, preview, flags);
  if (flags.json) writeJson(terminal, preview);
  else writePreview(terminal, preview, file);
  if (flags.open && file !== undefined) await openFile(file, terminal);
  else if (file !== undefined && !flags.json) write(`The HTML part is in ${file}\n`);
  return EXIT.done;
}

/** Those of the project and the built-in ones, with the forms that use them. */
export async function templatesList(
  terminal: Terminal,
  { path, json }: Pick<PreviewFlags, 'path' | 'json'>,
): Promise<number> {
  const config = validProject(await readLocalProject(terminal.folder, path), terminal);
  if (config === undefined) return EXIT.configuration;
  const builtins = [...BUILTINS].filter(([name]) => !Object.hasOwn(config.templates, name));
  const templates = [
    ...Object.entries(config.templates).map(([name, { type, subject = null, html_file: file }]) => {
      return { name, type, source: file ?? 'postern.yml', subject };
    }),
    ...builtins.map(([name, type]) => ({ name, type, source: 'built in', subject: null })),
  ].map((one) => {
    const users = formsIn(config).filter((form) => uses(form, one.name, one.type));
    return { ...one, forms: users.map(({ id }) => id) };
  });
  if (json) writeJson(terminal, { templates });
  else {
    const headings = ['TEMPLATE', 'TYPE', 'SOURCE', 'USED BY', 'SUBJECT'];
    const rows = templates.map(({ name, type, source, forms, subject }) => [
      name,
      type,
      source,
      forms.join(', ') || '-',
      subject ?? '-',
    ]);
    writeTable(terminal, { headings, rows });
  }
  return EXIT.done;
}

const NO_PROJECT: ProjectConfig = projectSchema.parse({ project: { name: 'Example', slug: 'example' } });

/** The built-in templates can be looked at without any. */
async function projectFor(folder: string, name: string, where: string | undefined): Promise<LocalProject | undefined> {
  try {
    return await readLocalProject(folder, where);
  } catch (error) {
    if (where === undefined && BUILTINS.has(name) && error instanceof UserError) return undefined;
    throw error;
  }
}

async function readData(path: string): Promise<Variables> {
  try {
    const data: unknown = JSON.parse(await readFile(path, 'utf8'));
    if (typeof data === 'object' && data !== null && !Array.isArray(data))
      return Object.fromEntries(Object.entries(data));
  } catch (error) {
    throw new UsageError(`cannot use ${path}: ${messageOf(error)}`);
  }
  throw new UsageError(`${path} must hold a JSON object, such as {"form": {"name": "Ada"}}`);
}

/** Where the HTML part was written; undefined where nobody asked for that. Throws UsageError where there is no such part. */
async function htmlFile({ folder }: Terminal, preview: Preview, flags: PreviewFlags): Promise<string | undefined> {
  if (flags.html === undefined && !flags.open) return undefined;
  if (preview.html === null) throw new UsageError(`the template ${preview.name} has no HTML part`);
  const file =
    flags.html === undefined
      ? join(await mkdtemp(join(tmpdir(), 'postern-preview-')), `${preview.name}.html`)
      : resolve(folder, flags.html);
  try {
    await writeFile(file, preview.html);
  } catch (error) {
    throw new CommandFailed(`cannot write ${file}: ${messageOf(error)}`, { cause: error });
  }
  return file;
}

function writePreview({ write, style }: Terminal, preview: Preview, file: string | undefined): void {
  const { name, type, form, from, subject, text, html } = preview;
  write(
    `${style('dim', `Template ${name} (${type})${form === null ? ', which no form uses' : `, as form ${form} sends it`}`)}\n`,
  );
  write(`${style('bold', 'From:')} ${printable(formatMailbox(from))}\n`);
  write(`${style('bold', 'Subject:')} ${printable(subject)}\n\n`);
  write(`${block(text)}\n`);
  if (html !== null && file === undefined) write(`${style('bold', '--- HTML ---')}\n${block(html)}\n`);
}

/** Lines as they are, without anything that a terminal would act on. */
function block(text: string): string {
  const lines = text.trimEnd().replaceAll('\t', '  ').split(/\r?\n/);
  return `${lines.map(printable).join('\n')}\n`;
}
