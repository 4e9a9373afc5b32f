/** `npm run check`: everything that can be judged without running the program, side by side; prints what fails, and why. */
import { spawn } from 'node:child_process';

const MODULES = `${import.meta.dirname}/../node_modules`;

/** Each a script of a package and its arguments. */
const CHECKS = {
  types: ['typescript/bin/tsc', '-p', '.'],
  'types of the console': ['typescript/bin/tsc', '-p', 'src/console'],
  lint: ['oxlint/bin/oxlint', '--type-aware', 'src', 'test', 'bench', 'scripts'],
  format: ['prettier/bin/prettier.cjs', '--check', '--log-level', 'warn', '.'],
  'unused code': ['knip/bin/knip.js', '--no-progress'],
} as const;

const results = await Promise.all(Object.entries(CHECKS).map(([name, command]) => check(name, command)));
process.exitCode = results.every(Boolean) ? 0 : 1;

/** Runs one tool to its end; true when it found nothing. Its output is shown in one piece, and only when it found something. */
async function check(name: string, [script, ...args]: readonly [string, ...string[]]): Promise<boolean> {
  const start = performance.now();
  const child = spawn(process.execPath, [`${MODULES}/${script}`, ...args], {
    cwd: `${import.meta.dirname}/..`,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => (output += text));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  if (code !== 0) process.stdout.write(`${output.trimEnd()}\n`);
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  console.log(`${code === 0 ? 'ok  ' : 'FAIL'}  ${name} (${seconds} s)`);
  return code === 0;
}
