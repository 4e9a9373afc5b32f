/** A command of `postern`: commander's, with examples of its use, and help that says no more than is worth reading. */
import { Command, Help, type Argument, type HelpContext, type Option } from 'commander';

export interface Example {
  /** As it is typed: `postern auth list-keys`. */
  readonly line: string;
  /** What it is good for, in a few words. */
  readonly does: string;
}

export class CliCommand extends Command {
  readonly #examples: Example[] = [];
  #isRunnable = false;

  get examples(): readonly Example[] {
    return this.#examples;
  }

  /** Whether it does something by itself, which a mere group of commands does not. */
  get isRunnable(): boolean {
    return this.#isRunnable;
  }

  override action(...args: Parameters<Command['action']>): this {
    this.#isRunnable = true;
    return super.action(...args);
  }

  /** Adds an example; the program's name is put in front of the line. */
  example(line: string, does: string): this {
    this.#examples.push({ line: `postern ${line}`, does });
    return this;
  }

  override createCommand(name?: string): CliCommand {
    return new CliCommand(name);
  }

  override createHelp(): CliHelp {
    return Object.assign(new CliHelp(), this.configureHelp());
  }

  override helpInformation(context?: HelpContext): string {
    const examples = this.#examples.map(({ line, does }) => `  # ${does}\n  ${line}\n`);
    const help = super.helpInformation(context);
    return examples.length === 0 ? help : `${help}\nExamples:\n${examples.join('\n')}`;
  }
}

const COMMON: ReadonlySet<string> = new Set(['--url', '--config', '--json', '--help']);

/** Help as commander has it, without what is the same for every command. */
class CliHelp extends Help {
  override visibleCommands(command: Command): Command[] {
    return [...command.commands];
  }

  /** Those that nearly every command has come last. */
  override visibleOptions(command: Command): Option[] {
    const options = super.visibleOptions(command);
    const { true: common = [], false: own = [] } = Object.groupBy(options, ({ long = '' }) => `${COMMON.has(long)}`);
    return [...own, ...common];
  }

  override subcommandTerm(command: Command): string {
    return [command.name(), ...command.registeredArguments.map(termOf)].join(' ');
  }

  override optionDescription(option: Option): string {
    const { description, argChoices } = option;
    const defaultValue: unknown = option.defaultValue;
    const text = typeof defaultValue === 'string' ? defaultValue : JSON.stringify(defaultValue);
    const shown = option.isBoolean() || defaultValue === undefined ? [] : [`default: ${text}`];
    return withNotes(description, [...choicesIn(argChoices), ...shown]);
  }

  override argumentDescription({ description, argChoices }: Argument): string {
    return withNotes(description, choicesIn(argChoices));
  }
}

function termOf(argument: Argument): string {
  const name = `${argument.name()}${argument.variadic ? '...' : ''}`;
  return argument.required ? `<${name}>` : `[${name}]`;
}

function choicesIn(choices: readonly string[] | undefined): string[] {
  return choices === undefined ? [] : [choices.join(', ')];
}

function withNotes(text: string, notes: readonly string[]): string {
  return notes.length === 0 ? text : `${text} (${notes.join('; ')})`;
}
