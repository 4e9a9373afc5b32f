import { chmod, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { HTML, person, YAML, type Person } from './cli-world.ts';

const MORE = `project: { name: Shop, slug: shop, owner: owner@inbox.test }
settings: { timezone: Europe/Berlin }
domains:
  shop.test:
    forms:
      contact:
        name: Contact
        to: owner@inbox.test
        template: mine
        from: shop@shop.test
        from_name: "{{ form.name }} at the shop"
        subject: "From {{ form.name }}"
        acknowledgment: { template: thanks, subject: "Thanks, {{ form.name }}" }
      jobs:
        to: owner@inbox.test
        template: mine
        required: [salary]
        acknowledgment: { enabled: false, template: thanks }
        fields:
          first_name: { label: Given name }
          mail: { type: email }
          topic: { options: [Sales, Support] }
          salary: { type: number }
          cv: { type: file }
collections:
  partners: { forms: { signup: { email: owner@inbox.test } } }
templates:
  mine:
    text: |
      {% for field in fields %}{{ field.label }}: {{ field.value }}
      {% endfor %}{{ domain }} {{ color }}
    variables: { color: blue }
  thanks: { type: acknowledgment, text: "Thank you for {{ product || 'your message' }}" }
`;

async function shop(yaml = YAML): Promise<Person> {
  const someone = await person();
  await someone.write('postern.yml', yaml);
  await someone.write('templates/mine.html', HTML);
  return someone;
}

describe('templates preview', () => {
  test('prints subject and both parts, with a sample submission, and asks no server', async () => {
    const { say } = await shop();
    expect(await say(['templates', 'preview', 'mine'])).toEqual({
      code: 0,
      err: '',
      out: `Template mine (form), as sent by form shop.test/contact
From: Ada Lovelace via Contact <forms@shop.test>
Subject: Shop: Ada Lovelace

Hello Ada Lovelace

--- HTML ---
<p>Hello Ada Lovelace</p>

`,
    });
  });

  test('has the fields and the subject of a form', async () => {
    const { say } = await shop(MORE);
    const contact = await say(['templates', 'preview', 'mine', '--form', 'contact']);
    expect(contact.out).toContain('From: Ada Lovelace at the shop <shop@shop.test>\nSubject: From Ada Lovelace\n');
    const jobs = (await say(['templates', 'preview', 'mine', '--form', 'shop.test/jobs'])).out;
    expect(jobs).toContain(
      'Subject: jobs: Some text\n\nGiven name: Some text\nMail: ada@example.com\nTopic: Sales\nSalary: 42\nshop.test blue\n',
    );
    const thanks = (await say(['templates', 'preview', 'thanks'])).out;
    expect(thanks).toContain(
      '(acknowledgment), as sent by form shop.test/contact\nFrom: Contact <shop@shop.test>\nSubject: Thanks, Ada Lovelace\n\nThank you for your message\n',
    );
  });

  test('takes data of its own', async () => {
    const { say, write } = await shop(MORE);
    await write('data.json', JSON.stringify({ form: { name: 'Bob', plan: ['a', 'b'] }, color: 'red' }));
    const { out } = await say(['templates', 'preview', 'mine', '--data', 'data.json']);
    expect(out).toContain('Subject: From Bob\n');
    expect(out).toContain('Name: Bob\n');
    expect(out).toContain('Plan: a, b\n');
    expect(out).toContain('shop.test red\n');
  });

  test.each(['default', 'acknowledgment'])('shows the built-in %s, without any project as well', async (name) => {
    const nowhere = await person();
    const { out, code } = await nowhere.say(['templates', 'preview', name]);
    expect(code).toBe(0);
    const from = name === 'default' ? 'Ada Lovelace via Contact' : 'Contact';
    expect(out).toContain(`not used by any form\nFrom: ${from} <forms@example.com>\nSubject: `);
    expect(out).toContain('<!DOCTYPE html>');
    const { say } = await shop(MORE);
    const collection = await say(['templates', 'preview', 'default', '--json']);
    expect(JSON.parse(collection.out)).toMatchObject({
      form: 'c/partners/signup',
      subject: 'signup: Ada Lovelace – A question',
    });
  });

  test('writes the HTML part to a file, and opens it', async () => {
    const { say, read, write, folder, env } = await shop();
    const { out } = await say(['templates', 'preview', 'mine', '--html', 'out.html']);
    expect(await read('out.html')).toBe('<p>Hello Ada Lovelace</p>\n');
    expect(out).toContain(`Wrote the HTML part to ${join(folder, 'out.html')}\n`);
    expect(out).not.toContain('<p>');
    for (const name of ['xdg-open', 'open']) {
      await write(
        `bin/${name}`,
        `#!/bin/sh\ncp -- "$1" "${folder}/opening" && mv "${folder}/opening" "${folder}/opened"\n`,
      );
      await chmod(join(folder, 'bin', name), 0o755);
    }
    const path = { env: { ...env, PATH: `${join(folder, 'bin')}:${process.env['PATH']}` } };
    expect((await say(['templates', 'preview', 'mine', '--open'], path)).code).toBe(0);
    await expect
      .poll(() => readFile(join(folder, 'opened'), 'utf8').catch(() => ''))
      .toBe('<p>Hello Ada Lovelace</p>\n');
    const none = await say(['templates', 'preview', 'mine', '--open', '--html', 'a.html'], {
      env: { ...env, PATH: folder },
    });
    expect([none.code, none.err]).toEqual([1, expect.stringMatching(/Cannot run .*Open .*a\.html yourself/)]);
  });

  test.each([
    [
      'a template that there is not',
      ['mien'],
      2,
      /^postern: The project has no template mien\. Did you mean mine\?\n$/,
    ],
    ['a form that there is not', ['mine', '--form', 'x'], 2, /has no form x\. Available: shop\.test\/contact/],
    ['data that are not there', ['mine', '--data', 'none.json'], 2, /Cannot read .*none\.json: ENOENT/],
    ['data that are no JSON', ['mine', '--data', 'postern.yml'], 2, /Cannot read .*postern\.yml: /],
    ['data that are no object', ['mine', '--data', 'list.json'], 2, /must contain a JSON object/],
    ['HTML that there is none of', ['plain', '--html', 'x.html'], 2, /The template plain has no HTML part/],
    ['a file that cannot be written', ['mine', '--html', 'no/such/x.html'], 1, /Cannot write .*x\.html: ENOENT/],
    [
      'a project elsewhere',
      ['mine', '--path', 'no/such'],
      78,
      /there is no file .*no\/such\. To create a project, run: postern init/,
    ],
    [
      'a failure of HTML in a file',
      ['fails'],
      78,
      /^postern\.yml:9:\d+: templates\.fails\.html_file: templates\/fails\.html:2:\d+: /,
    ],
    ['a failure of text', ['fails-inline'], 78, /^postern\.yml:11:\d+: templates\.fails-inline\.text: /],
  ])('of %s says what is wrong', async (_, args, code, words) => {
    const loop = '{% if form.loop %}{% for i in (1..100000000) %}{{ i }}{% endfor %}{% endif %}';
    const { say, write } = await shop(`${YAML}  plain: { text: Hello }
  fails: { html_file: templates/fails.html }
  fails-inline:
    text: "${loop}"
`);
    await write('templates/fails.html', `<p>\n${loop}\n`);
    await write('list.json', '[]');
    await write('loop.json', '{"form": {"loop": "yes"}}');
    const data = args[0]?.startsWith('fails') === true ? ['--data', 'loop.json'] : [];
    const said = await say(['templates', 'preview', ...args, ...data]);
    expect([said.code, said.out]).toEqual([code, '']);
    expect(said.err).toMatch(words);
  });

  test('of a project that is not valid reports that', async () => {
    const { say } = await shop(YAML.replace('{{ form.name }}', '{{ form.name'));
    expect(await say(['templates', 'preview', 'mine'])).toMatchObject({
      code: 78,
      out: '',
      err: expect.stringMatching(/^postern\.yml:7:\d+: templates\.mine\.subject: /),
    });
  });

  test('shows nothing that a terminal would act on', async () => {
    const { say, write } = await shop();
    await write('data.json', JSON.stringify({ form: { name: '\u001b[2Jx' } }));
    expect((await say(['templates', 'preview', 'mine', '--data', 'data.json'])).out).not.toContain('\u001b');
  });
});

test('templates list names those of the project and the built-in ones, with the forms that use them', async () => {
  const { say } = await shop(MORE);
  expect((await say(['templates', 'list'])).out.split('\n')).toEqual([
    'mine\tform\tpostern.yml\tshop.test/contact, shop.test/jobs\t-',
    'thanks\tacknowledgment\tpostern.yml\tshop.test/contact\t-',
    'default\tform\tbuilt in\tc/partners/signup\t-',
    'acknowledgment\tacknowledgment\tbuilt in\t-\t-',
    '',
  ]);
  const { out } = await (await shop()).say(['templates', 'list', '--json']);
  expect(JSON.parse(out)).toMatchObject({
    templates: [{ name: 'mine', source: 'templates/mine.html', forms: ['shop.test/contact'] }, {}, {}],
  });
});
