/** The scripts by which shells complete what is typed behind `postern`. */
import type { Command } from 'commander';
import { treeOf, type CommandNode, everyNode } from './tree.ts';

const SCRIPTS = { bash: bashCompletion, zsh: zshCompletion, fish: fishCompletion } as const;

/** The script for a shell. */
export function completionFor(shell: keyof typeof SCRIPTS, program: Command): string {
  return SCRIPTS[shell](treeOf(program));
}

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
function placeOf({ path, commands, options, arguments: taken }: CommandNode): Place {
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
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** The script that `postern completion bash` prints. */
export function bashCompletion(program: CommandNode): string {
  const places = everyNode(program).map(placeOf);
  return `# Completion of postern for bash, made by: postern completion bash

# The commands below a command.
__postern_commands() {
  case "$1" in
${cases(places.filter(({ commands }) => commands.length > 0).map(({ path, commands }) => [path, words(commands.map(({ name }) => name))]))}
  esac
}

# The options of a command.
__postern_options() {
  case "$1" in
${cases(places.map(({ path, options }) => [path, words(options.flatMap(({ names }) => names))]))}
  esac
}

# What an option of a command takes; fails where it takes nothing.
__postern_values() {
  case "$1 $2" in
${cases(places.flatMap((place) => optionCases(place, bashValues)))}
    *) return 1 ;;
  esac
}

# What stands at a position behind a command.
__postern_arguments() {
  case "$1 $2" in
${cases(places.flatMap(({ path, arguments: taken }) => taken.map(({ position, values }) => [`${path} ${position}`, bashValues(values)])))}
  esac
}

${BASH_WALK}`;
}

function optionCases({ path, options }: Place, render: (values: Values) => string): [string, string][] {
  return options.flatMap(({ names, values }) =>
    values === undefined ? [] : names.map((name): [string, string] => [`${path} ${name}`, render(values)]),
  );
}

function cases(entries: readonly (readonly [string, string])[]): string {
  return entries.map(([pattern, action]) => `    ${quoted(pattern)}) ${action} ;;`).join('\n');
}

function words(list: readonly string[]): string {
  return `echo ${quoted(list.join(' '))}`;
}

/** Slashes are in no word: they tell files and folders from a list. */
function bashValues(values: Values): string {
  return values.kind === 'words' ? words(values.words) : `echo /${values.kind}`;
}

const BASH_WALK = `_postern() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" at='' position=0 option='' word values i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="\${COMP_WORDS[i]}"
    if [[ $word == = ]]; then continue; fi
    # An address comes in three words: https, a colon, //host.
    if [[ $word == : ]]; then i=$((i + 1)); continue; fi
    if [[ -n $option ]]; then
      option=''
    elif [[ $word == -* ]]; then
      if __postern_values "$at" "$word" > /dev/null; then option="$word"; fi
    elif [[ " $(__postern_commands "$at") " == *" $word "* ]]; then
      at="\${at:+$at }$word"
    else
      position=$((position + 1))
    fi
  done
  if [[ $cur == = ]]; then cur=''; fi
  if [[ -n $option ]]; then
    values="$(__postern_values "$at" "$option")"
  elif [[ $cur == -* ]]; then
    values="$(__postern_options "$at")"
  else
    values="$(__postern_commands "$at")"
    if [[ -z $values ]]; then values="$(__postern_arguments "$at" "$position")"; fi
  fi
  COMPREPLY=()
  case "$values" in
    /files) compopt -o filenames 2> /dev/null; while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$cur") ;;
    /folders) compopt -o filenames 2> /dev/null; while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -d -- "$cur") ;;
    *) while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -W "$values" -- "$cur") ;;
  esac
}

complete -o bashdefault -F _postern postern
`;

/** The script that `postern completion fish` prints. */
export function fishCompletion(program: CommandNode): string {
  const places = everyNode(program).map(placeOf);
  const paths = places.filter(({ path }) => path !== '').map(({ path }) => quotedForFish(path));
  const taking = places.flatMap(({ options }) => options.filter(({ values }) => values !== undefined));
  const names = [...new Set(taking.flatMap((option) => option.names))];
  return `# Completion of postern for fish, made by: postern completion fish

set -g __postern_paths ${paths.join(' ')}
set -g __postern_taking ${names.map(quotedForFish).join(' ')}

# Whether the line so far names this command, and stands at this position behind it where one is given.
function __postern_at
    set -l at ''
    set -l position 0
    set -l taken 0
    for word in (commandline -opc)[2..-1]
        if test $taken = 1
            set taken 0
        else if string match -q -- '-*' $word
            contains -- $word $__postern_taking; and set taken 1
        else if contains -- (string trim -- "$at $word") $__postern_paths
            set at (string trim -- "$at $word")
        else
            set position (math $position + 1)
        end
    end
    test "$at" = "$argv[1]"; or return 1
    test (count $argv) = 1; or test "$position" = "$argv[2]"
end

complete -c postern -f
${places.flatMap(linesOf).join('\n')}
`;
}

function linesOf({ path, commands, options, arguments: taken }: Place): string[] {
  const at = `__postern_at ${quotedForFish(path)}`;
  return [
    ...commands.map(({ name, description }) => line(at, [`-a ${name}`, described(description)])),
    ...options.map((option) => line(at, optionParts(option))),
    ...taken.map(({ position, values }) => line(`${at} ${position}`, valueParts(values))),
  ];
}

function line(condition: string, parts: readonly string[]): string {
  return `complete -c postern -n ${quotedForFish(condition)} ${parts.join(' ')}`;
}

function optionParts({ names, description, values }: CompletedOption): string[] {
  const flags = names.map((name) => (name.startsWith('--') ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`));
  return [...flags, described(description), ...(values === undefined ? [] : ['-r', ...valueParts(values)])];
}

function valueParts(values: Values): string[] {
  switch (values.kind) {
    case 'words':
      return ['-f', ...(values.words.length === 0 ? [] : [`-a ${quotedForFish(values.words.join(' '))}`])];
    case 'files':
      return ['-F'];
    case 'folders':
      return [`-f -a ${quotedForFish('(__fish_complete_directories)')}`];
  }
}

function described(text: string): string {
  return `-d ${quotedForFish(text)}`;
}

/** Within its single quotes fish takes backslashes for escapes. */
function quotedForFish(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}

/** The script that `postern completion zsh` prints. */
export function zshCompletion(program: CommandNode): string {
  const places = everyNode(program).map(placeOf);
  return `#compdef postern
# Completion of postern for zsh, made by: postern completion zsh

# Sets reply to the commands below a command, each with what it does.
__postern_commands() {
  reply=()
  case "$1" in
${cases(places.filter(({ commands }) => commands.length > 0).map(({ path, commands }) => [path, zshDescribed(commands.map(({ name, description }) => [name, description]))]))}
  esac
}

# Sets reply to the options of a command, each with what it does.
__postern_options() {
  reply=()
  case "$1" in
${cases(places.map(({ path, options }) => [path, zshDescribed(options.flatMap(({ names, description }) => names.map((name) => [name, description] as const)))]))}
  esac
}

# Sets reply to what an option of a command takes; fails where it takes nothing.
__postern_values() {
  reply=()
  case "$1 $2" in
${cases(places.flatMap((place) => optionCases(place, zshValues)))}
    *) return 1 ;;
  esac
}

# Sets reply to what stands at a position behind a command.
__postern_arguments() {
  reply=()
  case "$1 $2" in
${cases(places.flatMap(({ path, arguments: taken }) => taken.map(({ position, values }): [string, string] => [`${path} ${position}`, zshValues(values)])))}
  esac
}

${ZSH_WALK}`;
}

function zshDescribed(list: readonly (readonly [string, string])[]): string {
  return `reply=(${list.map(([name, does]) => quoted(`${name}:${does}`)).join(' ')})`;
}

/** Slashes are in no word: they tell files and folders from a list. */
function zshValues(values: Values): string {
  return `reply=(${(values.kind === 'words' ? values.words : [`/${values.kind}`]).map(quoted).join(' ')})`;
}

const ZSH_WALK = `_postern() {
  local at='' option='' word cur="\${words[CURRENT]}"
  local -i i position=0
  local -a reply
  for ((i = 2; i < CURRENT; i++)); do
    word="\${words[i]}"
    if [[ -n $option ]]; then
      option=''
    elif [[ $word == -* ]]; then
      if [[ $word != *=* ]] && __postern_values "$at" "$word"; then option="$word"; fi
    else
      __postern_commands "$at"
      if [[ -n \${reply[(r)$word:*]} ]]; then at="\${at:+$at }$word"; else position+=1; fi
    fi
  done
  if [[ -z $option && $cur == --*=* ]]; then
    option="\${cur%%=*}"
    compset -P '*='
  fi
  if [[ -n $option ]]; then
    __postern_values "$at" "$option"
    __postern_offer
  elif [[ $cur == -* ]]; then
    __postern_options "$at"
    _describe -o option reply
  else
    __postern_commands "$at"
    if ((\${#reply})); then
      _describe command reply
    else
      __postern_arguments "$at" "$position"
      __postern_offer
    fi
  fi
}

# Offers what reply holds.
__postern_offer() {
  case "\${reply[1]}" in
    /files) _files ;;
    /folders) _files -/ ;;
    *) compadd -a reply ;;
  esac
}

if [[ $funcstack[1] == _postern ]]; then _postern "$@"; else compdef _postern postern; fi
`;
