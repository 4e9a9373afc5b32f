/** What the schema complains about, in words: what was expected, what is there, and what was probably meant. */
import { z } from 'zod';
import { parseAddress, parseMailbox } from '../lib/addresses.ts';
import { nearest, type Finding, type Path } from './problem.ts';
import { maskPasswords, SECRET_KEY } from './secrets.ts';
import { find, type Place, type YamlFile } from './yaml.ts';

type Schema = z.core.$ZodType;

/** The schema without what only says whether and how a value may be absent or written. */
function unwrap(schema: Schema): Schema {
  if (
    schema instanceof z.ZodOptional ||
    schema instanceof z.ZodNullable ||
    schema instanceof z.ZodDefault ||
    schema instanceof z.ZodPrefault
  ) {
    return unwrap(schema.unwrap());
  }
  if (schema instanceof z.ZodUnion) {
    // Of a text or a map, the map is what there is more to say about.
    const map = schema.options.find((option) => unwrap(option) instanceof z.ZodObject);
    return map === undefined ? schema : unwrap(map);
  }
  return schema instanceof z.ZodPipe ? unwrap(schema.in) : schema;
}

/** The schema of the value at this path, or undefined where the path leads out of it. */
function schemaAt(schema: Schema, path: Path): Schema | undefined {
  let here: Schema | undefined = unwrap(schema);
  for (const key of path) {
    if (here instanceof z.ZodObject) here = propertiesOf(here).get(String(key)) ?? here.def.catchall;
    else if (here instanceof z.ZodRecord) here = here.valueType;
    else if (here instanceof z.ZodArray) here = here.element;
    else return undefined;
    if (here !== undefined) here = unwrap(here);
  }
  return here;
}

/** The keys that may be in the map at this path; none where any may. */
export function knownKeys(schema: Schema, path: Path): string[] {
  const here = schemaAt(schema, path);
  return here instanceof z.ZodObject ? [...propertiesOf(here).keys()] : [];
}

/** Paths of the keys that are marked `restart: true`. */
export function restartKeys(schema: Schema, path: readonly string[] = []): (readonly string[])[] {
  if (z.globalRegistry.get(schema)?.['restart'] === true) return [path];
  const here = unwrap(schema);
  if (!(here instanceof z.ZodObject)) return [];
  return [...propertiesOf(here)].flatMap(([key, value]) => restartKeys(value, [...path, key]));
}

/** Keys that are written in two ways and mean the same: `Example.com` and `example.com`. */
export function sameKeys(schema: Schema, data: unknown, path: Path = []): Finding[] {
  const here = unwrap(schema);
  if (typeof data !== 'object' || data === null) return [];
  if (here instanceof z.ZodObject) {
    const properties = propertiesOf(here);
    return Object.entries(data).flatMap(([key, value]) => {
      const property = properties.get(key);
      return property === undefined ? [] : sameKeys(property, value, [...path, key]);
    });
  }
  if (!(here instanceof z.ZodRecord)) return [];
  const written = new Map<string, string>();
  return Object.entries(data).flatMap(([key, value]) => {
    const inner = sameKeys(here.valueType, value, [...path, key]);
    const normal = String(z.safeParse(here.keyType, key).data ?? key);
    const first = written.get(normal);
    if (first === undefined) written.set(normal, key);
    return first === undefined ? inner : [{ path: [...path, key], message: `is the same as "${first}"`, key: true }];
  });
}

function propertiesOf(schema: z.ZodObject): Map<string, Schema> {
  const properties: Readonly<Record<string, Schema>> = schema.shape;
  return new Map(Object.entries(properties));
}

type Issue = z.core.$ZodIssue;

const TYPES: Readonly<Record<string, string>> = {
  string: 'text',
  int: 'a whole number',
  number: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'a map of keys',
  record: 'a map of keys',
};
const TRUTH: Readonly<Record<string, string>> = { yes: 'true', on: 'true', no: 'false', off: 'false' };

/** All findings of a value that did not pass `schema`. */
export function explain(issues: readonly Issue[], schema: Schema, file: YamlFile): Finding[] {
  return issues.flatMap((issue) => explainIssue(issue, [], { schema, file }));
}

