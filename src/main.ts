/**
 * The command `postern`: arguments, signals, exit codes. Each command loads its own code when it is asked for, so that
 * only those that serve load a native module.
 *
 * Exit codes: 0 done, 1 a check failed, 2 wrong usage, 3 the daemon cannot be reached, 78 bad configuration.
 */
import { readFileSync } from 'node:fs';
import { Argument, Command, CommanderError } from 'commander';
import { UserError, errorFields, messageOf } from './lib/errors.ts';

const CONFIG = 'server.yml (else $POSTERN_CONFIG, ./config/server.yml, /etc/postern/server.yml)';
const EXIT = { failed: 1, usage: 2, configuration: 78 } as const;

interface Running {
  close(): Promise<void>;
  reload?(): Promise<unknown>;
}

process.exitCode = await run(process.argv);

async function run(argv: readonly string[]): Promise<number> {
  let exitCode = 0;
  const program = new Command('postern')
    .description('A mail appliance: web forms in, DKIM-signed mail out, nothing lost in between.')
    .version(version())
    .exitOverride()
    .showHelpAfterError('(postern --help shows the commands)');

  program
    .command('serve')
    .description('run the daemon')
    .option('--config <file>', CONFIG)
    .action(async (options: { config?: string }) => {
      const { startDaemon } = await import('./daemon.ts');
      exitCode = await serve(() => startDaemon(options.config));
    });

  program
    .command('dev')
    .description('run the daemon with a small mail world round it: DNS, a catching mail server, an outbox page')
    .option('--data <folder>', 'where everything is kept', '.postern')
    .option('--port <number>', 'port of the web pages (a free one where it is taken)', '8025')
    .action(async (options: { data: string; port: string }) => {
      const { startWorld } = await import('./dev/world.ts');
      exitCode = await serve(() => startWorld({ data: options.data, port: Number(options.port), write }));
    });

  const config = program.command('config').description('check and show the configuration, without a running daemon');
  config
    .command('check')
    .description('report every error and warning of server.yml and all projects')
    .option('--config <file>', CONFIG)
    .action(async (options: { config?: string }) => {
      const { configCheck } = await import('./cli/config.ts');
      exitCode = await configCheck(await configOptions(options.config));
    });
  config
    .command('show')
    .description('print the configuration of the server, with all defaults')
    .option('--config <file>', CONFIG)
    .option('--changed', 'only what differs from the defaults', false)
    .option('--json', 'as JSON', false)
    .action(async (options: { config?: string; changed: boolean; json: boolean }) => {
      const { configShow } = await import('./cli/config.ts');
      exitCode = await configShow({ ...(await configOptions(options.config)), ...options });
    });
  config
    .command('schema')
    .description('print the JSON Schema for editors')
    .addArgument(new Argument('<kind>').choices(['server', 'project']))
    .action(async (kind: 'server' | 'project') => {
      const { configSchema } = await import('./cli/config.ts');
      exitCode = configSchema(kind, write);
    });

  try {
    await program.parseAsync(argv);
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : EXIT.usage;
    complain(error);
    return error instanceof UserError ? EXIT.configuration : EXIT.failed;
  }
}

/** Runs until a signal ends it. A second signal ends at once; nothing is lost either way. */
async function serve(start: () => Promise<Running>): Promise<number> {
  const running = await start();
  await new Promise<void>((resolve, reject) => {
    let ending = false;
    process.on('SIGINT', end);
    process.on('SIGTERM', end);
    process.on('SIGHUP', () => void running.reload?.().catch(complain));

    function end(): void {
      if (ending) process.exit(EXIT.failed);
      ending = true;
      running.close().then(resolve, reject);
    }
  });
  return 0;
}

function version(): string {
  const text = readFileSync(new URL('../package.json', import.meta.url), 'utf8');
  return /"version": "([^"]+)"/.exec(text)?.[1] ?? '';
}

/** What the commands that read configuration have in common. */
async function configOptions(path: string | undefined) {
  const [{ machineSecrets }, { checkTemplates }] = await Promise.all([
    import('./config/secrets.ts'),
    import('./templates/engine.ts'),
  ]);
  const { env } = process;
  return { path, env, reading: { secrets: machineSecrets(env), checkTemplates }, write };
}

function write(text: string): void {
  process.stdout.write(text);
}

function complain(error: unknown): void {
  const words = error instanceof UserError ? messageOf(error) : (errorFields(error).stack ?? messageOf(error));
  process.stderr.write(`postern: ${words}\n`);
}
