/**
 * `postern setup`: from an unpacked program to a running server. It looks at DNS, port 25 and other listeners before it changes
 * anything, shows what it would make, makes what is missing and nothing else, starts the service, and prints the DNS records that
 * are still to be published. Run again, it does what is left.
 */
import { execFile } from 'node:child_process';
import { chown, lstat, mkdir, readFile, readlink, stat, symlink, writeFile } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { connect } from 'node:tls';
import { promisify } from 'node:util';
import { stringify } from 'yaml';
import { listProjects, readText } from '../config/files.ts';
import { glanceAtProject, parseServer } from '../config/parse.ts';
import { formatProblem } from '../config/problem.ts';
import * as is from '../config/scalars.ts';
import { httpPlaces, tlsModeOf } from '../config/schema-server.ts';
import type { ServerConfig } from '../config/schema.ts';
import { machineSecrets } from '../config/secrets.ts';
import { hostKeys } from '../contract/domains.ts';
import { doctor } from '../contract/server.ts';
import { codeOf, messageOf, UserError } from '../lib/errors.ts';
import { printable } from '../lib/printable.ts';
import { parseListenAddress } from '../lib/sockets.ts';
import { zoneText } from '../lib/zone-file.ts';
import { CommandFailed, createClient, type Client } from './client.ts';
import type { CliCommand } from './command.ts';
import { everyDomain, isCorrect, recordText, type ShownRecord } from './dns-records.ts';
import { showChecks, type Check } from './doctor.ts';
import { projectFiles, proposedProject } from './init.ts';
import { counted } from './output.ts';
import { answerTo, EXIT, isConfirmed, poll } from './run.ts';
import type { Terminal } from './terminal.ts';
import { domainName, mailAddress } from './values.ts';

/** What setup looks at beside the daemon. */
export interface Preflight {
  /** Before the daemon starts. */
  check(config: ServerConfig): Promise<{
    readonly checks: readonly Check[];
    readonly addresses: readonly string[];
    readonly isNamed: boolean;
  }>;
  /** The records of the server's own name, at these addresses and with these DKIM records. */
  hostRecords(
    config: ServerConfig,
    addresses: readonly string[],
    keys: readonly { readonly name: string; readonly value: string }[],
  ): Promise<readonly ShownRecord[]>;
}

interface SetupFlags {
  readonly hostname?: string;
  /** False: none. */
  readonly domain?: string | false;
  readonly zone?: string;
  readonly dryRun: boolean;
  readonly yes: boolean;
}

/** Adds `setup`. */
export function addCommands(program: CliCommand, { preflight }: { readonly preflight: Preflight }): void {
  const { terminal, exit } = program.cli;
  program
    .command('setup')
    .summary('Set up this machine as a server')
    .argument('<email>', 'Your email address: operator of the server, and recipient of the first form', mailAddress)
    .description(
      'Set up this machine as a server: check it, create the user, configuration, service and first form, obtain a certificate, and show the DNS records to add. Needs root and systemd. Creates only what is missing and changes nothing that exists, so it is safe to run again',
    )
    .option('--hostname <name>', 'Host name of the server, such as mail.example.net', domainName)
    .option('--domain <domain>', 'Domain of the first website, which gets a contact form', domainName)
    .option('--no-domain', 'Set up the server without a first form')
    .option('--zone <file>', 'Also write the DNS records to a zone file')
    .option('--dry-run', 'Check, and show what would be created', false)
    .confirmed()
    .example('setup you@example.com', 'Asks for the host name, the domain and your confirmation')
    .example('setup you@example.com --hostname mail.example.com --yes', 'From a script')
    .action(async (email: string, flags: SetupFlags) => exit(await setup(terminal, { ...flags, email }, preflight)));
}

interface SetupOptions extends SetupFlags {
  readonly email: string;
}