interface Context {
  readonly schema: Schema;
  readonly file: YamlFile;
}

function explainIssue(issue: Issue, base: Path, context: Context): Finding[] {
  const path = [...base, ...issue.path.map((key) => (typeof key === 'symbol' ? String(key) : key))];
  switch (issue.code) {
    case 'unrecognized_keys':
      return issue.keys.map((key) => unknownKey(key, path, context.schema));
    case 'invalid_key': {
      const why = issue.issues[0] === undefined ? 'unknown key' : expectation(issue.issues[0]);
      const record = schemaAt(context.schema, path.slice(0, -1));
      const right = record instanceof z.ZodRecord ? rightWriting(String(path.at(-1)), record.keyType) : undefined;
      const cure = right === undefined ? '' : `; write ${right}`;
      const message = `${why}, found "${String(path.at(-1))}"${cure}`;
      return [{ path, message, key: true }, ...valueOfBadKey(path, context)];
    }
    case 'invalid_union': {
      const inner = issue.errors.find((branch) => branch.some(leadsInside));
      if (inner === undefined) return [finding(path, expectation(issue), context)];
      return inner.flatMap((nested) => explainIssue(nested, path, context));
    }
    case 'invalid_value': {
      const written = find(context.file.root, path).place?.scalar?.value;
      const suggestion = typeof written === 'string' ? nearest(written, issue.values.map(String)) : undefined;
      return [{ ...finding(path, `expected ${wantedBy(issue)}`, context), suggestion }];
    }
    default:
      return [finding(path, expectation(issue), context)];
  }
}

/** Whether it is about a part of the value, which the value is then meant to have. */
function leadsInside(issue: Issue): boolean {
  return issue.path.length > 0 || (issue.code === 'invalid_union' && issue.errors.flat().some(leadsInside));
}

/** A map whose key is wrong is not looked into by the schema; its value is judged all the same. */
function valueOfBadKey(path: Path, context: Context): Finding[] {
  const schema = schemaAt(context.schema, path);
  const error = schema && z.safeParse(schema, valueAt(context.file.value, path)).error;
  return error?.issues.flatMap((issue) => explainIssue(issue, path, context)) ?? [];
}

/** Names that other programs have for a key. */
const OTHER_NAMES: Readonly<Record<string, string>> = {
  email: 'to',
  to: 'email',
  recipient: 'to',
  recipients: 'to',
  username: 'user',
  pass: 'password',
};
/** What a project file holds. */
const PROJECT_KEYS: ReadonlySet<string> = new Set(['project', 'settings', 'domains', 'collections', 'templates']);

function unknownKey(key: string, path: Path, schema: Schema): Finding {
  const known = knownKeys(schema, path);
  if (key === '<<')
    return { path: [...path, key], message: 'merge keys are not supported; write the keys out', key: true };
  const message = `unknown key "${key}"`;
  // A key that has another place nearby is not misspelt.
  const misplaced = misplacedKey(key, path, schema);
  if (misplaced !== undefined) return { path: [...path, key], message: message + misplaced, key: true };
  const suggestion = nearest(key, known) ?? known.find((each) => each === OTHER_NAMES[key.toLowerCase()]);
  const hint = suggestion === undefined ? `; known keys: ${known.join(', ')}` : '';
  return { path: [...path, key], message: message + hint, suggestion, key: true };
}

/** Where it belongs instead: in the map around this one, in one of the maps in it, in another file. */
function misplacedKey(key: string, path: Path, schema: Schema): string | undefined {
  if (key.includes('\u00A0')) return '; it contains a no-break space: use ordinary spaces';
  const around = path.findLastIndex((_, depth) => knownKeys(schema, path.slice(0, depth)).includes(key));
  if (around >= 0) {
    const place = path.slice(0, around).join('.');
    return `; it belongs ${place === '' ? 'at the left margin' : `in ${place}`}: is it indented too far?`;
  }
  if (path.length > 0) return undefined;
  const known = knownKeys(schema, path);
  const [inside, other] = known.filter((each) => knownKeys(schema, [each]).includes(key));
  if (inside !== undefined && other === undefined) return `; it belongs in ${inside}: is it indented too little?`;
  const isProject = PROJECT_KEYS.has(key) && !known.includes('project');
  return isProject ? '; it belongs in a project file, projects/<name>.yml next to this file' : undefined;
}

