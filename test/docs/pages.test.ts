/** What README.md and docs/ name is there: links, commands, settings, routes, metrics, files. Each example can be used as it stands. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import type { CommandNode } from '../../src/cli/reference/tree.ts';
import { parseProject, parseServer } from '../../src/config/parse.ts';
import type { SecretSource } from '../../src/config/secrets.ts';
import { checkTemplates } from '../../src/templates/engine.ts';
import { LOG_EVENTS } from '../../src/lib/log-events.ts';
import { programTree } from '../cli/reference/tree.ts';
import { startTestWorld } from '../harness/daemon.ts';
import { readSources } from '../structure/sources.ts';
import { readPages, ROOT } from './markdown.ts';
import { commandsIn } from './shell.ts';

const pages = readPages();
const program = await programTree();
const settings = JSON.parse(readFileSync(join(ROOT, 'config/server.schema.json'), 'utf8')) as SchemaNode;
const byPath = new Map(pages.map((page) => [page.path, page]));

test('links and pictures lead somewhere', () => {
  const broken = pages.flatMap(({ path, links }) =>
    links
      .filter((link) => !/^(?:https?|mailto):/.test(link) && !resolves(path, link))
      .map((link) => `${path}: ${link}`),
  );
  expect(broken).toEqual([]);
});

function resolves(from: string, link: string): boolean {
  const [file = '', anchor] = link.split('#');
  const target = file === '' ? from : normalize(join(dirname(from), file));
  if (anchor === undefined) return existsSync(join(ROOT, target));
  return byPath.get(target)?.anchors.includes(anchor) ?? false;
}

test('every page of docs/ can be reached from docs/README.md', () => {
  const listed = byPath.get('docs/README.md')?.links.map((link) => normalize(join('docs', link))) ?? [];
  const lost = pages.filter(
    ({ path }) => path.startsWith('docs/') && path !== 'docs/README.md' && !listed.includes(path),
  );
  expect(lost.map(({ path }) => path)).toEqual([]);
});

test('README and the installation page show all that a first form needs', () => {
  const commands =
    byPath.get('docs/install.md')?.blocks.flatMap(({ text }) => commandsIn(text).map((words) => words.join(' '))) ?? [];
  for (const command of ['setup', 'domains verify', 'doctor', 'queue list', 'test send'])
    expect(commands.filter((line) => /^(?:\S*\/bin\/)?postern (.*)/.exec(line)?.[1]?.startsWith(command))).not.toEqual(
      [],
    );
});

test('command lines are ones that the program takes', () => {
  const wrong = pages.flatMap(({ path, blocks, codes }) => [
    ...blocks
      .filter(({ language }) => language === 'sh')
      .flatMap(({ text }) => commandsIn(text))
      .flatMap((words) => problemOf(words, 'whole') ?? [])
      .map((problem) => `${path}: ${problem}`),
    // In a sentence, arguments may be left out.
    ...codes
      .flatMap((code) => commandsIn(code))
      .flatMap((words) => problemOf(words, 'part') ?? [])
      .map((problem) => `${path}: ${problem}`),
  ]);
  expect(wrong).toEqual([]);
});

/** What is wrong with a command line of `postern`; undefined for a good one, and for other programs. */
function problemOf([name = '', ...words]: readonly string[], extent: 'whole' | 'part'): string | undefined {
  if (!/^(?:.*\/bin\/|bin\/)?postern$/.test(name)) return undefined;
  const shown = `postern ${words.join(' ')}`;
  let node: CommandNode = program;
  const rest = [...words];
  for (;;) {
    const next: CommandNode | undefined = node.commands.find(({ path }) => path.at(-1) === rest[0]);
    if (next === undefined) break;
    node = next;
    rest.shift();
  }
  const values: string[] = [];
  while (rest.length > 0) {
    const word = rest.shift() ?? '';
    const [flag] = word.split('=');
    if (!word.startsWith('-') || word === '-') values.push(word);
    else if (word !== '--version' && word !== '--help') {
      const option = node.options.find(({ long, short }) => flag === long || flag === short);
      if (option === undefined) return `${shown}: no option ${word}`;
      if (option.value !== undefined && !word.includes('=')) {
        const value = rest.shift();
        if (value === undefined && extent === 'whole') return `${shown}: ${word} needs a value`;
      }
    }
  }
  if (!node.isRunnable && values.length > 0) return `${shown}: no command ${values[0]}`;
  const { arguments: wanted } = node;
  if (values.length > wanted.length && wanted.at(-1)?.isVariadic !== true) return `${shown}: too many arguments`;
  const needed = wanted.filter(({ isRequired }) => isRequired).length;
  if (extent === 'whole' && node.isRunnable && values.length < needed && !words.includes('--help'))
    return `${shown}: an argument is missing`;
  return extent === 'whole' && !node.isRunnable && words.length > 0 && !/^--(?:version|help)$/.test(words[0] ?? '')
    ? `${shown}: is a group of commands`
    : undefined;
}

