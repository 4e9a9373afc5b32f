/**
 * A post to a form, from the socket to the answer. The order of the checks is part of the contract: what is cheap and
 * needs no body comes first. Whatever is answered with success is on the disk; whatever is refused is never sent, and what
 * had come of it is dropped.
 */
import { isIP } from 'node:net';
import type { Authenticator } from '../../accounts/authenticate.ts';
import { decide, accountIdOf, type Principal } from '../../accounts/principal.ts';
import type { Limits, Verdict } from '../../accounts/rate-limits.ts';

import type { Form } from '../../config/forms.ts';
import { type SubmittedBody, hashOfBody } from '../../forms/fields.ts';
import { claimKey, type Domain } from '../../config/snapshot.ts';
import type { Accept, Accepted } from '../../forms/accept.ts';
import type { FileStore } from '../../forms/files.ts';
import { findSendForm, withTenant } from '../../forms/find.ts';
import type { SpamFilter } from '../../forms/spam/filter.ts';
import type { Visit } from '../../forms/spam/visit.ts';
import { parseDomain } from '../../lib/addresses.ts';
import { accountOf, environmentOf } from '../../lib/ids.ts';

import { counterOf } from '../../store/forms.ts';
import { type Answer, json, page, wantsPage } from '../answer.ts';

import { principalOf, refuseMissingKey } from '../auth.ts';
import { limitsFor, readBody, type ReadBody } from '../body.ts';
import { plainAddress, header, tighter, type Exchange, rateLimited, faultRefusal, endpointOf, isSecure } from '../context.ts';
import { lacksPermission, refuse, unavailable, type Refusal, shapeB, statusOf } from '../errors.ts';
import type { FreeSpace } from '../../store/database.ts';
import {
  type FormPath,
  refuseUnserved,
  type ServedParts,
  refuseOrigin,
  type RequestProgress,
  type FormRequest,
  readableFor,
} from './request.ts';
import { acceptedForm, refusedForm, thankYou } from './outcome.ts';
import { checkSubmission, createMatching, type CheckedSubmission } from '../../forms/check.ts';
import { answerOnce, type OnceParts, type Stored } from '../once.ts';
import { formAddressPage } from '../pages/form-pages.ts';

export interface SubmitParts extends ServedParts, OnceParts {
  readonly authenticator: Authenticator;
  readonly limits: Pick<Limits, 'takeSubmission'>;
  /** Counts the request against the account and the key; undefined where nothing limits them. */
  readonly takeAccount: (principal: Principal) => Promise<Verdict | undefined>;
  /** Counts what became of the request of a key. */
  readonly used: (principal: Principal, status: number) => void;
  readonly files: FileStore;
  readonly spamFilter: SpamFilter;
  readonly accept: Accept;
  readonly freeSpace: FreeSpace;
}

