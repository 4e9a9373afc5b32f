/**
 * Reads the kits: one file per language, in a plain format that is quick to write and to review (README.md describes it).
 * A fault names its file and line.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';

export type Label = 'ham' | 'spam';
export type Part = 'train' | 'test';

/** One place of a text: one of its wordings is taken. */
export interface Slot {
  readonly optional: boolean;
  readonly wordings: readonly string[];
}

export interface Kit {
  readonly id: string;
  readonly label: Label;
  readonly part: Part;
  /** `bare`: no greeting and no closing are added. `random`: a sender with a random name. `mixed`: mixed alphabets. */
  readonly flags: ReadonlySet<string>;
  readonly subjects: readonly string[];
  readonly fields: readonly (readonly [string, readonly string[]])[];
  /** Whole messages that say the same in different ways; each is a list of slots. */
  readonly variants: readonly (readonly Slot[])[];
}

export interface Language {
  readonly code: string;
  /** Names, cities, greetings, field names and the like, by what they are. */
  readonly pools: ReadonlyMap<string, readonly string[]>;
  readonly kits: readonly Kit[];
}

/** One kit of this many of a language and label, and one entry of each pool, is for the test part. */
const TEST_EVERY = 4;
const FLAGS = new Set(['bare', 'random', 'mixed']);

/** All languages, in the order of their codes. */
export function readLanguages(): Language[] {
  const common = readKits('common', readFileSync(join(import.meta.dirname, 'common.txt'), 'utf8'));
  const folder = join(import.meta.dirname, 'kits');
  const files = readdirSync(folder).filter((name) => name.endsWith('.txt'));
  return files.sort().map((name) => {
    const { code, pools, kits } = readKits(basename(name, '.txt'), readFileSync(join(folder, name), 'utf8'));
    const messages = join(import.meta.dirname, 'messages', name);
    const more = existsSync(messages) ? readMessages(code, readFileSync(messages, 'utf8')) : [];
    return { code, pools: new Map([...common.pools, ...pools]), kits: [...kits, ...more] };
  });
}

/** Whole messages: each heading, `= spam loans`, has a message a line. */
function readMessages(code: string, text: string): Kit[] {
  return text.split(/^(?==)/m).map((section) => {
    const [heading = '', ...lines] = section.split('\n').filter((line) => line.trim() !== '');
    const [, label, name, flag] = /^= (ham|spam) (\S+)(?: (bare))?$/.exec(heading) ?? [];
    if ((label !== 'ham' && label !== 'spam') || name === undefined || lines.length === 0)
      throw new Error(`messages/${code}.txt: “${heading}” is no heading, or has no messages.`);
    return {
      id: `${code}/messages/${label}/${name}`,
      label,
      part: 'train',
      flags: new Set(flag === undefined ? [] : [flag]),
      subjects: [],
      fields: [],
      variants: [[{ optional: false, wordings: lines }]],
    };
  });
}

/** A list that both parts use, as that of providers of mailboxes. */
export function listOf(language: Language, name: string): readonly string[] {
  const list = language.pools.get(name);
  if (list === undefined) throw new Error(`${language.code}.txt has no list ${name}.`);
  return list;
}

/** The entries of a list that a kit's part may use: so that no greeting and no name stands in both. */
export function poolOf(language: Language, name: string, { part }: Pick<Kit, 'part'>): readonly string[] {
  return listOf(language, name).filter((_, index) => partAt(index) === part);
}

function partAt(index: number): Part {
  return index % TEST_EVERY === TEST_EVERY - 1 ? 'test' : 'train';
}

interface DraftKit {
  readonly id: string;
  readonly label: Label;
  readonly part: Part;
  readonly flags: Set<string>;
  readonly subjects: string[];
  readonly fields: [string, string[]][];
  readonly variants: Slot[][];
}

function readKits(code: string, text: string): Language {
  const pools = new Map<string, string[]>();
  const kits: DraftKit[] = [];
  for (const [index, raw] of text.split('\n').entries()) {
    const line = raw.trim();
    if (line === '' || line.startsWith('#')) continue;
    function fault(message: string): Error {
      return new Error(`${code}.txt, line ${index + 1}: ${message}`);
    }
    const [, mark = '', rest = ''] = /^([%=sf?~-])(?: +(.*))?$/.exec(line) ?? [];
    const kit = kits.at(-1);
    if (mark === '%') {
      const [name = '', ...values] = rest.split(/ *: +| +\| +/);
      pools.set(name, values);
    } else if (mark === '=') kits.push(openKit(code, rest, kits, fault));
    else if (mark === '' || kit === undefined) throw fault('not a line of a kit.');
    else if (mark === 's') kit.subjects.push(...wordings(rest));
    else if (mark === 'f') {
      const [, name, values] = /^(\S+) +(.*)$/.exec(rest) ?? [];
      if (name === undefined || values === undefined) throw fault('a field needs a name and values.');
      kit.fields.push([name, wordings(values)]);
    } else if (mark === '~') kit.variants.push([]);
    else {
      if (kit.variants.length === 0) kit.variants.push([]);
      kit.variants.at(-1)?.push({ optional: mark === '?', wordings: wordings(rest) });
    }
  }
  return { code, pools, kits };
}

function openKit(code: string, head: string, kits: readonly DraftKit[], fault: (message: string) => Error): DraftKit {
  const [label, name, ...flags] = head.split(/ +/);
  if (label !== 'ham' && label !== 'spam') throw fault('a kit is ham or spam.');
  const id = `${code}/${label}/${name ?? ''}`;
  if (name === undefined || kits.some((kit) => kit.id === id)) throw fault('a kit needs a name of its own.');
  const unknown = flags.find((flag) => !FLAGS.has(flag));
  if (unknown !== undefined) throw fault(`${unknown} is no flag.`);
  const part = partAt(kits.filter((kit) => kit.label === label).length);
  return { id, label, part, flags: new Set(flags), subjects: [], fields: [], variants: [] };
}

function wordings(text: string): string[] {
  return text.split(' | ').map((each) => each.trim());
}
