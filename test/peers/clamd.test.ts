/** Uploads and the virus scanner, from the post to the mail. */
import { simpleParser } from 'mailparser';
import { expect, test } from 'vitest';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { EICAR, startClamd, startDebianClamd } from '../harness/clamd.ts';

const HEADERS = { Origin: 'https://example.test', Accept: 'application/json' };

function post(world: TestWorld, content: string, language = 'en'): Promise<Response> {
  const form = new FormData();
  form.append('name', 'Ada');
  form.append('cv', new Blob([content]), '履歴書.txt');
  return world.post('/example.test/contact', form, { ...HEADERS, 'Accept-Language': language });
}

async function textOf(world: TestWorld): Promise<string> {
  const [mail] = (await world.caught(1)).list();
  if (mail === undefined) throw new Error('no mail');
  const { text, attachments } = await simpleParser(await world.mx.mails.source(mail));
  expect(attachments.map(({ filename }) => filename)).toEqual(['履歴書.txt']);
  return text ?? '';
}

test('an infected file is refused by its name, and nothing of it is kept; a clean one arrives', async () => {
  const world = await startTestWorld({ server: { uploads: { clamd: await startDebianClamd() } } });
  // Longer than a piece, so that the beginning lies in the database while it is scanned.
  const refused = await post(world, `${'x'.repeat(300_000)}${EICAR}`);
  expect(refused.status).toBe(400);
  expect(await refused.json()).toMatchObject({
    errors: [{ field: 'cv', code: 'FILE_INFECTED', message: expect.stringContaining('履歴書.txt') as unknown }],
  });
  expect(await world.daemon.store.read.selectFrom('file_chunks').select('file').execute()).toEqual([]);
  expect(await world.queue()).toEqual([]);

  expect((await post(world, 'Dear all')).status).toBe(200);
  expect(await textOf(world)).not.toContain('viruses');
});

test('without an answer of the scanner the lead arrives, and says what was not scanned', async () => {
  const clamd = await startClamd({ fault: 'gone' });
  const world = await startTestWorld({ server: { uploads: { clamd: clamd.place } } });
  expect((await post(world, 'Dear all')).status).toBe(200);
  expect(await textOf(world)).toContain(
    'These files could not be checked for viruses. Open them with care: 履歴書.txt',
  );
});