async function setup(terminal: Terminal, flags: SetupOptions, preflight: Preflight): Promise<number> {
  const { write } = terminal;
  const program = join(import.meta.dirname, '../..');
  await checkMachine(program);
  const before = await readServer(terminal);
  const { text, config } = before ?? (await newServer(terminal, flags));
  const domain = await firstDomain(terminal, flags, { config, isNew: before === undefined });
  heading(terminal, `Checks for ${config.server.hostname}`);
  terminal.progress('Checking …');
  const { checks, addresses, isNamed } = await preflight.check(config);
  terminal.progress('');
  showChecks(checks, terminal);

  const wasActive = await isServiceActive();
  const client = createClient({ address: `unix:${config.server.admin_socket}` });
  const isServed = domain !== undefined && (await hasDomain(domain, wasActive ? client : undefined));
  const project = domain === undefined || isServed ? undefined : proposedProject({ domain, email: flags.email });
  const files = new Map([['server.yml', text], ...(project === undefined ? [] : projectFiles(project, 'server'))]);
  const steps = await installationSteps(program, files);
  heading(terminal, 'Plan');
  for (const step of steps) writeStep(terminal, step);
  if (isServed) write(`  present  ${domain}\n`);
  writeContradictions(terminal, flags, before?.config);
  write(`  ${wasActive ? 'running ' : 'start   '} postern.service\n`);
  const blocked = checks.filter(({ status }) => status === 'failed');
  if (flags.dryRun) {
    write('\nDry run: nothing was changed.\n');
    return EXIT.done;
  }
  if (blocked.length > 0) {
    terminal.writeError(`\nNothing was changed. Stop the programs that use these ports, and run setup again.\n`);
    return EXIT.failed;
  }
  const missing = steps.filter(({ state }) => state === 'missing');
  if (missing.length > 0 || !wasActive) {
    if (!(await isConfirmed(terminal, '\nContinue?', flags.yes))) return EXIT.failed;
    for (const step of missing) await step.apply();
    terminal.progress('Starting …');
    await startService();
    if (wasActive) await reloadService();
    terminal.progress('');
    write(`\nCreated ${counted(missing.length, 'item')}. postern.service is running and starts at boot.\n`);
  }
  return report({ terminal, client, flags, preflight, config, domain, addresses, isNamed });
}

interface Running {
  readonly terminal: Terminal;
  readonly client: Client;
  readonly flags: SetupOptions;
  readonly preflight: Preflight;
  readonly config: ServerConfig;
  readonly domain: string | undefined;
  readonly addresses: readonly string[];
  readonly isNamed: boolean;
}

/** What the preflight has shown, and what is shown of each record. */
const SHOWN_BEFORE: ReadonlySet<string> = new Set([
  'host_name',
  'reverse_dns',
  'port_25',
  'host_spf',
  'host_dkim',
  'dmarc_reports',
]);

/** The daemon's own checks, the DNS records, and what to do next. */
async function report({
  terminal,
  client,
  flags,
  preflight,
  config,
  domain,
  addresses,
  isNamed,
}: Running): Promise<number> {
  const { write } = terminal;
  const { hostname } = config.server;
  if (isNamed) await waitForCertificate(terminal, config);
  heading(terminal, 'Checks of the running server');
  terminal.progress('Checking …');
  const { checks } = await client.call({ route: doctor.check, query: {} });
  terminal.progress('');
  showChecks(
    checks.filter(({ name }) => !SHOWN_BEFORE.has(name)),
    terminal,
  );

  const { keys } = await client.call({ route: hostKeys.list });
  const hostRecords = await preflight.hostRecords(
    config,
    addresses,
    keys.filter(({ state }) => state !== 'retired').map(({ record }) => record),
  );
  const domains = await servedDomains(client, domain);
  const zones = [
    { domain: hostname, records: hostRecords },
    ...domains.map((each): { domain: string; records: readonly ShownRecord[] } => each),
  ];
  heading(terminal, 'DNS records');
  for (const { domain: name, records } of zones) {
    const missing = records.filter((record) => !isCorrect(record)).length;
    const count = missing === 0 ? 'all found' : `${missing} of ${counted(records.length, 'record')} to add`;
    write(`${terminal.style('bold', name)}: ${count}\n`);
    for (const record of records) write(`\n${recordText(record, zoneOf(name, hostname), terminal.style)}`);
    write('\n');
  }
  if (flags.zone !== undefined) await writeZone(terminal, flags.zone, zones.map(zoneText).join('\n'));
  const isMissing = zones.some(({ records }) => records.some((record) => record.required && !isCorrect(record)));
  writeNextSteps(terminal, { isMissing, domain: domain ?? domains[0]?.domain });
  return EXIT.done;
}

