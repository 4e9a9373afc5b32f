/** The scripts by which shells complete what is typed behind `postern`: a table of what is offered, and a walk through the words. */
import type { Command } from 'commander';
import { treeOf, type CommandNode, everyNode } from './tree.ts';

const SCRIPTS = { bash: bashCompletion, zsh: zshCompletion, fish: fishCompletion } as const;

/** The script for a shell. */
export function completionFor(shell: keyof typeof SCRIPTS, program: Command): string {
  return SCRIPTS[shell](treeOf(program));
}

/** What is offered at a place; `/files` and `/folders`, which are no words, stand for those of the machine. */
type Offer = readonly [place: string, words: readonly (readonly [word: string, description: string])[]];

/** Places are `commands queue`, `options queue list`, `value queue list --state` and `argument config schema 0`. */
function offersOf({ path, commands, options, arguments: taken }: CommandNode): Offer[] {
  const at = path.join(' ');
  const named = options.flatMap((option) =>
    [option.long, option.short].flatMap((name) => (name === undefined ? [] : [{ ...option, name }])),
  );
  return [
    [`commands ${at}`, commands.map((child) => [child.path.at(-1) ?? '', child.description])],
    [`options ${at}`, named.map(({ name, description }) => [name, description])],
    ...named.flatMap(({ name, value, choices }): Offer[] =>
      value === undefined ? [] : [[`value ${at} ${name}`, valuesOf(value, choices)]],
    ),
    ...taken.map(({ name, choices }, position): Offer => [`argument ${at} ${position}`, valuesOf(name, choices)]),
  ];
}

function valuesOf(name: string, choices: readonly string[]): Offer[1] {
  if (name === 'file' || name === 'path') return [['/files', '']];
  return name === 'folder' ? [['/folders', '']] : choices.map((choice) => [choice, '']);
}

/** The script that `postern completion bash` prints. */
export function bashCompletion(program: CommandNode): string {
  return `# Completion of postern for bash, made by: postern completion bash
${posixWalk(program)}
_postern() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" offers word i
  local -a typed=() how=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "\${COMP_WORDS[i]}" in
      =) ;;
      # An address comes in three words: https, a colon, //host.
      :) i=$((i + 1)) ;;
      *) typed+=("\${COMP_WORDS[i]}") ;;
    esac
  done
  if [[ $cur == = ]]; then cur=''; fi
  offers="$(__postern_offers "$(__postern_place "\${typed[@]}" "$cur")" | cut -d : -f 1)"
  case "$offers" in
    /files) compopt -o filenames 2> /dev/null; how=(-f) ;;
    /folders) compopt -o filenames 2> /dev/null; how=(-d) ;;
    *) how=(-W "$offers") ;;
  esac
  COMPREPLY=()
  while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen "\${how[@]}" -- "$cur")
}

complete -o bashdefault -F _postern postern
`;
}

/** The script that `postern completion zsh` prints. */
export function zshCompletion(program: CommandNode): string {
  return `#compdef postern
# Completion of postern for zsh, made by: postern completion zsh
${posixWalk(program)}
_postern() {
  local cur="\${words[CURRENT]}" place
  local -a typed offers
  typed=(\${words[2,CURRENT-1]})
  if [[ $cur == --*=* ]]; then
    typed+=("\${cur%%=*}")
    cur="\${cur#*=}"
    compset -P '*='
  fi
  place="$(__postern_place "\${typed[@]}" "$cur")"
  offers=(\${(f)"$(__postern_offers "$place")"})
  case "\${offers[1]}" in
    /files) _files ;;
    /folders) _files -/ ;;
    *) if [[ $place == options* ]]; then _describe -o option offers; else _describe word offers; fi ;;
  esac
}

if [[ $funcstack[1] == _postern ]]; then _postern "$@"; else compdef _postern postern; fi
`;
}

/** The functions that bash and zsh have in common. */
function posixWalk(program: CommandNode): string {
  const cases = everyNode(program)
    .flatMap(offersOf)
    .map(([place, words]) => {
      const lines = words.map(([word, description]) => quoted(description === '' ? word : `${word}:${description}`));
      return `    ${quoted(place)}) ${lines.length === 0 ? ':' : String.raw`printf '%s\n' ${lines.join(' ')}`} ;;`;
    });
  return `
# Prints what is offered at a place: on each line a word, a colon and what it does. Fails if there is no such place.
__postern_offers() {
  case "$1" in
${cases.join('\n')}
    *) return 1 ;;
  esac
}

# Prints the place of the last of these words.
__postern_place() {
  local at='' option='' position=0
  while [ $# -gt 1 ]; do
    if [ -n "$option" ]; then
      option=''
    elif __postern_offers "value $at $1" > /dev/null; then
      option="$1"
    elif __postern_offers "commands \${at:+$at }$1" > /dev/null; then
      at="\${at:+$at }$1"
    elif [ "\${1#-}" = "$1" ]; then
      position=$((position + 1))
    fi
    shift
  done
  if [ -n "$option" ]; then
    echo "value $at $option"
  elif [ "\${1#-}" != "$1" ]; then
    echo "options $at"
  elif [ -n "$(__postern_offers "commands $at")" ]; then
    echo "commands $at"
  else
    echo "argument $at $position"
  fi
}
`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** The script that `postern completion fish` prints. */
export function fishCompletion(program: CommandNode): string {
  const cases = everyNode(program)
    .flatMap(offersOf)
    .map(([place, words]) => {
      const lines = words.map(([word, description]) => quotedForFish(`${word}\t${description}`));
      return `        case ${quotedForFish(place)}
            ${lines.length === 0 ? 'true' : String.raw`printf '%s\n' ${lines.join(' ')}`}`;
    });
  return `# Completion of postern for fish, made by: postern completion fish

# Prints what is offered at a place: on each line a word, a tab and what it does. Fails if there is no such place.
function __postern_offers
    switch "$argv[1]"
${cases.join('\n')}
        case '*'
            return 1
    end
end

function __postern_complete
    set -l cur (commandline -ct)
    set -l typed (commandline -opc)[2..-1]
    set -l before ''
    if string match -q -- '--*=*' "$cur"
        set before (string replace -r '=.*' '=' -- "$cur")
        set -a typed (string trim -r -c = -- $before)
        set cur (string replace -r '.*?=' '' -- "$cur")
    end
    set -l at ''
    set -l option ''
    set -l position 0
    for word in $typed
        set -l command (string trim -- "$at $word")
        if test -n "$option"
            set option ''
        else if __postern_offers "value $at $word" >/dev/null
            set option $word
        else if __postern_offers "commands $command" >/dev/null
            set at $command
        else if not string match -q -- '-*' "$word"
            set position (math $position + 1)
        end
    end
    set -l place "argument $at $position"
    if test -n "$option"
        set place "value $at $option"
    else if string match -q -- '-*' "$cur"
        set place "options $at"
    else if count (__postern_offers "commands $at") >/dev/null
        set place "commands $at"
    end
    set -l offers (__postern_offers $place)
    switch (string trim -- "$offers")
        case /files
            set offers (__fish_complete_path "$cur")
        case /folders
            set offers (__fish_complete_directories "$cur")
    end
    string join \\n -- $before$offers
end

complete -c postern -f -a '(__postern_complete)'
`;
}

/** Within its single quotes fish takes backslashes for escapes. */
function quotedForFish(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}
