/** The page of documentation: what every command's `--help` prints, and what they have in common. */
import { DESCRIPTION, ENVIRONMENT, EXIT_CODES, FILES, type Meaning } from './conventions.ts';
import { leavesOf, type CommandNode } from './tree.ts';

/** `docs/cli.md` */
export function markdownPage(program: CommandNode): string {
  const sections = Map.groupBy(program.commands, ({ group }) => group.replace(/:$/, ''));
  return `${[
    '# The command line',
    '<!-- Made by npm run docs from the definitions in src/cli: change it there. -->',
    program.description,
    ...DESCRIPTION,
    'Shell completion: `postern completion --help`. This page as a man page: `man man/postern.1`.',
    list('Exit codes', EXIT_CODES),
    list('Environment', ENVIRONMENT),
    list('Files', FILES),
    ...[...sections].flatMap(([title, commands]) => [
      `## ${title}`,
      ...commands
        .flatMap(leavesOf)
        .map((leaf) => `### postern ${leaf.path.join(' ')}\n\n\`\`\`text\n${leaf.help}\`\`\``),
    ]),
  ].join('\n\n')}\n`;
}

function list(title: string, meanings: readonly Meaning[]): string {
  return `## ${title}\n\n${meanings.map(([what, means]) => `- \`${what}\`: ${means}`).join('\n')}`;
}
