import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { findServerFile, listProjects, readBeside, readText } from '../../src/config/files.ts';
import { configFolder } from './folder.ts';

describe('server.yml', () => {
  test('is the one given, else that of the environment', async () => {
    expect(await findServerFile('a.yml', { POSTERN_CONFIG: 'b.yml' })).toBe('a.yml');
    expect(await findServerFile(undefined, { POSTERN_CONFIG: 'b.yml' })).toBe('b.yml');
  });

  test('is else the one of the folder in which the command runs', async () => {
    expect(await findServerFile(undefined, {})).toBe('./config/server.yml');
  });
});

test('projects are the *.yml and *.yaml of the folder, by name', async () => {
  const folder = await configFolder({
    'projects/b.yml': '',
    'projects/a.yml': '',
    'projects/.c.yml': '',
    'projects/e.yaml': '',
    'projects/d.yml~': '',
  });
  expect(await listProjects(folder.server)).toEqual(['projects/a.yml', 'projects/b.yml', 'projects/e.yaml']);
});

test('a folder without projects is no error, one that is none is', async () => {
  const folder = await configFolder({ 'other/projects': 'a file' });
  expect(await listProjects(folder.server)).toEqual([]);
  await expect(listProjects(folder.path('other/server.yml'))).rejects.toThrow(
    /projects: part of its path is not a folder/,
  );
});

describe('what html_file names', () => {
  test('is read from the project’s folder and the templates beside it, through links that stay there', async () => {
    const folder = await configFolder({
      'projects/a.html': 'a',
      'projects/mail/b.html': 'b',
      'templates/c.html': 'c',
    });
    await symlink('../templates/c.html', folder.path('projects/link.html'));
    const names = ['a.html', './mail/b.html', '../templates/c.html', 'link.html'];
    expect(await readBeside(folder.path('projects/demo.yml'), names)).toEqual({
      files: { 'a.html': 'a', './mail/b.html': 'b', '../templates/c.html': 'c', 'link.html': 'c' },
      refused: {},
    });
  });

  test('is never read from elsewhere', async () => {
    const folder = await configFolder({ 'secret.txt': 's', 'projects-old/x.html': 'x', 'projects/dir/y.html': 'y' });
    await mkdir(folder.path('projects/in'));
    await symlink('../..', folder.path('projects/in/up'));
    await symlink('/etc', folder.path('projects/etc'));
    const names = [
      '../secret.txt',
      '../projects-old/x.html',
      'in/up/secret.txt',
      'etc/hostname',
      '/etc/hostname',
      'a\0b',
      'dir',
    ];
    const { files, refused } = await readBeside(folder.path('projects/demo.yml'), names);
    expect(files).toEqual({});
    expect(Object.keys(refused)).toEqual(names);
  });

  test('may be reached by a link to the whole configuration', async () => {
    const folder = await configFolder({ 'real/projects/a.html': 'a', 'real/templates/b.html': 'b' });
    await symlink('real', folder.path('current'));
    const { files } = await readBeside(folder.path('current/projects/demo.yml'), ['a.html', '../templates/b.html']);
    expect(files).toEqual({ 'a.html': 'a', '../templates/b.html': 'b' });
  });
});

test('a file that is none, too large or missing is said to be so', async () => {
  const folder = await configFolder({ big: 'x'.repeat(1024 * 1024 + 1) });
  expect(await readText(folder.path('.'))).toMatchObject({ missing: false });
  expect(await readText(folder.path('big'))).toMatchObject({ problem: expect.stringMatching(/larger than 1 MiB/) });
  expect(await readText(folder.path('none'))).toMatchObject({ missing: true });
  await symlink('loop', folder.path('loop'));
  expect(await readText(folder.path('loop'))).toMatchObject({ why: 'a symbolic link that points to itself' });
  const accented = folder.path('accented');
  await writeFile(accented, Buffer.from('one: a\ntwo: \u00e9\n', 'latin1'));
  expect(await readText(accented)).toMatchObject({ line: 2, column: 6 });
});
