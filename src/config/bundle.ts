/** A configuration that somebody pushed: its YAML and the files that it names, read without anything of this machine. */
import type { Finding, Problem } from './problem.ts';
import { glanceAtProject, parseProject, type Invalid, type ValidProject } from './parse.ts';
import { NO_SECRETS } from './secrets.ts';
import type { CheckTemplates } from './template-places.ts';
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
  readonly named: { readonly files: readonly string[]; readonly domains: readonly string[] };
}

/** Reads bundles without holding up whoever asks: a large one takes seconds. */
export interface BundleReader {
  read(bundle: Bundle): Promise<ReadBundle>;
  /** The findings with their lines and columns. */
  locate(yaml: string, findings: readonly Finding[]): Promise<readonly Problem[]>;
}

/** Reads it, here and now. References to secrets lead nowhere: they would be the operator's. */
export function readBundle({ yaml, files }: Bundle, checkTemplates: CheckTemplates | undefined): ReadBundle {
  const result = parseProject(yaml, PUSHED_FILE, { files, env: NO_SECRETS, checkTemplates });
  const { files: names, domains } = glanceAtProject(yaml);
  return { result, named: { files: names, domains } };
}

/** Where the findings stand, here and now. */
export function locateIn(yaml: string, findings: readonly Finding[]): readonly Problem[] {
  const file = readYaml(yaml, PUSHED_FILE);
  return findings.map((finding) => file.locate(finding));
}

/** Reads everything at once, in the thread of whoever asks. */
export function readHere(checkTemplates: CheckTemplates | undefined): BundleReader {
  return {
    read: async (bundle) => readBundle(bundle, checkTemplates),
    locate: async (yaml, findings) => locateIn(yaml, findings),
  };
}