test('YAML is valid configuration', () => {
  const wrong = pages.flatMap(({ path, blocks }) =>
    blocks
      .filter(({ language }) => language === 'yaml')
      .flatMap(({ text }) => configurationProblems(text).map((problem) => `${path}: ${problem} in\n${text}`)),
  );
  expect(wrong).toEqual([]);
});

/** What stands beside the projects of the documentation. */
const FILES = { 'logo.svg': `data:image/svg+xml;base64,${Buffer.from('<svg></svg>').toString('base64')}` };
const ANY_SECRET: SecretSource = { variable: () => `whsec_${'A'.repeat(32)}`, file: () => 'secret' };

/** A block is a project, or a server.yml, of which what it is not about may be left out. */
function configurationProblems(text: string): string[] {
  const data = parse(text) as Record<string, unknown>;
  const isProject =
    ['project', 'settings', 'domains', 'collections', 'templates'].some((key) => key in data) ||
    Array.isArray(data['webhooks']);
  const minimal = isProject
    ? { project: { name: 'Site', slug: 'site', owner: 'you@example.com' }, ...data }
    : {
        ...data,
        server: {
          hostname: 'mail.example.net',
          operator: 'ops@example.net',
          ...(data['server'] as object | undefined),
        },
      };
  const result = isProject
    ? parseProject(stringify(minimal), 'example', { files: FILES, env: ANY_SECRET, checkTemplates })
    : parseServer(stringify(minimal), 'example', ANY_SECRET);
  return ('errors' in result ? result.errors : []).map(({ path, message }) => `${path}: ${message}`);
}

test('JSON is JSON', () => {
  for (const { text } of pages.flatMap(({ blocks }) => blocks.filter(({ language }) => language === 'json')))
    expect(() => void JSON.parse(text), text).not.toThrow();
});

test('settings of server.yml that sentences name exist', () => {
  const sections = Object.keys(settings.properties ?? {}).join('|');
  const named = new RegExp(`^(?:${sections})(?:\\.[a-z_0-9]+)+(?=$|: )`);
  const missing = pages.flatMap(({ path, codes }) =>
    codes
      .flatMap((code) => named.exec(code)?.[0] ?? [])
      .filter(
        (setting) => !(setting in LOG_EVENTS) && setting !== 'server.yml' && !hasSetting(settings, setting.split('.')),
      )
      .map((setting) => `${path}: ${setting}`),
  );
  expect(missing).toEqual([]);
});

interface SchemaNode {
  readonly properties?: Readonly<Record<string, SchemaNode>>;
  readonly anyOf?: readonly SchemaNode[];
}

function hasSetting(node: SchemaNode, [key, ...rest]: readonly string[]): boolean {
  if (key === undefined) return true;
  const next = [node, ...(node.anyOf ?? [])].flatMap(({ properties }) => properties?.[key] ?? []);
  return next.some((each) => hasSetting(each, rest));
}

