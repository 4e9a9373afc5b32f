/** The tree of all commands. */
import { createProgram } from '../../../src/cli/program.ts';
import { treeOf, type CommandNode } from '../../../src/cli/reference/tree.ts';
import { testTerminal } from '../../harness/terminal.ts';

export async function programTree(): Promise<CommandNode> {
  const unused = () => Promise.reject(new Error('nothing runs here'));
  return treeOf(
    await createProgram({
      version: '0.0.0',
      terminal: testTerminal(),
      exit: () => undefined,
      services: {
        serve: unused,
        dev: unused,
        answerOffline: unused,
        preflight: { check: unused, hostRecords: unused },
      },
    }),
  );
}