/** The server.yml that is there. Throws CommandFailed where it is not valid: what is wrong is said before. */
async function readServer(terminal: Terminal): Promise<{ text: string; config: ServerConfig } | undefined> {
  const read = await readText(SERVER_FILE);
  if ('text' in read) return { text: read.text, config: configOf(read.text, terminal) };
  if (read.missing) return undefined;
  throw new UserError(read.problem);
}

function configOf(text: string, { env }: Terminal): ServerConfig {
  const result = parseServer(text, SERVER_FILE, machineSecrets(env));
  if ('ok' in result) return result.ok;
  throw new UserError(`${SERVER_FILE} is not valid:\n${result.errors.map(formatProblem).join('\n')}`);
}

async function newServer(terminal: Terminal, flags: SetupOptions): Promise<{ text: string; config: ServerConfig }> {
  const hostname = await answerTo(terminal, {
    flag: '--hostname',
    given: flags.hostname,
    question: 'Host name of this server',
    suggestion: await fullHostName(),
    yes: flags.yes,
    read: is.domainName,
  });
  const text = `# The server. \`postern config show\` prints every key with its value, and \`postern config check\` finds mistakes.

server:
  hostname: ${hostname}
  operator: ${stringify(flags.email).trimEnd()}
`;
  return { text, config: configOf(text, terminal) };
}

/** The domain of the first form; asked for once, before there is a configuration. */
async function firstDomain(
  terminal: Terminal,
  { domain, email, yes }: SetupOptions,
  { config, isNew }: { readonly config: ServerConfig; readonly isNew: boolean },
): Promise<string | undefined> {
  if (domain === false || (domain === undefined && !isNew)) return undefined;
  const parent = parentOf(config.server.hostname);
  return answerTo(terminal, {
    flag: '--domain',
    given: domain,
    question: 'Domain of the first website',
    suggestion: parent.includes('.') ? parent : email.slice(email.lastIndexOf('@') + 1),
    yes,
    read: is.domainName,
  });
}

/** Whether a project of this server has the domain already: in a file, or as the daemon says, where it runs. */
async function hasDomain(domain: string, client: Client | undefined): Promise<boolean> {
  for (const name of await listProjects(SERVER_FILE)) {
    const read = await readText(join(CONFIG_FOLDER, name));
    if ('text' in read && glanceAtProject(read.text).domains.includes(domain)) return true;
  }
  return client !== undefined && (await everyDomain(client)).some((each) => each.domain === domain);
}

function parentOf(name: string): string {
  return name.slice(name.indexOf('.') + 1);
}

/** The zone of a name, as DNS consoles show names in it. */
function zoneOf(name: string, hostname: string): string {
  const parent = parentOf(name);
  return name === hostname && parent.includes('.') ? parent : name;
}

function heading({ write, style }: Terminal, text: string): void {
  write(`\n${style('bold', text)}\n\n`);
}

const WORDS = { missing: 'create  ', present: 'present ', kept: 'keep    ' } as const;

function writeStep({ write }: Terminal, { what, state, differences }: Step): void {
  write(`  ${WORDS[state]} ${what}${state === 'kept' ? ', which differs from this version:' : ''}\n`);
  for (const line of differences) write(`             ${printable(line)}\n`);
}

/** Flags that an existing server.yml overrules. */
function writeContradictions(
  { write }: Terminal,
  { hostname, email }: SetupOptions,
  config: ServerConfig | undefined,
): void {
  if (config === undefined) return;
  const { server } = config;
  const differing = [
    ['hostname', server.hostname, hostname],
    ['operator', server.operator, email],
  ] as const;
  for (const [key, there, given] of differing) {
    if (given === undefined || given === there) continue;
    write(`  keep     server.${key}: ${there}. To change it to ${given}, edit ${SERVER_FILE}\n`);
  }
}

