/** Programs that a test starts: what they print is kept for the error message, and they are ended by their process id. */
import { spawn, type ChildProcess, type SpawnOptions } from 'node:child_process';
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { connect, createServer, Server } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

export interface Child {
  readonly pid: number;
  /** The end of what it printed so far, both streams mixed. */
  output(): string;
  /** Asks it to end with `signal` (default: SIGTERM), and after 10 s makes it. */
  stop(signal?: NodeJS.Signals): Promise<void>;
  /** Its exit code (null after a signal), once it has ended. */
  readonly ended: Promise<number | null>;
}

/** So much of what it prints is kept, in characters. */
const KEPT = 1024 * 1024;

/** Starts a program that stays; throws when it cannot be started at all. */
export async function startChild(
  command: string,
  args: readonly string[],
  options: Pick<SpawnOptions, 'cwd' | 'env' | 'uid' | 'gid'> = {},
): Promise<Child> {
  const child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
  const printed: string[] = [];
  let length = 0;
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      printed.push(text);
      length += text.length;
      while (length > KEPT) length -= printed.shift()?.length ?? 0;
    });
  }
  // Not 'close': a daemon's own children may hold the pipes open for longer than it lives.
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
  endWithUs(child);
  await once(child, 'spawn');
  const { pid } = child;
  if (pid === undefined) throw new Error(`${command} has no process id`);
  return { pid, output: () => printed.join(''), stop, ended };

  async function stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill(signal);
      const timer = setTimeout(() => child.kill('SIGKILL'), 10_000);
      await ended;
      clearTimeout(timer);
    }
    child.stdout.destroy();
    child.stderr.destroy();
  }
}

/** Nobody else would end a child when the test or bench is cut short. */
export function endWithUs(child: ChildProcess): void {
  function end(): void {
    child.kill();
  }
  process.once('exit', end);
  child.once('exit', () => process.off('exit', end));
}

/** Waits until `check` answers true; says what the program printed when it ends before, or `ms` pass. */
export async function untilReady(child: Child, check: () => boolean | Promise<boolean>, ms = 120_000): Promise<void> {
  let code: number | null | undefined;
  void child.ended.then((value) => (code = value));
  for (const end = Date.now() + ms; !(await check()); await sleep(20)) {
    if (code !== undefined) throw new Error(`ended with ${code} before it was ready:\n${child.output()}`);
    if (Date.now() > end) throw new Error(`not ready after ${ms / 1000} s:\n${child.output()}`);
  }
}

/** Waits until `check` answers true: for what another program does in its own time. */
export async function until(what: string, check: () => boolean | Promise<boolean>, ms = 120_000): Promise<void> {
  for (const end = Date.now() + ms; !(await check()); await sleep(20)) {
    if (Date.now() > end) throw new Error(`${what}: not after ${ms / 1000} s`);
  }
}

/** Whether anybody listens on a port of this machine. */
export function answers(port: number, host = '127.0.0.1'): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, host, () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}

/** Below the ports that the kernel gives to outgoing connections: one of those could sit on it before its program does. */
const PORTS = { first: 20_000, each: 1500 };
/** Test files that run at the same time draw from ranges of their own, and each port once. */
const FIRST_PORT = PORTS.first + (Number(process.env['VITEST_POOL_ID'] ?? 0) % 8) * PORTS.each;
let draws = Math.floor(Math.random() * PORTS.each);

/** A port of 127.0.0.1 that is free now, over TCP and UDP, for programs that cannot pick one or come back to it. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST_PORT + (draws++ % PORTS.each);
    if ((await isFree(createServer(), port)) && (await isFree(createSocket('udp4'), port))) return port;
  }
}

function isFree(opened: Server | Socket, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    opened.once('error', () => resolve(false));
    opened.once('listening', () => opened.close(() => resolve(true)));
    if (opened instanceof Server) opened.listen(port, '127.0.0.1');
    else opened.bind(port, '127.0.0.1');
  });
}
