/** `postern templates …`: previews of the local project's mail with a sample submission. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { platform, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { nearest, formatProblem } from '../config/problem.ts';
import { type ProjectConfig, projectSchema } from '../config/schema.ts';
import { formatMailbox, type Mailbox } from '../lib/addresses.ts';
import { messageOf, UserError } from '../lib/errors.ts';
import { builtinSender, builtinSubject, languageOf, visitorName, visitorSubject } from '../templates/builtin.ts';
import { compileTemplates } from '../templates/engine.ts';
import { type Variables, type TemplateType, TemplateRenderError } from '../templates/template.ts';
import { UsageError, CommandFailed, FilesRefused } from './client.ts';
import { JSON_OUT, type CliCommand } from './command.ts';
import {
  formsIn,
  readLocalProject,
  sampleOf,
  validProject,
  type LocalForm,
  type LocalProject,
} from './local-project.ts';
import { writeTable, writeJson } from './output.ts';
import { EXIT } from './run.ts';
import { printable } from '../lib/printable.ts';
import type { Terminal } from './terminal.ts';

interface PreviewFlags {
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

const PATH = [
  '--path <path>',
  'Project folder or file (default: the nearest postern.yml, here or in a parent folder)',
] as const;

/** Adds `templates …`, which need no server. */
export function addCommands(program: CliCommand): void {
  const { terminal, exit } = program.cli;
  const templates = program.command('templates').description('Preview the mail of this project; needs no server');
  templates
    .command('preview')
    .argument('<name>', 'Name of the template. `default` and `acknowledgment` are built in')
    .description('Render a template with a sample submission: subject, text and HTML')
    .option('--form <id>', 'Form to render for (default: the first form that uses the template)')
    .option('--data <file>', 'JSON file with template variables; `form` holds the submitted fields')
    .option('--html <file>', 'Write the HTML part to this file')
    .option('--open', 'Open the HTML part in the browser', false)
    .option(...PATH)
    .option(...JSON_OUT)
    .example('templates preview contact --open', 'Open the HTML part in the browser')
    .action(async (name: string, flags: PreviewFlags) => exit(await preview(terminal, name, flags)));
  templates
    .command('list')
    .description('List templates and the forms that use them')
    .option(...PATH)
    .option(...JSON_OUT)
    .action(async (flags: Pick<PreviewFlags, 'path' | 'json'>) => exit(await list(terminal, flags)));
}

/** Prints a template's mail, writes or opens its HTML. Returns the exit code, as both of these do. */
async function preview(terminal: Terminal, name: string, flags: PreviewFlags): Promise<number> {
  const { folder, write } = terminal;
  const project = await projectFor(folder, name, flags.path);
  const config = project === undefined ? NO_PROJECT : validProject(project);
  const data = flags.data === undefined ? undefined : await readData(resolve(folder, flags.data));
  let mail: Preview;
  try {
    mail = previewOf({ config, name, form: flags.form, data });
  } catch (error) {
    if (!(error instanceof TemplateRenderError)) throw error;
    throw new FilesRefused((project && placeOf(error, project)) ?? error.message);
  }
  const file = await htmlFile(terminal, mail, flags);
  if (flags.json) writeJson(terminal, mail);
  else writePreview(terminal, mail, file);
  if (flags.open && file !== undefined) await openFile(file, terminal);
  else if (file !== undefined && !flags.json) write(`Wrote the HTML part to ${file}\n`);
  return EXIT.done;
}

/** Those of the project and the built-in ones, with the forms that use them. */
async function list(terminal: Terminal, { path, json }: Pick<PreviewFlags, 'path' | 'json'>): Promise<number> {
  const config = validProject(await readLocalProject(terminal.folder, path));
  const templates = [...new Set([...Object.keys(config.templates), ...BUILTINS.keys()])].map((name) => {
    const own = config.templates[name];
    const type = own?.type ?? BUILTINS.get(name) ?? 'form';
    const source = own === undefined ? 'built in' : (own.html_file ?? 'postern.yml');
    const users = formsIn(config).filter((form) => uses(form, name, type));
    return { name, type, source, subject: own?.subject ?? null, forms: users.map(({ id }) => id) };
  });
  if (json) writeJson(terminal, { templates });
  else {
    const rows = templates.map(({ forms, ...template }) => ({ ...template, users: forms.join(', ') || '-' }));
    const columns = {
      TEMPLATE: 'name',
      TYPE: 'type',
      SOURCE: 'source',
      'USED BY': 'users',
      SUBJECT: 'subject',
    } as const;
    writeTable(terminal, columns, rows);
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
    throw new UsageError(`Cannot read ${path}: ${messageOf(error)}`);
  }
  throw new UsageError(`${path} must contain a JSON object, such as {"form": {"name": "Ada"}}`);
}

/** Where the HTML part was written; undefined unless requested. Throws UsageError if there is no such part. */
async function htmlFile({ folder }: Terminal, preview: Preview, flags: PreviewFlags): Promise<string | undefined> {
  if (flags.html === undefined && !flags.open) return undefined;
  if (preview.html === null) throw new UsageError(`The template ${preview.name} has no HTML part`);
  const file =
    flags.html === undefined
      ? join(await mkdtemp(join(tmpdir(), 'postern-preview-')), `${preview.name}.html`)
      : resolve(folder, flags.html);
  try {
    await writeFile(file, preview.html);
  } catch (error) {
    throw new CommandFailed(`Cannot write ${file}: ${messageOf(error)}`, { cause: error });
  }
  return file;
}

