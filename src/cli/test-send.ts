/** `postern test send`: one mail to an address, followed until the other side has taken or refused it. */
import { z } from 'zod';
import { formatMailbox } from '../lib/addresses.ts';
import { TemplateRenderError } from '../templates/template.ts';
import type { Client } from './client.ts';
import { poll } from './poll.ts';
import { attemptShape } from './queue.ts';
import { findForm, placeOf, previewOf } from './preview.ts';
import { readLocalProject, validProject } from './project-folder.ts';
import { EXIT, run, shortTime, UsageError, writeJson, type CommandOptions } from './run.ts';
import { formsIn } from './sample.ts';
import { printable } from './table.ts';

export interface SendOptions {
  /** Who gets it. */
  readonly to: string;
  /** Sender, a mail address with a name or without. */
  readonly from?: string | undefined;
  /** Domain that it is sent as. */
  readonly domain?: string | undefined;
  /** Form of this folder's project whose notification it is, with a sample submission. */
  readonly form?: string | undefined;
  readonly wait: boolean;
  /** s */
  readonly timeout: number;
}

const accepted = z.object({ id: z.string() });
const shown = z.object({
  status: z.string(),
  environment: z.string(),
  from: z.string(),
  subject: z.string(),
  recipients: z.array(
    z.object({
      address: z.string(),
      state: z.string(),
      next_attempt_at: z.string().nullable(),
      reply: z.string().nullable(),
      attempts: z.array(attemptShape),
    }),
  ),
});

type Shown = z.output<typeof shown>;

/** Between two looks, ms. */
const SLOWEST_LOOK = 5000;
const WAITING = new Set(['scheduled', 'queued', 'sending', 'deferred']);
const ARRIVED = new Set(['delivered', 'captured']);

/** Sends it, and tells how that went. Exit code 1 where it did not arrive, or not within the time. */
export function testSend(options: CommandOptions, given: SendOptions): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const { write, progress } = terminal;
    const mail = given.form === undefined ? plainMail(given) : await formMail(options, given, given.form);
    if (mail === undefined) return EXIT.configuration;
    const data = await client.post('/email/send', mail);
    const { id } = accepted.parse(data);
    if (!given.wait) {
      if (json) return writeJson(terminal, data);
      return write(`${id} is queued. ${whereToLook(id, client)}\n`);
    }
    const answer = await poll({
      ask: () => client.get(`/email/${id}`),
      isDone: (data) => !WAITING.has(shown.parse(data).status),
      onWait: (data, left) => progress(`${id} to ${given.to}: ${waitingText(shown.parse(data))} (${left} s left)`),
      patience: given.timeout * 1000,
      slowest: SLOWEST_LOOK,
    });
    progress('');
    const email = shown.parse(answer);
    if (json) writeJson(terminal, answer);
    else {
      write(reportText(id, email, terminal.style));
      if (WAITING.has(email.status)) write(`It waits still. ${whereToLook(id, client)}\n`);
    }
    return ARRIVED.has(email.status) ? EXIT.done : EXIT.failed;
  });
}

/** Only who is let in by the socket is an operator for certain. */
function whereToLook(id: string, { key }: Client): string {
  return `${key === undefined ? `postern trace ${id}` : `GET /email/${id}`} tells what becomes of it.`;
}

interface Mail {
  readonly to: string;
  readonly from?: string;
  readonly subject: string;
  readonly text: string;
  readonly html?: string;
}

function plainMail({ to, from, domain }: SendOptions): Mail {
  const sender = from ?? (domain === undefined ? undefined : `noreply@${domain}`);
  return {
    to,
    ...(sender === undefined ? {} : { from: sender }),
    subject: 'Test of Postern',
    text: 'This is a test: the mail was accepted by Postern, signed for its domain and brought to the server of yours.\n',
  };
}

/** The notification of the form as the project of this folder has it; undefined where that is not valid, which is told. */
async function formMail({ terminal }: CommandOptions, given: SendOptions, id: string): Promise<Mail | undefined> {
  const project = await readLocalProject(terminal.folder, undefined);
  const config = validProject(project, terminal);
  if (config === undefined) return undefined;
  const form = findForm(formsIn(config), id);
  if (given.from === undefined && given.domain === undefined && form.domain === undefined) {
    throw new UsageError(`${form.id} sends as the server itself, which a test cannot: give --from or --domain`);
  }
  try {
    const { from, subject, text, html } = previewOf({ config, name: form.config.template, form: form.id });
    const address = given.domain === undefined ? from.address : `forms@${given.domain}`;
    const sender = given.from ?? formatMailbox({ ...from, address });
    return { to: given.to, from: sender, subject, text, ...(html === null ? {} : { html }) };
  } catch (error) {
    if (!(error instanceof TemplateRenderError)) throw error;
    terminal.complain(`${placeOf(error, project) ?? printable(error.message)}\n`);
    return undefined;
  }
}

function waitingText({ recipients, status }: Shown): string {
  const last = recipients[0]?.attempts.at(-1);
  return printable(last === undefined ? status : `${status}, ${last.host ?? 'no host'} said: ${last.reply}`);
}

function reportText(id: string, email: Shown, style: CommandOptions['terminal']['style']): string {
  const { from, subject, recipients, status } = email;
  const lines = [`${id}  ${printable(subject)}  from ${printable(from)}`];
  for (const { address, state, reply, next_attempt_at: next, attempts } of recipients) {
    lines.push(`${printable(address)}  ${style(ARRIVED.has(state) ? 'green' : 'red', state)}`);
    for (const one of attempts) lines.push(`  ${attemptText(one)}`);
    if (attempts.length === 0 && reply !== null) lines.push(`  ${printable(reply)}`);
    if (WAITING.has(state)) lines.push(`  next try ${shortTime(next)}`);
  }
  if (status === 'captured')
    lines.push(`It was sent with a test key: captured, not delivered. GET /email/${id}/source shows it.`);
  return `${lines.join('\n')}\n`;
}

/** `2026-01-31T12:00:00Z  delivered  mx.example.org 192.0.2.1  TLSv1.3  250 2.0.0 Ok` */
function attemptText({ at, outcome, host, address, tls, reply }: z.output<typeof attemptShape>): string {
  const server = [host, address].filter((part) => part !== null).join(' ');
  return printable(
    [shortTime(at), outcome, server, tls ?? 'clear text', reply].filter((part) => part !== '').join('  '),
  );
}
