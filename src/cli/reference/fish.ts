/** Completion for fish 3. */
import { everyNode, type CommandNode } from './tree.ts';
import { placeOf, type CompletedOption, type Place, type Values } from './words.ts';

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
