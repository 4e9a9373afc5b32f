/**
 * A post to a form, from the socket to the answer. The order of the checks is part of the contract: what is cheap and
 * needs no body comes first. Whatever is answered with success is on the disk; whatever is refused is never sent, and what
 * had come of it is dropped.
 */
import { isIP } from 'node:net';
import type { Authenticator } from '../../accounts/authenticate.ts';
import { decide, accountIdOf, type Principal } from '../../accounts/principal.ts';
import type { Idempotency, Claim } from '../../accounts/idempotency.ts';
import type { Limits } from '../../accounts/rate-limits.ts';
import type { Verdict } from '../../accounts/sliding-window.ts';
import type { Form } from '../../config/forms.ts';
import { type SubmittedBody, hashOfBody } from '../../forms/fields.ts';
import { claimKey, type Domain } from '../../config/snapshot.ts';
import type { Accept, Accepted } from '../../forms/accept.ts';
import type { FileStore } from '../../forms/files.ts';
import { findSendForm, withTenant } from '../../forms/find.ts';
import type { Judge } from '../../forms/spam/filter.ts';
import { parseDomain } from '../../lib/addresses.ts';
import { accountOf, environmentOf } from '../../lib/ids.ts';
import type { Log } from '../../lib/log.ts';
import { counterOf } from '../../store/form-counters.ts';
import { type Answer, formatAnswer, parseAnswer, json, page, wantsPage } from '../answer.ts';
import { principalOf, refuseMissingKey } from '../auth.ts';
import { limitsFor, readBody, type ReadBody } from '../body.ts';
import { plainAddress, header, tighter, type Exchange, rateLimited, faultRefusal, endpointOf } from '../context.ts';
import { lacksPermission, refuse, unavailable, type Refusal, shapeB, statusOf } from '../errors.ts';
import type { FreeSpace } from '../../store/free-space.ts';
import { type FormPath, refuseUnserved, type ServedParts, refuseOrigin, type Seen, type Visit, readableFor } from './request.ts';
import { acceptedForm, refusedForm, thankYou } from './outcome.ts';
import { checkSubmission, createMatching, type CheckedSubmission } from '../../forms/check.ts';
import { errorFields } from '../../lib/errors.ts';
import { UnmetError } from '../../store/store.ts';
import { formAddressPage } from '../pages/form-address.ts';

export interface SubmitParts extends ServedParts {
  readonly authenticator: Authenticator;
  readonly limits: Pick<Limits, 'takeSubmission'>;
  /** Counts the request against the account and the key; undefined where nothing limits them. */
  readonly takeAccount: (principal: Principal) => Promise<Verdict | undefined>;
  /** Counts what became of the request of a key. */
  readonly used: (principal: Principal, status: number) => void;
  readonly files: FileStore;
  readonly idempotency: Idempotency;
  readonly judge: Judge;
  readonly accept: Accept;
  readonly freeSpace: FreeSpace;
  readonly log: Log;
}

/** The handler of `POST` on a form's address. */
export function createSubmit(parts: SubmitParts): (visit: Visit) => Promise<Answer> {
  const { limits, files, freeSpace, log } = parts;
  const take = createTake(parts);

  async function attempt(asked: Visit, seen: Asking): Promise<Answer | Refusal> {
    const { exchange } = asked;
    if (!exchange.limit.allowed && !exchange.local) return rateLimited(exchange.limit, exchange.at);
    // Looked at now, because a test key may mean a form that only test keys see; what is wrong with it is told in its turn.
    const principal = await principalOf(exchange, parts.authenticator);
    const visit = inPartition(asked, principal);
    const unserved = await refuseUnserved(visit, parts, seen);
    if (unserved !== undefined) return unserved;
    let { form } = visit;
    let read: ReadBody | undefined;
    if (visit.domain !== undefined && isSend(visit.path)) {
      read = await receive(visit, undefined, seen);
      if (read.refusal !== undefined) return read.refusal;
      ({ form, read } = formOfBody(visit.domain, read));
      seen.typed = read.typed;
    }
    if (form === undefined) return drop(refuse('FORM_NOT_FOUND'), read);
    seen.form = form;
    if (principal !== undefined && 'kind' in principal) return drop(principal, read);
    seen.principal = principal;
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
      read ??= await receive(visit, form, seen);
      if (read.refusal !== undefined) return read.refusal;
      const taken = await take({ exchange, form, ip, body: read.body, words: wordsFor(visit, form, seen) });
      ({ counts } = taken);
      return taken.answer;
    } finally {
      if (!counts) await admission.refused();
    }
  }

  async function receive(visit: Visit, form: Form | undefined, seen: Seen): Promise<ReadBody> {
    const { request, snapshot } = visit.exchange;
    const hash = request.headers['idempotency-key'] !== undefined;
    const read = await readBody(visit.exchange, { limits: limitsFor(snapshot.server, form), files, hash });
    seen.typed = read.typed;
    return read;
  }

  /** Why the key, which is known, may not be used here and now. The operator on the machine itself may everywhere. */
  async function refuseKey(principal: Principal, exchange: Exchange, form: Form): Promise<Refusal | undefined> {
    if (principal.key === undefined) return undefined;
    if (accountIdOf(principal) !== accountOf(form.tenant))
      return refuse('AUTH_FORBIDDEN', { message: 'The form is of another account.' });
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

  async function answerTo(visit: Visit, seen: Asking): Promise<Answer> {
    try {
      const outcome = await attempt(visit, seen);
      return 'kind' in outcome ? refusedForm(visit, outcome, seen) : outcome;
    } catch (error) {
      return refusedForm(visit, faultRefusal(error, visit.exchange, log), seen);
    }
  }

  return async (visit) => {
    const seen: Asking = { form: visit.form };
    const answer = await answerTo(visit, seen);
    if (seen.principal !== undefined) parts.used(seen.principal, answer.status);
    return answer;
  };
}

