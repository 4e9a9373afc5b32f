/** From the disk to checked configuration: server.yml, and every project file beside it. Nothing is kept or started here. */
import { access } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { codeOf, UserError } from '../lib/errors.ts';
import { listProjects, readBeside, readText } from './files.ts';
import {
  glanceAtProject,
  parseProject,
  parseServer,
  type Invalid,
  type ValidProject,
  type ValidServer,
} from './parse.ts';
import type { Finding } from './problem.ts';
import type { ServerConfig } from './schema.ts';
import type { SecretSource } from './secrets.ts';
import { isPem } from '../lib/certificate.ts';
import type { CheckTemplates } from './template-places.ts';
import { readYaml } from './yaml.ts';

export interface ProjectFile {
  /** Relative to the folder of server.yml: `projects/example.yml`, whatever that folder is called. */
  readonly file: string;
  /** As the operator knows it, for reports. */
  readonly shown: string;
  readonly text: string;
  /** Contents of what it names with `html_file`. */
  readonly files: Readonly<Record<string, string>>;
  readonly result: ValidProject | Invalid;
}

/** How files are read. */
export interface Reading {
  readonly secrets: SecretSource;
  readonly checkTemplates?: CheckTemplates | undefined;
  /** `limits.form_recipients` of the server; its default unless told. */
  readonly formRecipients?: number | undefined;
}

const FORM_RECIPIENTS = 20;

/** Reads server.yml. A file that cannot be read is a UserError; what is wrong in it is in the answer. */
export async function loadServer(
  file: string,
  secrets: SecretSource,
  { checkMachine = false }: { readonly checkMachine?: boolean } = {},
): Promise<ValidServer | Invalid> {
  const read = await readText(file);
  if ('problem' in read) throw new UserError(read.problem);
  const result = parseServer(read.text, file, secrets);
  if (!checkMachine || !('ok' in result)) return result;
  const errors = (await missingPaths(result.ok)).map(readYaml(read.text, file).locate);
  return errors.length === 0 ? result : { errors, warnings: result.warnings };
}

/** Paths that the configuration names and this machine lacks, or does not let this user read. */
async function missingPaths({ tls, database }: ServerConfig): Promise<Finding[]> {
  const findings: Finding[] = [];
  if (tls.mode === 'files' && tls.files !== null) {
    for (const key of ['cert', 'key'] as const) {
      const named = tls.files[key];
      const read = isPem(named) ? undefined : await readText(named);
      if (read !== undefined && 'problem' in read)
        findings.push({ path: ['tls', 'files', key], message: read.problem });
    }
  }
  // The service creates the folder of the default. Rights of the others are checked by the daemon, which is another user.
  const folder = database.url.startsWith('sqlite:') ? dirname(database.url.slice('sqlite:'.length)) : STATE_FOLDER;
  if (folder !== STATE_FOLDER && !(await isThere(folder))) {
    findings.push({ path: ['database', 'url'], message: `there is no folder ${folder}` });
  }
  return findings;
}

const STATE_FOLDER = '/var/lib/postern';

async function isThere(folder: string): Promise<boolean> {
  return access(folder).then(
    () => true,
    (error: unknown) => codeOf(error) !== 'ENOENT',
  );
}

/** Reads every project beside this server.yml, in the order of their names. */
export async function loadProjects(
  serverFile: string,
  { secrets, checkTemplates, formRecipients = FORM_RECIPIENTS }: Reading,
): Promise<ProjectFile[]> {
  const projects: ProjectFile[] = [];
  for (const file of await listProjects(serverFile)) {
    const shown = join(dirname(serverFile), file);
    const read = await readText(shown);
    // Gone since the folder was listed: as if it had never been there.
    if ('problem' in read && read.missing) continue;
    const text = 'text' in read ? read.text : '';
    const { files, refused } = await readBeside(shown, glanceAtProject(text).files);
    const context = { files, refused, env: secrets, checkTemplates, formRecipients };
    const result = 'text' in read ? parseProject(text, shown, context) : unreadable(shown, read.problem);
    projects.push({ file, shown, text, files, result });
  }
  return projects;
}

function unreadable(file: string, message: string): Invalid {
  return { errors: [{ file, line: 1, column: 1, path: '', message }], warnings: [] };
}
