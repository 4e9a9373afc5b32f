/** Completion for bash 3.2 (that of macOS) and later; needs nothing but bash. */
import { everyNode, type CommandNode } from './tree.ts';
import { placeOf, quoted, type Place, type Values } from './words.ts';

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
${cases(places.flatMap(optionCases))}
    *) return 1 ;;
  esac
}

# What stands at a position behind a command.
__postern_arguments() {
  case "$1 $2" in
${cases(places.flatMap(({ path, arguments: taken }) => taken.map(({ position, values }) => [`${path} ${position}`, valueWords(values)])))}
  esac
}

${WALK}`;
}

function optionCases({ path, options }: Place): [string, string][] {
  return options.flatMap(({ names, values }) =>
    values === undefined ? [] : names.map((name): [string, string] => [`${path} ${name}`, valueWords(values)]),
  );
}

function cases(entries: readonly (readonly [string, string])[]): string {
  return entries.map(([pattern, action]) => `    ${quoted(pattern)}) ${action} ;;`).join('\n');
}

function words(list: readonly string[]): string {
  return `echo ${quoted(list.join(' '))}`;
}

/** Slashes are in no word: they tell files and folders from a list. */
function valueWords(values: Values): string {
  return values.kind === 'words' ? words(values.words) : `echo /${values.kind}`;
}

const WALK = `_postern() {
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
