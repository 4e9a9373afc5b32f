/** The documents that the repository holds of its own commands. */
import { manPage } from './man.ts';
import { markdownPage } from './markdown.ts';
import type { CommandNode } from './tree.ts';

/** Their texts by their paths from the root of the repository. */
export function documentsOf(program: CommandNode): Readonly<Record<string, string>> {
  return { 'man/postern.1': manPage(program), 'docs/cli.md': markdownPage(program) };
}
