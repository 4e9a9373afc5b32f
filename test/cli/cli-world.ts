/** A person with an account and a folder, in front of a running daemon. */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { endText, exitCodeOf } from '../../src/cli/run.ts';
import { UserError } from '../../src/lib/errors.ts';
import { startTestWorld, type TestWorld, type WorldSettings } from '../harness/daemon.ts';
import { testKey, type TestKeySettings } from '../harness/keys.ts';
import { temporaryFolder } from '../harness/store.ts';
import { runCommand, testTerminal, type TestTerminalOptions } from '../harness/terminal.ts';

export interface Said {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export interface Person {
  readonly folder: string;
  readonly env: Readonly<Record<string, string>>;
  /** Runs `postern ARGS…` in the folder, as the real command ends. */
  say(args: readonly string[], terminal?: TestTerminalOptions): Promise<Said>;
  write(name: string, text: string): Promise<void>;
  read(name: string): Promise<string>;
}

export interface CliWorld extends TestWorld, Person {
  readonly tenant: string;
  /** Publishes what the tenant's domain has to. */
  publish(domain: string): Promise<void>;
}

/** A person in an empty folder, with this environment. */
export async function person(env: Readonly<Record<string, string>> = {}): Promise<Person> {
  const folder = await temporaryFolder();
  const here = { XDG_CONFIG_HOME: join(folder, '.config'), ...env };
  return {
    folder,
    env: here,
    async say(args, options = {}) {
      const terminal = testTerminal({ folder, env: here, ...options });
      const code = await runCommand(terminal, args).catch((error: unknown) => {
        // As main.ts does.
        if (!(error instanceof UserError)) throw error;
        terminal.writeError(endText(error, args.includes('--json')));
        return exitCodeOf(error);
      });
      return { code, out: terminal.out(), err: terminal.err() };
    },
    async write(name, text) {
      await mkdir(dirname(join(folder, name)), { recursive: true });
      await writeFile(join(folder, name), text);
    },
    read: (name) => readFile(join(folder, name), 'utf8'),
  };
}

/** The daemon, and a person with a key of a new account. */
export async function cliWorld(key: TestKeySettings = {}, settings: WorldSettings = {}): Promise<CliWorld> {
  const world = await startTestWorld(settings);
  const { tenant, value } = await testKey(world.daemon.store, key);
  const someone = await person({ POSTERN_URL: world.url, POSTERN_API_KEY: value });
  return {
    ...world,
    ...someone,
    tenant,
    async publish(domain) {
      const report = await world.daemon.domains.report(domain, tenant);
      const records = report?.records.filter(({ required }) => required) ?? [];
      world.dns.set([
        ...world.publicZone,
        ...records.map(({ name, type, value: text }) => ({ name, type, value: text })),
      ]);
    },
  };
}

/** A project with a form and a template in a file of its own. */
export const YAML = `project: { name: Shop, slug: shop, owner: owner@inbox.test }
domains:
  shop.test:
    forms:
      contact: { name: Contact, to: owner@inbox.test, template: mine }
templates:
  mine: { subject: "Shop: {{ form.name }}", html_file: templates/mine.html }
`;
export const HTML = '<p>Hello {{ form.name }}</p>\n';