/** Whether the value stands where a name is expected, while its key is one of what each named thing holds. */
function isOutdented(path: Path, schema: Schema): boolean {
  const parent = schemaAt(schema, path.slice(0, -1));
  return parent instanceof z.ZodRecord && knownKeys(schema, path).includes(String(path.at(-1)));
}

function expectation(issue: Issue): string {
  if (!isRaw(issue)) return issue.message.startsWith('expected ') ? issue.message : `it ${issue.message}`;
  return `expected ${wantedBy(issue)}`;
}

/** Whether the message is the validator's own, in which no person should have to read. */
export function isRaw({ message }: Issue): boolean {
  return /^(?:Too (?:small|big)|Invalid|Unrecognized|Array must)\b/.test(message);
}

/** What would have passed, as it follows "expected" and "must be". */
export function wantedBy(issue: Issue): string {
  switch (issue.code) {
    case 'invalid_type':
      return TYPES[issue.expected] ?? issue.expected;
    case 'too_small':
      return sizeOf(issue, issue.minimum, 'at least');
    case 'too_big':
      return sizeOf(issue, issue.maximum, 'at most');
    case 'not_multiple_of':
      return `a multiple of ${issue.divisor}`;
    case 'invalid_format':
      return FORMATS[issue.format] ?? 'text in another format';
    case 'invalid_value':
      return `${issue.values.length > 1 ? 'one of ' : ''}${issue.values.map(String).join(', ')}`;
    case 'invalid_union': {
      const wanted = new Set(issue.errors.flatMap((branch) => branch.map(wantedBy)));
      return wanted.size === 0 ? 'another value' : [...wanted].join(' or ');
    }
    case 'unrecognized_keys':
      return `a map without ${issue.keys.join(', ')}`;
    case 'invalid_key':
    case 'invalid_element':
      return issue.issues.map(wantedBy).join(' and ');
    case 'custom':
      return 'another value';
  }
}

/** Forms of text that schemas ask for, each with an example. */
const FORMATS: Readonly<Record<string, string>> = {
  email: 'an email address, such as name@example.com',
  url: 'a URL, such as https://example.com/',
  datetime: 'a time, such as 2030-01-31T12:00:00Z',
  date: 'a date, such as 2030-01-31',
  base64: 'base64',
  uuid: 'a UUID',
  ipv4: 'an IPv4 address, such as 192.0.2.10',
  ipv6: 'an IPv6 address, such as 2001:db8::1',
};

const COLLECTIONS: Readonly<Record<string, string>> = {
  array: 'a list',
  set: 'a list',
  object: 'a map',
  record: 'a map',
  map: 'a map',
};

function sizeOf({ origin, exact }: { origin: string; exact?: boolean }, bound: number | bigint, words: string): string {
  const size = `${exact === true ? 'exactly' : words} ${bound}`;
  if (origin === 'string') return `text of ${size} ${Number(bound) === 1 ? 'character' : 'characters'}`;
  const what = COLLECTIONS[origin];
  return what === undefined ? `a number of ${size}` : `${what} of ${size} ${Number(bound) === 1 ? 'entry' : 'entries'}`;
}

function finding(path: Path, expected: string, { schema, file }: Context): Finding {
  const { place, whole } = find(file.root, path);
  if (!whole) return { path, message: `is missing; ${expected}`, key: true };
  const written = place?.scalar === undefined ? valueAt(file.value, path) : place.scalar.value;
  const cure = isOutdented(path, schema)
    ? `is "${String(path.at(-1))}" indented too little?`
    : isCommented(place, file)
      ? 'what follows # is a comment: put the value in quotes'
      : (remedy(path, expected, written) ?? rewriting(written, schemaAt(schema, path)));
  const what = SECRET_KEY.test(String(path.at(-1))) ? '' : `, found ${shown(written)}`;
  return { path, message: `${expected}${what}${cure === undefined ? '' : `; ${cure}`}` };
}

