/** `npm run docs`: writes the man page, docs/cli.md docs/log-events.md and the JSON Schemas of the configuration anew, from their definitions. */
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { createProgram } from '../src/cli/program.ts';
import { documentsOf } from '../src/cli/reference/documents.ts';
import { treeOf } from '../src/cli/reference/tree.ts';
import { processTerminal } from '../src/cli/terminal.ts';
import { jsonSchemaText } from '../src/config/schema.ts';
import { LOG_EVENTS } from '../src/lib/log-events.ts';

const program = await createProgram({
  version: '',
  // As wide as help is that no terminal reads.
  terminal: { ...processTerminal(), width: undefined },
  exit: () => undefined,
  services: { serve: unused, dev: unused, answerOffline: unused, preflight: { check: unused, hostRecords: unused } },
});

const documents = {
  ...documentsOf(treeOf(program)),
  'docs/log-events.md': logEvents(),
  'config/server.schema.json': jsonSchemaText('server'),
  'config/project.schema.json': jsonSchemaText('project'),
};
for (const [path, text] of Object.entries(documents)) {
  const file = join(import.meta.dirname, '..', path);
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, text);
  console.log(`${path} written`);
}

function logEvents(): string {
  const rows = Object.entries(LOG_EVENTS).map(([event, message]) => `| \`${event}\` | ${message} |`);
  return [
    '# Log events',
    '',
    'A line of the [log](monitoring.md#read-the-log) has the name of its event in `event` and this message in `msg`.',
    '',
    '| event | message |',
    '| --- | --- |',
    ...rows,
    '',
  ].join('\n');
}

function unused(): Promise<never> {
  return Promise.reject(new Error('nothing is run here'));
}
