/** From a post to the bytes of its mail, on a real store: for the tests of notifications, acknowledgments and their source. */
import { createSecretKey } from 'node:crypto';
import { simpleParser, type ParsedMail } from 'mailparser';
import { expect, onTestFinished, vi } from 'vitest';
import { keepRecent, type Revision } from '../../src/accounts/projects.ts';
import { createLimits } from '../../src/accounts/rate-limits.ts';
import type { Form, Project } from '../../src/config/snapshot.ts';
import { checkSubmission, createMatching, type SubmittedBody } from '../../src/forms/fields.ts';
import { createAccept } from '../../src/forms/accept.ts';
import { createFileStore } from '../../src/forms/files.ts';
import { checkForSpam } from './spam-check.ts';
import { type FormMail, createFormSource } from '../../src/forms/form-mail.ts';
import { createKeyring } from '../../src/domains/dkim-keys.ts';
import { translationOf } from '../../src/languages/languages.ts';
import { silentLog } from '../../src/lib/log.ts';
import { generateDkimKey, type DkimAlgorithm } from '../../src/mail/dkim.ts';
import { insertDkimKey, type NewDkimKey } from '../../src/store/dkim-keys.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import type { MessageKind, MessageRow } from '../../src/store/tables.ts';
import { builtinTemplates } from '../../src/templates/engine.ts';
import { rendererHere } from '../../src/templates/render.ts';
import { testClock } from '../harness/clock.ts';
import { submissionRow } from '../harness/submissions.ts';
import { testConsent } from '../harness/consent.ts';
import { openTestStore } from '../harness/store.ts';
import { DOMAIN, formOf, serverOf, type WorldConfig } from './world.ts';

export type Entries = SubmittedBody['entries'];
type FileContent = readonly [filename: string, contentType: string, content: Buffer];

export const secret = Buffer.alloc(32, 9);

/** A new key of DOMAIN. */
export async function makeKey(algorithm: DkimAlgorithm): Promise<NewDkimKey> {
  const { privateKey, publicKey } = await generateDkimKey(algorithm);
  const selector = `s-${algorithm}`;
  const names = { domain: DOMAIN, tenant: OPERATOR, selector, base: selector, state: 'active', algorithm } as const;
  return { ...names, private_key: privateKey, public_key: publicKey, created_at: 1 };
}

export interface Read {
  readonly mail: ParsedMail;
  readonly raw: string;
  readonly bytes: Buffer;
  readonly sender: string;
  readonly message: MessageRow;
  readonly smtpUtf8: boolean;
}

export interface MailWorldOptions {
  /** Default: one Ed25519 key. */
  readonly keys?: readonly NewDkimKey[];
  /** Whether the revision can be read. */
  readonly revision?: boolean;
}

