/**
 * The text of an HTML mail, for those who read no HTML: one pass, linear whatever it holds. It knows mail's HTML, not the
 * web's: paragraphs, breaks, lists, table cells, links, pictures' descriptions.
 */

/** Element names by the empty lines around them: 2 leaves one empty line, 1 begins a new line. */
const BREAKS: ReadonlyMap<string, number> = new Map([
  ...['p', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'ul', 'ol', 'table', 'blockquote', 'pre', 'hr'].map(
    (name) => [name, 2] as const,
  ),
  ...['div', 'tr', 'li', 'section', 'article', 'header', 'footer', 'main', 'center', 'dt', 'dd', 'body'].map(
    (name) => [name, 1] as const,
  ),
]);
/** What is not shown, and where it ends. */
const UNSEEN: ReadonlyMap<string, RegExp> = new Map(
  ['style', 'script', 'title'].map((name) => [name, new RegExp(`</${name}`, 'i')]),
);
const ENTITIES: ReadonlyMap<string, string> = new Map([
  ...Object.entries({ amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: ' ', copy: '©', reg: '®', trade: '™' }),
  ...Object.entries({ hellip: '…', mdash: '—', ndash: '–', middot: '·', bull: '•', euro: '€', times: '×' }),
  ...Object.entries({ lsquo: '‘', rsquo: '’', ldquo: '“', rdquo: '”', laquo: '«', raquo: '»' }),
]);

/** Plain text with LF line ends, without blanks or empty lines around it. */
export function htmlToText(html: string): string {
  const page = new Page();
  let at = 0;
  while (at < html.length) {
    const open = html.indexOf('<', at);
    if (open === -1) break;
    page.text(html.slice(at, open));
    at = skipMarkup(html, open, page);
  }
  page.text(html.slice(at));
  return page.finish();
}

/** What is at `<`: a comment, an element's tag, or just that character. Answers where it ends. */
function skipMarkup(html: string, open: number, page: Page): number {
  if (html.startsWith('<!--', open)) return after(html, '-->', open + 4);
  if (html.startsWith('<!', open) || html.startsWith('<?', open)) return after(html, '>', open);
  const [, slash, word] = /^<(\/?)([a-z][a-z0-9]*)/i.exec(html.slice(open, open + 20)) ?? [];
  if (word === undefined) {
    page.text('<');
    return open + 1;
  }
  const name = word.toLowerCase();
  const end = tagEnd(html, open);
  if (slash === '/') page.close(name);
  else page.open(name, html.slice(open, end));
  const closing = slash === '/' ? undefined : UNSEEN.get(name);
  if (closing === undefined) return end;
  const length = html.slice(end).search(closing);
  return length === -1 ? html.length : end + length;
}

function after(html: string, end: string, from: number): number {
  const found = html.indexOf(end, from);
  return found === -1 ? html.length : found + end.length;
}

/** After the `>` that is in no quoted attribute. */
function tagEnd(html: string, open: number): number {
  const special = /["'>]/g;
  special.lastIndex = open;
  for (let match = special.exec(html); match !== null; match = special.exec(html)) {
    if (match[0] === '>') return special.lastIndex;
    const quote = html.indexOf(match[0], special.lastIndex);
    if (quote === -1) break;
    special.lastIndex = quote + 1;
  }
  return html.length;
}

class Page {
  readonly #parts: string[] = [];
  /** Line ends due before the next text; at the start of the page none are. */
  #lines = 0;
  #blank = false;
  #link = '';
  #linkText = '';
  #preformatted = 0;

  text(source: string): void {
    if (source === '') return;
    const text = decode(source);
    if (this.#preformatted > 0) {
      this.#add(text);
      return;
    }
    const single = text.replaceAll(/[ \t\r\n\f\u00a0]+/g, ' ');
    if (single.startsWith(' ')) this.#blank = true;
    this.#add(single.trim());
    if (single.endsWith(' ')) this.#blank = true;
  }

  open(name: string, tag: string): void {
    if (name === 'br') this.#lines++;
    this.#break(name);
    if (name === 'li') this.#add('- ');
    if (name === 'td' || name === 'th') this.#blank = true;
    if (name === 'img') this.text(attribute(tag, ALT));
    if (name === 'pre') this.#preformatted++;
    if (name === 'a') {
      this.#link = attribute(tag, HREF);
      this.#linkText = '';
    }
  }

  close(name: string): void {
    if (name === 'a') this.#closeLink();
    if (name === 'pre') this.#preformatted = Math.max(0, this.#preformatted - 1);
    this.#break(name);
  }

  finish(): string {
    return this.#parts.join('').trim();
  }

  #break(name: string): void {
    this.#lines = Math.max(this.#lines, BREAKS.get(name) ?? 0);
  }

  #closeLink(): void {
    const target = this.#link.replace(/^mailto:/i, '');
    if (/^(?:https?:|mailto:)/i.test(this.#link) && target !== this.#linkText) this.text(` (${target})`);
    this.#link = '';
  }

  #add(text: string): void {
    if (text === '') return;
    if (this.#parts.length > 0) {
      if (this.#lines > 0) this.#parts.push('\n'.repeat(Math.min(this.#lines, 3)));
      else if (this.#blank && !this.#parts.at(-1)?.endsWith(' ')) this.#parts.push(' ');
    }
    this.#lines = 0;
    this.#blank = false;
    this.#parts.push(text);
    if (this.#link !== '') this.#linkText += text;
  }
}

const ALT = /\salt\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))/i;
const HREF = /\shref\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))/i;

function attribute(tag: string, pattern: RegExp): string {
  const match = pattern.exec(tag);
  return decode(match?.[1] ?? match?.[2] ?? match?.[3] ?? '').trim();
}

function decode(text: string): string {
  return text.replaceAll(/&(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z]{2,8});/gi, (entity) => {
    const name = entity.slice(1, -1);
    if (!name.startsWith('#')) return ENTITIES.get(name) ?? entity;
    const code = Number(name.slice(1).replace(/^x/i, '0x'));
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : entity;
  });
}
