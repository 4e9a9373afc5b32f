/** `postern init`: a project in a folder, from a few answers. Files that are there already stay as they are. */
import { lstat, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';
import { domainToUnicode } from 'node:url';
import type { z } from 'zod';
import { PUSHED_FILE } from '../config/bundle.ts';
import * as is from '../config/scalars.ts';
import { slugOf } from '../config/scalars.ts';
import { codeOf, messageOf } from '../lib/errors.ts';
import { projectFileNames, projectFiles, type NewProject } from './init-files.ts';
import { CommandFailed, EXIT, UsageError, writeJson } from './run.ts';
import type { Terminal } from './terminal.ts';

export interface InitFlags extends Partial<NewProject> {
  /** Takes what is proposed. */
  readonly yes: boolean;
  /** Writes over what is there. */
  readonly force: boolean;
  readonly json: boolean;
}

/** Writes it. Answers the exit code; throws UsageError for what is missing and nobody is there to be asked for. */
export async function init(terminal: Terminal, folder: string | undefined, flags: InitFlags): Promise<number> {
  const { complain, write } = terminal;
  const root = resolve(terminal.folder, folder ?? '.');
  if (!flags.force) {
    // Before any question: the answers would be lost.
    const there = await namesThere(root, [PUSHED_FILE]);
    if (there.length > 0) return refuse(shownNames(terminal, root, there), complain);
  }
  const project = await answersTo(terminal, flags);
  if (!flags.force) {
    const there = await namesThere(root, projectFileNames(project));
    if (there.length > 0) return refuse(shownNames(terminal, root, there), complain);
  }
  const files = projectFiles(project);
  for (const [name, text] of files) await writeNew(join(root, name), text, flags.force);
  const names = [...files.keys()];
  if (flags.json) writeJson(terminal, { folder: root, project: project.slug, files: names });
  else {
    for (const name of shownNames(terminal, root, names)) write(`wrote ${name}\n`);
    const next = [
      ['postern test config', 'what is wrong with it, if anything'],
      [`postern templates preview ${project.form}`, 'what its mail looks like'],
      ['postern push', 'puts it in force'],
      [`postern domains setup ${project.domain}`, 'the DNS records that the domain needs'],
    ] as const;
    const wide = Math.max(...next.map(([command]) => command.length));
    write(`\nNext${folder === undefined ? '' : `, in ${folder}`}:\n`);
    for (const [command, does] of next) write(`  ${command.padEnd(wide)}  ${does}\n`);
  }
  return EXIT.done;
}

/** As the person sees them from where they stand. */
function shownNames({ folder }: Terminal, root: string, names: readonly string[]): string[] {
  return names.map((name) => relative(folder, join(root, name)));
}

function refuse(there: readonly string[], complain: Terminal['complain']): number {
  complain(
    `${there.join(', ')} stand${there.length === 1 ? 's' : ''} here already: nothing was written. --force writes over it.\n`,
  );
  return EXIT.failed;
}

async function namesThere(root: string, names: readonly string[]): Promise<string[]> {
  const found = await Promise.all(
    names.map((name) =>
      lstat(join(root, name)).then(
        () => [name],
        (error: unknown) => (codeOf(error) === 'ENOENT' ? [] : Promise.reject(cannotWrite(join(root, name), error))),
      ),
    ),
  );
  return found.flat();
}

async function writeNew(path: string, text: string, force: boolean): Promise<void> {
  try {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text, { flag: force ? 'w' : 'wx' });
  } catch (error) {
    throw cannotWrite(path, error);
  }
}

function cannotWrite(path: string, cause: unknown): CommandFailed {
  return new CommandFailed(`cannot write ${path}: ${messageOf(cause)}`, { cause });
}

interface Question {
  /** The flag that would have answered it. */
  readonly flag: keyof NewProject;
  readonly question: string;
  /** What is taken for no answer. */
  readonly proposal?: string;
  /** Brings an answer into its normal form, or says what is expected. */
  readonly read: z.ZodType<string>;
}

async function answersTo(terminal: Terminal, flags: InitFlags): Promise<NewProject> {
  const domain = await ask({ flag: 'domain', question: 'Domain of the site', read: is.domainName });
  const email = await ask({ flag: 'email', question: 'Mail address that gets what is submitted', read: is.address });
  const shown = domainToUnicode(domain);
  const name = await ask({ flag: 'name', question: 'Name of the project', proposal: shown, read: is.text(200) });
  const slug = await ask({
    flag: 'slug',
    question: 'Its short name in addresses and commands',
    // Of the ASCII form: two names in another script would have the same slug.
    proposal: slugOf(name === shown ? domain : name),
    read: is.slug,
  });
  const form = await ask({ flag: 'form', question: 'First form', proposal: 'contact', read: is.identifier });
  return { domain, email, name, slug, form };

  function ask(question: Question): Promise<string> {
    return answerTo(terminal, flags, question);
  }
}

/** From the flag, else the person, else what is proposed. */
async function answerTo(terminal: Terminal, flags: InitFlags, asked: Question): Promise<string> {
  const { flag, question, proposal, read } = asked;
  const given = flags[flag] ?? (flags.yes ? proposal : undefined);
  if (given !== undefined) {
    const result = read.safeParse(given);
    if (result.success) return result.data;
    throw new UsageError(`--${flag} ${given}: ${result.error.issues[0]?.message}`);
  }
  if (terminal.ask === undefined || flags.yes) {
    if (proposal !== undefined) return proposal;
    throw new UsageError(`--${flag} is missing, and nobody is asked for it`);
  }
  for (;;) {
    const words = await terminal.ask(`${question}${proposal === undefined ? '' : ` [${proposal}]`}: `);
    const result = read.safeParse(words.trim() || proposal || '');
    if (result.success) return result.data;
    terminal.complain(`${result.error.issues[0]?.message}\n`);
  }
}
