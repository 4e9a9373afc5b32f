import { describe, expect, test } from 'vitest';
import { createConfigSource, type ConfigSource } from '../../src/config/source.ts';
import { readHere } from '../../src/config/bundle.ts';
import { loadServer } from '../../src/config/load.ts';
import { machineSecrets } from '../../src/config/secrets.ts';
import type { Snapshot } from '../../src/config/snapshot.ts';
import type { Log } from '../../src/lib/log.ts';
import { configFolder, memoryRevisions, NOTHING_STORED, projectText, SERVER, type Folder } from './folder.ts';
import { unclosed } from './templates.ts';

const secrets = machineSecrets({});

async function start(folder: Folder, revisions = memoryRevisions(), stored = NOTHING_STORED) {
  const server = await loadServer(folder.server, secrets);
  if (!('ok' in server)) throw new Error('server.yml');
  const lines: string[] = [];
  const write = (event: string, fields = {}): number => lines.push(`${event} ${JSON.stringify(fields)}`);
  const log: Log = { debug: write, info: write, warn: write, error: write };
  const source = await createConfigSource({
    file: folder.server,
    server: server.ok,
    tenant: 'ten_operator',
    reading: { secrets, checkTemplates: unclosed },
    reader: readHere(unclosed),
    revisions,
    stored,
    log,
  });
  return { source, revisions, lines };
}

/** Each domain, the revision that serves it, and its form's recipient. */
function served(source: ConfigSource): string[] {
  return [...source.current().domains.values()].map(
    ({ name, project, forms }) => `${name} ${project.revision} ${forms.get('contact')?.to.join()}`,
  );
}

describe('at start', () => {
  test('every project of the folder is served under its revision', async () => {
    const folder = await configFolder({
      'projects/a.yml': projectText('a', 'a.example'),
      'projects/b.yml': projectText('b', 'b.example', 'templates: { t: { html_file: t.html } }\n'),
      'projects/t.html': '<p>',
    });
    const { source, revisions } = await start(folder);
    expect(served(source)).toEqual(['a.example rev_1 anna@example.org', 'b.example rev_2 anna@example.org']);
    expect(source.current()).toMatchObject({ problems: [] });
    expect(revisions.saved[1]).toEqual({
      slug: 'b',
      name: 'b',
      file: 'projects/b.yml',
      yaml: projectText('b', 'b.example', 'templates: { t: { html_file: t.html } }\n'),
      files: { 't.html': '<p>' },
    });
  });

  test('an invalid project runs on its last good revision, and says so', async () => {
    const folder = await configFolder({ 'projects/a.yml': projectText('a', 'a.example') });
    const { revisions } = await start(folder);
    await folder.write('projects/a.yml', projectText('a', 'a.example').replace('to:', 'too:'));
    const { source, lines } = await start(folder, revisions);
    expect(served(source)).toEqual(['a.example rev_1 anna@example.org']);
    expect(source.current().problems).toEqual([
      `${folder.path('projects/a.yml')}: its last good revision rev_1 goes on`,
      expect.stringMatching(
        /a\.yml:6:9: domains\.a\.example\.forms\.contact\.too: unknown key "too" \(did you mean "to"\?\)$/,
      ),
    ]);
    expect(lines.join('\n')).toContain('config.problem');
  });

  test('without a good revision its domains are out of service and the others run', async () => {
    const folder = await configFolder({
      'projects/a.yml': projectText('a', 'A.example').replace('to:', 'too:'),
      'projects/b.yml': projectText('b', 'b.example'),
    });
    const { source } = await start(folder);
    expect(served(source)).toEqual(['b.example rev_1 anna@example.org']);
    expect([...source.current().unavailable]).toEqual([['a.example', folder.path('projects/a.yml')]]);
    expect(source.current().problems[0]).toMatch(
      /a\.yml: no good revision of it is known, so a\.example is out of service/,
    );
  });

  test('so are its collections', async () => {
    const text = `${projectText('a', 'a.example')}collections: { site: {}, more: { wrong: 1 } }\n`;
    const folder = await configFolder({ 'projects/a.yml': text });
    const { source } = await start(folder);
    expect([...source.current().unavailable.keys()]).toEqual(['a.example', 'c/site', 'c/more']);
    expect(source.current().problems[0]).toContain('so a.example, c/site, c/more is out of service');
    await folder.write('projects/a.yml', text.replace('{ wrong: 1 }', '{}'));
    await source.reload();
    expect([...source.current().unavailable]).toEqual([]);
    expect([...source.current().collections.keys()]).toEqual(['site', 'more']);
  });

  test('a revision that the present schema refuses is not good', async () => {
    const folder = await configFolder({ 'projects/a.yml': 'project: 5\n' });
    const revisions = memoryRevisions();
    await revisions.save({ slug: 'a', name: 'a', file: 'projects/a.yml', yaml: 'project: [', files: {} });
    expect((await start(folder, revisions)).source.current().projects).toEqual([]);
  });

  test('of two files that claim a domain the first has it', async () => {
    const folder = await configFolder({
      'projects/a.yml': projectText('a', 'same.example'),
      'projects/b.yml': projectText('b', 'same.example'),
    });
    const { source } = await start(folder);
    expect(source.current().domains.get('same.example')?.project.slug).toBe('a');
    expect(source.current().unavailable.size).toBe(0);
    expect(source.current().problems.join('\n')).toMatch(/b\.yml:3:3: .*the domain same\.example belongs to .*a\.yml/);
  });
});

