/** What other people's tools make of the document: a validator, and types for clients that are used for every operation. */
import { spawn } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import SwaggerParser from '@apidevtools/swagger-parser';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { startHttp } from '../harness/http.ts';
import { temporaryFolder } from '../harness/store.ts';
import { ROOT } from '../structure/sources.ts';

const EXAMPLES = join(ROOT, 'src/http/pages/reference-examples.json');
const examples = z.array(z.object({ route: z.string(), body: z.unknown().optional(), answer: z.unknown() }));
const paths = z.record(
  z.string(),
  z.record(z.string(), z.object({ operationId: z.string(), requestBody: z.unknown().optional() })),
);

async function readDocument(): Promise<string> {
  const http = await startHttp();
  return (await http.request('/openapi.json')).text;
}

async function run(input: string, ...args: readonly string[]): Promise<{ code: unknown; output: string }> {
  const child = spawn(process.execPath, args, { cwd: ROOT, stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.end(input);
  const ended = new Promise((resolve) => void child.once('close', resolve));
  const output = await text(child.stdout);
  return { code: await ended, output };
}

test('swagger-parser finds the document valid', async () => {
  await expect(SwaggerParser.validate(JSON.parse(await readDocument()))).resolves.toBeDefined();
});

test('openapi-typescript makes types of it to which the bodies and answers of every operation conform', async () => {
  const document = await readDocument();
  const types = await run(document, 'test/harness/openapi-types.ts');
  expect(types.code).toBe(0);

  const recorded = new Map(
    examples.parse(JSON.parse(await readFile(EXAMPLES, 'utf8'))).map((example) => {
      const [method = '', path = ''] = example.route.split(' ');
      return [`${method.toLowerCase()} ${path.replaceAll(/[:*](\w+)/g, '{$1}')}`, example];
    }),
  );
  const uses = Object.entries(paths.parse(JSON.parse(document).paths)).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { operationId: id, requestBody }]) => {
      const { body, answer } = recorded.get(`${method} ${path}`) ?? {};
      const json = "['content']['application/json']";
      return [
        `export type ${id} = paths['${path}']['${method}']['responses'][200];`,
        ...(requestBody === undefined || body === undefined
          ? []
          : [`export const ${id}Body: operations['${id}']['requestBody']${json} = ${JSON.stringify(body)};`]),
        ...(typeof answer === 'object'
          ? [`export const ${id}Answer: operations['${id}']['responses'][200]${json} = ${JSON.stringify(answer)};`]
          : []),
      ].join('\n');
    }),
  );
  expect(uses.filter((use) => use.includes('Answer: ')).length).toBeGreaterThan(70);

  const folder = await temporaryFolder();
  await writeFile(join(folder, 'types.ts'), types.output);
  await writeFile(
    join(folder, 'client.ts'),
    `import type { operations, paths } from './types.ts';\n${uses.join('\n')}\n`,
  );
  const flags = ['--strict', '--noEmit', '--target', 'es2024', '--module', 'nodenext', '--types', ''];
  const compiled = await run(
    '',
    'node_modules/typescript/bin/tsc',
    ...flags,
    '--allowImportingTsExtensions',
    '--ignoreConfig',
    join(folder, 'client.ts'),
  );
  expect(compiled).toEqual({ code: 0, output: '' });
});
