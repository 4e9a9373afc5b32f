/** `completion …` */
import { Argument } from 'commander';
import type { CliCommand } from '../command.ts';
import type { Cli } from './options.ts';

const SHELLS = ['bash', 'zsh', 'fish'] as const;

/** Adds `completion`. */
export function addCompletionCommand(program: CliCommand, { terminal }: Cli): void {
  program
    .command('completion')
    .addArgument(new Argument('<shell>', 'The shell').choices(SHELLS))
    .description('Print a shell completion script')
    .example(
      'completion bash > /etc/bash_completion.d/postern',
      'bash, for all users; requires the bash-completion package',
    )
    .example('completion bash > ~/.postern.bash', 'bash, for you: also add `source ~/.postern.bash` to ~/.bashrc')
    .example('completion zsh > /usr/local/share/zsh/site-functions/_postern', 'zsh')
    .example('completion fish > ~/.config/fish/completions/postern.fish', 'fish')
    .action(async (shell: (typeof SHELLS)[number]) => {
      const { completionFor } = await import('../reference/completion.ts');
      terminal.write(completionFor(shell, program));
    });
}
