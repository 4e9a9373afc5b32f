/**
 * The command `postern`: arguments, signals, exit codes. Each command loads its own code when it is asked for, so that
 * only those that serve load a native module.
 *
 * Exit codes: 0 done, 1 a check failed, 2 wrong usage, 3 the daemon cannot be reached, 78 bad configuration.
 */
import { Command, CommanderError } from 'commander';
import { CONFIG_OPTION, addConfigCommands, addInboundCommands, addQueueCommands } from './cli/commands.ts';
import { UserError, errorFields, messageOf } from './lib/errors.ts';
import { version } from './version.ts';

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
    .option(...CONFIG_OPTION)
    .action(async (options: { config?: string }) => {
      const { startDaemon } = await import('./daemon.ts');
      await serve(() => startDaemon(options.config));
    });
  program
    .command('dev')
    .description('run the daemon with a small mail world round it: DNS, a catching mail server, an outbox page')
    .option('--data <folder>', 'where everything is kept', '.postern')
    .option('--port <number>', 'port of the web pages (a free one where it is taken)', '8025')
    .action(async (options: { data: string; port: string }) => {
      const { startWorld } = await import('./dev/world.ts');
      await serve(() => startWorld({ data: options.data, port: Number(options.port), write }));
    });
  const terminal = {
    env: process.env,
    write,
    complain: writeError,
    width: process.stdout.columns,
    exit: (code: number) => (exitCode = code),
  };
  addConfigCommands(program, terminal);
  addQueueCommands(program, terminal);
  addInboundCommands(program, terminal);

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
async function serve(start: () => Promise<Running>): Promise<void> {
  const starting = start();
  await new Promise<void>((resolve, reject) => {
    starting.catch(reject);
    let ending = false;
    // From the beginning: whatever comes before it runs is done as soon as it does.
    process.on('SIGINT', end);
    process.on('SIGTERM', end);
    process.on('SIGHUP', () => void starting.then((running) => running.reload?.()).catch(complain));

    function end(): void {
      if (ending) process.exit(EXIT.failed);
      ending = true;
      starting.then((running) => running.close()).then(resolve, reject);
    }
  });
}

function write(text: string): void {
  process.stdout.write(text);
}

function writeError(text: string): void {
  process.stderr.write(text);
}

function complain(error: unknown): void {
  const words = error instanceof UserError ? messageOf(error) : (errorFields(error).stack ?? messageOf(error));
  writeError(`postern: ${words}\n`);
}