const CERTIFICATE_MS = 30_000;
const RELOAD_MS = 20_000;
const POLL_MS = 1000;

/** A certificate comes within seconds where the name leads here; where it does not come, the doctor says why. */
async function waitForCertificate(terminal: Terminal, config: ServerConfig): Promise<void> {
  const place = httpPlaces(config).find(({ secure }) => secure);
  if (tlsModeOf(config) !== 'acme' || place === undefined) return;
  const { host, port } = parseListenAddress(place.address);
  const own = host === '::' || host === '0.0.0.0' ? 'localhost' : host;
  await poll({
    ask: () => isCertified({ host: own, port, servername: config.server.hostname }),
    isDone: (certified) => certified,
    onWait: (_, left) => terminal.progress(`Obtaining a certificate … (${left} s)`),
    timeoutMs: CERTIFICATE_MS,
    maxIntervalMs: POLL_MS,
  });
  terminal.progress('');
}

/** Whether the certificate that is shown is not the self-signed one of the start. */
function isCertified(place: { host: string; port: number; servername: string }): Promise<boolean> {
  return new Promise((done) => {
    // Whether it is trusted is not asked: only whether an authority has made it.
    const socket = connect({ ...place, rejectUnauthorized: false, timeout: POLL_MS }, () => {
      const certificate = socket.getPeerX509Certificate();
      socket.destroy();
      done(certificate !== undefined && !certificate.checkIssued(certificate));
    });
    socket.on('timeout', () => socket.destroy());
    socket.on('error', () => undefined).on('close', () => done(false));
  });
}

/** The domain that was asked for, once the daemon serves it; else all. */
async function servedDomains(client: Client, wanted: string | undefined) {
  const domains = await poll({
    ask: () => everyDomain(client),
    isDone: (all) => wanted === undefined || all.some(({ domain }) => domain === wanted),
    timeoutMs: RELOAD_MS,
    maxIntervalMs: POLL_MS,
  });
  return wanted === undefined ? domains : domains.filter(({ domain }) => domain === wanted);
}

async function writeZone(terminal: Terminal, file: string, text: string): Promise<void> {
  await writeFile(resolve(terminal.folder, file), text).catch((error: unknown) => {
    throw new CommandFailed(`Cannot write ${file}: ${messageOf(error)}`, { cause: error });
  });
  terminal.write(`These records are also in ${file}.\n\n`);
}

function writeNextSteps(
  { write, style }: Terminal,
  { isMissing, domain }: { readonly isMissing: boolean; readonly domain: string | undefined },
): void {
  const next = [
    ...(isMissing
      ? [['Add the records above at your DNS provider. PTR records are set by the provider of the IP address.']]
      : []),
    ...(domain === undefined
      ? []
      : [
          [`postern domains verify ${domain} --wait`, 'Wait until the records are found'],
          [`postern forms snippet ${domain}/contact`, 'HTML for your page'],
        ]),
    ['postern doctor', 'Check everything again'],
  ];
  write(`${style('bold', 'Next')}\n\n`);
  const wide = Math.max(...next.map(([command = '', does]) => (does === undefined ? 0 : command.length)));
  for (const [command = '', does] of next)
    write(`  ${does === undefined ? command : `${command.padEnd(wide)}  ${does}`}\n`);
}

// What `postern setup` puts on a machine: the user, `/etc/postern`, the units, and the command. Each step looks first. What is
// missing is made; what is there stays as it is, whoever made it (an administrator, a package, an earlier run), and where it
// differs from what setup would write, the step says how.

interface Step {
  /** `user postern`, or a path. */
  readonly what: string;
  /** `kept`: it is there and differs. */
  readonly state: 'missing' | 'present' | 'kept';
  /** What differs, in lines. */
  readonly differences: readonly string[];
  /** Makes what is missing. */
  apply(): Promise<void>;
}

