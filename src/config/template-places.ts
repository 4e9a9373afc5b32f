/** Where in a project's files an error of a template stands. */
import type { Finding, Path, Problem } from './problem.ts';
import { formPlaces, type FormPlace } from './checks.ts';
import type { ProjectConfig } from './schema.ts';
import { find, type YamlFile } from './yaml.ts';

/** An error of a template; line and column are those within the part, from 1. */
export interface TemplateProblem {
  readonly template: string;
  readonly part: 'subject' | 'text' | 'html';
  readonly line: number;
  readonly column: number;
  readonly message: string;
}

/** Parses every template and answers what is wrong with them; handed in, because this folder does not know the engine. */
export type CheckTemplates = (templates: ProjectConfig['templates']) => readonly TemplateProblem[];

/** Everything that does not parse: the templates, and the subjects and names of forms, which hold expressions as well. */
export function checkAllTemplates(
  parts: Pick<ProjectConfig, 'domains' | 'collections' | 'templates'>,
  yaml: YamlFile,
  check?: CheckTemplates,
): Problem[] {
  if (check === undefined) return [];
  const { templates } = parts;
  const lines = formPlaces(parts).flatMap(expressionsOf);
  return [
    ...check(templates).map((problem) => locateInTemplate(problem, yaml, templates)),
    ...check(asTemplates(lines)).map((problem) =>
      locate(problem, yaml, lines[Number(problem.template.slice(4))]?.path ?? []),
    ),
  ];
}

/** What is wrong with the expressions of a form, wherever it is kept. */
export function lineErrors(place: FormPlace, check?: CheckTemplates): Finding[] {
  const lines = expressionsOf(place);
  const errors = check?.(asTemplates(lines)) ?? [];
  return errors.map(({ template, message }) => ({ path: lines[Number(template.slice(4))]?.path ?? [], message }));
}

interface Line {
  readonly path: Path;
  readonly source: string;
}

/** Each as a template of its own, called by its number. */
function asTemplates(lines: readonly Line[]): ProjectConfig['templates'] {
  return Object.fromEntries(
    lines.map(({ source }, i) => [`line${i}`, { type: 'form', subject: source, text: '', variables: {} }]),
  );
}

function expressionsOf({ path, form: { subject, from_name, acknowledgment } }: FormPlace): Line[] {
  return [
    { path: [...path, 'subject'], source: subject },
    { path: [...path, 'from_name'], source: from_name },
    { path: [...path, 'acknowledgment', 'subject'], source: acknowledgment?.subject },
  ].flatMap(({ path: place, source }) => (source === undefined ? [] : [{ path: place, source }]));
}

function locateInTemplate(problem: TemplateProblem, yaml: YamlFile, templates: ProjectConfig['templates']): Problem {
  const { template, part, line, column, message } = problem;
  const file = part === 'html' ? templates[template]?.html_file : undefined;
  if (file === undefined) return locate(problem, yaml, ['templates', template, part]);
  return yaml.locate({ path: ['templates', template, 'html_file'], message: `${file}:${line}:${column}: ${message}` });
}

/** Folded and escaped text has other lines than its template; then the value's beginning has to do. */
function locate({ line, column, message }: TemplateProblem, yaml: YamlFile, path: Path): Problem {
  const located = yaml.locate({ path, message });
  const { place, whole } = find(yaml.root, path);
  const style = place?.scalar?.type;
  if (!whole || place === undefined || style === 'BLOCK_FOLDED') return located;
  if (style === 'BLOCK_LITERAL') {
    const indent = /\n+( +)/.exec(yaml.text.slice(place.start))?.[1]?.length ?? 0;
    return { ...located, line: located.line + line, column: indent + column };
  }
  return line > 1 ? located : { ...located, column: located.column + column - (style === 'PLAIN' ? 1 : 0) };
}
