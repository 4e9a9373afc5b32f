/**
 * `/s/{token}`: the pages behind the links that the owner of a form is mailed (forms/owner-links). GET shows a submission, or
 * what the link would do, because mail scanners follow links; POST does it, through the same functions as the API.
 */
import type { KeyObject } from 'node:crypto';
import { formSchema } from '../config/schema.ts';
import type { Form } from '../config/snapshot.ts';
import { ownerFields, type ShownField } from '../forms/form-mail.ts';
import { quarantinedIn } from '../forms/digest.ts';
import { readFields, readReasons } from '../forms/fields.ts';
import { findFormOf } from '../forms/find.ts';
import {
  type DigestLink,
  noteUsed,
  openOwnerToken,
  OWNER_LINK_DAYS,
  type OpenedLink,
  type OwnerLink,
  type SubmissionLink,
  ownerToken,
} from '../forms/owner-links.ts';
import { markAsSpam, type Decided, type ReleaseParts, releaseSubmission } from '../forms/release.ts';
import { dateFormat, translationOf, type MessageName, type Translation } from '../languages/languages.ts';
import { type Content, html } from '../lib/html.ts';
import { chunksOfFile, filesOf, findSubmission } from '../store/submissions.ts';
import { suppress } from '../store/suppressions.ts';
import type { FileRow, SubmissionRow } from '../store/tables.ts';
import { visitorName } from '../templates/builtin.ts';
import { type Answer, download, page } from './answer.ts';
import { type RequestContext, translationFor } from './context.ts';
import { layout, mark } from './pages/layout.ts';

export interface OwnerPageParts extends ReleaseParts {
  /** Signs the links. */
  readonly ownerKey: KeyObject;
}

type Handler = (context: RequestContext, params: Readonly<Record<string, string>>) => Promise<Answer>;

/** A request with a link that works. */
interface LinkRequest {
  readonly context: RequestContext;
  readonly token: string;
  readonly opened: OpenedLink;
}

/** A submission, and what is known of its form. */
interface Subject {
  readonly row: SubmissionRow;
  readonly form: Pick<Form, 'name' | 'config'>;
  readonly timezone: string;
  readonly translation: Translation;
}