/** A form, what accepts its submissions, and what its messages become. */
export async function openMailWorld(config: WorldConfig, { keys, revision = true }: MailWorldOptions = {}) {
  const store = await openTestStore();
  const clock = testClock();
  const limits = await createLimits({ store, clock, log: silentLog });
  onTestFinished(() => limits.close());
  for (const key of keys ?? [await makeKey('ed25519')]) await store.write([insertDkimKey(key)]);
  const form: Form = formOf(config);
  const server = serverOf(config.server);
  const error = vi.fn<(event: string) => void>();
  const warn = vi.fn<(event: string) => void>();
  const consent = testConsent({ store, clock, limits, config: () => server });
  const clientKey = createSecretKey(Buffer.alloc(32, 3));
  const parts = { store, clock, limits, consent, config: () => server, clientKey, wake: () => undefined };
  const accept = createAccept(parts);
  const revisionOf = vi.fn<(id: string) => Promise<Revision | undefined>>(() => {
    return Promise.resolve(revision ? { id: 'rev_1', config: projectOf(form).config } : undefined);
  });
  const log = { ...silentLog, error, warn };
  const signing = {
    keysOf: createKeyring({ store, clock, hostname: () => server.server.hostname }),
    secret: createSecretKey(secret),
    hostname: () => server.server.hostname,
    now: () => clock.now(),
  };
  const source = createFormSource({
    store,
    log,
    config: () => server,
    revisionOf: keepRecent(revisionOf),
    renderer: rendererHere(),
    signing,
    ownerKey: createSecretKey(secret),
  });

  async function post(entries: Entries, contents: readonly FileContent[] = []): Promise<string> {
    const files = createFileStore({ store, clock });
    const uploads = [];
    for (const [filename, contentType, content] of contents) {
      const writer = files.begin({ field: 'file', filename, contentType });
      await writer.write(content);
      uploads.push(writer.end());
    }
    const submission = checkSubmission(form, { entries, files: uploads }, createMatching());
    const ip = '192.0.2.7';
    const spamVerdict = { ...checkForSpam(form, { ...submission, ip }), verdict: 'accept' as const };
    const referer = 'https://example.com/contact';
    return (await accept({ form, ...submission, spamVerdict, ip, userAgent: '', referer })).id;
  }

  function messageOf(submission: string, kind: MessageKind): Promise<MessageRow> {
    const query = store.read.selectFrom('messages').selectAll().where('submission', '=', submission);
    return query.where('kind', '=', kind).executeTakeFirstOrThrow();
  }

  async function read(submission: string, kind: MessageKind = 'notification'): Promise<Read> {
    const message = await messageOf(submission, kind);
    const prepared = await source.prepare(message);
    if (prepared.kind !== 'ready') throw new Error(prepared.kind);
    const bytes = Buffer.concat(prepared.content);
    expect(prepared.size).toBe(bytes.length);
    const mail = await simpleParser(bytes);
    return {
      mail,
      raw: bytes.toString('latin1'),
      bytes,
      sender: prepared.sender,
      message,
      smtpUtf8: prepared.smtpUtf8,
    };
  }

  return { store, clock, source, post, read, messageOf, revisionOf, error, warn };
}

function projectOf({ project }: Form): Project {
  if (project === undefined) throw new Error('the form stands in no project');
  return project;
}

/** What a mail is made from, without a store. */
export function formMailOf(config: WorldConfig, entries: Entries): FormMail {
  const form = formOf(config);
  const { fields, control } = checkSubmission(form, { entries, files: [] }, createMatching());
  const { templates, settings } = projectOf(form).config;
  return {
    message: MESSAGE,
    submission: { ...SUBMISSION, form: form.id },
    fields,
    control,
    files: [],
    form: { key: form.key, name: form.name, config: form.config },
    relay: undefined,
    linksFor: () => ({ view: 'https://mail.example.net/s/view', spam: 'https://mail.example.net/s/spam' }),
    translation: translationOf('en'),
    project: { revision: 'rev_1', templates, timezone: settings.timezone },
    renderer: rendererHere(),
    builtins: (timezone) => builtinTemplates(timezone),
    onFault: () => undefined,
  };
}

const SUBMISSION = submissionRow(1_767_225_600_000, {
  id: 'sub_01kdvdna00dygrdbn7kp1hvk3p',
  tenant: 'ten_operator',
  form: '',
  domain: DOMAIN,
});

const MESSAGE: MessageRow = {
  id: 'msg_01kdvdna00dygrdbn7kp1hvk3p',
  tenant: 'ten_operator',
  kind: 'notification',
  submission: SUBMISSION.id,
  domain: DOMAIN,
  source: '{}',
  body: 'none',
  size: 0,
  sender: null,
  encoding: '7bit',
  environment: 'live',
  destinations: 1,
  created_at: SUBMISSION.created_at,
  expires_at: SUBMISSION.created_at + 1000,
};

/** What a reader shows of the headers that anything submitted might have added to. */
export function addressing({ mail }: Read) {
  const text = (value: ParsedMail['to']) =>
    [value ?? []]
      .flat()
      .map((one) => one.text)
      .join();
  return {
    from: mail.from?.text,
    to: text(mail.to),
    cc: text(mail.cc),
    bcc: text(mail.bcc),
    replyTo: mail.replyTo?.text,
  };
}

export const ana: Entries = [
  ['name', 'Ana García 田中'],
  ['email', 'ana@example.org'],
  ['message', 'Hello\r\nthere <b>'],
];
