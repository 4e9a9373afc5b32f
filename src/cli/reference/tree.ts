/** The commands as plain data: what the man page, the page of documentation and the completions are made from. */
import type { Argument, Command, Option } from 'commander';
import { CliCommand, type Example } from '../command.ts';

export interface ArgumentNode {
  readonly name: string;
  readonly isRequired: boolean;
  readonly isVariadic: boolean;
  readonly description: string;
  readonly choices: readonly string[];
}

export interface OptionNode {
  /** `--limit <count>`, `-h, --help` */
  readonly flags: string;
  /** `--limit` */
  readonly long: string;
  readonly short: string | undefined;
  /** `count`; undefined where it takes no value. */
  readonly value: string | undefined;
  /** With its choices and default, as help has it. */
  readonly description: string;
  readonly choices: readonly string[];
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
  const commands = command.commands.map((child) => treeOf(child, [...path, child.name()]));
  return {
    path,
    description: command.description(),
    group: command.helpGroup() ?? '',
    usage: help.commandUsage(command),
    arguments: command.registeredArguments.map((argument) =>
      argumentNode(argument, help.argumentDescription(argument)),
    ),
    options: help.visibleOptions(command).map((option) => optionNode(option, help.optionDescription(option))),
    examples: command instanceof CliCommand ? command.examples : [],
    commands,
    isRunnable: command instanceof CliCommand && command.isRunnable,
    help: command.helpInformation(),
  };
}

function argumentNode(argument: Argument, description: string): ArgumentNode {
  const { required: isRequired, variadic: isVariadic, argChoices: choices = [] } = argument;
  return { name: argument.name(), isRequired, isVariadic, description, choices };
}

function optionNode({ flags, long, short, argChoices: choices = [] }: Option, description: string): OptionNode {
  const value = /[<[]([^>\]]+)[>\]]/.exec(flags)?.[1];
  return { flags, long: long ?? flags, short, value, description, choices };
}

/** All commands below, and the program itself, in the order of help. */
export function everyNode(node: CommandNode): CommandNode[] {
  return [node, ...node.commands.flatMap(everyNode)];
}

/** The commands that can be run. */
export function leavesOf(node: CommandNode): CommandNode[] {
  return everyNode(node).filter(({ isRunnable }) => isRunnable);
}
