/** `config …` */
import { Argument } from 'commander';
import type { CliCommand } from '../command.ts';
import type { ConfigOptions } from '../config.ts';
import { CONFIG_OPTION, JSON_OUT, type Cli } from './asking.ts';

/** Adds `config …`. */
export function addConfigCommands(program: CliCommand, cli: Cli): void {
  const { terminal, exit } = cli;
  const config = program.command('config').description('check and show the configuration, without a running daemon');
  config
    .command('check')
    .description('report every error and warning of server.yml and all projects')
    .option(...CONFIG_OPTION)
    .option(...JSON_OUT)
    .action(async (flags: ConfigFlags) => {
      const { configCheck } = await import('../config.ts');
      exit(await configCheck(await configOptions(cli, flags)));
    });
  config
    .command('show')
    .description('print the configuration of the server, with all defaults')
    .option(...CONFIG_OPTION)
    .option('--changed', 'only what differs from the defaults', false)
    .option(...JSON_OUT)
    .action(async ({ changed, ...flags }: ConfigFlags & { changed: boolean }) => {
      const { configShow } = await import('../config.ts');
      exit(await configShow({ ...(await configOptions(cli, flags)), changed }));
    });
  config
    .command('schema')
    .description('print the JSON Schema for editors')
    .addArgument(new Argument('<kind>', 'which file it is of').choices(['server', 'project']))
    .action(async (kind: 'server' | 'project') => {
      const { configSchema } = await import('../config.ts');
      exit(configSchema(kind, terminal));
    });
}

interface ConfigFlags {
  readonly config?: string;
  readonly json: boolean;
}

async function configOptions({ terminal }: Cli, { config, json }: ConfigFlags): Promise<ConfigOptions> {
  const [{ machineSecrets }, { checkTemplates }] = await Promise.all([
    import('../../config/secrets.ts'),
    import('../../templates/engine.ts'),
  ]);
  const { env } = terminal;
  return { path: config, env, reading: { secrets: machineSecrets(env), checkTemplates }, json, terminal };
}
