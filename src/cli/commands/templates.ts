/** `templates …`: what mail looks like. */
import type { CliCommand } from '../command.ts';
import type { PreviewFlags } from '../templates.ts';
import { JSON_OUT, type Cli } from './asking.ts';

const PATH = [
  '--path <path>',
  'folder or file; else this folder, or the nearest above that has a postern.yml',
] as const;

/** Adds `templates …`, which need no server. */
export function addTemplatesCommands(program: CliCommand, { terminal, exit }: Cli): void {
  const templates = program.command('templates').description('look at the mail of this project, without a server');
  templates
    .command('preview')
    .argument('<name>', 'of the template; default and acknowledgment are built in')
    .description('print its subject and both parts, with a sample submission')
    .option('--form <id>', 'form whose fields and subject it has; else the first that uses it')
    .option('--data <file>', 'JSON object with variables; its member form holds submitted fields')
    .option('--html <file>', 'write the HTML part there')
    .option('--open', 'show the HTML part in a browser', false)
    .option(...PATH)
    .option(...JSON_OUT)
    .example('templates preview contact --open', 'as a mail program would show it')
    .action(async (name: string, flags: PreviewFlags) => {
      const { templatesPreview } = await import('../templates.ts');
      exit(await templatesPreview(terminal, name, flags));
    });
  templates
    .command('list')
    .description('templates and the forms that use them')
    .option(...PATH)
    .option(...JSON_OUT)
    .action(async (flags: Pick<PreviewFlags, 'path' | 'json'>) => {
      const { templatesList } = await import('../templates.ts');
      exit(await templatesList(terminal, flags));
    });
}
