/**
 * Every sign of spam by its name, with what it may score. A verdict names its reasons, so that the owner of a form can see
 * why; docs/spam.md has this table in words.
 */
interface Kind {
  /** The least and the most that it scores. */
  readonly points: readonly [least: number, most: number];
  readonly what: string;
}

export const REASONS = {
  honeypot: { points: [100, 100], what: 'a field that people do not see was filled in' },
  blocklist: { points: [100, 100], what: 'a word, address, domain or network of the form’s blocklist' },
  links: { points: [1, 8], what: 'one for each link beyond the second' },
  mostly_links: { points: [4, 4], what: 'two links or more, and little else' },
  short_link: { points: [3, 3], what: 'a link that hides where it leads (bit.ly, t.me, …)' },
  link_markup: { points: [4, 8], what: '`[url=…]` or three `<a href=…>`: 8; one or two `<a href=…>`: 4' },
  link_in_name: { points: [8, 8], what: 'a link where a person’s name belongs' },
  header_injection: { points: [10, 10], what: 'a line break and a mail header in a field of one line' },
  header_lines: { points: [4, 10], what: 'MIME headers: 4; a `Bcc:` line with an address: 6; both: 10' },
  line_breaks: { points: [3, 3], what: 'a line break in a field of one line' },
  same_text: { points: [6, 10], what: 'the same longer text in three fields or more: 6; with a link: 10' },
  repetition: { points: [4, 6], what: 'one character 50 times in a row: 4; few words over and over: 6' },
  goods: { points: [5, 10], what: '5 for each phrase that next to nobody but spam has' },
  pitch: {
    points: [2, 8],
    what: '2 for each trade that spam offers (backlinks, crypto trading, …), unless somebody asks for it',
  },
  approach: {
    points: [3, 12],
    what: '3 for each phrase with which such offers address strangers; at most 6 where somebody asks for something',
  },
  offer: { points: [3, 3], what: 'two of these phrases and a link, where nobody asks for anything' },
  script_mismatch: {
    points: [2, 8],
    what: 'words that mix look-alike letters of two scripts: 2, from the third on 6; a link in a script that the form never uses: 2',
  },
  hidden_characters: { points: [4, 4], what: 'invisible characters within words, or overridden writing direction' },
  shouting: { points: [2, 2], what: 'capital letters nearly alone' },
  gibberish: {
    points: [4, 10],
    what: 'mostly random letters: 4; nothing but words of random capitals in two fields or more: 10',
  },
  disposable_address: { points: [4, 4], what: 'a mail address that is thrown away after use' },
  max_per_hour: {
    points: [100, 100],
    what: 'one more than the form takes in an hour (`max_per_hour`); its visitor is told of success',
  },
  no_mx: { points: [4, 4], what: 'a mail address whose domain takes no mail' },
} as const satisfies Readonly<Record<string, Kind>>;

export type ReasonName = keyof typeof REASONS;

/** Why something may be spam. */
export interface Reason {
  readonly name: ReasonName;
  readonly score: number;
  /** For the owner of the form. */
  readonly detail: string;
}

/** Something that the visitor wrote, and the field that it stood in. */
export interface Value {
  readonly name: string;
  readonly text: string;
}
