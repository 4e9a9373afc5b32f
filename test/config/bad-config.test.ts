import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { conflicts } from '../../src/config/claims.ts';
import { loadProjects, loadServer } from '../../src/config/load.ts';
import { formatProblem } from '../../src/config/problem.ts';
import { machineSecrets } from '../../src/config/secrets.ts';
import { unclosed } from './templates.ts';

const CASES = join(import.meta.dirname, '../bad-config');
const reading = { secrets: machineSecrets({}), checkTemplates: unclosed };

/** What an operator reads about the configuration in this folder, with paths relative to it. */
async function reportOf(folder: string): Promise<string> {
  const file = join(folder, 'server.yml');
  const results = folder.includes('/server-')
    ? [await loadServer(file, reading.secrets).catch((error: Error) => ({ unreadable: error.message }))]
    : (await loadProjects(file, reading)).map(({ result }) => result);
  const projects = await loadProjects(file, reading);
  const valid = projects.flatMap(({ result, ...rest }) => ('ok' in result ? [{ ...rest, config: result.ok }] : []));
  const lines = [
    ...results.flatMap((result) => ('unreadable' in result ? [result.unreadable] : [])),
    ...results.flatMap((result) => ('errors' in result ? result.errors.map(formatProblem) : [])),
    ...conflicts(valid).map(({ problem }) => problem),
    ...results
      .flatMap((result) => ('warnings' in result ? result.warnings.map(formatProblem) : []))
      .map((line) => `warning: ${line}`),
  ];
  return lines.map((line) => `${line.replaceAll(`${folder}/`, '')}\n`).join('');
}

describe('every kind of broken configuration says what is wrong, where, and what to do', () => {
  test.each(readdirSync(CASES))('%s', async (name) => {
    const folder = join(CASES, name);
    expect(await reportOf(folder)).toBe(await readFile(join(folder, 'expected.txt'), 'utf8'));
  });
});
