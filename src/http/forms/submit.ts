/**
 * A request to a form's address, from the socket to the answer. The order of the checks of a post is part of the contract:
 * what is cheap and needs no body comes first. Whatever is answered with success is on the disk; whatever is refused is
 * never sent, and what had come of it is dropped.
 */
import { isIP } from 'node:net';
import { decide, accountIdOf, type Principal } from '../../accounts/principal.ts';
import type { Limits } from '../../accounts/rate-limits.ts';
import { type Form, claimKey, type Domain } from '../../config/snapshot.ts';
import { type SubmittedBody, hashOfBody } from '../../forms/fields.ts';
import type { Accepted, Admitted } from '../../forms/accept.ts';
import {
  principalOf,
  refuseMissingKey,
  plainAddress,
  header,
  type Exchange,
  faultRefusal,
  endpointOf,
  refuseOver,
  answerOnce,
  isSecure,
} from '../context.ts';
import {
  limitsFor,
  readBody,
  type ReadBody,
  type FormRequest,
  type FormRequestParts,
  readableFor,
  refuseOrigin,
  refuseUnserved,
  type RequestProgress,
} from './request.ts';
import {
  lacksPermission,
  refuse,
  unavailable,
  type Refusal,
  shapeB,
  statusOf,
  type Answer,
  json,
  wantsPage,
} from '../answer.ts';
import { checkSubmission, createMatching } from '../../forms/check.ts';
import type { FileStore } from '../../forms/files.ts';
import { findSendForm, withTenant } from '../../forms/find.ts';
import type { SpamFilter } from '../../forms/spam/filter.ts';
import type { Visit } from '../../forms/spam/visit.ts';
import { parseDomain } from '../../lib/addresses.ts';
import { accountOf, environmentOf, counterOf } from '../../lib/ids.ts';
import type { FreeSpace } from '../../store/sqlite.ts';
import { acceptedForm, refusedForm, thankYou, formAddress } from './outcome.ts';
import type { ServeParts } from '../api/serve.ts';

export interface SubmitParts extends FormRequestParts, ServeParts {
  readonly limits: Pick<Limits, 'takeSubmission'>;
  readonly files: FileStore;
  readonly spamFilter: SpamFilter;
  readonly accept: (submission: Admitted) => Promise<Accepted>;
  readonly freeSpace: FreeSpace;
}

/** What is known of a post, and who sends it where that is known. */
interface SubmissionProgress extends RequestProgress {
  principal?: Principal | undefined;
}

interface FormPost {
  readonly formRequest: FormRequest;
  readonly progress: RequestProgress;
  readonly form: Form;
  /** The visitor's address. */
  readonly ip: string;
  readonly body: SubmittedBody;
  readonly principal: Principal | undefined;
}

const ALLOW = 'GET, HEAD, POST, OPTIONS';

