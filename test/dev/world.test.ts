import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { startWorld } from '../../src/dev/environment.ts';
import { temporaryFolder } from '../harness/store.ts';

test('a second world in one folder is refused, and leaves the configuration of the first as it is', async () => {
  const data = await temporaryFolder();
  const options = { data, port: 18025, smtpPort: 18026, write: () => undefined };
  const world = await startWorld(options);
  onTestFinished(() => world.close());
  const before = await readFile(join(data, 'config/server.yml'), 'utf8');
  await expect(startWorld(options)).rejects.toThrow('To use another folder, add --data <folder>');
  expect(await readFile(join(data, 'config/server.yml'), 'utf8')).toBe(before);
});
