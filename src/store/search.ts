/**
 * Submissions by their words. A form post only notes that there is one to index; a job does it in the background, and until
 * then a search reads the text itself: it finds what was committed, at once. What is deleted or dropped leaves the index in
 * the same unit. The index also has the tenant and the form of each, so that a search reads no rows of others; which rows
 * it may show is decided by the rows themselves.
 */
import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import { timeOfId } from '../lib/ids.ts';
import { deleteAmong, listed, query, reader, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import type { SubmissionRow } from './tables.ts';

const MAX_WORDS = 2000;
const MAX_WORD_LENGTH = 64;
const MAX_WORDS_SOUGHT = 20;
/** The beginning of a word is sought from so many characters on. */
const MIN_PREFIX_LENGTH = 2;
/** Where the newest hold more than the longest page, those before them are left for the next one. */
const MIN_FOUND = 101;
/** More forms than these are not told to the index. */
const MAX_FORMS_SOUGHT = 50;
const LETTER = '[\\p{L}\\p{N}]';
/** Of a script that puts no spaces between words: each character counts as one. */
const LONE =
  '[\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Thai}\\p{Script=Lao}\\p{Script=Khmer}\\p{Script=Myanmar}]';
const HAS_LONE = new RegExp(LONE, 'u');
const SPACED_WORD = new RegExp(`${LETTER}+`, 'gu');
const WORD = new RegExp(`${LONE}|(?:(?!${LONE})${LETTER})+`, 'gu');

/** The words of a text: runs of letters and digits, without case and accents. */
function wordsOf(text: string): string[] {
  const plain = isAscii(text) ? text.toLowerCase() : text.normalize('NFKD').replaceAll(/\p{M}/gu, '').toLowerCase();
  const words = plain.match(HAS_LONE.test(plain) ? WORD : SPACED_WORD) ?? [];
  return words.map((word) =>
    word.length <= MAX_WORD_LENGTH ? word : Array.from(word).slice(0, MAX_WORD_LENGTH).join(''),
  );
}

function isAscii(text: string): boolean {
  return Buffer.byteLength(text) === text.length;
}

/** The words in names and values of the fields, each once. */
function wordsOfFields(fields: string): string[] {
  return [...new Set(textsIn(JSON.parse(fields)).flatMap((text) => wordsOf(text)))].slice(0, MAX_WORDS);
}

/** `[[name, value | [values]], …]` */
function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return Array.isArray(value) ? value.flatMap((each: unknown) => textsIn(each)) : [];
}

/** What is sought: every word, the last one also as the beginning of a longer one. */
export interface Sought {
  readonly whole: readonly string[];
  readonly prefix: string | undefined;
}

/** What the text asks for; undefined where it has no word. */
export function soughtBy(text: string): Sought | undefined {
  const words = wordsOf(text).slice(0, MAX_WORDS_SOUGHT);
  const last = words.at(-1);
  if (last === undefined) return undefined;
  return last.length < MIN_PREFIX_LENGTH
    ? { whole: words, prefix: undefined }
    : { whole: words.slice(0, -1), prefix: last };
}

function matches({ whole, prefix }: Sought, fields: string): boolean {
  const words = wordsOfFields(fields);
  return (
    whole.every((word) => words.includes(word)) &&
    (prefix === undefined || words.some((word) => word.startsWith(prefix)))
  );
}

function tenantWord(tenant: string): string {
  return `xt${createHash('sha256').update(tenant).digest('hex').slice(0, 24)}`;
}

function formWord(tenant: string, form: string): string {
  return `xf${createHash('sha256').update(`${tenant}\n${form}`).digest('hex').slice(0, 24)}`;
}

// Documents of SQLite are numbered by the time of the submission and some of its random bits, so that the newest has the
// highest number. Two that would have the same stand side by side.

const EPOCH = Date.UTC(2020, 0, 1);
const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';
/** In a number there is room for so many that came in one millisecond. */
const PER_MS = 4096;
const NEIGHBOURS = 16;

function numberOf(id: string): number {
  const bits = Array.from(id.slice(14, 17), (character) => Math.max(0, ALPHABET.indexOf(character)));
  const [first = 0, second = 0, third = 0] = bits;
  return Math.max(0, timeOfId(id) - EPOCH) * PER_MS + first * 128 + second * 4 + (third >> 3);
}

export interface SearchRange {
  /** From this id on. */
  readonly first: string;
  /** Before this id. */
  readonly last: string;
}

