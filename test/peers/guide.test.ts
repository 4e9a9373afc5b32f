/**
 * The commands of docs/install.md, as they stand there, in a booted Debian: from nothing to the first delivered form post over
 * HTTPS, with a certificate of Pebble and a mailbox of Postfix. What they print is docs/install-transcript.md
 * (`npm run test:peers -- test/peers/guide.test.ts --update` writes it anew).
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { bootDebian, type DebianMachine } from '../harness/debian-machine.ts';
import { verifyWithDkimpy } from '../harness/dkimpy.ts';
import { addressOf, real, shown, startInternet } from '../harness/internet.ts';

const ROOT = join(import.meta.dirname, '../..');
const MAX_COMMANDS = 6;
/** The first test of a machine makes the root file system of all. */
vi.setConfig({ testTimeout: 400_000 });

let work: string;
let release: readonly string[];

beforeAll(() => {
  work = mkdtempSync(join(tmpdir(), 'postern-test-'));
  const script = join(ROOT, 'scripts/package.ts');
  const args = ['--disable-warning=ExperimentalWarning', script, '--quick', '--arch', 'amd64', '--out', work];
  execFileSync(process.execPath, args, { cwd: ROOT, stdio: ['ignore', 'ignore', 'inherit'] });
  release = readdirSync(work).map((name) => join(work, name));
}, 600_000);

afterAll(() => rmSync(work, { recursive: true, force: true }));

/** The commands of the numbered sections, up to the first form post, or those of another section. */
function commandsIn(part: 'steps' | 'Other ways to install'): string[] {
  const page = readFileSync(join(ROOT, 'docs/install.md'), 'utf8');
  const sections = page
    .split(/^## /m)
    .filter((each) => (part === 'steps' ? /^\d\. /.test(each) : each.startsWith(part)));
  const blocks = sections.flatMap((each) => Array.from(each.matchAll(/```sh\n([^]*?)```/g), ([, block = '']) => block));
  const commands = blocks.flatMap((block) => block.trimEnd().split(/(?<!\\)\n/));
  return part === 'steps' ? commands.slice(0, 1 + commands.findIndex((each) => each.includes('/contact'))) : commands;
}

/** What changes from run to run stands as it could. */
function steady(output: string): string {
  const steadied = output
    .replaceAll(/\bp=[A-Za-z0-9+/]{100,}=*"?( "[^"]*")?/g, 'p=MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A…IDAQAB')
    .replaceAll(/postern-verification=\w+/g, 'postern-verification=3f0c9a52b1d84e67a2c5d9f01b7e4836')
    .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g, '2026-01-31T12:00:00Z')
    .replaceAll(/(?<=until )\d{4}-\d\d-\d\d/g, '2026-05-01')
    .replaceAll(/[\d.]+ GiB of [\d.]+ GiB/g, '38.2 GiB of 40.0 GiB')
    .replaceAll(/\b(sub|req)_\w{20,}/g, '$1_01kdvdna0028mnj6x335mx9699')
    // dpkg draws a progress over its lines.
    .replaceAll(/^\(Reading database [^\n]*\n/gm, '')
    .replaceAll(/\r/g, '')
    .replaceAll(/\n{3,}/g, '\n\n')
    .replaceAll(/^\d+ upgraded.*\n?|^debconf: .*\n?/gm, '')
    .replaceAll(/(?<=with [GU]ID )\d+/g, '997')
    .replaceAll(/the oldest due for \d+ s/g, 'the oldest due for 0 s')
    .replaceAll(/[\d.]+ MB\b/g, '58.3 MB')
    .replaceAll('58.3 MB of additional', '152 MB of additional');
  return shown(steadied);
}

interface Walked {
  readonly machine: DebianMachine;
  /** Each command and what it printed. */
  readonly transcript: readonly string[];
}

/** Does what a reader does: runs the commands, publishes the records, and looks into the mailbox. */
async function walk(commands: readonly string[]): Promise<Walked> {
  const machine = await bootDebian();
  const internet = await startInternet(machine, {
    // What step 1 has published; and whom else the server meets.
    zone: real(`mail.example.net. A ${addressOf('machine')}
${addressOf('machine').split('.').toReversed().join('.')}.in-addr.arpa. PTR mail.example.net.
example.net. MX 10 mx.example.net.
mx.example.net. A ${addressOf('mail')}
gmail.com. MX 10 mx.example.net.
outlook.com. MX 10 mx.example.net.
yahoo.com. MX 10 mx.example.net.`),
    downloads: { host: real('downloads.example.org'), files: release },
  });
  const transcript: string[] = [];
  for (const command of commands) {
    const isPost = command.startsWith('curl --header');
    const output = isPost ? await internet.run(real(command)) : await machine.succeed(`cd /root\n${real(command)}`);
    transcript.push(`$ ${command}\n${output.trimEnd()}`.trimEnd());
    if (command.includes('postern setup')) await internet.publish(await machine.succeed('cat /root/records.zone'));
  }

  const [mail] = await internet.mail.untilMessages(1);
  const source = mail?.raw ?? Buffer.alloc(0);
  expect(mail?.recipient).toBe(real('you@example.net'));
  expect(source.toString()).toContain('Is this thing on?');
  expect(source.toString()).toMatch(new RegExp(`^DKIM-Signature: [^]*?\\bd=${real('example.com')};`, 'm'));
  const zone = await machine.succeed('cat /root/records.zone');
  const keys = Array.from(zone.matchAll(/^(\S+_domainkey\S+)\. \d+ IN TXT (.*)$/gm), ([, name = '', value = '']) => ({
    name,
    value: value.replaceAll(/^"|" "|"$/g, ''),
  }));
  expect(await verifyWithDkimpy([source], keys)).toEqual([['pass']]);

  // Nothing is left for the administrator but what cannot be seen from the machine.
  const doctor = await machine.succeed('postern doctor');
  expect(doctor).not.toMatch(/^(?:failed|warning)/m);
  expect(doctor).toMatch(/^ok +certificate +mail\.exampel\.net, until /m);
  return { machine, transcript };
}

test('its commands lead to a delivered form post, signed, over HTTPS', async () => {
  const commands = commandsIn('steps');
  expect(commands.length).toBeLessThanOrEqual(MAX_COMMANDS);
  const { transcript } = await walk(commands);
  const page = `# A transcript of the installation

<!-- Made by test/peers/guide.test.ts from the commands of install.md. -->

The commands of [Install](install.md) on an empty Debian 12, and what they print. Keys are shortened. A visitor's computer
runs the last command.

${transcript.map((part) => `\`\`\`text\n${steady(part)}\n\`\`\`\n`).join('\n')}`;
  await expect(page).toMatchFileSnapshot(join(ROOT, 'docs/install-transcript.md'));
});

test('so do those for the tarball', async () => {
  const [download = '', unpack = '', setup = ''] = commandsIn('Other ways to install');
  const steps = commandsIn('steps');
  const usual = steps.findIndex((command) => command.startsWith('postern setup'));
  expect(setup).toMatch(/^\/opt\/.*\/bin\/postern setup you@example\.net$/);
  const answered = `${setup}${steps[usual]?.replace('postern setup you@example.net', '')}`;
  const { machine } = await walk([download, unpack, answered, ...steps.slice(usual + 1)]);
  expect(await machine.succeed('readlink /opt/postern /usr/local/bin/postern')).toMatch(
    /^postern-\d\S+\n\/opt\/postern\/bin\/postern\n$/,
  );
});
