/** The published client of Formspree, unchanged, pointed at this server. The one for pages is tried in test/browser. */
import { createClient, isSubmissionError } from '@formspree/core';
import { describe, expect, test } from 'vitest';
import { formWorld } from '../harness/form-world.ts';

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
