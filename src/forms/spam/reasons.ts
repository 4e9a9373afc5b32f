/**
 * Every sign of spam by its name, with what it may score. Ten points make spam ten times as likely (they are decibans: the
 * odds in tenths of a power of ten), so that points add up and their sum is a probability. docs/spam.md has this table in words.
 */
interface Kind {
  /** The least and the most that it scores. */
  readonly points: readonly [least: number, most: number];
  readonly what: string;
}

export const REASONS = {
  honeypot: { points: [100, 100], what: 'a field that people do not see was filled in' },
  blocklist: { points: [100, 100], what: 'a word, address, domain or network of the form’s blocklist' },
  max_per_hour: {
    points: [100, 100],
    what: 'one more than the form takes in an hour (`max_per_hour`); its visitor is told of success',
  },
  words: { points: [-60, 60], what: 'its words, and pairs of words, as the shipped model knows them' },
  structure: {
    points: [-40, 40],
    what: 'how it is built: links (shortened, without `https://`, to free hosts, messengers and cheap domains), sums of money, the shape of name and address',
  },
  learned: { points: [-40, 40], what: 'its words, as the project’s own decisions (spam, no spam) know them' },
  phrases: {
    points: [-40, 40],
    what: 'phrases of the usual kinds of spam, of offers, and of people who ask for something, in 20 languages',
  },
  repeated_text: { points: [4, 35], what: 'much of the text was posted to other forms of this server' },
  repeated_link: { points: [4, 12], what: 'a link to a domain that was posted to other forms of this server' },
  links: { points: [3, 12], what: 'more than six links' },
  mostly_links: { points: [8, 20], what: 'three links or more, and little else: 20; a link and nothing else: 8' },
  link_markup: { points: [3, 12], what: '`[url=…]` or three `<a href=…>`: 12; one or two `<a href=…>`: 3' },
  link_in_name: { points: [25, 25], what: 'a link where a person’s name belongs' },
  header_injection: { points: [60, 60], what: 'a line break and a mail header in a field of one line' },
  header_lines: { points: [10, 60], what: 'MIME headers: 10; a `Bcc:` line with an address: 15; both: 60' },
  line_breaks: { points: [8, 8], what: 'a line break in a field of one line' },
  probe: { points: [36, 36], what: 'code that a vulnerability scanner tries, and no words beside it' },
  same_text: { points: [15, 30], what: 'the same longer text in three fields or more: 15; with a link: 30' },
  repetition: { points: [10, 15], what: 'one character 50 times in a row: 10; few words over and over: 15' },
  script_mismatch: {
    points: [4, 24],
    what: 'words that mix look-alike letters of two scripts: 5, from the third on 20; a link in a script that the form never uses: 4',
  },
  hidden_characters: { points: [10, 10], what: 'invisible characters within words, or overridden writing direction' },
  gibberish: {
    points: [12, 50],
    what: 'mostly random letters: 12; almost nothing else: 24; a message of nothing else: 36; nothing but words of random capitals in two fields or more: 50',
  },
  disposable_address: { points: [9, 9], what: 'a mail address that is thrown away after use' },
  no_mx: { points: [10, 10], what: 'a mail address whose domain takes no mail' },
  headers: {
    points: [2, 10],
    what: 'the request says that it is a browser’s, or a program’s, and its headers say otherwise',
  },
  page_token: {
    points: [10, 12],
    what: 'the token of the page: sent sooner than people write 12, used before or forged 10',
  },
  challenge: { points: [-4, -4], what: 'the visitor passed the form’s challenge' },
  test: { points: [0, 0], what: 'a test that was sent through the API or the console' },
  akismet: { points: [20, 20], what: 'the configured Akismet service calls it spam' },
  rspamd: { points: [-3, 20], what: 'the verdict of the configured rspamd server' },
} as const satisfies Readonly<Record<string, Kind>>;

export type ReasonName = keyof typeof REASONS;

/** Why something may be spam. */
export interface Reason {
  readonly name: ReasonName;
  readonly score: number;
  /** For the owner of the form. */
  readonly detail: string;
}
