/** Shell lines of the documentation: the commands in them, as words. */

/** The simple commands of a block: continued lines are joined, comments and here-documents left out. */
export function commandsIn(block: string): string[][] {
  const joined = block.replaceAll('\\\n', ' ').replaceAll(/<<'(\w+)'[^]*?^\1$/gm, '');
  return splitCommands(joined).filter((words) => words.length > 0);
}

/** Quotes are taken off; `|`, `;`, `&&`, `||`, `&` and line breaks end a command; redirections are dropped. */
function splitCommands(text: string): string[][] {
  const token =
    /#[^\n]*(?=\n|$)|'([^']*)'|"((?:\\.|[^"\\])*)"|\$\(([^)]*)\)|(?:\d?>&?|<)\s*\S+|\|\||&&|[|;&\n]|[^\S\n]+|[^\s'"|;&<>]+/g;
  const commands: string[][] = [];
  let words: string[] = [];
  let word: string | undefined;
  for (const [all, single, double, substituted] of text.matchAll(token)) {
    const isEnd = /^(?:\|\||&&|[|;&\n])$/.test(all);
    if (substituted !== undefined) commands.push(...splitCommands(substituted));
    if (single !== undefined || double !== undefined || substituted !== undefined)
      word = (word ?? '') + (single ?? double ?? 'x');
    else if (/^[^\s]/.test(all) && !isEnd && !/^(?:\d?>|<)/.test(all) && !(all.startsWith('#') && word === undefined))
      word = (word ?? '') + all;
    else {
      if (word !== undefined) words.push(word);
      word = undefined;
      if (isEnd) {
        commands.push(words);
        words = [];
      }
    }
  }
  if (word !== undefined) words.push(word);
  return [...commands, words].map(withoutAssignments);
}

/** `NAME=value command` is the command. */
function withoutAssignments(words: readonly string[]): string[] {
  return words.slice(words.findIndex((word) => !/^[A-Z_]+=/.test(word))).map((word) => word.trim());
}
