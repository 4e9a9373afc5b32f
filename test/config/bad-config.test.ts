import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { checkFolder, loadServer } from '../../src/config/folder.ts';
import { formatProblem } from '../../src/config/problem.ts';
import { machineSecrets } from '../../src/config/secrets.ts';
import { checkTemplates } from '../../src/templates/engine.ts';

const CASES = join(import.meta.dirname, '../bad-config');
const reading = { secrets: machineSecrets({}), checkTemplates };

/** What an operator reads about the configuration in this folder, with paths relative to it. */
async function reportOf(folder: string): Promise<string> {
  const file = join(folder, 'server.yml');
  const lines: string[] = [];
  if (folder.includes('/server-')) {
    const server = await loadServer(file, reading.secrets, { checkMachine: true }).catch((error: Error) => ({
      unreadable: error.message,
    }));
    if ('unreadable' in server) lines.push(server.unreadable);
    if ('errors' in server) lines.push(...server.errors.map(formatProblem));
    if ('warnings' in server) lines.push(...server.warnings.map((problem) => `warning: ${formatProblem(problem)}`));
  } else {
    const { refused, warnings } = await checkFolder(file, reading);
    lines.push(...refused.flatMap(({ errors }) => errors), ...warnings.map((line) => `warning: ${line}`));
  }
  return lines.map((line) => `${line.replaceAll(`${folder}/`, '')}\n`).join('');
}

describe('every kind of broken configuration says what is wrong, where, and what to do', () => {
  test.each(readdirSync(CASES))('%s', async (name) => {
    const folder = join(CASES, name);
    expect(await reportOf(folder)).toBe(await readFile(join(folder, 'expected.txt'), 'utf8'));
  });
});