/** The handler of all requests to a form's address, but for preflights that are allowed. */
export function createFormHandler(parts: SubmitParts): (formRequest: FormRequest) => Promise<Answer> {
  const { limits, files, freeSpace, log, spamFilter, accept } = parts;
  const startMatching = createMatching();
  return handle;

  async function handle(formRequest: FormRequest): Promise<Answer> {
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
  }

  async function submit(formRequest: FormRequest): Promise<Answer> {
    const progress: SubmissionProgress = { form: formRequest.form };
    const outcome = await attempt(formRequest, progress).catch((error: unknown) =>
      faultRefusal(error, formRequest.exchange, log),
    );
    const answer = 'kind' in outcome ? refusedForm(formRequest, outcome, progress) : outcome;
    if (progress.principal !== undefined) parts.used(progress.principal, answer.status);
    return answer;
  }

  async function attempt(received: FormRequest, progress: SubmissionProgress): Promise<Answer | Refusal> {
    const { exchange } = received;
    const over = refuseOver(exchange.limit, exchange);
    if (over !== undefined) return over;
    // Looked at now, because a test key may mean a form that only test keys see; what is wrong with it is told in its turn.
    const principal = await principalOf(exchange, parts.authenticator);
    const formRequest = inPartition(received, principal);
    const unserved = await refuseUnserved(formRequest, parts, progress);
    if (unserved !== undefined) return unserved;
    let { form } = formRequest;
    let read: ReadBody | undefined;
    if (formRequest.domain !== undefined && isSend(formRequest)) {
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
    const admission = await limits.takeSubmission({ id: counterOf(form), rateLimit: form.rateLimit }, ip);
    const tooMany = refuseOver(admission.verdict, exchange);
    if (tooMany !== undefined) return drop(tooMany, read);
    let isAccepted = false;
    try {
      if (freeSpace.below(exchange.snapshot.server.limits.free_disk)) return await drop(unavailable(), read);
      read ??= await receive(formRequest, form, progress);
      if (read.refusal !== undefined) return read.refusal;
      const outcome = await processBody({ formRequest, progress, form, ip, body: read.body, principal });
      ({ isAccepted } = outcome);
      return outcome.answer;
    } finally {
      if (!isAccepted) await admission.refused();
    }
  }

  async function receive(
    { exchange }: FormRequest,
    form: Form | undefined,
    progress: RequestProgress,
  ): Promise<ReadBody> {
    const hash = exchange.request.headers['idempotency-key'] !== undefined;
    const read = await readBody(exchange, { limits: limitsFor(exchange.snapshot.server, form), files, hash });
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
    return refuseOver(await parts.takeAccount(principal), exchange);
  }

  async function drop(refusal: Refusal, read: Pick<ReadBody, 'body'> | undefined): Promise<Refusal> {
    if (read !== undefined) await files.discard(read.body.files);
    return refusal;
  }

  /** Takes the body, once. Rejects with StoreError where nothing could be written; nothing happened then. */
  async function processBody(post: FormPost): Promise<{ answer: Answer | Refusal; isAccepted: boolean }> {
    const { formRequest, progress, form, ip, body, principal } = post;
    const { exchange } = formRequest;
    const request = { exchange, scope: `form:${counterOf(form)}`, hash: () => hashOfBody(body) };
    let isTaken = false;
    let isAccepted = false;
    const answer = await answerOnce(parts, request, async (stored) => {
      isTaken = true;
      const submission = checkSubmission(form, body, startMatching);
      if (submission.errors.length > 0) {
        await files.discard(body.files);
        return refusedForm(formRequest, refuse('VALIDATION_FAILED', { errors: submission.errors }), progress);
      }
      const { next } = submission.control;
      const accepted = await accept({
        form,
        ...submission,
        spamVerdict: await spamFilter(form, { ...submission, ip, visit: visitOf(exchange, principal) }),
        ip,
        userAgent: exchange.request.headers['user-agent'] ?? '',
        referer: exchange.request.headers.referer ?? '',
        request: exchange.id,
        environment: environmentOf(form.tenant),
        also: (made) => stored(answerFor(post, made, next)),
      });
      const { id, status, isOverflow } = accepted;
      log.info(`submission.${status}`, {
        submission: id,
        form: form.id,
        fields: submission.fields.length,
        files: submission.files.length,
        ip,
        request: exchange.id,
      });
      isAccepted = status === 'accepted' || isOverflow;
      return answerFor(post, accepted, next);
    });
    if ('kind' in answer) return { answer: await drop(answer, post), isAccepted: false };
    if (!isTaken) await files.discard(body.files);
    return { answer, isAccepted };
  }

  async function look(formRequest: FormRequest): Promise<Answer> {
    const { exchange, domain } = formRequest;
    // Without a body it is the form that a body without a field `form` would go to.
    const form = isSend(formRequest) && domain !== undefined ? findSendForm(domain, undefined) : formRequest.form;
    const progress: RequestProgress = { form };
    const refusal = refuseOver(exchange.limit, exchange) ?? (await refuseUnserved(formRequest, parts, progress));
    if (refusal !== undefined) return refusedForm(formRequest, refusal, progress);
    if (form === undefined && !isSend(formRequest)) return refusedForm(formRequest, refuse('FORM_NOT_FOUND'), progress);
    if (form === undefined || !wantsPage(exchange.request.headers, false)) return notAllowed(formRequest);
    return exchange.query === 'thanks' ? thankYou(formRequest, form) : formAddress(form, endpointOf(exchange, form));
  }
}

/** What a test key means by the address: a form of its partition goes before the live one of the same name. */
function inPartition(formRequest: FormRequest, principal: Principal | Refusal | undefined): FormRequest {
  const { exchange, path } = formRequest;
  if (principal === undefined || 'kind' in principal || principal.environment !== 'test') return formRequest;
  if (path.kind !== 'domain') return formRequest;
  const name = parseDomain(path.domain) ?? '';
  const domain = exchange.snapshot.claims.get(claimKey(principal.tenant.id, name));
  if (domain === undefined) return formRequest;
  return { exchange, path, domain, form: path.key === undefined ? undefined : domain.forms.get(path.key) };
}

/** Whose limits count: the client's, or with a key those of the visitor that the site's server names. */
function visitorOf({ request, ip }: Exchange, principal: Principal | undefined): string | Refusal {
  const named = header(request, 'postern-client-ip');
  if (principal === undefined || named === undefined) return ip;
  const address = plainAddress(named.trim());
  if (isIP(address) !== 0) return address;
  return refuse('VALIDATION_FAILED', { message: 'Postern-Client-IP must be an IP address, such as 192.0.2.10.' });
}

/** What the request says of who sends it. */
function visitOf({ request }: Exchange, principal: Principal | undefined): Visit {
  return {
    headers: request.headers,
    hasKey: principal !== undefined,
    isSecure: isSecure(request) || request.headers['x-forwarded-proto'] === 'https',
  };
}

function isSend({ path }: FormRequest): boolean {
  return path.kind === 'domain' && path.key === undefined;
}

function refuseStranger(exchange: Exchange, form: Form): Refusal | undefined {
  return form.requireApiKey ? refuseMissingKey() : refuseOrigin(exchange, form);
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

/** The answer to a submission that was stored. */
function answerFor(
  { formRequest, form, progress }: FormPost,
  { id, status, isOverflow }: Accepted,
  next: string | undefined,
): Answer {
  const isBlocked = status === 'spam' && !isOverflow && form.config.spam_protection.on_spam === 'reject';
  return isBlocked
    ? refusedForm(formRequest, refuse('BLOCKED'), progress)
    : acceptedForm(formRequest, form, { id, next });
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
  const refusal = refuse('METHOD_NOT_ALLOWED', { message: 'Send the form with POST.', headers: { Allow: ALLOW } });
  return refusedForm(formRequest, refusal, { form: formRequest.form });
}
