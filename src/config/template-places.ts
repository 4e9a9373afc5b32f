/** Where in a project's files an error of a template stands. */
import type { Path, Problem } from './problem.ts';
import type { FormConfig, ProjectConfig } from './schema.ts';
import { find } from './yaml-data.ts';
import type { YamlFile } from './yaml.ts';

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

type Parts = Pick<ProjectConfig, 'domains' | 'collections' | 'templates'>;

/** Everything that does not parse: the templates, and the subjects and names of forms, which hold expressions as well. */
export function checkAllTemplates(parts: Parts, yaml: YamlFile, check?: CheckTemplates): Problem[] {
  if (check === undefined) return [];
  const { templates } = parts;
  const lines = [...linesOf('domains', parts.domains), ...linesOf('collections', parts.collections)];
  const single = lines.map(
    ({ source }, index) => [`line${index}`, { type: 'form', subject: source, text: '', variables: {} }] as const,
  );
  return [
    ...check(templates).map((problem) => locateInTemplate(problem, yaml, templates)),
    ...check(Object.fromEntries(single)).map((problem) =>
      locate(problem, yaml, lines[Number(problem.template.slice(4))]?.path ?? []),
    ),
  ];
}

type Lines = Pick<FormConfig, 'subject' | 'from_name' | 'acknowledgment'>;

function linesOf(
  key: 'domains' | 'collections',
  places: Readonly<Record<string, { readonly forms: Readonly<Record<string, Lines>> }>>,
): { path: Path; source: string }[] {
  return Object.entries(places).flatMap(([name, { forms }]) =>
    Object.entries(forms).flatMap(([id, { subject, from_name, acknowledgment }]) => {
      const path = [key, name, 'forms', id];
      return [
        { path: [...path, 'subject'], source: subject },
        { path: [...path, 'from_name'], source: from_name },
        { path: [...path, 'acknowledgment', 'subject'], source: acknowledgment?.subject },
      ].flatMap(({ path, source }) => (source === undefined ? [] : [{ path, source }]));
    }),
  );
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
