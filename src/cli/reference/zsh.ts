/** Completion for zsh 5. */
import { everyNode, type CommandNode } from './tree.ts';
import { placeOf, quoted, type Place, type Values } from './words.ts';

/** The script that `postern completion zsh` prints. */
export function zshCompletion(program: CommandNode): string {
  const places = everyNode(program).map(placeOf);
  return `#compdef postern
# Completion of postern for zsh, made by: postern completion zsh

# Sets reply to the commands below a command, each with what it does.
__postern_commands() {
  reply=()
  case "$1" in
${cases(places.filter(({ commands }) => commands.length > 0).map(({ path, commands }) => [path, described(commands.map(({ name, description }) => [name, description]))]))}
  esac
}

# Sets reply to the options of a command, each with what it does.
__postern_options() {
  reply=()
  case "$1" in
${cases(places.map(({ path, options }) => [path, described(options.flatMap(({ names, description }) => names.map((name) => [name, description] as const)))]))}
  esac
}

# Sets reply to what an option of a command takes; fails where it takes nothing.
__postern_values() {
  reply=()
  case "$1 $2" in
${cases(places.flatMap(optionCases))}
    *) return 1 ;;
  esac
}

# Sets reply to what stands at a position behind a command.
__postern_arguments() {
  reply=()
  case "$1 $2" in
${cases(places.flatMap(({ path, arguments: taken }) => taken.map(({ position, values }): [string, string] => [`${path} ${position}`, valueWords(values)])))}
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

function described(list: readonly (readonly [string, string])[]): string {
  return `reply=(${list.map(([name, does]) => quoted(`${name}:${does}`)).join(' ')})`;
}

/** Slashes are in no word: they tell files and folders from a list. */
function valueWords(values: Values): string {
  return `reply=(${(values.kind === 'words' ? values.words : [`/${values.kind}`]).map(quoted).join(' ')})`;
}

const WALK = `_postern() {
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