/** The handler of `POST` on a form's address. */
function createSubmit(parts: SubmitParts): (formRequest: FormRequest) => Promise<Answer> {
  const { limits, files, freeSpace, log } = parts;
  const processBody = createBodyProcessor(parts);

  async function attempt(received: FormRequest, progress: SubmissionProgress): Promise<Answer | Refusal> {
    const { exchange } = received;
    if (!exchange.limit.allowed && !exchange.local) return rateLimited(exchange.limit, exchange.at);
    // Looked at now, because a test key may mean a form that only test keys see; what is wrong with it is told in its turn.
    const principal = await principalOf(exchange, parts.authenticator);
    const formRequest = inPartition(received, principal);
    const unserved = await refuseUnserved(formRequest, parts, progress);
    if (unserved !== undefined) return unserved;
    let { form } = formRequest;
    let read: ReadBody | undefined;
    if (formRequest.domain !== undefined && isSend(formRequest.path)) {
      read = await receive(formRequest, undefined, progress);
      if (read.refusal !== undefined) return read.refusal;
      ({ form, read } = formOfBody(formRequest.domain, read));
      progress.submitted = read.submitted;
    }
    if (form === undefined) return drop(refuse('FORM_NOT_FOUND'), read);
    progress.form = form;
    if (principal !== undefined && 'kind' in principal) return drop(principal, read);
    progress.principal = principal;
    const stranger =
      principal === undefined ? refuseStranger(exchange, form) : await refuseKey(principal, exchange, form);
    if (stranger !== undefined) return drop(stranger, read);
    if (principal?.environment === 'test') form = withTenant(form, principal.tenant.id);
    const ip = visitorOf(exchange, principal);
    if (typeof ip !== 'string') return drop(ip, read);
    const counted = { id: counterOf(form), rateLimit: form.rateLimit };
    const admission = await limits.takeSubmission(counted, ip);
    exchange.limit = tighter(exchange.limit, admission.verdict);
    if (!admission.verdict.allowed && !exchange.local) return drop(rateLimited(admission.verdict, exchange.at), read);
    let counts = false;
    try {
      if (freeSpace.below(exchange.snapshot.server.limits.free_disk)) return await drop(unavailable(), read);
      read ??= await receive(formRequest, form, progress);
      if (read.refusal !== undefined) return read.refusal;
      const outcome = await processBody({
        exchange,
        form,
        ip,
        body: read.body,
        principal,
        answers: answersFor(formRequest, form, progress),
      });
      ({ counts } = outcome);
      return outcome.answer;
    } finally {
      if (!counts) await admission.refused();
    }
  }

  async function receive(
    formRequest: FormRequest,
    form: Form | undefined,
    progress: RequestProgress,
  ): Promise<ReadBody> {
    const { request, snapshot } = formRequest.exchange;
    const hash = request.headers['idempotency-key'] !== undefined;
    const read = await readBody(formRequest.exchange, { limits: limitsFor(snapshot.server, form), files, hash });
    progress.submitted = read.submitted;
    return read;
  }

  /** Why the key, which is known, may not be used here and now. The operator on the machine itself may everywhere. */
  async function refuseKey(principal: Principal, exchange: Exchange, form: Form): Promise<Refusal | undefined> {
    if (principal.key === undefined) return undefined;
    if (accountIdOf(principal) !== accountOf(form.tenant))
      return refuse('AUTH_FORBIDDEN', { message: 'The form belongs to another account.' });
    const { domain: name } = form.audience;
    const domain = name === undefined ? 'none' : { name };
    const denial = decide(principal, { permission: 'forms.submit', domain, ip: exchange.ip });
    if (denial === 'AUTH_FORBIDDEN') return lacksPermission('forms.submit');
    if (denial !== undefined) return refuse(denial);
    const verdict = await parts.takeAccount(principal);
    if (verdict === undefined) return undefined;
    exchange.limit = tighter(exchange.limit, verdict);
    return verdict.allowed || exchange.local ? undefined : rateLimited(verdict, exchange.at);
  }

  async function drop(refusal: Refusal, read: ReadBody | undefined): Promise<Refusal> {
    if (read !== undefined) await files.discard(read.body.files);
    return refusal;
  }

  async function answerTo(formRequest: FormRequest, progress: SubmissionProgress): Promise<Answer> {
    try {
      const outcome = await attempt(formRequest, progress);
      return 'kind' in outcome ? refusedForm(formRequest, outcome, progress) : outcome;
    } catch (error) {
      return refusedForm(formRequest, faultRefusal(error, formRequest.exchange, log), progress);
    }
  }

  return async (formRequest) => {
    const progress: SubmissionProgress = { form: formRequest.form };
    const answer = await answerTo(formRequest, progress);
    if (progress.principal !== undefined) parts.used(progress.principal, answer.status);
    return answer;
  };
}

/** What is known of a post, and who sends it where that is known. */
interface SubmissionProgress extends RequestProgress {
  principal?: Principal | undefined;
}

/** What a test key means by the address: a form of its partition goes before the live one of the same name. */
function inPartition(formRequest: FormRequest, principal: Principal | Refusal | undefined): FormRequest {
  const { exchange, path } = formRequest;
  if (principal === undefined || 'kind' in principal || principal.environment !== 'test') return formRequest;
  if (path.kind !== 'domain') return formRequest;
  const name = parseDomain(path.domain) ?? '';
  const domain = exchange.snapshot.claims.get(claimKey(principal.tenant.id, name));
  if (domain === undefined) return formRequest;
  return { exchange, path, domain, form: path.form === undefined ? undefined : domain.forms.get(path.form) };
}