/** The pages, and the downloads of a submission's files. */
export function createOwnerPages(parts: OwnerPageParts): { readonly page: Handler; readonly file: Handler } {
  const { store, ownerKey } = parts;

  async function subjectOf(id: string, context: RequestContext): Promise<Subject | undefined> {
    const row = await findSubmission(store, id);
    if (row === undefined) return undefined;
    const form = await findFormOf({ tenant: row.tenant, id: row.form }, context.snapshot, store);
    const name = form?.name ?? row.form.slice(row.form.lastIndexOf('/') + 1);
    const config = form?.config ?? formSchema.parse({});
    const timezone = form?.project?.config.settings.timezone ?? 'UTC';
    return { row, form: { name, config }, timezone, translation: translationFor(context, { config }) };
  }

  /** A link to something else about the same submission, which works as long as this one. */
  function linkTo(link: SubmissionLink, { opened }: LinkRequest): string {
    return ownerToken(link, opened.expiresAt, ownerKey);
  }

  async function view(subject: Subject, request: LinkRequest): Promise<Answer> {
    const { row, form, timezone, translation } = subject;
    const { say } = translation;
    const fields = readFields(row.fields);
    const files = await filesOf(store, row.id);
    const title = visitorName(fields) ?? form.name;
    const isSpam = row.status === 'spam';
    const time = dateFormat(translation.language, timezone)(row.created_at);
    const decide = linkTo({ action: isSpam ? 'ham' : 'spam', submission: row.id }, request);
    const content = html`<h1>${title}</h1>
<p class="soft">${say('mail.source', { form: form.name, domain: row.domain, time })}</p>
${isSpam && spamNotice(row, translation)}${fieldList(cut(ownerFields(fields, form.config, translation)))}${fileList(files, request.token, translation)}
<p class="soft">${row.ip !== '' && html`${say('mail.ip', { ip: row.ip })}<br>`}${row.referer !== '' && say('mail.page', { url: row.referer })}</p>
<p class="actions"><a class="button quiet" href="${decide}">${say(isSpam ? 'owner.notSpam' : 'mail.spam')}</a></p>`;
    return page(frame(title, content, translation));
  }

  async function decide(subject: Subject, link: SubmissionLink, request: LinkRequest): Promise<Answer> {
    const { context, opened, token } = request;
    const { row, form, translation } = subject;
    const words = wordsOf(link, subject);
    if (context.method !== 'POST' && !opened.isUsed) return page(questionPage(words, translation));
    const more = linkTo({ action: 'view', submission: row.id }, request);
    const show = html`<p class="actions"><a class="button quiet" href="${more}">${translation.say('mail.view')}</a></p>`;
    if (opened.isUsed) return noticePage('owner.used', [], { translation, content: show });
    const decided = await act(link, subject, context);
    if (decided.kind !== 'done') return noticePage('owner.notDone', [REASONS[decided.kind]], { translation });
    await noteUsed(token, opened, store);
    const undo = link.action === 'stop' ? undefined : undoOf(link, subject, request);
    const done = html`${mark('good')}\n<h1>${words.done}</h1>\n<p>${words.doneText}</p>
${undo ?? (link.action === 'stop' ? html`<p class="soft">${translation.say('owner.startAgain', { form: form.name })}</p>` : '')}${show}`;
    return page(frame(words.done, done, translation));
  }

  function undoOf({ action }: SubmissionLink, { row, translation }: Subject, request: LinkRequest): Content {
    const opposite = linkTo({ action: action === 'spam' ? 'ham' : 'spam', submission: row.id }, request);
    const label = translation.say(action === 'spam' ? 'owner.notSpam' : 'mail.spam');
    return html`<p><a href="${opposite}">${label}</a></p>\n`;
  }

  async function act(link: SubmissionLink, { row }: Subject, { snapshot }: RequestContext): Promise<Decided> {
    switch (link.action) {
      case 'view':
        return { kind: 'done', changed: false };
      case 'spam':
        return markAsSpam(row, parts);
      case 'ham':
        return releaseSubmission(row, { snapshot, environment: row.environment }, parts);
      case 'stop': {
        const { tenant, form } = row;
        const entry = { tenant, address: link.recipient, form, reason: 'unsubscribe', created_at: parts.clock.now() };
        await store.write([suppress({ ...entry, reason: 'unsubscribe' })]);
        return { kind: 'done', changed: true };
      }
    }
  }

  /** All that is quarantined, at once. */
  async function decideAll(link: DigestLink, { context, opened, token }: LinkRequest): Promise<Answer> {
    const { snapshot, method } = context;
    const found = await quarantinedIn(link, snapshot, store);
    const translation = found.language === undefined ? translationFor(context) : translationOf(found.language);
    const { say } = translation;
    const { action } = link;
    if (opened.isUsed || found.ids.length === 0) return noticePage('owner.nothingLeft', [], { translation });
    const count = found.ids.length;
    if (method !== 'POST') {
      const question = say(action === 'release' ? 'owner.releaseAll' : 'owner.confirmAll', { count });
      const text = say(action === 'release' ? 'owner.releaseText' : 'owner.confirmText');
      return page(questionPage({ question, text, button: say(BUTTONS[action]) }, translation));
    }
    const failed = await decideEach(found.ids, action, context);
    if (failed === 0) await noteUsed(token, opened, store);
    const done = say(action === 'release' ? 'owner.releasedAll' : 'owner.confirmedAll', { count: count - failed });
    const content = html`${mark('good')}\n<h1>${done}</h1>\n${failed > 0 && html`<p>${say('owner.failedSome', { count: failed })}</p>`}`;
    return page(frame(done, content, translation));
  }

  /** Answers how many could not be decided. */
  async function decideEach(ids: readonly string[], action: DigestLink['action'], { snapshot }: RequestContext) {
    let failed = 0;
    for (const id of ids) {
      const row = await findSubmission(store, id);
      if (row === undefined) continue;
      const decided =
        action === 'release'
          ? await releaseSubmission(row, { snapshot, environment: row.environment }, parts)
          : await markAsSpam(row, parts);
      if (decided.kind !== 'done') failed++;
    }
    return failed;
  }

  return {
    async page(context, { token = '' }) {
      const opened = await openOwnerToken(token, ownerKey, parts);
      if (opened === undefined) return invalidPage(context, 'owner.expired');
      const request = { context, token, opened };
      const { link } = opened;
      if (isOfDigest(link)) return decideAll(link, request);
      const subject = await subjectOf(link.submission, context);
      if (subject === undefined) return invalidPage(context, 'owner.gone');
      return link.action === 'view' ? view(subject, request) : decide(subject, link, request);
    },
    async file(context, { token = '', file: wanted = '' }) {
      const opened = await openOwnerToken(token, ownerKey, parts);
      if (opened?.link.action !== 'view') return invalidPage(context, 'owner.expired');
      const file = (await filesOf(store, opened.link.submission)).find(({ id }) => id === wanted);
      if (file === undefined) return invalidPage(context, 'owner.gone');
      const { filename, size } = file;
      return download({ type: 'application/octet-stream', filename, size, stream: chunksOfFile(store, file.id) });
    },
  };
}

function isOfDigest(link: OwnerLink): link is DigestLink {
  return link.action === 'release' || link.action === 'confirm';
}

interface Question {
  readonly question: string;
  readonly text: string;
  readonly button: string;
}

