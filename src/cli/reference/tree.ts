/** The commands as plain data: what the man page, the page of documentation and the completions are made from. */
import type { Command } from 'commander';
import { CliCommand, type Example } from '../command.ts';

interface Described {
  /** With its choices and default, as help has it. */
  readonly description: string;
  readonly choices: readonly string[];
}

interface ArgumentNode extends Described {
  readonly name: string;
  readonly isRequired: boolean;
  readonly isVariadic: boolean;
}

interface OptionNode extends Described {
  /** `--limit <count>`, `-h, --help` */
  readonly flags: string;
  /** `--limit` */
  readonly long: string;
  readonly short: string | undefined;
  /** `count`; undefined where it takes no value. */
  readonly value: string | undefined;
}

export interface CommandNode {
  /** `['queue', 'list']`; none of the program itself. */
  readonly path: readonly string[];
  readonly description: string;
  /** Heading in the list of commands. */
  readonly group: string;
  /** `postern queue list [options]` */
  readonly usage: string;
  readonly arguments: readonly ArgumentNode[];
  readonly options: readonly OptionNode[];
  readonly examples: readonly Example[];
  readonly commands: readonly CommandNode[];
  /** Whether it does something by itself. */
  readonly isRunnable: boolean;
  /** What `--help` prints. */
  readonly help: string;
}

/** The program as data; each of its commands has `--help`. */
export function treeOf(command: Command, path: readonly string[] = []): CommandNode {
  const help = command.createHelp();
  return {
    path,
    description: command.description(),
    group: command.helpGroup() ?? '',
    usage: help.commandUsage(command),
    arguments: command.registeredArguments.map((argument) => ({
      name: argument.name(),
      isRequired: argument.required,
      isVariadic: argument.variadic,
      description: help.argumentDescription(argument),
      choices: argument.argChoices ?? [],
    })),
    options: help.visibleOptions(command).map((option) => ({
      flags: option.flags,
      long: option.long ?? option.flags,
      short: option.short,
      value: /[<[]([^>\]]+)[>\]]/.exec(option.flags)?.[1],
      description: help.optionDescription(option),
      choices: option.argChoices ?? [],
    })),
    examples: command instanceof CliCommand ? command.examples : [],
    commands: command.commands.map((child) => treeOf(child, [...path, child.name()])),
    isRunnable: command instanceof CliCommand && command.isRunnable,
    help: command.helpInformation(),
  };
}

/** All commands below, and the program itself, in the order of help. */
export function everyNode(node: CommandNode): CommandNode[] {
  return [node, ...node.commands.flatMap(everyNode)];
}

/** The commands that can be run. */
export function leavesOf(node: CommandNode): CommandNode[] {
  return everyNode(node).filter(({ isRunnable }) => isRunnable);
}