const CONFIG_FOLDER = '/etc/postern';
const SERVER_FILE = `${CONFIG_FOLDER}/server.yml`;
const SYSTEM_UNITS = '/etc/systemd/system';
/** Where packages have their units. */
const PACKAGED_UNITS = ['/usr/lib/systemd/system', '/lib/systemd/system'];
/** The units as they are shipped name the program here. */
const USUAL_PROGRAM = '/opt/postern';
const COMMANDS = ['/usr/bin/postern', '/usr/local/bin/postern'];

/** Folders that the unit hides from the daemon (ProtectHome=, PrivateTmp=). */
const HIDDEN = ['/home/', '/root/', '/tmp/', '/var/tmp/'];

/** Throws CommandFailed unless this is root on a machine that systemd runs, and the service can read the program. */
async function checkMachine(program: string): Promise<void> {
  if (process.getuid?.() !== 0) throw new CommandFailed('postern setup must run as root. Try: sudo postern setup …');
  if ((await existing('/run/systemd/system')) === undefined) {
    throw new CommandFailed('This machine does not run systemd. For containers, see docs/install.md');
  }
  const hidden = HIDDEN.find((folder) => `${program}/`.startsWith(folder));
  const closed = hidden ?? (await firstClosed(program));
  if (closed === undefined) return;
  throw new CommandFailed(
    `The service cannot read ${program}: it has no access to ${closed}. Move the folder, and run setup again: mv ${program} ${USUAL_PROGRAM} && ${USUAL_PROGRAM}/bin/postern setup …`,
  );
}

/** The folder on the way to the program that other users cannot enter. */
async function firstClosed(folder: string): Promise<string | undefined> {
  const { mode } = await stat(folder);
  if ((mode & 0o001) === 0) return folder;
  return folder === '/' ? undefined : firstClosed(dirname(folder));
}

/** The steps in their order; `files` are texts by their names below `/etc/postern`. */
async function installationSteps(program: string, files: ReadonlyMap<string, string>): Promise<Step[]> {
  const steps = [await userStep(program), await folderStep(CONFIG_FOLDER)];
  for (const folder of new Set([...files.keys()].map(dirname)))
    if (folder !== '.') steps.push(await folderStep(join(CONFIG_FOLDER, folder)));
  for (const [name, text] of files) steps.push(await ownFileStep(join(CONFIG_FOLDER, name), text));
  // A package brings its units and its command.
  const isPackaged = (
    await Promise.all(PACKAGED_UNITS.map((folder) => existing(join(folder, 'postern.service'))))
  ).some((found) => found !== undefined);
  if (isPackaged) return steps;
  const isRelease = dirname(program) === dirname(USUAL_PROGRAM) && basename(program).startsWith('postern-');
  const place = isRelease ? USUAL_PROGRAM : program;
  if (isRelease) steps.push(await linkStep(USUAL_PROGRAM, basename(program)));
  for (const unit of ['postern.service', 'postern.socket']) {
    const text = await readFile(join(program, 'systemd', unit), 'utf8');
    steps.push(await unitStep(join(SYSTEM_UNITS, unit), text.replaceAll(USUAL_PROGRAM, place)));
  }
  steps.push(await commandStep(join(place, 'bin/postern')));
  return steps;
}

async function userStep(program: string): Promise<Step> {
  const isThere = await run('id', ['-u', 'postern']).then(
    () => true,
    () => false,
  );
  return step('user postern', { isThere }, async () => {
    await runOrFail('systemd-sysusers', [join(program, 'systemd/postern.sysusers')]);
  });
}

/** For root to write and the service to read, as everything below `/etc/postern`: it holds secrets. */
async function folderStep(path: string): Promise<Step> {
  return step(path, { isThere: (await existing(path)) !== undefined }, async () => {
    await mkdir(path, { mode: 0o750 });
    await chown(path, 0, await serviceGroup());
  });
}

/** A file that its first writer leaves to the administrator: what is there is never compared. */
async function ownFileStep(path: string, text: string): Promise<Step> {
  return step(path, { isThere: (await existing(path)) !== undefined }, async () => {
    await writeFile(path, text, { flag: 'wx', mode: 0o640 });
    await chown(path, 0, await serviceGroup());
  });
}

