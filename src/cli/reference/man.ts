/** The man page, in the man macros of roff (groff_man(7)), which groff and mandoc read alike. */
import { DESCRIPTION, ENVIRONMENT, EXIT_CODES, FILES, type Meaning } from './conventions.ts';
import { leavesOf, type CommandNode } from './tree.ts';

/** `postern.1` */
export function manPage(program: CommandNode): string {
  return [
    '.\\" Made by npm run docs from the definitions in src/cli: change it there.',
    '.TH POSTERN 1 "" "Postern" "User Commands"',
    // Names are not broken in two.
    '.nh',
    '.ad l',
    '.SH NAME',
    ...paragraph(`postern - ${lowered(program.description).replace(/\.$/, '')}`),
    '.SH SYNOPSIS',
    '.B postern',
    '.I command',
    '.RI [ options ]',
    '.SH DESCRIPTION',
    ...DESCRIPTION.flatMap((text, index) => [...(index === 0 ? [] : ['.PP']), ...paragraph(text)]),
    '.SH COMMANDS',
    ...leavesOf(program).flatMap(commandLines),
    '.SH EXIT STATUS',
    ...EXIT_CODES.flatMap(itemLines),
    '.SH ENVIRONMENT',
    ...ENVIRONMENT.flatMap(itemLines),
    '.SH FILES',
    ...FILES.flatMap(itemLines),
    '',
  ].join('\n');
}

function commandLines({ path, usage, description, arguments: taken, options, examples }: CommandNode): string[] {
  return [
    `.SS "${escaped(['postern', ...path].join(' '))}"`,
    `.B ${escaped(usage)}`,
    '.PP',
    ...paragraph(`${raised(description)}.`),
    ...taken.flatMap(({ name, description }) => itemLines([name, description])),
    ...options.flatMap(({ flags, description }) => itemLines([flags, description])),
    ...examples.flatMap(({ line, does }) => [
      '.PP',
      ...paragraph(`Example (${does}):`),
      '.PP',
      '.EX',
      escaped(line),
      '.EE',
    ]),
  ];
}

function itemLines([what, means]: Meaning): string[] {
  return ['.TP', `.B ${escaped(what)}`, ...paragraph(means)];
}

const WIDEST = 78;

/** Text that roff breaks anew, in lines that people can read; none of them is a request. */
function paragraph(text: string): string[] {
  const lines: string[] = [];
  for (const word of escaped(text).split(' ')) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= WIDEST) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word.startsWith('.') ? `\\&${word}` : word);
  }
  return lines;
}

function raised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function lowered(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}

const SIGNS: Readonly<Record<string, string>> = {
  '\\': '\\(rs',
  '-': '\\-',
  '"': '\\(dq',
  "'": '\\(aq',
  '`': '\\(ga',
  '^': '\\(ha',
  '~': '\\(ti',
  // Terminals of ASCII have these two otherwise.
  '’': '\\(cq',
  '…': '...',
};

/** Text as roff prints it, sign for sign: a hyphen is one that can be copied. */
function escaped(text: string): string {
  return text.replaceAll(
    /[\\\-"'`^~]|[^\0-\u007f]/gu,
    (sign) => SIGNS[sign] ?? `\\[u${(sign.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}]`,
  );
}
