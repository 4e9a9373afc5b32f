/** `completion …` */
import { Argument } from 'commander';
import type { CliCommand } from '../command.ts';
import type { Cli } from './asking.ts';

const SHELLS = ['bash', 'zsh', 'fish'] as const;

/** Adds `completion`. */
export function addCompletionCommand(program: CliCommand, { terminal }: Cli): void {
  program
    .command('completion')
    .addArgument(new Argument('<shell>', 'that is to know the commands').choices(SHELLS))
    .description('print a script that lets a shell complete commands and options')
    .example('completion bash > /etc/bash_completion.d/postern', 'for everybody; needs the package bash-completion')
    .example('completion bash > ~/.postern.bash', 'for yourself: add `source ~/.postern.bash` to ~/.bashrc')
    .example('completion zsh > /usr/local/share/zsh/site-functions/_postern', 'for zsh')
    .example('completion fish > ~/.config/fish/completions/postern.fish', 'for fish')
    .action(async (shell: (typeof SHELLS)[number]) => {
      const { completionFor } = await import('../reference/completion.ts');
      terminal.write(completionFor(shell, program));
    });
}
