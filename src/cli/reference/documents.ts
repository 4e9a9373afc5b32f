/** The documents that the repository holds of its own commands. */
import { type CommandNode, leavesOf } from './tree.ts';
import { EXIT } from '../run.ts';

/** Their texts by their paths from the root of the repository. */
export function documentsOf(program: CommandNode): Readonly<Record<string, string>> {
  return { 'man/postern.1': manPage(program), 'docs/cli.md': markdownPage(program) };
}

export type Meaning = readonly [what: string, means: string];

const DESCRIPTION = [
  'Postern receives web form submissions and mail for its domains and delivers them as DKIM-signed mail. postern serve runs the daemon. The other commands use its API or read configuration files.',
  'A command connects to the server given by --url, by POSTERN_URL, or by the credentials file that postern signup writes, in this order. Otherwise it uses the admin socket named in the server.yml of this machine. The socket needs no API key; it is open to root and the group of the service. Commands for operators ignore the credentials file.',
  'If server.yml is not valid, its errors are shown, and the admin socket that can still be read from it is used, or the default one. While the daemon is down, doctor, config check, queue list, queue show and trace work from the files and the database.',
  'On a terminal, lists are printed as tables. Otherwise each row is one line of tab-separated values without headings. With --json, commands print the JSON answer of the API.',
  'With --json, an error is one line of JSON on standard error, {"error": {"code": "NOT_FOUND", "message": "…", "details": [], "exit_code": 1}}, and nothing is on standard output. code is a code of the API, or USAGE, DAEMON_DOWN, DAEMON_UNREACHABLE, CONFIGURATION_INVALID, FAILED, INTERRUPTED or INTERNAL. Each entry of details has a message and, where known, file, line, column and path. Where a command goes on, a line {"warning": {"code", "message", "details"}} says what is wrong.',
  'For people, times are in the time zone of the machine (TZ) and have its offset. Tab-separated values and JSON have UTC.',
];

const EXIT_CODES: readonly Meaning[] = [
  [String(EXIT.done), 'success'],
  [
    String(EXIT.failed),
    'a check failed, the server rejected the request, a file could not be written, or a confirmation was declined',
  ],
  [String(EXIT.usage), 'invalid usage'],
  [String(EXIT.unreachable), 'the daemon could not be reached'],
  [String(EXIT.configuration), 'the configuration is invalid'],
  [String(EXIT.interrupted), 'interrupted by Ctrl-C during a question or a backup'],
];

const ENVIRONMENT: readonly Meaning[] = [
  ['POSTERN_API_KEY', 'API key; overrides the key saved by signup'],
  [
    'POSTERN_URL',
    'URL of the server; overrides the server saved by signup. Example: https://mail.example.net or unix:/run/postern/admin.sock',
  ],
  ['POSTERN_CONFIG', 'path of server.yml; overridden by --config'],
  ['NO_COLOR', 'if set, output has no colours'],
  ['XDG_CONFIG_HOME', 'configuration folder (default: ~/.config)'],
];

const FILES: readonly Meaning[] = [
  ['~/.config/postern/credentials.json', 'server and API key, written by postern signup, readable only by its owner'],
  [
    './config/server.yml, /etc/postern/server.yml',
    'configuration of the server, unless --config or POSTERN_CONFIG is given',
  ],
  ['/run/postern/admin.sock', 'admin socket of the daemon (server.admin_socket)'],
];

/** `postern.1` */
export function manPage(program: CommandNode): string {
  return [
    '.\\" Made by npm run docs from the definitions in src/cli: change it there.',
    '.TH POSTERN 1 "" "Postern" "User Commands"',
    // Names are not broken in two.
    '.nh',
    '.ad l',
    '.SH NAME',
    ...paragraph(`postern - ${lowered(program.description).replace(/\.$/, '')}`),
    '.SH SYNOPSIS',
    '.B postern',
    '.I command',
    '.RI [ options ]',
    '.SH DESCRIPTION',
    ...DESCRIPTION.flatMap((text, index) => [...(index === 0 ? [] : ['.PP']), ...paragraph(text)]),
    '.SH COMMANDS',
    ...leavesOf(program).flatMap(commandLines),
    '.SH EXIT STATUS',
    ...EXIT_CODES.flatMap(itemLines),
    '.SH ENVIRONMENT',
    ...ENVIRONMENT.flatMap(itemLines),
    '.SH FILES',
    ...FILES.flatMap(itemLines),
    '',
  ].join('\n');
}

function commandLines({ path, usage, description, arguments: taken, options, examples }: CommandNode): string[] {
  return [
    `.SS "${escaped(['postern', ...path].join(' '))}"`,
    `.B ${escaped(usage)}`,
    '.PP',
    ...paragraph(`${raised(description)}.`),
    ...taken.flatMap(({ name, description }) => itemLines([name, description])),
    ...options.flatMap(({ flags, description }) => itemLines([flags, description])),
    ...examples.flatMap(({ line, does }) => [
      '.PP',
      ...paragraph(`Example (${does}):`),
      '.PP',
      '.EX',
      escaped(line),
      '.EE',
    ]),
  ];
}

function itemLines([what, means]: Meaning): string[] {
  return ['.TP', `.B ${escaped(what)}`, ...paragraph(means)];
}

const WIDEST = 78;

/** Text that roff breaks anew, in lines that people can read; none of them is a request. */
function paragraph(text: string): string[] {
  const lines: string[] = [];
  for (const word of escaped(text).split(' ')) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= WIDEST) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word.startsWith('.') ? `\\&${word}` : word);
  }
  return lines;
}

function raised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function lowered(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}

const SIGNS: Readonly<Record<string, string>> = {
  '\\': '\\(rs',
  '-': '\\-',
  '"': '\\(dq',
  "'": '\\(aq',
  '`': '\\(ga',
  '^': '\\(ha',
  '~': '\\(ti',
  // Terminals of ASCII have these two otherwise.
  '’': '\\(cq',
  '…': '...',
};

/** Text as roff prints it, sign for sign: a hyphen is one that can be copied. */
function escaped(text: string): string {
  return text.replaceAll(
    /[\\\-"'`^~]|[^\0-\u007f]/gu,
    (sign) => SIGNS[sign] ?? `\\[u${(sign.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}]`,
  );
}

/** `docs/cli.md` */
function markdownPage(program: CommandNode): string {
  const sections = Map.groupBy(program.commands, ({ group }) => group.replace(/:$/, ''));
  return `${[
    '# The command line',
    '<!-- Made by npm run docs from the definitions in src/cli: change it there. -->',
    program.description,
    ...DESCRIPTION,
    'Shell completion: `postern completion --help`. This page as a man page: `man man/postern.1`.',
    list('Exit codes', EXIT_CODES),
    list('Environment', ENVIRONMENT),
    list('Files', FILES),
    ...[...sections].flatMap(([title, commands]) => [
      `## ${title}`,
      ...commands
        .flatMap(leavesOf)
        .map((leaf) => `### postern ${leaf.path.join(' ')}\n\n\`\`\`text\n${leaf.help}\`\`\``),
    ]),
  ].join('\n\n')}\n`;
}

function list(title: string, meanings: readonly Meaning[]): string {
  return `## ${title}\n\n${meanings.map(([what, means]) => `- \`${what}\`: ${means}`).join('\n')}`;
}
