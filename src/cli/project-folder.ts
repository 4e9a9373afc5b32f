/** The project on this machine: its postern.yml and the files that it names, read as a push sends them. */
import { stat } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';
import { PUSHED_FILE } from '../config/bundle.ts';
import { readBeside, readText } from '../config/files.ts';
import { glanceAtProject, parseProject, type Invalid, type ValidProject } from '../config/parse.ts';
import { formatProblem } from '../config/problem.ts';
import type { ProjectConfig } from '../config/schema.ts';
import { NO_SECRETS } from '../config/secrets.ts';
import type { CheckTemplates } from '../config/template-places.ts';
import { checkTemplates } from '../templates/engine.ts';
import { UserError } from '../lib/errors.ts';
import type { Terminal } from './terminal.ts';

export interface LocalProject {
  /** As reports name it: relative to where the person stands. */
  readonly file: string;
  readonly yaml: string;
  /** Contents of what it names with `html_file`, by the name as written. */
  readonly files: Readonly<Record<string, string>>;
  readonly result: ValidProject | Invalid;
  /** What is wrong when templates are judged in another way, such as with other data. */
  judge(check: CheckTemplates): ValidProject | Invalid;
}

/**
 * The project in a folder, or in a file that may have another name; without either, that of the folder in which the
 * person stands or of one above it. Throws UserError where there is none.
 */
export async function readLocalProject(folder: string, where: string | undefined): Promise<LocalProject> {
  const path = where === undefined ? await findAbove(folder) : await fileAt(resolve(folder, where));
  const file = relative(folder, path);
  const read = await readText(path);
  if ('problem' in read) throw new UserError(read.missing ? `${read.problem}; postern init makes one` : read.problem);
  const yaml = read.text;
  const names = glanceAtProject(yaml).files;
  const { files, refused } = await readBeside(path, names.filter(isSendable));
  for (const name of names) if (!isSendable(name)) refused[name] = unsendable(name);
  return { file, yaml, files, judge, result: judge(checkTemplates) };

  function judge(check: CheckTemplates): ValidProject | Invalid {
    return parseProject(yaml, file, { files, refused, env: NO_SECRETS, checkTemplates: check });
  }
}

/** The valid project; writes its warnings, or, where it is not valid, every error, and answers undefined. */
export function validProject(
  { file, result }: Pick<LocalProject, 'file' | 'result'>,
  { complain }: Pick<Terminal, 'complain'>,
): ProjectConfig | undefined {
  if ('ok' in result) return result.ok;
  for (const error of result.errors) complain(`${formatProblem(error)}\n`);
  complain(`${file} is not valid: nothing was done.\n`);
  return undefined;
}

/** The API takes names that lead nowhere but down. */
function isSendable(name: string): boolean {
  return !name.split('/').includes('..') && !name.includes('\\');
}

function unsendable(name: string): string {
  return `${name} cannot be pushed: name a file below the folder of ${PUSHED_FILE}, without ".."`;
}

async function findAbove(folder: string): Promise<string> {
  for (let here = folder; ; here = dirname(here)) {
    const file = join(here, PUSHED_FILE);
    if (await isThere(file)) return file;
    if (here === dirname(here)) break;
  }
  throw new UserError(`there is no ${PUSHED_FILE} in ${folder} or above it; postern init makes one`);
}

async function fileAt(path: string): Promise<string> {
  const found = await stat(path).catch(() => undefined);
  return found?.isDirectory() === true ? join(path, PUSHED_FILE) : path;
}

async function isThere(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isFile(),
    () => false,
  );
}