/** Whether the key has no value because that begins with #. */
function isCommented(place: Place | undefined, { text }: YamlFile): boolean {
  if (place?.scalar?.value !== null) return false;
  return /^[^\n#]*:[ \t]+#\S/.test(text.slice(place.key));
}

/** How the schema would take what is meant. */
function rewriting(written: unknown, schema: Schema | undefined): string | undefined {
  // It is wrong beside what else there is.
  if (schema === undefined || z.safeParse(schema, written).success) return undefined;
  const right = rightWriting(written, schema);
  if (right !== undefined) return `write ${right}`;
  if (typeof written === 'string' && /^\S+\s*[=-]>?\s/.test(written)) return 'write "key: value", with a colon';
  const first: unknown = Array.isArray(written) ? written[0] : undefined;
  const key = typeof first === 'object' && first !== null ? Object.keys(first)[0] : first;
  const isKey =
    (schema instanceof z.ZodObject && propertiesOf(schema).has(String(key))) ||
    (schema instanceof z.ZodRecord && z.safeParse(schema.keyType, key).success);
  return isKey ? `write "${String(key)}:", without the dash before it` : undefined;
}

function rightWriting(written: unknown, schema: Schema): string | undefined {
  const right = rewritings(written).find((each) => each !== written && z.safeParse(schema, each).success);
  return right === undefined ? undefined : maskPasswords(yamlText(right));
}

/** How to write what was probably meant. */
function remedy(path: Path, expected: string, written: unknown): string | undefined {
  if (written === null) return 'leave the key out, or give it a value';
  const key = path.findLast((part) => typeof part === 'string');
  if (key === 'listen' && (typeof written === 'number' || typeof written === 'string'))
    return listenRemedy(path, expected, String(written));
  if (typeof written === 'number' || typeof written === 'boolean')
    return expected.startsWith('expected text') ? 'put it in quotes' : undefined;
  if (typeof written !== 'string') return undefined;
  if (/number/.test(expected) && /^\d+$/.test(written)) return 'remove the quotes';
  if (expected.includes('true or false')) return truthRemedy(written);
  if (expected.includes('email address')) return addressRemedy(key, expected, written);
  return /^expected a list\b/.test(expected) ? `write ${listText(written.split(/[\s,;]+/))}` : undefined;
}

function truthRemedy(written: string): string | undefined {
  const word = written.toLowerCase();
  const truth = TRUTH[word] ?? word;
  return truth === 'true' || truth === 'false' ? `write ${truth}, without quotes` : undefined;
}

/** Several addresses in one text, or one with a name before it. */
function addressRemedy(key: string | undefined, expected: string, written: string): string | undefined {
  const several = written.split(/[\s,;]+/).filter((part) => part !== '');
  if (expected.includes('list') && several.length > 1 && several.every((part) => parseAddress(part) !== undefined))
    return `write ${listText(several)}`;
  const named = parseMailbox(written);
  if (named === undefined || named.address === written) return undefined;
  return `write ${named.address}${key === 'from' ? ', and the name as from_name' : ' without the name'}`;
}

/** A port alone, or one place without the brackets of the list. */
function listenRemedy(path: Path, expected: string, written: string): string | undefined {
  // Metrics tell about everybody's mail, so nothing suggests that the world may read them.
  const host = path.includes('metrics') ? '127.0.0.1' : '[::]';
  const port = /^\*?:?(\d{1,5})$/.exec(written)?.[1];
  const place = port === undefined ? written : `${host}:${port}`;
  if (/^expected a list\b/.test(expected)) return `write ["${place}"]`;
  return place === written ? undefined : `write "${place}"`;
}

/** A list in one line of YAML; what would be read as something else is quoted. */
function listText(items: readonly string[]): string {
  const written = items
    .filter((item) => item !== '')
    .map((item) => (/^[\w@./+-]+$/.test(item) ? item : JSON.stringify(item)));
  return `[${written.join(', ')}]`;
}

function shown(value: unknown): string {
  if (value === null || value === undefined) return 'nothing';
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list';
  if (typeof value === 'object') return 'a map';
  if (typeof value !== 'string') return JSON.stringify(value);
  const text = maskPasswords(value);
  return text.length > 60 ? `"${text.slice(0, 60)}…"` : `"${text}"`;
}

/** The value at this path of plain data, or undefined. */
export function valueAt(data: unknown, path: Path): unknown {
  let here = data;
  for (const key of path) {
    if (typeof here !== 'object' || here === null || !Object.hasOwn(here, key)) return undefined;
    here = Reflect.get(here, key);
  }
  return here;
}

// What a value may have been meant to be that is written in another way. The schema decides which of it would have been right.

/** Units of other notations, in those of durations (`s`, `m`, `h`, `d`). */
const TIMES: Readonly<Record<string, readonly [number, string]>> = {
  s: [1, 's'],
  sec: [1, 's'],
  second: [1, 's'],
  min: [1, 'm'],
  m: [1, 'm'],
  minute: [1, 'm'],
  h: [1, 'h'],
  hour: [1, 'h'],
  d: [1, 'd'],
  day: [1, 'd'],
  w: [7, 'd'],
  week: [7, 'd'],
  month: [30, 'd'],
  y: [365, 'd'],
  year: [365, 'd'],
};
/** Keys that a map is about, for a value that stands in the place of the map. */
const MAIN_KEYS = ['enabled', 'mode', 'url', 'to', 'type', 'host'];
const MIB = 1024 ** 2;

/** The likeliest first. */
function rewritings(written: unknown): readonly unknown[] {
  const whole = MAIN_KEYS.map((key) => ({ [key]: written }));
  if (typeof written === 'number') return [`${written / MIB}MiB`, `${written / 1024}KiB`, ...whole];
  if (typeof written !== 'string') return whole;
  const text = written.trim().replaceAll(/^[“”„‘’"']+|(?<![“”„‘’"'])[“”„‘’"']+$/g, '');
  const bare = text.replace(/^[a-z][a-z0-9+.-]*:\/\/([^/?#]*).*$/is, '$1').replace(/\/$/, '');
  const place = bare.slice(bare.lastIndexOf('@') + 1);
  const [, host = '', port = ''] = /^(.*):(\d+)$/.exec(place) ?? [];
  const name = (host === '' ? place : host).replaceAll(/^\[|\]$/g, '');
  return [
    ...whole,
    port === '' ? { host: name } : { host: name, port: Number(port) },
    text,
    text.replace(/^mailto:/i, ''),
    place,
    name,
    ...(/^[\w-]+\.[\w./-]+$/.test(text) ? [`https://${text}`] : []),
    ...(port === '' && isRemote(name) ? [`${place}:25`] : []),
    `[${/^[*:]?$/.test(name) ? '::' : name}]:${port}`,
    ...(text.startsWith('/') ? [`unix:${text}`, `sqlite:${text}`] : []),
    ...sizes(text),
    ...durations(text),
  ];
}

/** Whether it may be the name of another machine, which a place to listen on is not. */
function isRemote(name: string): boolean {
  return /^[^a-z]*[a-z].*\.[a-z]/is.test(name);
}

function sizes(text: string): string[] {
  const [, number, unit = ''] = /^(\d+)\s*([kmg])i?b?$/i.exec(text) ?? [];
  return number === undefined ? [] : [`${number}${unit.toUpperCase()}iB`];
}

function durations(text: string): string[] {
  if (/^(never|always|infinite|unlimited)$/i.test(text)) return ['forever'];
  const [, hours, minutes] = /^(\d+)h\s*(\d+)m$/.exec(text) ?? [];
  if (hours !== undefined) return [`${Number(hours) * 60 + Number(minutes)}m`];
  const [, number, unit = ''] = /^(\d+)\s*([a-z]+?)s?$/i.exec(text) ?? [];
  const [factor, letter] = TIMES[unit.toLowerCase()] ?? TIMES[`${unit}s`.toLowerCase()] ?? [];
  return number === undefined || factor === undefined ? [] : [`${Number(number) * factor}${letter}`];
}

/** The value in one line of YAML. */
function yamlText(value: unknown): string {
  if (typeof value !== 'object' || value === null)
    return typeof value === 'string' && !/^[\w@./+-]+$/.test(value) ? JSON.stringify(value) : String(value);
  return `{ ${Object.entries(value)
    .map(([key, each]) => `${key}: ${yamlText(each)}`)
    .join(', ')} }`;
}