export interface Found {
  /** Newest first; each has the words, or had them when it was indexed. */
  readonly ids: readonly string[];
  /** Where the search ended, if there may be more. */
  readonly end: string | undefined;
}

interface Search {
  readonly tenant: string;
  /** Undefined: all of the tenant. */
  readonly forms: readonly string[] | undefined;
  readonly sought: Sought;
  readonly range: SearchRange;
  readonly limit: number;
}

/** The newest submissions with these words. */
export async function searchSubmissions(store: Store, search: Search): Promise<Found> {
  const [indexed, waiting] = await Promise.all([findIndexed(store, search), findWaiting(store, search)]);
  // Behind the place where one of the two ended, the other is not asked yet.
  const ends = [indexed.end, waiting.end].filter((id) => id !== undefined);
  const end = ends.sort().at(-1);
  const ids = [...new Set([...indexed.ids, ...waiting.ids])].sort().reverse();
  return { ids: end === undefined ? ids : ids.filter((id) => id >= end), end };
}

async function findIndexed(store: Store, { tenant, forms, sought, range, limit }: Search): Promise<Found> {
  const { whole, prefix } = sought;
  const places = forms !== undefined && forms.length <= MAX_FORMS_SOUGHT ? forms : undefined;
  const ofForms = places?.map((form) => formWord(tenant, form));
  if (ofForms?.length === 0) return { ids: [], end: undefined };
  if (store.dialect === 'sqlite') {
    const terms = [tenantWord(tenant), ...whole].map((word) => `"${word}"`);
    if (ofForms !== undefined) terms.push(`(${ofForms.map((word) => `"${word}"`).join(' OR ')})`);
    const newest = await matchOnSqlite(store, terms, { range, limit });
    if (prefix === undefined) return foundUpTo(limit, newest);
    // For the beginning of a word SQLite puts together all entries of all such words first: the newest with the other words
    // are all there are, or hold many of it, as a rule.
    const { end } = foundUpTo(limit, newest);
    const ids = (await textsOf(store, newest)).flatMap(({ id, fields }) => (matches(sought, fields) ? id : []));
    if (end === undefined || ids.length >= MIN_FOUND) return { ids, end };
    return foundUpTo(limit, await matchOnSqlite(store, [...terms, `"${prefix}"*`], { range, limit }));
  }
  const terms = [tenantWord(tenant), ...whole].map((word) => `'${word}'`);
  if (prefix !== undefined) terms.push(`'${prefix}':*`);
  if (ofForms !== undefined) terms.push(`(${ofForms.map((word) => `'${word}'`).join(' | ')})`);
  const { rows } = await sql<{ id: string }>`select submission as id from submission_documents
    where words @@ ${terms.join(' & ')}::tsquery and submission >= ${range.first} and submission < ${range.last}
    order by submission desc limit ${limit}`.execute(store.read);
  return foundUpTo(
    limit,
    rows.map(({ id }) => id),
  );
}

/** All there are, or the first of them. */
function foundUpTo(limit: number, ids: readonly string[]): Found {
  return { ids, end: ids.length === limit ? ids.at(-1) : undefined };
}

async function matchOnSqlite(
  store: Store,
  terms: readonly string[],
  { range: { first, last }, limit }: Pick<Search, 'range' | 'limit'>,
): Promise<string[]> {
  const low = first.startsWith('sub_') ? numberOf(first) - NEIGHBOURS : 0;
  const high = last.startsWith('sub_') ? numberOf(last) + NEIGHBOURS : Number.MAX_SAFE_INTEGER;
  const { rows } = await sql<{ id: string }>`select submission_documents.submission as id
    from submission_index join submission_documents on submission_documents.doc = submission_index.rowid
    where submission_index match ${terms.join(' AND ')} and submission_index.rowid >= cast(${low} as integer)
      and submission_index.rowid <= cast(${high} as integer)
      and submission_documents.submission >= ${first} and submission_documents.submission < ${last}
    order by submission_index.rowid desc limit ${limit}`.execute(store.read);
  return rows.map(({ id }) => id);
}

type Text = Pick<SubmissionRow, 'id' | 'fields'>;

const textsOf = reader(
  (ids: readonly string[]) => sql<Text>`select id, fields from submissions where id in ${listed(ids)} order by id desc`,
);

