/**
 * Asks services that a form names: one that speaks Akismet's interface, and an rspamd server. Both are asked through the
 * guarded HTTP client, together and within a few seconds; a service that fails says nothing, and no lead is lost to it.
 */
import { z } from 'zod';
import type { HttpClient, HttpReply } from '../../dns/guarded-fetch.ts';
import type { Log } from '../../lib/log.ts';
import { emailOf, replyToOf, valuesOf } from '../fields.ts';
import type { Reason } from './signs.ts';
import type { Rules, SpamInput } from './text.ts';

export interface SpamServices {
  /** What the services of the form say; never rejects. */
  ask(form: Rules, submission: SpamInput): Promise<Reason[]>;
}

/** The text that is sent out. */
const MAX_TEXT_LENGTH = 64 * 1024;

export function createSpamServices({
  http,
  log,
}: {
  readonly http: Pick<HttpClient, 'request'>;
  readonly log: Log;
}): SpamServices {
  function failed(service: string, form: Rules, reply: HttpReply): Reason[] {
    const reason =
      reply.kind === 'answered' ? `it responded with ${reply.status}: ${reply.text.slice(0, 200)}` : reply.reason;
    log.warn('spam.service_failed', { service, form: form.id, reason });
    return [];
  }

  async function askAkismet(form: Rules, submission: SpamInput): Promise<Reason[]> {
    const { akismet } = form.config.spam_protection;
    if (akismet === undefined) return [];
    const reply = await http.request({
      method: 'POST',
      url: new URL('/1.1/comment-check', akismet.url).href,
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: akismetBody(akismet.key, form, submission).toString(),
    });
    if (reply.kind !== 'answered' || reply.status !== 200) return failed('akismet', form, reply);
    const said = reply.text.trim();
    if (said === 'false') return [];
    return said === 'true'
      ? [{ name: 'akismet', score: 20, detail: new URL(akismet.url).host }]
      : failed('akismet', form, reply);
  }

  async function askRspamd(form: Rules, submission: SpamInput): Promise<Reason[]> {
    const { rspamd } = form.config.spam_protection;
    if (rspamd === undefined) return [];
    const reply = await http.request({
      method: 'POST',
      url: new URL('/checkv2', rspamd.url).href,
      headers: rspamdHeaders(rspamd.password, form, submission),
      body: messageOf(form, submission),
    });
    const verdict = reply.kind === 'answered' && reply.status === 200 ? readVerdict(reply.text) : undefined;
    if (verdict === undefined) return failed('rspamd', form, reply);
    const points = RSPAMD_POINTS[verdict.action] ?? 0;
    const detail = `${verdict.action}, ${verdict.score} of ${verdict.required_score}`;
    return points === 0 ? [] : [{ name: 'rspamd', score: points, detail }];
  }

  return {
    async ask(form, submission) {
      return (await Promise.all([askAkismet(form, submission), askRspamd(form, submission)])).flat();
    },
  };
}

/** https://akismet.com/developers/detailed-docs/comment-check/ */
function akismetBody(key: string, form: Rules, { ip, visit, ...submission }: SpamInput): URLSearchParams {
  const { author, email, text } = readParts(form, submission);
  const { 'user-agent': agent, referer } = visit?.headers ?? {};
  return new URLSearchParams({
    api_key: key,
    blog: `https://${form.domain}/`,
    user_ip: ip,
    user_agent: String(agent ?? ''),
    referrer: String(referer ?? ''),
    comment_type: 'contact-form',
    comment_author: author,
    comment_author_email: email,
    comment_content: text,
  });
}

const verdictOfRspamd = z.object({ score: z.number(), required_score: z.number(), action: z.string() });
type RspamdVerdict = z.output<typeof verdictOfRspamd>;

/** By what rspamd would do with a mail. */
const RSPAMD_POINTS: Readonly<Record<string, number>> = {
  reject: 20,
  'rewrite subject': 12,
  'add header': 12,
  'soft reject': 5,
  greylist: 4,
  'no action': -3,
};

function readVerdict(text: string): RspamdVerdict | undefined {
  try {
    return verdictOfRspamd.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

function rspamdHeaders(password: string | undefined, form: Rules, { ip }: SpamInput): Record<string, string> {
  const headers = { 'content-type': 'message/rfc822', ip, rcpt: `form@${form.domain}` };
  return password === undefined ? headers : { ...headers, password };
}

/** A mail for rspamd to read, with what the visitor wrote. */
function messageOf(form: Rules, submission: SpamInput): string {
  const { email, text } = readParts(form, submission);
  const from = email === '' ? `unknown@${form.domain}` : email;
  const lines = [
    `From: <${from.replaceAll(/[\r\n<>]/g, '')}>`,
    `To: <form@${form.domain}>`,
    'Subject: =?utf-8?q?Form_submission?=',
    'MIME-Version: 1.0',
    'Content-Type: text/plain; charset=utf-8',
    'Content-Transfer-Encoding: 8bit',
    '',
    text,
  ];
  return lines.join('\r\n');
}

function readParts(form: Rules, { fields, control }: Pick<SpamInput, 'fields' | 'control'>) {
  const author = fields.find(([name]) => /name$/i.test(name))?.[1] ?? '';
  return {
    author: valuesOf(author).join(' ').slice(0, 200),
    email: emailOf(fields, form.config) ?? replyToOf(control) ?? '',
    text: fields
      .flatMap(([name, value]) => valuesOf(value).map((text) => `${name}: ${text}`))
      .join('\n')
      .slice(0, MAX_TEXT_LENGTH),
  };
}
