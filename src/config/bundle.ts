/** A configuration that somebody pushed: its YAML and the files that it names, read without anything of this machine. */
import { isMap, isScalar, parseDocument } from 'yaml';
import { parseDomain } from '../lib/addresses.ts';
import { fieldErrors, type FormPlace, expressionProblems, type CheckTemplates } from './checks.ts';
import type { Finding, Problem } from './problem.ts';
import { glanceAtProject, parseProject, type Glance, type Invalid, type ValidProject } from './parse.ts';
import { NO_SECRETS } from './secrets.ts';
import { readYaml } from './yaml.ts';

/** What the YAML of a push is called in reports. */
export const PUSHED_FILE = 'postern.yml';

export interface Bundle {
  readonly yaml: string;
  /** Contents by the name as the YAML has it. */
  readonly files: Readonly<Record<string, string>>;
}

export interface ReadBundle {
  readonly result: ValidProject | Invalid;
  /** The files that it names, and the domains, whether it is valid or not. */
  readonly named: Pick<Glance, 'files' | 'domains'>;
}

/** Templates of a project that is pushed. */
const MAX_TEMPLATES = 100;

/** Whose configuration it is, and whether it was accepted before: then what was valid at that time stays so. */
export interface Reading {
  readonly tenant: string;
  readonly accepted?: boolean;
}

/** Reads configuration that tenants wrote, apart from the thread of whoever asks: it may take seconds. */
export interface BundleReader {
  /** Templates are tried, unless the bundle was accepted before. */
  read(bundle: Bundle, reading: Reading): Promise<ReadBundle>;
  /** The findings with their lines and columns. */
  locate(yaml: string, findings: readonly Finding[], reading: Reading): Promise<readonly Problem[]>;
  /** The YAML with a domain added or removed, everything else as it is; undefined where the YAML does not allow that. */
  edit(yaml: string, edit: DomainEdit, reading: Reading): Promise<string | undefined>;
  /** What no schema can know of forms that are made through the API: patterns, expressions. */
  checkForms(forms: readonly FormPlace[], reading: Reading): Promise<readonly Finding[]>;
}

/** A domain that is added to a project without anything of its own, or taken out of it. */
export interface DomainEdit {
  readonly op: 'add' | 'remove';
  /** Lower case, A-labels. */
  readonly domain: string;
}

/** Edits it, here and now. */
export function editYaml({ yaml, op, domain }: DomainEdit & { readonly yaml: string }): string | undefined {
  const document = parseDocument(yaml);
  const domains = document.get('domains');
  if (domains !== undefined && domains !== null && !isMap(domains)) return undefined;
  if (op === 'add') {
    if (!isMap(domains)) document.set('domains', document.createNode({ [domain]: {} }));
    else domains.set(domain, document.createNode({}));
  } else if (isMap(domains)) {
    const pair = domains.items.find(({ key }) => isScalar(key) && parseDomain(String(key.value)) === domain);
    if (pair === undefined) return undefined;
    domains.delete(pair.key);
    if (domains.items.length === 0) document.delete('domains');
  }
  return document.toString({ lineWidth: 0 });
}

/** Reads it, here and now. References to secrets lead nowhere: they would be the operator's. */
export function readBundle({ yaml, files }: Bundle, check: CheckTemplates | 'accepted' | undefined): ReadBundle {
  const checks = check === 'accepted' ? { accepted: true } : { checkTemplates: check, maxTemplates: MAX_TEMPLATES };
  const result = parseProject(yaml, PUSHED_FILE, { files, env: NO_SECRETS, ...checks });
  return { result, named: glanceAtProject(yaml) };
}

/** Where the findings stand, here and now. */
export function locateIn({ yaml, findings }: { yaml: string; findings: readonly Finding[] }): readonly Problem[] {
  return findings.map(readYaml(yaml, PUSHED_FILE).locate);
}

/** What is wrong with these forms, here and now. */
export function findInForms(forms: readonly FormPlace[], check: CheckTemplates | undefined): Finding[] {
  const problems = expressionProblems(forms, check);
  return [...forms.flatMap(fieldErrors), ...problems.map(({ path, message }) => ({ path, message }))];
}

/** Reads everything at once, in the thread of whoever asks. */
export function readHere(checkTemplates: CheckTemplates | undefined): BundleReader {
  return {
    read: async (bundle, { accepted = false }) => readBundle(bundle, accepted ? 'accepted' : checkTemplates),
    locate: async (yaml, findings) => locateIn({ yaml, findings }),
    edit: async (yaml, edit) => editYaml({ yaml, ...edit }),
    checkForms: async (forms) => findInForms(forms, checkTemplates),
  };
}