async function unitStep(path: string, text: string): Promise<Step> {
  const found = await readFile(path, 'utf8').catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  });
  const differing = found === undefined ? [] : differences(found, text);
  return step(path, { isThere: found !== undefined, differences: differing }, () =>
    writeFile(path, text, { flag: 'wx', mode: 0o644 }),
  );
}

async function linkStep(path: string, target: string): Promise<Step> {
  const found = await existing(path);
  const leads = found?.isSymbolicLink() === true ? await readlink(path) : path;
  const differing = found === undefined || leads === target ? [] : [`- ${leads}`, `+ ${target}`];
  return step(path, { isThere: found !== undefined, differences: differing }, () => symlink(target, path));
}

async function commandStep(target: string): Promise<Step> {
  const found = await Promise.all(COMMANDS.map(existing));
  const there = COMMANDS.find((_, i) => found[i] !== undefined);
  return linkStep(there ?? '/usr/local/bin/postern', target);
}

interface Found {
  readonly isThere: boolean;
  readonly differences?: readonly string[];
}

function step(what: string, { isThere, differences: differing = [] }: Found, make: () => Promise<void>): Step {
  return {
    what,
    state: !isThere ? 'missing' : differing.length > 0 ? 'kept' : 'present',
    differences: differing,
    async apply() {
      if (isThere) return;
      await make().catch((error: unknown) => {
        throw new CommandFailed(`Cannot create ${what}: ${messageOf(error)}`, { cause: error });
      });
    },
  };
}

/** The lines that only one of two texts has; comments do not count. */
function differences(found: string, wanted: string): string[] {
  const [ours, theirs] = [wanted, found].map((text) => text.split('\n').filter((line) => /^[^#\s]/.test(line)));
  return [
    ...(theirs ?? []).filter((line) => ours?.includes(line) === false).map((line) => `- ${line}`),
    ...(ours ?? []).filter((line) => theirs?.includes(line) === false).map((line) => `+ ${line}`),
  ];
}

async function existing(path: string) {
  return lstat(path).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return undefined;
    throw error;
  });
}

async function serviceGroup(): Promise<number> {
  return Number(await runOrFail('id', ['-g', 'postern']));
}

// The service, by systemctl.

const SERVICE = 'postern.service';
const LINES_OF_LOG = 20;

async function isServiceActive(): Promise<boolean> {
  return run('systemctl', ['is-active', '--quiet', SERVICE]).then(
    () => true,
    () => false,
  );
}

/** Starts the service now and with the machine, and waits until it is ready. Throws CommandFailed with the end of its log. */
async function startService(): Promise<void> {
  await runOrFail('systemctl', ['daemon-reload']);
  try {
    await run('systemctl', ['enable', '--now', SERVICE]);
  } catch (error) {
    const lines = ['--unit', SERVICE, '--lines', `${LINES_OF_LOG}`, '--output', 'cat', '--no-pager'];
    const { stdout } = await run('journalctl', lines).catch(() => ({ stdout: '' }));
    throw new CommandFailed(`${SERVICE} did not start. Its log ends with:\n${stdout.trimEnd()}`, { cause: error });
  }
}

/** Has the service read its configuration again. */
async function reloadService(): Promise<void> {
  await runOrFail('systemctl', ['reload', SERVICE]);
}

/** The whole name of this machine, as its own resolver has it; undefined where that has no domain. */
async function fullHostName(): Promise<string | undefined> {
  const { stdout } = await run('hostname', ['--fqdn']).catch(() => ({ stdout: '' }));
  const name = stdout.trim();
  return name.includes('.') && !name.startsWith('localhost') ? name : undefined;
}

const run = promisify(execFile);

async function runOrFail(command: string, args: readonly string[]): Promise<string> {
  try {
    return (await run(command, args)).stdout;
  } catch (error) {
    throw new CommandFailed(messageOf(error).trimEnd(), { cause: error });
  }
}
