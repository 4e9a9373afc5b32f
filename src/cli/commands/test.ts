/** `test …`: whether all is ready, before a visitor finds out. */
import type { CliCommand } from '../command.ts';
import type { SendOptions } from '../test-send.ts';
import { domainName, mailAddress } from '../values.ts';
import { asking, askingOptions, waitingTime, type AskingFlags, type Cli } from './asking.ts';

/** Adds `test …`. */
export function addTestCommands(program: CliCommand, cli: Cli): void {
  const test = program.command('test').description('whether the configuration is right, and mail arrives');
  asking(
    test
      .command('config')
      .argument('[path]', 'folder or file; else this folder, or the nearest above that has a postern.yml')
      .description('report every error and warning of the project')
      .option(
        '--check-api',
        'ask the server, too: key, push, domains and forms (--url and --config do so as well)',
        false,
      )
      .example('test config --check-api', 'before a push'),
  ).action(async (where: string | undefined, { checkApi, ...flags }: AskingFlags & { checkApi: boolean }) => {
    const { testConfig } = await import('../test-config.ts');
    const isAsked = checkApi || flags.url !== undefined || flags.config !== undefined;
    const api = isAsked ? await askingOptions(cli, flags) : undefined;
    cli.exit(await testConfig(cli.terminal, { where, json: flags.json, api }));
  });
  asking(
    test
      .command('send')
      .argument('<address>', 'who gets it', mailAddress)
      .description('send a test mail and tell what the other side said; exit code 1 where it did not arrive')
      .option('--from <address>', 'sender, at a verified domain')
      .option('--domain <domain>', 'send as this domain; else as the first that is verified', domainName)
      .option('--form <id>', 'what this form of the project here would send, with a sample submission')
      .option('--no-wait', 'do not wait for how it goes')
      .addOption(waitingTime().default(60).conflicts('wait'))
      .example('test send you@example.com', 'is everything between here and your inbox in order?'),
  ).action(async (to: string, flags: AskingFlags & Omit<SendOptions, 'to'>) => {
    const { testSend } = await import('../test-send.ts');
    const { from, domain, form, wait, timeout, ...asked } = flags;
    cli.exit(await testSend(await askingOptions(cli, asked), { to, from, domain, form, wait, timeout }));
  });
}