test('routes that sentences and curl name exist', async () => {
  const { url } = await startTestWorld();
  const { paths } = (await (await fetch(`${url}/openapi.json`)).json()) as { paths: Record<string, object> };
  const routes = Object.entries(paths).map(([path, methods]) => ({
    path: path.split('/'),
    methods: Object.keys(methods),
  }));
  function routeProblem(method: string, address: string): string[] {
    const segments = address.replace(/[?#].*/, '').split('/');
    const found = routes.some(
      ({ path, methods }) =>
        methods.includes(method.toLowerCase()) &&
        (path.length === segments.length || path.at(-1) === '{path}') &&
        path.every((part, i) => part === segments[i] || (part.startsWith('{') && segments[i] !== '')),
    );
    return found ? [] : [`${method} ${address}`];
  }
  const unknownRoutes = pages.flatMap(({ path, blocks, codes }) => {
    const inSentences = codes.flatMap((code) => {
      const [, method = '', address = ''] = /^(GET|POST|PUT|PATCH|DELETE) (\/[^\s]*)/.exec(code) ?? [];
      return method === '' ? [] : routeProblem(method, address);
    });
    const curls = blocks
      .filter(({ language }) => language === 'sh')
      .flatMap(({ text }) => commandsIn(text))
      .filter((words) => words[0] === 'curl' && !words.some((word) => word.startsWith('https://downloads.')))
      .flatMap((words) => routeProblem(methodOf(words), addressOf(words)));
    return [...inSentences, ...curls].map((problem) => `${path}: ${problem}`);
  });
  expect(unknownRoutes).toEqual([]);
});

test('metrics that are named exist', () => {
  const code = readSources('src')
    .map((file) => file.code)
    .join('');
  const unknown = pages.flatMap(({ path, codes }) =>
    codes
      .flatMap((text) => /^(?:postern|process)_\w+/.exec(text)?.[0] ?? [])
      .filter((name) => !code.includes(`'${name}'`))
      .map((name) => `${path}: ${name}`),
  );
  expect(unknown).toEqual([]);
});

test('log events and API events that are named exist', () => {
  // Those of deliveries are made of their outcome; `dkim.selector` and `dkim.algorithms` are settings of a domain.
  const named =
    /^(?:auth|bounce|clock|cluster|config|dkim(?!\.(?:selector|algorithms))|domain|email|inbound|submission|webhook)\.[a-z_]+$/;
  const code = readSources('src')
    .map((file) => file.code)
    .join('');
  const unknown = pages.flatMap(({ path, codes }) =>
    codes
      .filter((text) => named.test(text) && !code.includes(`'${text}'`) && !hasSetting(settings, text.split('.')))
      .map((text) => `${path}: ${text}`),
  );
  expect(unknown).toEqual([]);
});

function methodOf(words: readonly string[]): string {
  const method = words.find((_, i) => words[i - 1] === '-X' || words[i - 1] === '--request');
  return method ?? (words.some((word) => /^(?:-d|-F|--data.*|--form|--json)$/.test(word)) ? 'POST' : 'GET');
}

function addressOf(words: readonly string[]): string {
  const url = words.find((word) => /^https?:/.test(word)) ?? '';
  return URL.canParse(url) ? new URL(url).pathname : url;
}

test('files of the project that are named exist', () => {
  const lost = pages.flatMap(({ path, codes }) =>
    codes
      .filter((code) => /^(?:src|test|bench|scripts|config|systemd|docs|bin|man|monitoring)\/[\w./-]*$/.test(code))
      .filter((code) => !existsSync(join(ROOT, code)) && !code.startsWith('config/projects/'))
      .map((code) => `${path}: ${code}`),
  );
  expect(lost).toEqual([]);
});
