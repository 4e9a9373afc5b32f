/** What may be typed where: the part that the completions of all shells share. */
import type { CommandNode } from './tree.ts';

/** What a value is completed with. */
export type Values =
  { readonly kind: 'words'; readonly words: readonly string[] } | { readonly kind: 'files' | 'folders' };

export interface Place {
  /** `queue list`; '' is the program itself. */
  readonly path: string;
  readonly commands: readonly { readonly name: string; readonly description: string }[];
  readonly options: readonly CompletedOption[];
  /** By position; those that nothing is known of are not there. */
  readonly arguments: readonly { readonly position: number; readonly values: Values }[];
}

export interface CompletedOption {
  /** `--limit`, and `-h` where there is a short one. */
  readonly names: readonly string[];
  readonly description: string;
  /** Undefined where it takes no value. */
  readonly values: Values | undefined;
}

/** What follows a command. */
export function placeOf({ path, commands, options, arguments: taken }: CommandNode): Place {
  return {
    path: path.join(' '),
    commands: commands.map((child) => ({ name: child.path.at(-1) ?? '', description: child.description })),
    options: options.map(({ long, short, value, choices, description }) => ({
      names: short === undefined ? [long] : [long, short],
      description,
      values: value === undefined ? undefined : valuesOf(value, choices),
    })),
    arguments: taken
      .map(({ name, choices }, position) => ({ position, values: valuesOf(name, choices) }))
      .filter(({ values }) => values.kind !== 'words' || values.words.length > 0),
  };
}

function valuesOf(name: string, choices: readonly string[]): Values {
  if (choices.length > 0) return { kind: 'words', words: choices };
  if (name === 'file' || name === 'path') return { kind: 'files' };
  return name === 'folder' ? { kind: 'folders' } : { kind: 'words', words: [] };
}

/** Quoted for any of the shells. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
