/**
 * The command `postern`: arguments, signals, exit codes. Each command loads its own code when it is asked for, so that
 * only those that serve load a native module.
 *
 * Its exit codes are those of `EXIT`.
 */
import { flushCompileCache } from 'node:module';
import { CommanderError } from 'commander';
import { createProgram } from './cli/program.ts';
import { EXIT, endText, exitCodeOf } from './cli/run.ts';
import { CommandFailed } from './cli/client.ts';
import { Interrupted, processTerminal } from './cli/terminal.ts';
import type { ServerConfig } from './config/schema.ts';
import { systemClock } from './lib/clock.ts';
import { codeOf, messageOf } from './lib/errors.ts';
import { compactHeap } from './lib/gc.ts';
import { isJournal, priorityOf } from './lib/log.ts';
import { version } from './lib/version.ts';

interface Running {
  close(): Promise<void>;
  reload?(): Promise<unknown>;
}

const terminal = processTerminal();
let serving = false;
process.stdout.on('error', (error) => {
  // A daemon goes on without.
  if (serving) return;
  // `postern … | head`: who read has seen enough.
  if (codeOf(error) === 'EPIPE') process.exit();
  reportError(new CommandFailed(`Cannot write to standard output: ${messageOf(error)}`));
  process.exit(EXIT.failed);
});
process.exitCode = await run(process.argv);

async function run(argv: readonly string[]): Promise<number> {
  let exitCode: number = EXIT.done;
  const json = argv.slice(2).some((word) => word === '--json');
  const program = await createProgram({
    command: argv[2],
    version: version(),
    terminal,
    json,
    exit: (code) => (exitCode = code),
    services: {
      async serve(configFile) {
        const [{ startDaemon }, { startService }] = await Promise.all([
          import('./daemon/daemon.ts'),
          import('./daemon/systemd.ts'),
        ]);
        await serve(async () => {
          const running = await startService(() => startDaemon(configFile), process.env);
          compactHeap();
          // Node itself writes it at the end, which a crash or a kill takes away: the next start should not compile again.
          flushCompileCache();
          return running;
        });
      },
      async dev(options) {
        const { startWorld } = await import('./dev/environment.ts');
        await serve(() => startWorld({ ...options, write: terminal.write }));
      },
      async answerOffline(file, request) {
        const { answerOffline } = await import('./daemon/offline.ts');
        return answerOffline(file, request, process.env);
      },
      preflight: {
        async check(config) {
          const { checkBeforeStart } = await import('./doctor/preflight.ts');
          return checkBeforeStart(await machineParts(config));
        },
        async hostRecords(config, addresses, keys) {
          const { checkHostRecords } = await import('./doctor/preflight.ts');
          return checkHostRecords(await machineParts(config), addresses, keys);
        },
      },
    },
  });
  try {
    await program.parseAsync(argv);
    return exitCode;
  } catch (error) {
    const code = exitCodeOf(error);
    // Commander has written its own words.
    const isWritten = error instanceof CommanderError && (!json || code === EXIT.done);
    if (error instanceof Interrupted && !json) terminal.writeError('\n');
    else if (!isWritten) reportError(error, json);
    return code;
  }
}

async function machineParts(config: ServerConfig) {
  const { createResolver } = await import('./dns/resolver.ts');
  return { config, clock: systemClock, resolver: createResolver({ servers: config.dns.servers }) };
}

/** Runs until a signal ends it. A second signal ends at once; nothing is lost either way. */
async function serve(start: () => Promise<Running>): Promise<void> {
  serving = true;
  process.title = 'postern';
  const starting = start();
  await new Promise<void>((resolve, reject) => {
    starting.catch(reject);
    let ending = false;
    // From the beginning: whatever comes before it runs is done as soon as it does.
    process.on('SIGINT', end);
    process.on('SIGTERM', end);
    // Nothing that an operator sends by mistake ends the daemon; `bin/run` keeps SIGUSR1 from opening the debugger.
    process.on('SIGUSR1', () => undefined);
    process.on('SIGUSR2', () => undefined);
    process.on('SIGHUP', () => void starting.then((running) => running.reload?.()).catch(reportError));

    function end(): void {
      if (ending) process.exit(EXIT.failed);
      ending = true;
      starting.then((running) => running.close()).then(resolve, reject);
    }
  });
}

function reportError(error: unknown, json = false): void {
  const priority = isJournal(process.stderr.fd, process.env['JOURNAL_STREAM']) ? priorityOf('error') : '';
  terminal.writeError(endText(error, json).replaceAll(/^(?=.)/gm, priority));
}