/** What is known of a post, and who sends it where that is known. */
interface Asking extends Seen {
  principal?: Principal | undefined;
}

/** What a test key means by the address: a form of its partition goes before the live one of the same name. */
function inPartition(visit: Visit, principal: Principal | Refusal | undefined): Visit {
  const { exchange, path } = visit;
  if (principal === undefined || 'kind' in principal || principal.environment !== 'test') return visit;
  if (path.kind !== 'domain') return visit;
  const name = parseDomain(path.domain) ?? '';
  const domain = exchange.snapshot.claims.get(claimKey(principal.tenant.id, name));
  if (domain === undefined) return visit;
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

function wordsFor(visit: Visit, form: Form, seen: Seen): Posted['words'] {
  return {
    refused: (refusal) => refusedForm(visit, refusal, seen),
    accepted: (id, next) => acceptedForm({ visit, form, id, next }),
  };
}

/** The form of `/v1/{domain}/send`; the field that named it is no data. */
function formOfBody(domain: Domain, read: ReadBody): { form: Form | undefined; read: ReadBody } {
  const named = read.body.entries.find(([name]) => name === 'form')?.[1];
  const form = findSendForm(domain, named);
  if (named === undefined || form?.key !== named) return { form, read };
  const entries = read.body.entries.filter(([name, value]) => name !== 'form' || value !== named);
  const body: SubmittedBody = { ...read.body, entries };
  return { form, read: { ...read, body, typed: { ...read.typed, entries, formName: named } } };
}

// A body that was read becomes a submission: checked against its form, judged, and committed together with its answer.

export interface TakeParts {
  readonly files: Pick<FileStore, 'discard'>;
  readonly idempotency: Idempotency;
  readonly judge: Judge;
  readonly accept: Accept;
  readonly log: Log;
}

export interface Posted {
  readonly exchange: Exchange;
  readonly form: Form;
  /** The visitor's address. */
  readonly ip: string;
  readonly body: SubmittedBody;
  /** How the visitor is told of each end. */
  readonly words: {
    readonly refused: (refusal: Refusal) => Answer;
    readonly accepted: (id: string, next: string | undefined) => Answer;
  };
}

export interface Taken {
  readonly answer: Answer;
  /** Whether it counts as an accepted post. */
  readonly counts: boolean;
}

const LONGEST_KEY = 256;

/** The function that takes bodies. It rejects with StoreError where nothing could be written; nothing happened then. */
function createTake({ files, idempotency, judge, accept, log }: TakeParts): (posted: Posted) => Promise<Taken> {
  const startMatching = createMatching();

  async function take(posted: Posted): Promise<Taken> {
    const key = header(posted.exchange.request, 'idempotency-key');
    if (key === undefined) return settle(posted, undefined);
    if (key === '' || key.length > LONGEST_KEY) {
      const message = `Idempotency-Key must have 1 to ${LONGEST_KEY} characters.`;
      return refused(posted, refuse('VALIDATION_FAILED', { message }));
    }
    const began = await idempotency.begin(`form:${counterOf(posted.form)}`, key, hashOfBody(posted.body));
    switch (began.kind) {
      case 'conflict':
        return refused(posted, refuse('IDEMPOTENCY_CONFLICT', { message: CONFLICTS[began.reason] }));
      case 'replay':
        await files.discard(posted.body.files);
        return { answer: replayed(began.response), counts: false };
      case 'new':
        return settleOnce(posted, began.claim);
    }
  }

  /** Under a claim: it ends with an answer that is stored, or is given back. */
  async function settleOnce(posted: Posted, claim: Claim): Promise<Taken> {
    try {
      return await settle(posted, claim);
    } catch (error) {
      if (error instanceof UnmetError) {
        return refused(posted, refuse('IDEMPOTENCY_CONFLICT', { message: CONFLICTS['in progress'] }));
      }
      await idempotency.release(claim).catch((cause: unknown) => {
        log.warn('idempotency.not_released', { request: posted.exchange.id, ...errorFields(cause) });
      });
      throw error;
    }
  }

  async function settle(posted: Posted, claim: Claim | undefined): Promise<Taken> {
    const { exchange, form, ip, body } = posted;
    const submission = checkSubmission(form, body, startMatching);
    if (submission.errors.length > 0) {
      const taken = await refused(posted, refuse('VALIDATION_FAILED', { errors: submission.errors }));
      if (claim !== undefined) await idempotency.finish(claim, stored(taken.answer));
      return taken;
    }
    const judged = judge(form, { ...submission, ip });
    const judgement = judged instanceof Promise ? await judged : judged;
    const accepted = await accept({
      form,
      ...submission,
      judgement,
      ip,
      userAgent: exchange.request.headers['user-agent'] ?? '',
      referer: exchange.request.headers.referer ?? '',
      request: exchange.id,
      environment: environmentOf(form.tenant),
      also: claim && ((accepted) => [idempotency.answer(claim, stored(answerFor(posted, submission, accepted)))]),
    });
    tell(posted, submission, accepted);
    return {
      answer: answerFor(posted, submission, accepted),
      counts: accepted.status === 'accepted' || accepted.isOverflow,
    };
  }

  function answerFor(
    { form, words }: Posted,
    { control }: CheckedSubmission,
    { id, status, isOverflow }: Accepted,
  ): Answer {
    const blocked = status === 'spam' && !isOverflow && form.config.spam_protection.on_spam === 'reject';
    return blocked ? words.refused(refuse('BLOCKED')) : words.accepted(id, control.next);
  }

  async function refused({ body, words }: Posted, refusal: Refusal): Promise<Taken> {
    await files.discard(body.files);
    return { answer: words.refused(refusal), counts: false };
  }

  function tell({ exchange, form, ip }: Posted, { fields, files }: CheckedSubmission, { id, status }: Accepted): void {
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

  return take;
}

const CONFLICTS = {
  'other body': 'This Idempotency-Key was used with another body.',
  'in progress': 'The first request with this Idempotency-Key is still in progress.',
} as const;

function stored(answer: Answer): { status: number; response: string } {
  return { status: answer.status, response: formatAnswer(answer) };
}

function replayed(response: string): Answer {
  const answer = parseAnswer(response);
  return { ...answer, headers: { ...answer.headers, 'Idempotent-Replayed': 'true' } };
}

// A form's address, whatever the method: posts are submissions, and a browser that opens it learns what it is.

const ALLOW = 'GET, HEAD, POST, OPTIONS';

/** The handler of all requests to a form's address, but for preflights that are allowed. */
export function createFormHandler(parts: SubmitParts): (visit: Visit) => Promise<Answer> {
  const submit = createSubmit(parts);
  return async (visit) => {
    switch (visit.exchange.method) {
      case 'POST':
        return submit(visit);
      case 'GET':
      case 'HEAD':
        return look(visit);
      case 'OPTIONS':
        return options(visit);
      default:
        return notAllowed(visit);
    }
  };

  async function look(visit: Visit): Promise<Answer> {
    const { exchange, domain, path } = visit;
    const isSend = path.kind === 'domain' && path.form === undefined;
    // Without a body it is the form that a body without a field `form` would go to.
    const form = isSend && domain !== undefined ? findSendForm(domain, undefined) : visit.form;
    if (!exchange.limit.allowed && !exchange.local) return refused(visit, rateLimited(exchange.limit, exchange.at));
    const seen: Seen = { form };
    const unserved = await refuseUnserved(visit, parts, seen);
    if (unserved !== undefined) return refusedForm(visit, unserved, seen);
    if (form === undefined && !isSend) return refused(visit, refuse('FORM_NOT_FOUND'));
    if (form === undefined || !wantsPage(exchange.request.headers, false)) return notAllowed(visit);
    return exchange.query === 'thanks'
      ? thankYou(visit, form)
      : page(formAddressPage({ form, endpoint: endpointOf(exchange, form) }));
  }

  /** What is left of preflights: those of what is no origin, and requests that only ask what is allowed here. */
  function options(visit: Visit): Answer {
    const { origin, 'access-control-request-method': preflight } = visit.exchange.request.headers;
    if (preflight !== undefined && origin !== undefined && readableFor(visit) === '') {
      const refusal = refuse('ORIGIN_NOT_ALLOWED', { message: 'The header Origin holds no valid origin.' });
      return json(shapeB(refusal, visit.exchange.id), statusOf(refusal));
    }
    return { status: 204, type: 'application/json', body: '', headers: { Allow: ALLOW } };
  }

  function notAllowed(visit: Visit): Answer {
    return refused(
      visit,
      refuse('METHOD_NOT_ALLOWED', { message: 'Send the form with POST.', headers: { Allow: ALLOW } }),
    );
  }

  function refused(visit: Visit, refusal: Refusal): Answer {
    return refusedForm(visit, refusal, { form: visit.form });
  }
}