/** Whose limits count: the client's, or with a key those of the visitor that the site's server names. */
function visitorOf({ request, ip }: Exchange, principal: Principal | undefined): string | Refusal {
  const named = header(request, 'postern-client-ip');
  if (principal === undefined || named === undefined) return ip;
  const address = plainAddress(named.trim());
  if (isIP(address) !== 0) return address;
  return refuse('VALIDATION_FAILED', { message: 'Postern-Client-IP must be an IP address, such as 192.0.2.10.' });
}

function isSend(path: FormPath): boolean {
  return path.kind === 'domain' && path.form === undefined;
}

function refuseStranger(exchange: Exchange, form: Form): Refusal | undefined {
  return form.requireApiKey ? refuseMissingKey() : refuseOrigin(exchange, form);
}

function answersFor(formRequest: FormRequest, form: Form, progress: RequestProgress): FormPost['answers'] {
  return {
    refused: (refusal) => refusedForm(formRequest, refusal, progress),
    accepted: (id, next) => acceptedForm({ formRequest, form, id, next }),
  };
}

/** The form of `/v1/{domain}/send`; the field that named it is no data. */
function formOfBody(domain: Domain, read: ReadBody): { form: Form | undefined; read: ReadBody } {
  const named = read.body.entries.find(([name]) => name === 'form')?.[1];
  const form = findSendForm(domain, named);
  if (named === undefined || form?.key !== named) return { form, read };
  const entries = read.body.entries.filter(([name, value]) => name !== 'form' || value !== named);
  const body: SubmittedBody = { ...read.body, entries };
  return { form, read: { ...read, body, submitted: { ...read.submitted, entries, formName: named } } };
}

interface FormPost {
  readonly exchange: Exchange;
  readonly form: Form;
  /** The visitor's address. */
  readonly ip: string;
  readonly body: SubmittedBody;
  readonly principal: Principal | undefined;
  readonly answers: {
    readonly refused: (refusal: Refusal) => Answer;
    readonly accepted: (id: string, next: string | undefined) => Answer;
  };
}

interface Outcome {
  readonly answer: Answer;
  /** Whether it counts as an accepted post. */
  readonly counts: boolean;
}

/** What the request says of its visitor. */
function visitOf({ exchange, principal }: FormPost): Visit {
  const { request } = exchange;
  return {
    headers: request.headers,
    hasKey: principal !== undefined,
    isSecure: isSecure(request) || request.headers['x-forwarded-proto'] === 'https',
  };
}

