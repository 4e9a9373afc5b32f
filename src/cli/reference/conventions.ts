/** What all commands have in common, as the man page and the page of documentation tell it. */
import { EXIT } from '../run.ts';

export type Meaning = readonly [what: string, means: string];

export const DESCRIPTION = [
  'Postern takes what visitors write into web forms, and mail for its domains, and sends it on as signed mail. postern serve is that daemon; the other commands ask it over its API, or read configuration files.',
  'A command finds the server by --url, else by POSTERN_URL, else in the file that postern signup wrote, else it takes the Unix socket of the server.yml on this machine. The socket is for root and the group of the service, and needs no key. Commands for operators do not look into that file.',
  'On a terminal lists are tables. Elsewhere they have one line for each row, with tabs between its cells and no headings. With --json a command prints what the daemon answered, for programs to read.',
];

export const EXIT_CODES: readonly Meaning[] = [
  [String(EXIT.done), 'done'],
  [
    String(EXIT.failed),
    'a check failed, the daemon refused, a file cannot be written, or the answer to a question was no',
  ],
  [String(EXIT.usage), 'wrong usage'],
  [String(EXIT.unreachable), 'the daemon cannot be reached'],
  [String(EXIT.configuration), 'the configuration cannot be used'],
  [String(EXIT.interrupted), 'interrupted: a question was left by Ctrl-C, or a backup was ended'],
];

export const ENVIRONMENT: readonly Meaning[] = [
  ['POSTERN_API_KEY', 'the API key, in place of the one that signup remembered'],
  [
    'POSTERN_URL',
    'the server, in place of the one that signup remembered: https://mail.example.net or unix:/run/postern/admin.sock',
  ],
  ['POSTERN_CONFIG', 'server.yml, where --config names none'],
  ['NO_COLOR', 'where set, nothing is coloured'],
  ['XDG_CONFIG_HOME', 'in place of ~/.config'],
];

export const FILES: readonly Meaning[] = [
  [
    '~/.config/postern/credentials.json',
    'where the server is and the key for it, written by signup, readable for its owner alone',
  ],
  [
    './config/server.yml, /etc/postern/server.yml',
    'the configuration of the server, where neither --config nor POSTERN_CONFIG names one',
  ],
  ['/run/postern/admin.sock', "the operator's socket, unless server.admin_socket says otherwise"],
];