describe('a reload', () => {
  test('of the same files changes nothing', async () => {
    const folder = await configFolder({ 'projects/a.yml': projectText('a', 'a.example') });
    const { source, revisions } = await start(folder);
    expect(await source.reload()).toEqual({ kind: 'unchanged' });
    expect(revisions.saved).toHaveLength(1);
  });

  test('swaps the snapshot as a whole and tells who listens', async () => {
    const folder = await configFolder({ 'projects/a.yml': projectText('a', 'a.example') });
    const { source } = await start(folder);
    const told: [Snapshot, Snapshot][] = [];
    const stop = source.onChange((...snapshots) => told.push(snapshots));
    const before = source.current();
    await folder.write('projects/a.yml', projectText('a', 'a.example').replace('anna', 'ben'));
    await folder.write('projects/b.yml', projectText('b', 'b.example'));
    await folder.write('server.yml', `${SERVER}delivery: { retry: [1m] }\n`);
    expect(await source.reload()).toEqual({
      kind: 'applied',
      changes: [
        { op: 'change', path: 'delivery.retry', file: folder.server },
        { op: 'change', path: 'domains.a.example.forms.contact.to', file: folder.path('projects/a.yml') },
        { op: 'add', path: '', file: folder.path('projects/b.yml') },
      ],
      problems: [],
    });
    expect(served(source)).toEqual(['a.example rev_2 ben@example.org', 'b.example rev_3 anna@example.org']);
    expect(source.current().server.delivery.retry).toEqual([60_000]);
    expect(told).toEqual([[source.current(), before]]);
    expect(before.domains.get('a.example')?.forms.get('contact')?.to).toEqual(['anna@example.org']);
    stop();
    await folder.remove('projects/b.yml');
    expect(await source.reload()).toMatchObject({ kind: 'applied', changes: [{ op: 'remove', path: '' }] });
    expect(told).toHaveLength(1);
  });

  test('of something invalid changes nothing and says what is wrong', async () => {
    const folder = await configFolder({ 'projects/a.yml': projectText('a', 'a.example') });
    const { source } = await start(folder);
    await folder.write('projects/a.yml', 'project: { name: a, slug: a ');
    await folder.write('server.yml', 'server: {}\n');
    const result = await source.reload();
    expect(result.kind).toBe('refused');
    expect(served(source)).toEqual(['a.example rev_1 anna@example.org']);
    expect(source.current().server.server.hostname).toBe('mail.example.net');
    const problems = source.current().problems.join('\n');
    expect(problems).toMatch(/server\.yml: what was in force goes on/);
    expect(problems).toMatch(/server\.yml:1:1: server\.hostname: is missing/);
    expect(problems).toMatch(/a\.yml: its last good revision rev_1 goes on/);
    expect(result).toMatchObject({ problems: source.current().problems });
  });

  test('that mends the file clears the problem', async () => {
    const folder = await configFolder({ 'projects/a.yml': projectText('a', 'a.example') });
    const { source } = await start(folder);
    await folder.write('projects/a.yml', '[');
    expect((await source.reload()).kind).toBe('refused');
    expect((await source.reload()).kind).toBe('refused');
    await folder.write('projects/a.yml', projectText('a', 'a.example'));
    expect(await source.reload()).toEqual({ kind: 'applied', changes: [], problems: [] });
    expect(source.current().problems).toEqual([]);
  });

  test('takes over what is valid beside what is not', async () => {
    const folder = await configFolder({ 'projects/a.yml': projectText('a', 'a.example') });
    const { source } = await start(folder);
    await folder.write('projects/a.yml', '[');
    await folder.write('projects/b.yml', projectText('b', 'b.example'));
    expect(await source.reload()).toMatchObject({ kind: 'applied', changes: [{ op: 'add' }] });
    expect(served(source)).toEqual(['a.example rev_1 anna@example.org', 'b.example rev_2 anna@example.org']);
  });

  test('keeps what needs a restart as it runs, and says so until then', async () => {
    const folder = await configFolder();
    const { source } = await start(folder);
    const text = `${SERVER}  http: { listen: ['127.0.0.1:8080'] }\ndatabase: { url: 'sqlite:/other.db' }\nlog: { level: debug }\n`;
    await folder.write('server.yml', text);
    const result = await source.reload();
    expect(result).toMatchObject({ kind: 'applied', changes: [{ path: 'log.level' }] });
    const { server, problems } = source.current();
    expect(server.log.level).toBe('debug');
    expect(server.server.http.listen).toEqual(['[::]:80', '[::]:443']);
    expect(server.database.url).toBe('sqlite:/var/lib/postern/postern.db');
    expect(problems).toEqual(
      ['server.http.listen', 'database.url'].map(
        (key) => `${folder.server}: ${key}: the new value takes effect after a restart`,
      ),
    );
    expect(await source.reload()).toEqual({ kind: 'unchanged' });
    await folder.write('server.yml', SERVER);
    expect(await source.reload()).toMatchObject({ kind: 'applied', problems: [] });
  });

  test('lets all of a file wait whose other half needs a restart', async () => {
    const folder = await configFolder();
    const files = 'tls: { mode: files, files: { cert: /tls/cert.pem, key: /tls/key.pem } }\n';
    await folder.write('server.yml', `${SERVER}${files}`);
    const { source } = await start(folder);
    await folder.write('server.yml', `${SERVER}log: { level: debug }\n`);
    await source.reload();
    const { server, problems } = source.current();
    expect(server.tls.files).toMatchObject({ cert: '/tls/cert.pem' });
    expect(problems).toEqual(
      ['tls.mode', 'tls.files', 'log.level'].map((key) =>
        expect.stringMatching(`${folder.server}: ${key}[^ ]*: the new value takes effect after a restart`),
      ),
    );
    await folder.write('server.yml', `${SERVER}${files}log: { level: debug }\n`);
    expect(await source.reload()).toMatchObject({ kind: 'applied', changes: [{ path: 'log.level' }], problems: [] });
  });

  test('lets no new file take a domain from the project that has it', async () => {
    const folder = await configFolder({ 'projects/m.yml': projectText('m', 'm.example') });
    const { source } = await start(folder);
    await folder.write('projects/a.yml', projectText('a', 'm.example'));
    expect((await source.reload()).kind).toBe('refused');
    expect(source.current().domains.get('m.example')?.project.slug).toBe('m');
    await folder.remove('projects/m.yml');
    await source.reload();
    expect(source.current().domains.get('m.example')?.project.slug).toBe('a');
  });

  test('moves a domain from one file to another in one go', async () => {
    const folder = await configFolder({
      'projects/a.yml': projectText('a', 'moving.example'),
      'projects/b.yml': projectText('b', 'b.example'),
    });
    const { source } = await start(folder);
    await folder.write('projects/a.yml', projectText('a', 'a.example'));
    await folder.write('projects/b.yml', projectText('b', 'moving.example'));
    expect(await source.reload()).toMatchObject({ kind: 'applied', problems: [] });
    expect(source.current().domains.get('moving.example')?.project.slug).toBe('b');
  });

  test('keeps a domain where it was while the file that gave it up is broken', async () => {
    const folder = await configFolder({
      'projects/a.yml': projectText('a', 'moving.example'),
      'projects/b.yml': projectText('b', 'b.example'),
    });
    const { source } = await start(folder);
    await folder.write('projects/a.yml', '[');
    await folder.write('projects/b.yml', projectText('b', 'moving.example'));
    expect((await source.reload()).kind).toBe('refused');
    expect(served(source).map((line) => line.split(' ')[0])).toEqual(['moving.example', 'b.example']);
  });

  test('is refused when the revision cannot be kept, and nothing half done is in force', async () => {
    const folder = await configFolder({ 'projects/a.yml': projectText('a', 'a.example') });
    const revisions = memoryRevisions();
    const { source, lines } = await start(folder, revisions);
    const { save } = revisions;
    Object.assign(revisions, { save: async () => Promise.reject(new Error('disk full')) });
    await folder.write('projects/b.yml', projectText('b', 'b.example'));
    expect(await source.reload()).toEqual({
      kind: 'refused',
      problems: ['the configuration cannot be read: disk full'],
    });
    expect(served(source)).toEqual(['a.example rev_1 anna@example.org']);
    expect(lines.join('\n')).toContain('config.reload_failed');
    Object.assign(revisions, { save });
    expect((await source.reload()).kind).toBe('applied');
  });

  test('never runs beside another one', async () => {
    const folder = await configFolder({ 'projects/a.yml': projectText('a', 'a.example') });
    const { source } = await start(folder);
    await folder.write('projects/a.yml', projectText('a', 'b.example'));
    const kinds = (await Promise.all([source.reload(), source.reload(), source.reload()])).map(({ kind }) => kind);
    expect(kinds).toEqual(['applied', 'unchanged', 'unchanged']);
  });

  test('goes on when a listener throws', async () => {
    const folder = await configFolder();
    const { source, lines } = await start(folder);
    const heard: string[] = [];
    source.onChange(() => {
      throw new Error('listener broke');
    });
    source.onChange(() => heard.push('second'));
    await folder.write('server.yml', `${SERVER}log: { level: debug }\n`);
    expect((await source.reload()).kind).toBe('applied');
    expect(heard).toEqual(['second']);
    expect(lines.join('\n')).toContain('listener broke');
  });

  test('writes no value into the log', async () => {
    const folder = await configFolder();
    const { source, lines } = await start(folder);
    await folder.write('server.yml', `${SERVER}delivery: { relay: 'smtp://user:hunter2@relay.example.net' }\n`);
    await source.reload();
    expect(lines.join('\n')).toContain('change delivery.relay');
    expect(lines.join('\n')).not.toContain('hunter2');
  });
});