/** The function that takes bodies. It rejects with StoreError where nothing could be written; nothing happened then. */
function createBodyProcessor({
  files,
  idempotency,
  spamFilter,
  accept,
  log,
}: SubmitParts): (post: FormPost) => Promise<Outcome> {
  const startMatching = createMatching();

  return async (post) => {
    let counts = false;
    const request = { ...post, scope: `form:${counterOf(post.form)}`, hash: () => hashOfBody(post.body) };
    let isTaken = false;
    const outcome = await answerOnce({ idempotency, log }, request, async (stored) => {
      isTaken = true;
      const settled = await settle(post, stored);
      ({ counts } = settled);
      return settled.answer;
    });
    if ('kind' in outcome) return refused(post, outcome);
    if (!isTaken) await files.discard(post.body.files);
    return { answer: outcome, counts };
  };

  async function settle(post: FormPost, stored: Stored): Promise<Outcome> {
    const { exchange, form, ip, body } = post;
    const submission = checkSubmission(form, body, startMatching);
    if (submission.errors.length > 0) return refused(post, refuse('VALIDATION_FAILED', { errors: submission.errors }));
    const filtered = spamFilter(form, { ...submission, ip, visit: visitOf(post) });
    const spamVerdict = filtered instanceof Promise ? await filtered : filtered;
    const accepted = await accept({
      form,
      ...submission,
      spamVerdict,
      ip,
      userAgent: exchange.request.headers['user-agent'] ?? '',
      referer: exchange.request.headers.referer ?? '',
      request: exchange.id,
      environment: environmentOf(form.tenant),
      also: (accepted) => stored(answerFor(post, submission, accepted)),
    });
    tell(post, submission, accepted);
    return {
      answer: answerFor(post, submission, accepted),
      counts: accepted.status === 'accepted' || accepted.isOverflow,
    };
  }

  function answerFor(
    { form, answers }: FormPost,
    { control }: CheckedSubmission,
    { id, status, isOverflow }: Accepted,
  ): Answer {
    const blocked = status === 'spam' && !isOverflow && form.config.spam_protection.on_spam === 'reject';
    return blocked ? answers.refused(refuse('BLOCKED')) : answers.accepted(id, control.next);
  }

  async function refused({ body, answers }: FormPost, refusal: Refusal): Promise<Outcome> {
    await files.discard(body.files);
    return { answer: answers.refused(refusal), counts: false };
  }

  function tell(
    { exchange, form, ip }: FormPost,
    { fields, files }: CheckedSubmission,
    { id, status }: Accepted,
  ): void {
    const { id: request } = exchange;
    log.info(`submission.${status}`, {
      submission: id,
      form: form.id,
      fields: fields.length,
      files: files.length,
      ip,
      request,
    });
  }
}

const ALLOW = 'GET, HEAD, POST, OPTIONS';

/** The handler of all requests to a form's address, but for preflights that are allowed. */
export function createFormHandler(parts: SubmitParts): (formRequest: FormRequest) => Promise<Answer> {
  const submit = createSubmit(parts);
  return async (formRequest) => {
    switch (formRequest.exchange.method) {
      case 'POST':
        return submit(formRequest);
      case 'GET':
      case 'HEAD':
        return look(formRequest);
      case 'OPTIONS':
        return options(formRequest);
      default:
        return notAllowed(formRequest);
    }
  };

  async function look(formRequest: FormRequest): Promise<Answer> {
    const { exchange, domain, path } = formRequest;
    const isSend = path.kind === 'domain' && path.form === undefined;
    // Without a body it is the form that a body without a field `form` would go to.
    const form = isSend && domain !== undefined ? findSendForm(domain, undefined) : formRequest.form;
    if (!exchange.limit.allowed && !exchange.local)
      return refused(formRequest, rateLimited(exchange.limit, exchange.at));
    const progress: RequestProgress = { form };
    const unserved = await refuseUnserved(formRequest, parts, progress);
    if (unserved !== undefined) return refusedForm(formRequest, unserved, progress);
    if (form === undefined && !isSend) return refused(formRequest, refuse('FORM_NOT_FOUND'));
    if (form === undefined || !wantsPage(exchange.request.headers, false)) return notAllowed(formRequest);
    return exchange.query === 'thanks'
      ? thankYou(formRequest, form)
      : page(formAddressPage({ form, endpoint: endpointOf(exchange, form) }));
  }

  /** What is left of preflights: those of what is no origin, and requests that only ask what is allowed here. */
  function options(formRequest: FormRequest): Answer {
    const { origin, 'access-control-request-method': preflight } = formRequest.exchange.request.headers;
    if (preflight !== undefined && origin !== undefined && readableFor(formRequest) === '') {
      const refusal = refuse('ORIGIN_NOT_ALLOWED', { message: 'The Origin header is not valid.' });
      return json(shapeB(refusal, formRequest.exchange.id), statusOf(refusal));
    }
    return { status: 204, type: 'application/json', body: '', headers: { Allow: ALLOW } };
  }

  function notAllowed(formRequest: FormRequest): Answer {
    return refused(
      formRequest,
      refuse('METHOD_NOT_ALLOWED', { message: 'Send the form with POST.', headers: { Allow: ALLOW } }),
    );
  }

  function refused(formRequest: FormRequest, refusal: Refusal): Answer {
    return refusedForm(formRequest, refusal, { form: formRequest.form });
  }
}