function writePreview({ write, style }: Terminal, preview: Preview, file: string | undefined): void {
  const { name, type, form, from, subject, text, html } = preview;
  write(
    `${style('dim', `Template ${name} (${type})${form === null ? ', not used by any form' : `, as sent by form ${form}`}`)}\n`,
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

/** Those that every project has. */
const BUILTINS: ReadonlyMap<string, TemplateType> = new Map([
  ['default', 'form'],
  ['acknowledgment', 'acknowledgment'],
]);

interface PreviewRequest {
  readonly config: ProjectConfig;
  readonly name: string;
  /** Id of the form that it is shown for; else the first that uses it. */
  readonly form?: string | undefined;
  /** Stands over the sample. */
  readonly data?: Variables | undefined;
}

interface Preview {
  readonly name: string;
  readonly type: TemplateType;
  /** Id of the form that it is shown for; null where none uses it. */
  readonly form: string | null;
  readonly from: Mailbox;
  readonly subject: string;
  readonly text: string;
  readonly html: string | null;
}

/** Renders it. Throws UsageError for a template or form that there is not, and TemplateRenderError. */
export function previewOf({ config, name, form: asked, data }: PreviewRequest): Preview {
  const { templates, settings } = config;
  const set = compileTemplates(templates, settings.timezone);
  if (!set.has(name)) throw unknownName('template', name, [...Object.keys(templates), ...BUILTINS.keys()]);
  const type = templates[name]?.type ?? BUILTINS.get(name) ?? 'form';
  const forms = formsIn(config);
  const form = asked === undefined ? forms.find((one) => uses(one, name, type)) : findForm(forms, asked);
  const variables = sampleOf(form, data);
  const { subject, text, html = null } = set.render(name, variables);
  const { from_name: sender = '', from, subject: ofForm, acknowledgment } = form?.config ?? {};
  const isNotification = type === 'form';
  // An expression in the sender's name is there for the notification alone: elsewhere it would repeat the visitor's words.
  const senderName = !isNotification && sender.includes('{') ? '' : set.line(sender, variables);
  const formName = String(variables['form_name']);
  const translation = languageOf(variables);
  const sent = sentFields(variables);
  const visitor = isNotification ? visitorName(sent) : undefined;
  // The form's own subject goes before its template's.
  const own = set.line((isNotification ? ofForm : acknowledgment?.subject) ?? '', variables);
  const usual = isNotification
    ? builtinSubject({ form: formName, visitor, about: visitorSubject(sent) }, translation)
    : translation.say('acknowledgment.subject');
  return {
    name,
    type,
    form: form?.id ?? null,
    from: {
      name: senderName || builtinSender(formName, visitor, translation),
      address: from ?? `forms@${String(variables['domain'])}`,
    },
    subject: own || subject || usual,
    text,
    html,
  };
}

/** The fields of the sample. */
function sentFields({ form }: Variables): [name: string, value: string][] {
  return typeof form === 'object' && form !== null
    ? Object.entries(form).map(([name, value]): [string, string] => [name, [value].flat().map(String).join(', ')])
    : [];
}

/** Whether its mail of this kind is made from the template. */
function uses({ config }: LocalForm, name: string, type: TemplateType): boolean {
  const { template, acknowledgment } = config;
  return type === 'form' ? template === name : acknowledgment?.enabled === true && acknowledgment.template === name;
}

/** The form of this id; its key alone will do where no other has it. Throws UsageError. */
export function findForm(forms: readonly LocalForm[], id: string): LocalForm {
  const found = forms.find((form) => form.id === id);
  if (found !== undefined) return found;
  const [only, ...rest] = forms.filter((form) => form.id.endsWith(`/${id}`));
  if (only !== undefined && rest.length === 0) return only;
  throw unknownName(
    'form',
    id,
    forms.map((form) => form.id),
  );
}

/** `file:line:column: …` of what failed in the template; undefined where it is in no template but a subject of a form. */
export function placeOf({ fault }: TemplateRenderError, project: Pick<LocalProject, 'judge'>): string | undefined {
  const found = project.judge((templates) => (Object.hasOwn(templates, fault.template) ? [fault] : []));
  const [problem] = 'errors' in found ? found.errors : [];
  return problem && formatProblem(problem);
}

function unknownName(thing: string, name: string, known: readonly string[]): UsageError {
  const meant = nearest(name, known);
  const hint = meant === undefined ? `Available: ${known.join(', ') || 'none'}` : `Did you mean ${meant}?`;
  return new UsageError(`The project has no ${thing} ${name}. ${hint}`);
}

const OPENERS: Partial<Readonly<Record<NodeJS.Platform, string>>> = { darwin: 'open', win32: 'explorer.exe' };

/** Starts it and does not wait for its end. Throws CommandFailed where there is nothing to start. */
async function openFile(path: string, { env }: Pick<Terminal, 'env'>): Promise<void> {
  const command = OPENERS[platform()] ?? 'xdg-open';
  const child = spawn(command, [path], { detached: true, stdio: 'ignore', env });
  await once(child, 'spawn').catch((error: unknown) => {
    throw new CommandFailed(`Cannot run ${command}: ${messageOf(error)}. Open ${path} yourself`, { cause: error });
  });
  child.unref();
}