async function findWaiting(store: Store, { tenant, sought, range, limit }: Search): Promise<Found> {
  const { first, last } = range;
  const { rows } = await sql<
    Text & { tenant: string }
  >`select submissions.id, submissions.tenant, submissions.fields from (
      select submission from submissions_to_index where submission >= ${first} and submission < ${last}
      order by submission desc limit ${limit}) as waiting
    join submissions on submissions.id = waiting.submission
    order by submissions.id desc`.execute(store.read);
  const ids = rows.filter((row) => row.tenant === tenant && matches(sought, row.fields)).map(({ id }) => id);
  return { ids, end: rows.length === limit ? rows.at(-1)?.id : undefined };
}

const doneIndexing = deleteAmong('submissions_to_index', 'submission');

const addDocument = query<{ id: string; number: number }>(
  (value) => sql`insert into submission_documents (doc, submission)
    select coalesce((select max(doc) + 1 from submission_documents
        where doc >= ${value('number')} and doc < ${value('number')} + ${sql.lit(NEIGHBOURS)}), ${value('number')}), id
      from submissions where id = ${value('id')} and (stored is null or stored <> 'dropped')
    on conflict do nothing`,
);
/**
 * `words` is a JSON object with those of each submission by its ID. FTS5 begins another part of the index at each statement
 * and at each number that is lower than the last, so that this is one statement, in the order of the numbers.
 */
const addWords = query<{ words: string }>(
  (value) => sql`insert into submission_index (rowid, words)
    select doc, list.value from json_each(${value('words')}) as list
      join submission_documents on submission_documents.submission = list.key
    order by doc`,
);
/** Whoever drops the text at this moment is waited for. */
const addVector = query<{ id: string; words: string }>(
  (value) => sql`insert into submission_documents (submission, words)
    select id, array_to_tsvector(string_to_array(${value('words')}, ' ')) from submissions
      where id = ${value('id')} and (stored is null or stored <> 'dropped') for update
    on conflict (submission) do nothing`,
);

const waiting = reader(
  (limit: number) => sql<Pick<SubmissionRow, 'id' | 'tenant' | 'form'> & { fields: string | null }>`
    select submissions_to_index.submission as id, submissions.tenant, submissions.form, submissions.fields
    from submissions_to_index left join submissions on submissions.id = submissions_to_index.submission
    order by submissions_to_index.submission desc limit ${limit}`,
);

/** Indexes the newest of those that wait, `limit` at most; answers how many there were. */
export async function indexSome(store: Store, limit: number): Promise<number> {
  const rows = await waiting(store, limit);
  if (rows.length === 0) return 0;
  /** The words of tenants and forms, of which there are few. */
  const places = new Map<string, string>();
  const words: Record<string, string> = {};
  for (const { id, tenant, form, fields } of rows) {
    if (fields === null) continue;
    const place = `${tenant}\n${form}`;
    const own = places.get(place) ?? `${tenantWord(tenant)} ${formWord(tenant, form)}`;
    places.set(place, own);
    words[id] = [own, ...wordsOfFields(fields)].join(' ');
  }
  const unit: Statement[] =
    store.dialect === 'postgres'
      ? Object.entries(words).map(([id, text]) => addVector({ id, words: text }))
      : [
          ...Object.keys(words).map((id) => addDocument({ id, number: numberOf(id) })),
          addWords({ words: JSON.stringify(words) }),
        ];
  await store.write([...unit, doneIndexing(rows.map(({ id }) => id))]);
  return rows.length;
}

/** So many pages of the index, 64 KiB, are written by one step of a merge: about two milliseconds. */
const MERGED_PAGES = 16;
const mergeParts = query<object>(
  () => sql`insert into submission_index (submission_index, rank) values ('merge', ${sql.lit(MERGED_PAGES)})`,
);
const totalChanges = query<object, { changes: number }>(() => sql`select total_changes() as changes`);

/**
 * Merges parts of the index on SQLite, which adds one with each commit, for a few milliseconds; answers whether there may be
 * more to merge. PostgreSQL does that itself.
 */
export async function mergeSome(store: Store): Promise<boolean> {
  if (store.dialect === 'postgres') return false;
  const [before, , after] = await store.write([totalChanges({}), mergeParts({}), totalChanges({})]);
  // The statement itself counts as one (https://sqlite.org/fts5.html#the_merge_command).
  return (after.rows[0]?.changes ?? 0) - (before.rows[0]?.changes ?? 0) > 1;
}
