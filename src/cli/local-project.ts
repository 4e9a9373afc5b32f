/** The project on this machine: its postern.yml and the files that it names, read as a push sends them. */
import type { Stats } from 'node:fs';
import { stat } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';
import { PUSHED_FILE } from '../config/bundle.ts';
import { readBeside, readText } from '../config/files.ts';
import { sampleFields } from '../config/sample.ts';
import { labelOf } from '../config/snapshot.ts';
import { glanceAtProject, parseProject, type Invalid, type ValidProject } from '../config/parse.ts';
import type { ProjectConfig, FormConfig } from '../config/schema.ts';
import { NO_SECRETS } from '../config/secrets.ts';
import type { CheckTemplates } from '../config/checks.ts';
import { checkTemplates } from '../templates/engine.ts';
import { UserError } from '../lib/errors.ts';
import { FilesRefused } from './client.ts';
import { systemClock } from '../lib/clock.ts';
import type { Variables } from '../templates/template.ts';

export interface LocalProject {
  /** Its path in reports, relative to the working folder. */
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
  const given = resolve(folder, where ?? '.');
  const isFolder = where !== undefined && (await statOf(given))?.isDirectory();
  const path = where === undefined ? await findAbove(folder) : isFolder ? join(given, PUSHED_FILE) : given;
  const file = relative(folder, path);
  const read = await readText(path);
  if ('problem' in read)
    throw new UserError(read.missing ? `${read.problem}. To create a project, run: postern init` : read.problem);
  const yaml = read.text;
  const names = glanceAtProject(yaml).files;
  const { files, refused } = await readBeside(path, names.filter(isSendable));
  for (const name of names)
    if (!isSendable(name))
      refused[name] = `${name} cannot be deployed. Use a file in the folder of ${PUSHED_FILE} or below, without ".."`;
  return { file, yaml, files, judge, result: judge(checkTemplates) };

  function judge(check: CheckTemplates): ValidProject | Invalid {
    return parseProject(yaml, file, { files, refused, env: NO_SECRETS, checkTemplates: check });
  }
}

/** The valid project. Throws FilesRefused with every error where it is not valid. */
export function validProject({ file, result }: Pick<LocalProject, 'file' | 'result'>): ProjectConfig {
  if ('ok' in result) return result.ok;
  throw new FilesRefused(`${file} is not valid. Nothing was changed.`, result.errors);
}

/** The API takes names that lead nowhere but down. */
function isSendable(name: string): boolean {
  return !name.split('/').includes('..') && !name.includes('\\');
}

async function findAbove(folder: string): Promise<string> {
  for (let here = folder; ; here = dirname(here)) {
    const file = join(here, PUSHED_FILE);
    if ((await statOf(file))?.isFile()) return file;
    if (here === dirname(here)) break;
  }
  throw new UserError(`No ${PUSHED_FILE} in ${folder} or its parent folders. To create one, run: postern init`);
}

function statOf(path: string): Promise<Stats | undefined> {
  return stat(path).catch(() => undefined);
}

/** A form of a project, whatever it belongs to. */
export interface LocalForm {
  /** `example.com/contact`, `c/partners/signup` */
  readonly id: string;
  readonly name: string;
  /** Whose name its mail is from; of a collection's form the server's own, which is not known here. */
  readonly domain: string | undefined;
  readonly config: Omit<FormConfig, 'to' | 'from' | 'reply_relay'> & Partial<Pick<FormConfig, 'from'>>;
}

/** Every form that the configuration declares. */
export function formsIn({ domains, collections }: ProjectConfig): LocalForm[] {
  const places = [
    ...Object.entries(domains).map(([domain, { forms }]) => ({ prefix: domain, domain, forms })),
    ...Object.entries(collections).map(([name, { forms }]) => ({ prefix: `c/${name}`, domain: undefined, forms })),
  ];
  return places.flatMap(({ prefix, domain, forms }) =>
    Object.entries<LocalForm['config']>(forms).map(([key, config]) => ({
      id: `${prefix}/${key}`,
      name: config.name ?? key,
      domain,
      config,
    })),
  );
}

/** The variables of its templates; `given` overrides them, its `form` member by member. */
export function sampleOf(form: LocalForm | undefined, given: Variables = {}): Variables {
  const { form: givenFields, ...otherFields } = given;
  const values = { ...sampleFields(form?.config), ...(typeof givenFields === 'object' ? givenFields : {}) };
  const config = { fields: form?.config.fields ?? {} };
  const domain = form === undefined ? 'example.com' : (form.domain ?? 'mail.example.net');
  return {
    form: values,
    fields: Object.entries(values).map(([name, value]) => ({
      name,
      label: labelOf(config, name),
      value: Array.isArray(value) ? value.join(', ') : value,
    })),
    form_name: form?.name ?? 'Contact',
    domain,
    timestamp: systemClock.now(),
    ip: '192.0.2.1',
    submission_id: 'sub_01jgwz4v8k7m5n3p2q1r0s9t8v',
    referer: `https://${domain}/contact`,
    language: form?.config.theme?.language ?? 'en',
    files:
      form?.config.uploads?.enabled === true
        ? [{ filename: 'notes.pdf', size: 48_213, content_type: 'application/pdf' }]
        : [],
    ...otherFields,
  };
}
