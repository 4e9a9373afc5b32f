/** The published client of Formspree, unchanged, pointed at this server. The one for pages is tried in test/browser. */
import { createClient, isSubmissionError } from '@formspree/core';
import { describe, expect, test } from 'vitest';
import { OPERATOR } from '../../src/store/revisions.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { testKey } from '../harness/keys.ts';

interface FormWorld extends TestWorld {
  /** `frm_…` of a form made by the API; its mail goes to owner@inbox.test. */
  readonly form: string;
}

async function formWorld(settings: object = {}): Promise<FormWorld> {
  const world = await startTestWorld();
  const { headers } = await testKey(world.daemon.store, { tenant: OPERATOR });
  const response = await fetch(`${world.url}/api/forms`, {
    method: 'POST',
    headers: { ...headers, 'Content-Type': 'application/json' },
    body: JSON.stringify({ name: 'Contact', to: 'owner@inbox.test', subject: 'From the site', ...settings }),
  });
  expect(response.status).toBe(200);
  const { id } = (await response.json()) as { id: string };
  return { ...world, form: id };
}

describe('@formspree/core', () => {
  test('sends, and reads what is wrong with which field', async () => {
    const world = await formWorld();
    const client = createClient();
    const sent = await client.submitForm(
      world.form,
      { email: 'ada@inbox.test', message: 'Hi' },
      { endpoint: world.url },
    );
    expect(sent.kind).toBe('success');
    if (sent.kind === 'success') expect(sent.next).toMatch(/^http/);
    await world.caught(1);

    const refused = await client.submitForm(world.form, { email: 'nobody', message: 'Hi' }, { endpoint: world.url });
    if (!isSubmissionError(refused)) throw new Error('it was taken');
    expect(refused.getFieldErrors('email')).toEqual([{ code: 'TYPE_EMAIL', message: expect.stringMatching(/\w+/) }]);

    const lost = await client.submitForm('frm_00000000000000000000000000', { message: 'Hi' }, { endpoint: world.url });
    if (!isSubmissionError(lost)) throw new Error('it was taken');
    expect(lost.getFormErrors()).toEqual([{ code: 'FORM_NOT_FOUND', message: expect.stringMatching(/\w+/) }]);
  });

  test('sends form data with a file', async () => {
    const world = await formWorld({ uploads: { enabled: true } });
    const data = new FormData();
    data.append('email', 'ada@inbox.test');
    data.append('file', new Blob(['hello']), 'hello.txt');
    const sent = await createClient().submitForm(world.form, data, { endpoint: world.url });
    expect(sent.kind).toBe('success');
    const mails = await world.caught(1);
    expect(mails.list()).toHaveLength(1);
  });
});
