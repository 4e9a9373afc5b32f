/** A stand-in for the template engine: it finds expressions that are not closed. */
import type { CheckTemplates, TemplateProblem } from '../../src/config/checks.ts';

export const unclosed: CheckTemplates = (templates) =>
  Object.entries(templates).flatMap(([template, { subject, text, html }]) =>
    Object.entries({ subject, text, html }).flatMap(([part, source]): TemplateProblem[] => {
      const lines = (source ?? '').split('\n');
      const line = lines.findIndex((words) => words.includes('{{') && !words.includes('}}'));
      if (line < 0 || (part !== 'subject' && part !== 'text' && part !== 'html')) return [];
      const column = (lines[line] ?? '').indexOf('{{') + 1;
      return [{ template, part, line: line + 1, column, message: 'output "{{" is not closed' }];
    }),
  );
