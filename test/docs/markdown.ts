/** The project's Markdown pages as the tests of the documentation read them. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export const ROOT = join(import.meta.dirname, '../..');

export interface MarkdownPage {
  /** From the root of the checkout: `docs/install.md`. */
  readonly path: string;
  /** Fenced blocks. */
  readonly blocks: readonly { readonly language: string; readonly text: string }[];
  /** `inline code`. */
  readonly codes: readonly string[];
  /** Targets of links and images. */
  readonly links: readonly string[];
  /** What `#…` may name, spelled as GitHub does. */
  readonly anchors: readonly string[];
}

/** README.md, its neighbours and docs/, but not what has a history of its own. */
export function readPages(): MarkdownPage[] {
  return globSync(['*.md', 'docs/**/*.md'], { cwd: ROOT })
    .filter((path) => path !== 'CHANGELOG.md')
    .toSorted()
    .map(readPage);
}

function readPage(path: string): MarkdownPage {
  const whole = readFileSync(join(ROOT, path), 'utf8');
  const fence = /^( *)```(\w*)\n([^]*?)^\1```$/gm;
  const blocks = Array.from(whole.matchAll(fence), ([, , language = '', text = '']) => ({ language, text }));
  const prose = whole.replaceAll(fence, '').replaceAll(/<!--[^]*?-->/g, '');
  const spoken = prose.replaceAll(/`[^`]*`/g, '`');
  return {
    path,
    blocks,
    codes: Array.from(prose.matchAll(/`([^`]+)`/g), ([, code = '']) => code.replaceAll(/\s+/g, ' ')),
    links: Array.from(
      spoken.matchAll(/\]\(([^)\s]+)\)|<img[^>]* src="([^"]+)"/g),
      ([, link, image]) => link ?? image ?? '',
    ),
    anchors: Array.from(prose.matchAll(/^#+ (.+)$/gm), ([, heading = '']) => slugOf(heading)),
  };
}

/** As GitHub makes it of a heading. */
function slugOf(heading: string): string {
  const text = heading.toLowerCase().replaceAll(/[^\p{L}\p{N}\s_-]/gu, '');
  return text.trim().replaceAll(/\s/g, '-');
}