/** What a link asks, and what is said once it is done. */
function wordsOf(link: SubmissionLink, { row, form, translation: { say } }: Subject) {
  const wasSpam = row.status === 'spam';
  if (link.action === 'stop') {
    const names = { address: link.recipient, form: form.name };
    return {
      question: say('owner.stopQuestion'),
      text: say('owner.stopText', names),
      button: say('mail.stop'),
      done: say('owner.stopDone'),
      doneText: say('owner.stopDoneText', names),
    };
  }
  const who = visitorName(readFields(row.fields)) ?? form.name;
  if (link.action === 'ham') {
    return {
      question: say('owner.hamQuestion', { visitor: who }),
      text: say('owner.releaseText'),
      button: say('owner.hamButton'),
      done: say('owner.hamDone'),
      doneText: say('owner.hamDoneText'),
    };
  }
  return {
    question: say(wasSpam ? 'owner.confirmQuestion' : 'owner.spamQuestion', { visitor: who }),
    text: say(wasSpam ? 'owner.confirmText' : 'owner.spamText'),
    button: say(wasSpam ? 'owner.confirmButton' : 'mail.spam'),
    done: say('owner.spamDone'),
    doneText: say('owner.spamDoneText'),
  };
}

const BUTTONS = {
  release: 'owner.releaseAllButton',
  confirm: 'owner.confirmAllButton',
} as const satisfies Record<DigestLink['action'], MessageName>;

const REASONS = {
  'form-gone': 'owner.formGone',
  'content-gone': 'owner.gone',
} as const satisfies Record<Exclude<Decided['kind'], 'done'>, MessageName>;

function frame(title: string, content: Content, translation: Translation) {
  return layout({ title, content, translation, style: STYLE, formAction: ["'self'"] });
}

const STYLE = `
@media (min-width:30.1rem){dl.record{grid-template-columns:minmax(0,auto) minmax(60%,1fr)}}
dl.record dd{white-space:pre-wrap}
a.quiet{background:none;color:inherit;border-color:var(--edge)}
.actions{display:flex;flex-wrap:wrap;gap:.75rem}
.notice{margin:1.25rem 0 0;padding:.8rem 1rem;border:1px solid var(--line);border-radius:8px}
.notice ul{margin:.35rem 0 0;padding-inline-start:1.2rem}
ul.files{padding-inline-start:1.2rem}`;

function questionPage({ question, text, button }: Question, translation: Translation) {
  const content = html`<h1>${question}</h1>\n<p>${text}</p>\n<form method="post">\n<button>${button}</button>\n</form>`;
  return frame(question, content, translation);
}

function noticePage(
  heading: MessageName,
  text: readonly MessageName[],
  { translation, content = '' }: { readonly translation: Translation; readonly content?: Content },
): Answer {
  const { say } = translation;
  const title = say(heading);
  const paragraphs = text.map((name) => html`<p>${say(name)}</p>\n`);
  return page(frame(title, html`<h1>${title}</h1>\n${paragraphs}${content}`, translation));
}

function invalidPage(context: RequestContext, reason: 'owner.expired' | 'owner.gone'): Answer {
  const translation = translationFor(context);
  const { say } = translation;
  const title = say('owner.invalid');
  const content = html`${mark('bad')}\n<h1>${title}</h1>\n<p>${say(reason, { days: OWNER_LINK_DAYS })}</p>`;
  return page(frame(title, content, translation), 404);
}

/** The signs of spam: there are none where the owner decided, and those of honesty would confuse. */
function spamNotice(row: SubmissionRow, { say }: Translation): Content {
  const reasons = readReasons(row.spam_reasons)
    .filter(({ score }) => score > 0)
    .slice(0, MAX_REASONS);
  return html`<div class="notice">\n<p>${say('owner.isSpam')}</p>
${reasons.length > 0 && html`<ul>${reasons.map(({ detail }) => html`<li>${detail}</li>`)}</ul>`}
</div>\n`;
}

const MAX_REASONS = 20;
/** Characters of all values of a submission that its page shows. */
const MAX_CHARACTERS = 1 << 18;

function cut(fields: readonly ShownField[]): ShownField[] {
  const share = Math.floor(MAX_CHARACTERS / Math.max(1, fields.length));
  return fields.map((field) => ({
    ...field,
    label: field.label.length <= 200 ? field.label : `${field.label.slice(0, 199)}…`,
    value: field.value.length <= share ? field.value : `${field.value.slice(0, share).toWellFormed()}…`,
  }));
}

/** Characters of what is taken for a line. */
const MAX_LINE = 80;

function fieldList(fields: readonly ShownField[]): Content {
  if (fields.length === 0) return '';
  const rows = fields.map(({ label, value, link }) => {
    const shown = link === undefined ? value : html`<a href="${link}">${value}</a>`;
    // A line stands under or beside its label; a text begins where its own language does.
    return value.includes('\n') || value.length > MAX_LINE
      ? html`<dt>${label}</dt><dd dir="auto">${shown}</dd>\n`
      : html`<dt>${label}</dt><dd><bdi>${shown}</bdi></dd>\n`;
  });
  return html`<dl class="record">\n${rows}</dl>\n`;
}

function fileList(files: readonly FileRow[], token: string, { say, size: sizeOf }: Translation): Content {
  if (files.length === 0) return '';
  const items = files.map(({ id, filename, size }) => {
    const name = filename === '' ? id : filename;
    return html`<li><a href="${token}/files/${id}" download><bdi>${name}</bdi></a> <span class="soft">(${sizeOf(size)})</span></li>\n`;
  });
  return html`<h2>${say('mail.files')}</h2>\n<ul class="files">\n${items}</ul>\n`;
}
