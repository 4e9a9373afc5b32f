import { describe, expect, test } from 'vitest';
import type { ConfigSource } from '../../src/config/source.ts';
import type { Snapshot } from '../../src/config/snapshot.ts';
import type { Log } from '../../src/lib/log.ts';
import { findRevision } from '../../src/store/projects.ts';
import type { Store } from '../../src/store/store.ts';
import { openTestStore } from '../harness/store.ts';
import { configFolder, openSource, projectText, SERVER, type Folder } from './folder.ts';

async function start(folder: Folder, store?: Store) {
  const lines: string[] = [];
  const write = (event: string, fields = {}): number => lines.push(`${event} ${JSON.stringify(fields)}`);
  const log: Log = { debug: write, info: write, warn: write, error: write };
  const own = store ?? (await openTestStore());
  return { source: await openSource(folder, own, { log }), store: own, lines };
}

/** Each domain and its form's recipient. */
function served(source: ConfigSource): string[] {
  return [...source.current().domains.values()]
    .map(({ name, forms }) => `${name} ${forms.get('contact')?.to.join()}`)
    .toSorted();
}

function revisionOf(source: ConfigSource, domain: string): string {
  return source.current().domains.get(domain)?.project.revision ?? '';
}

describe('at start', () => {
  test('every project of the folder is served under its revision', async () => {
    const folder = await configFolder({
      'projects/a.yml': projectText('a', 'a.example'),
      'projects/b.yml': projectText('b', 'b.example', 'templates: { t: { html_file: t.html } }\n'),
      'projects/t.html': '<p>',
    });
    const { source, store } = await start(folder);
    expect(served(source)).toEqual(['a.example anna@example.org', 'b.example anna@example.org']);
    expect(source.current()).toMatchObject({ problems: [] });
    expect(await findRevision(store, revisionOf(source, 'b.example'))).toMatchObject({
      slug: 'b',
      file: folder.path('projects/b.yml'),
      yaml: projectText('b', 'b.example', 'templates: { t: { html_file: t.html } }\n'),
      files: { 't.html': '<p>' },
    });
  });

  test('the revision of an invalid file stays active, and is reported', async () => {
    const folder = await configFolder({ 'projects/a.yml': projectText('a', 'a.example') });
    const { store } = await start(folder);
    await folder.write('projects/a.yml', projectText('a', 'a.example').replace('to:', 'too:'));
    const { source, lines } = await start(folder, store);
    expect(served(source)).toEqual(['a.example anna@example.org']);
    expect(source.current().problems).toEqual([
      `${folder.path('projects/a.yml')}: its revision ${revisionOf(source, 'a.example')} stays active`,
      expect.stringMatching(
        /a\.yml:6:9: domains\.a\.example\.forms\.contact\.too: unknown key "too" \(did you mean "to"\?\)$/,
      ),
    ]);
    expect(lines.join('\n')).toContain('config.problem');
  });

  test('without an active revision its domains are out of service and the others run', async () => {
    const folder = await configFolder({
      'projects/a.yml': projectText('a', 'A.example').replace('to:', 'too:'),
      'projects/b.yml': projectText('b', 'b.example'),
    });
    const { source } = await start(folder);
    expect(served(source)).toEqual(['b.example anna@example.org']);
    expect([...source.current().unavailable]).toEqual([['a.example', folder.path('projects/a.yml')]]);
    expect(source.current().problems[0]).toMatch(
      /a\.yml: no revision of it is active, so a\.example is out of service/,
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

describe('two files with one slug', () => {
  test('are both refused, at start as well, and the active revision stays', async () => {
    const folder = await configFolder({ 'projects/site.yml': projectText('site', 'a.example') });
    const { source, store } = await start(folder);
    const before = revisionOf(source, 'a.example');
    await folder.write('projects/a copy.yml', projectText('site', 'copy.example'));
    await folder.write('projects/site.yml', projectText('site', 'changed.example'));
    expect((await source.reload()).kind).toBe('refused');
    for (const one of [source, (await start(folder, store)).source]) {
      expect(served(one)).toEqual(['a.example anna@example.org']);
      expect(revisionOf(one, 'a.example')).toBe(before);
      const problems = one.current().problems.join('\n');
      for (const name of ['a copy.yml', 'site.yml'])
        expect(problems).toContain(`${folder.path(`projects/${name}`)}:1:`);
    }
    await folder.remove('projects/a copy.yml');
    await source.reload();
    expect(served(source)).toEqual(['changed.example anna@example.org']);
    expect(source.current().problems).toEqual([]);
  });
});

describe('a file that is gone', () => {
  test('leaves its project active, also after a restart, and is reported until it is back', async () => {
    const text = projectText('a', 'a.example');
    const folder = await configFolder({ 'projects/a.yml': text });
    const { source, store } = await start(folder);
    await folder.remove('projects/a.yml');
    expect(await source.reload()).toMatchObject({ kind: 'applied', changes: [] });
    for (const one of [source, (await start(folder, store)).source]) {
      expect(served(one)).toEqual(['a.example anna@example.org']);
      expect(one.current().problems).toEqual([
        `${folder.path('projects/a.yml')}: the file is missing on mx1. The project a stays active: restore the file, or delete the project with: postern projects remove a`,
      ]);
    }
    await folder.write('projects/a.yml', text);
    await source.reload();
    expect(source.current().problems).toEqual([]);
  });

  test('of one daemon is active on another, which has no such folder', async () => {
    const folder = await configFolder({ 'projects/a.yml': projectText('a', 'a.example') });
    const { store } = await start(folder);
    const other = await openSource(await configFolder(), store, { machine: 'mx2' });
    expect(served(other)).toEqual(['a.example anna@example.org']);
    expect(other.current().problems).toEqual([]);
    await other.reload();
    expect(other.current().problems).toEqual([]);
  });
});

describe('two machines with a file of the same project', () => {
  test('do not replace each other’s revision at a restart, but when a file changes', async () => {
    const [one, two] = [1, 2].map((n) => ({ 'projects/a.yml': projectText('a', `${n}.example`) }));
    const folders = [await configFolder(one), await configFolder(two)] as const;
    const { store } = await start(folders[0]);
    const second = await openSource(folders[1], store, { machine: 'mx2' });
    expect(served(second)).toEqual(['2.example anna@example.org']);
    const first = await openSource(folders[0], store);
    expect(served(first)).toEqual(['2.example anna@example.org']);
    await folders[0].write('projects/a.yml', projectText('a', '3.example'));
    await first.reload();
    await second.refresh();
    expect(served(second)).toEqual(['3.example anna@example.org']);
  });
});

describe('a reload', () => {
  test('of the same files changes nothing', async () => {
    const folder = await configFolder({ 'projects/a.yml': projectText('a', 'a.example') });
    const { source } = await start(folder);
    const before = revisionOf(source, 'a.example');
    expect(await source.reload()).toEqual({ kind: 'unchanged' });
    expect(revisionOf(source, 'a.example')).toBe(before);
  });

  test('swaps the snapshot as a whole and tells who listens', async () => {
    const folder = await configFolder({ 'projects/a.yml': projectText('a', 'a.example') });
    const { source } = await start(folder);
    const told: [Snapshot, Snapshot][] = [];
    source.onChange((...snapshots) => told.push(snapshots));
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
      waiting: [],
      problems: [],
    });
    expect(served(source)).toEqual(['a.example ben@example.org', 'b.example anna@example.org']);
    expect(source.current().server.delivery.retry).toEqual([60_000]);
    expect(told).toEqual([[source.current(), before]]);
    expect(before.domains.get('a.example')?.forms.get('contact')?.to).toEqual(['anna@example.org']);
  });

  test('of something invalid changes nothing and says what is wrong', async () => {
    const folder = await configFolder({ 'projects/a.yml': projectText('a', 'a.example') });
    const { source } = await start(folder);
    await folder.write('projects/a.yml', 'project: { name: a, slug: a ');
    await folder.write('server.yml', 'server: {}\n');
    const result = await source.reload();
    expect(result.kind).toBe('refused');
    expect(served(source)).toEqual(['a.example anna@example.org']);
    expect(source.current().server.server.hostname).toBe('mail.example.net');
    const problems = source.current().problems.join('\n');
    expect(problems).toMatch(/server\.yml: the running configuration stays active/);
    expect(problems).toMatch(/server\.yml:1:1: server\.hostname: is missing/);
    expect(problems).toMatch(/a\.yml: its revision rev_\w+ stays active/);
    expect(result).toMatchObject({ problems: source.current().problems });
  });

  test('that corrects the file clears the problem', async () => {
    const folder = await configFolder({ 'projects/a.yml': projectText('a', 'a.example') });
    const { source } = await start(folder);
    await folder.write('projects/a.yml', '[');
    expect((await source.reload()).kind).toBe('refused');
    expect((await source.reload()).kind).toBe('refused');
    await folder.write('projects/a.yml', projectText('a', 'a.example'));
    expect(await source.reload()).toEqual({ kind: 'applied', changes: [], waiting: [], problems: [] });
    expect(source.current().problems).toEqual([]);
  });

  test('takes over what is valid beside what is not', async () => {
    const folder = await configFolder({ 'projects/a.yml': projectText('a', 'a.example') });
    const { source } = await start(folder);
    await folder.write('projects/a.yml', '[');
    await folder.write('projects/b.yml', projectText('b', 'b.example'));
    expect(await source.reload()).toMatchObject({ kind: 'applied', changes: [{ op: 'add' }] });
    expect(served(source)).toEqual(['a.example anna@example.org', 'b.example anna@example.org']);
  });

  test('keeps what needs a restart as it runs, and says so until then', async () => {
    const folder = await configFolder();
    const { source, lines } = await start(folder);
    const text = `${SERVER}  http: { listen: ['127.0.0.1:8080'] }\ndatabase: { url: 'sqlite:/other.db' }\nlog: { level: debug }\n`;
    await folder.write('server.yml', text);
    const result = await source.reload();
    expect(result).toMatchObject({ kind: 'applied', changes: [{ path: 'log.level' }] });
    const { server, problems, waiting } = source.current();
    expect(server.log.level).toBe('debug');
    expect(server.server.http.listen).toEqual(['[::]:80', '[::]:443']);
    expect(server.database.url).toBe('sqlite:/var/lib/postern/postern.db');
    expect({ problems, waiting }).toEqual({ problems: [], waiting: ['server.http.listen', 'database.url'] });
    const logged = lines.filter((line) => line.includes('config.restart_needed'));
    expect(logged).toEqual([expect.stringMatching(/server\.http\.listen.*database\.url/)]);
    expect(lines.join()).not.toContain('config.problem');
    const found = await source.check();
    expect(found.warnings).toEqual(
      waiting.map((key) => `${folder.server}: ${key}: the new value takes effect after a restart`),
    );
    expect(await source.reload()).toEqual({ kind: 'unchanged' });
    await folder.write('server.yml', SERVER);
    expect(await source.reload()).toMatchObject({ kind: 'applied', waiting: [] });
  });

  test('lets all of a file wait whose other half needs a restart', async () => {
    const folder = await configFolder();
    const files = 'tls: { mode: files, files: { cert: /tls/cert.pem, key: /tls/key.pem } }\n';
    await folder.write('server.yml', `${SERVER}${files}`);
    const { source } = await start(folder);
    await folder.write('server.yml', `${SERVER}log: { level: debug }\n`);
    await source.reload();
    const { server, waiting } = source.current();
    expect(server.tls.files).toMatchObject({ cert: '/tls/cert.pem' });
    expect(waiting).toEqual(['tls.mode', 'tls.files', 'log.level'].map((key) => expect.stringMatching(`^${key}`)));
    await folder.write('server.yml', `${SERVER}${files}log: { level: debug }\n`);
    expect(await source.reload()).toMatchObject({ kind: 'applied', changes: [{ path: 'log.level' }], waiting: [] });
  });

  test('lets no new file take a domain from the project that has it', async () => {
    const folder = await configFolder({ 'projects/m.yml': projectText('m', 'm.example') });
    const { source } = await start(folder);
    await folder.write('projects/a.yml', projectText('a', 'm.example'));
    expect((await source.reload()).kind).toBe('refused');
    expect(source.current().domains.get('m.example')?.project.slug).toBe('m');
    await folder.write('projects/m.yml', projectText('m', 'other.example'));
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
    expect(served(source).map((line) => line.split(' ')[0])).toEqual(['b.example', 'moving.example']);
  });

  test('is refused when the revision cannot be kept, and nothing half done is active', async () => {
    const folder = await configFolder({ 'projects/a.yml': projectText('a', 'a.example') });
    const store = await openTestStore();
    let fails = false;
    const failing: Store = {
      ...store,
      write: (unit) => (fails ? Promise.reject(new Error('disk full')) : store.write(unit)),
    };
    const { source, lines } = await start(folder, failing);
    fails = true;
    await folder.write('projects/b.yml', projectText('b', 'b.example'));
    expect(await source.reload()).toEqual({
      kind: 'refused',
      problems: ['the configuration cannot be read: disk full'],
    });
    expect(served(source)).toEqual(['a.example anna@example.org']);
    expect(lines.join('\n')).toContain('config.reload_failed');
    fails = false;
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
