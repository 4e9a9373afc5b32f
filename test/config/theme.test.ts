import { describe, expect, test } from 'vitest';
import { findInForms } from '../../src/config/bundle.ts';
import { readBeside } from '../../src/config/files.ts';
import { glanceAtProject, parseProject } from '../../src/config/parse.ts';
import { formatProblem } from '../../src/config/problem.ts';
import { formSchema } from '../../src/config/schema.ts';
import { NO_SECRETS } from '../../src/config/secrets.ts';
import { configFolder } from './folder.ts';

const PNG = Buffer.concat([Buffer.from('89504e470d0a1a0a', 'hex'), Buffer.alloc(100, 7)]);
const SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"></svg>';

function dataUrl(type: string, bytes: Buffer | string): string {
  return `data:image/${type};base64,${Buffer.from(bytes).toString('base64')}`;
}

function projectWith(theme: string): string {
  return `project: { name: Demo, slug: demo }
domains: { example.com: { forms: { contact: { to: a@example.com, theme: { ${theme} } } } } }
`;
}

function parse(theme: string, files: Readonly<Record<string, string>> = {}) {
  return parseProject(projectWith(theme), 'demo.yml', { files, env: NO_SECRETS });
}

function errorsOf(theme: string, files?: Readonly<Record<string, string>>): string {
  const result = parse(theme, files);
  return 'ok' in result ? '' : result.errors.map(formatProblem).join('\n');
}

describe('the logo of a theme', () => {
  test.each([
    ['logo.png', PNG, dataUrl('png', PNG)],
    ['art/logo.SVG', Buffer.from(SVG), dataUrl('svg+xml', SVG)],
  ])('is the file %s beside the project', async (name, bytes, url) => {
    const folder = await configFolder({ 'projects/demo.yml': '' });
    await folder.write(`projects/${name}`, bytes);
    const names = glanceAtProject(projectWith(`logo: ${name}`)).files;
    const { files, refused } = await readBeside(folder.path('projects/demo.yml'), names);
    expect(refused).toEqual({});
    const result = parse(`logo: ${name}`, files);
    expect('ok' in result && result.ok.domains['example.com']?.forms['contact']?.theme?.logo).toBe(url);
  });

  test('may be a data: URL, which names no file', () => {
    const url = dataUrl('svg+xml', SVG);
    expect(errorsOf(`logo: "${url}"`)).toBe('');
    expect(glanceAtProject(projectWith(`logo: "${url}"`)).files).toEqual([]);
  });

  test.each([
    ['domains.example.com.forms.contact.theme.logo: the file logo.png is missing', 'logo: logo.png'],
    ['expected the name of a PNG, JPEG, WebP or SVG file', 'logo: logo.gif'],
    ['the file https://example.com/logo.png is missing', 'logo: "https://example.com/logo.png"'],
    ['the image is not of type image/png', `logo: "${dataUrl('png', SVG)}"`],
    ['the image is not of type image/svg+xml', `logo: "${dataUrl('svg+xml', '<html><svg></svg>')}"`],
    ['expected data:image/png;base64,…', 'logo: "data:text/html;base64,PGI+"'],
    ['at most 65536 are allowed', `logo: "${dataUrl('png', Buffer.concat([PNG, Buffer.alloc(65_536)]))}"`],
    ['expected a color such as "#0a7d5a"', 'color: red'],
    ['expected a color such as "#0a7d5a"', 'color: "#12345;}body{display:none"'],
    ['language', 'language: xx'],
  ])('or it is refused: %s', (message, theme) => {
    expect(errorsOf(theme)).toContain(message);
  });

  test('is looked at when the file is read', () => {
    expect(errorsOf('logo: a.png', { 'a.png': dataUrl('png', SVG) })).toContain('the image is not of type image/png');
  });

  test('of a form that the API makes must be a data: URL', () => {
    const form = formSchema.parse({ theme: { logo: 'logo.png' } });
    expect(findInForms([{ path: [], form }], undefined)).toEqual([
      { path: ['theme', 'logo'], message: 'expected a data: URL, such as data:image/png;base64,…' },
    ]);
  });
});
