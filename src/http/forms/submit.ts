/**
 * A request to a form's address, from the socket to the answer. The order of the checks of a post is part of the contract:
 * what is cheap and needs no body comes first. Whatever is answered with success is on the disk; whatever is refused is
 * never sent, and what had come of it is dropped.
 */
import { isIP } from 'node:net';
import { decide, accountIdOf, type Principal } from '../../accounts/principal.ts';
import type { Limits } from '../../accounts/rate-limits.ts';
import type { Form, Domain } from '../../config/snapshot.ts';
import {
  checkSubmission,
  createMatching,
  hashOfBody,
  infectedFile,
  nextOf,
  sortEntries,
  type Control,
  type SubmittedBody,
} from '../../forms/fields.ts';
import type { Accepted, Admitted } from '../../forms/accept.ts';
import {
  principalOf,
  refuseMissingKey,
  plainAddress,
  header,
  type RequestContext,
  faultRefusal,
  endpointOf,
  refuseOver,
  answerOnce,
  isSecure,
  translationFor,
} from '../context.ts';
import {
  clientOf,
  takesHtml,
  limitsFor,
  readBody,
  readRefused,
  type ReadBody,
  type FormRequest,
  type FormRequestParts,
  readableFor,
  refuseHiddenPage,
  refuseOrigin,
  refuseUnserved,
  type RequestProgress,
} from './request.ts';
import { lacksPermission, refuse, unavailable, type Refusal, shapeB, statusOf, type Answer, json } from '../answer.ts';
import type { Metrics, SubmissionOutcome } from '../metrics.ts';
import type { SubmittedValues } from '../pages/refill.ts';
import type { FileStore, ScannedUploads } from '../../forms/files.ts';
import { findSendForm, withTenant } from '../../forms/find.ts';
import type { Challenges, PassedChallenge } from '../../forms/challenges.ts';
import { findRepeated, identifyPost, notePost } from '../../forms/repeats.ts';
import type { SpamFilter } from '../../forms/spam/filter.ts';
import type { Visit } from '../../forms/spam/text.ts';
import { parseDomain } from '../../lib/addresses.ts';
import { errorFields } from '../../lib/errors.ts';
import { accountOf, environmentOf, counterOf, claimId } from '../../lib/ids.ts';
import type { Statement } from '../../store/statement.ts';
import { UnknownOutcomeError, UnmetError } from '../../store/store.ts';
import type { FreeSpace } from '../../store/sqlite.ts';
import { acceptedForm, refusedForm, thankYou, formAddress } from './outcome.ts';
import type { ServeParts } from '../api/route.ts';

export interface SubmitParts extends FormRequestParts, ServeParts {
  readonly limits: Pick<Limits, 'takeSubmission' | 'takePost'>;
  readonly files: FileStore;
  readonly challenges: Pick<Challenges, 'check' | 'knows' | 'token'>;
  readonly spamFilter: SpamFilter;
  readonly accept: (submission: Admitted) => Promise<Accepted>;
  readonly freeSpace: FreeSpace;
  readonly metrics: Pick<Metrics, 'submitted'>;
}

/** What is known of a post, and who sends it where that is known. */
interface SubmissionProgress extends RequestProgress {
  principal?: Principal | undefined;
  /** Once it is stored. */
  outcome?: SubmissionOutcome;
}

const NO_FILES: ScannedUploads = { files: [], infected: [] };

interface Processed {
  readonly answer: Answer | Refusal;
  readonly isAccepted: boolean;
}

interface FormPost {
  readonly formRequest: FormRequest;
  readonly progress: SubmissionProgress;
  readonly form: Form;
  /** The visitor's address. */
  readonly ip: string;
  readonly body: SubmittedBody;
}

const ALLOW = 'GET, HEAD, POST, OPTIONS';

/** The handler of all requests to a form's address, but for preflights that are allowed. */
export function createFormHandler(parts: SubmitParts): (formRequest: FormRequest) => Promise<Answer> {
  const { limits, files, freeSpace, log, challenges, spamFilter, accept, metrics } = parts;
  const startMatching = createMatching();
  /** Posts of browsers that are being processed. */
  const inProgress = new Map<string, Promise<void>>();
  return handle;

  async function handle(formRequest: FormRequest): Promise<Answer> {
    switch (formRequest.context.method) {
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
    const progress: SubmissionProgress = { form: formRequest.form, token: challenges.token };
    const outcome = await attempt(formRequest, progress).catch((error: unknown) =>
      faultRefusal(error, formRequest.context, log),
    );
    if ('kind' in outcome) progress.submitted ??= await readUnread(formRequest.context);
    const answer = 'kind' in outcome ? refusedForm(formRequest, outcome, progress) : outcome;
    if (progress.principal !== undefined) parts.requests.count(progress.principal, answer.status);
    metrics.submitted(progress.outcome ?? outcomeOf(answer));
    return answer;
  }

  async function attempt(received: FormRequest, progress: SubmissionProgress): Promise<Answer | Refusal> {
    const { context } = received;
    const over = refuseOver(context.limit, context);
    if (over !== undefined) return over;
    // Looked at now, because a test key may mean a form that only test keys see; what is wrong with it is told in its turn.
    const principal = await principalOf(context, parts.authenticator);
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
      principal === undefined ? refuseStranger(context, form) : await refuseKey(principal, context, form);
    if (stranger !== undefined) return drop(stranger, read);
    if (principal?.environment === 'test') form = withTenant(form, principal.tenant.id);
    const ip = visitorOf(context, principal);
    if (typeof ip !== 'string') return drop(ip, read);
    const admission = await limits.takeSubmission({ id: counterOf(form), rateLimit: form.rateLimit }, ip);
    const tooMany = refuseOver(admission.verdict, context);
    if (tooMany !== undefined) return drop(tooMany, read);
    const { answer, isAccepted } = await processAdmitted({ formRequest, progress, form, ip }, read).catch(
      async (error: unknown) => {
        // What may have been taken counts as taken; and whatever fails now does not hide what failed.
        if (!(error instanceof UnknownOutcomeError)) {
          await admission.refused().catch((failure: unknown) => log.warn('limits.not_saved', errorFields(failure)));
        }
        throw error;
      },
    );
    if (!isAccepted) await admission.refused();
    return answer;
  }

  /** Reads the body where that was not done yet, and takes it. */
  async function processAdmitted(post: Omit<FormPost, 'body'>, known: ReadBody | undefined): Promise<Processed> {
    const { formRequest, progress, form } = post;
    const { context } = formRequest;
    if (freeSpace.below(context.snapshot.server.limits.free_disk)) return refusedAs(await drop(unavailable(), known));
    const read = known ?? (await receive(formRequest, form, progress));
    if (read.refusal !== undefined) return refusedAs(read.refusal);
    const hidden = progress.principal === undefined ? refuseHiddenPage(context, form) : undefined;
    if (hidden !== undefined && !(await hasPageToken(form, read.body))) return refusedAs(await drop(hidden, read));
    return processBody({ ...post, body: read.body });
  }

  async function receive(
    { context }: FormRequest,
    form: Form | undefined,
    progress: RequestProgress,
  ): Promise<ReadBody> {
    const { headers } = context.request;
    const hash = headers['idempotency-key'] !== undefined || clientOf(headers) === 'navigation';
    const read = await readBody(context, { limits: limitsFor(context.snapshot.server, form), files, hash });
    progress.submitted = read.submitted;
    if (read.fault !== undefined) throw read.fault;
    return read;
  }

  /**
   * What the visitor typed, where a page is to give it back and nobody has read the body. Of a client that floods the server
   * nothing more is read, and one that waits to be asked for its body (`Expect`) is no browser.
   */
  async function readUnread(context: RequestContext): Promise<SubmittedValues | undefined> {
    const { request, address, local } = context;
    const isFlood = !address.allowed && !local;
    const isWaiting = request.headers.expect !== undefined;
    if (isFlood || isWaiting || request.readableDidRead || !takesHtml(request.headers)) return undefined;
    return readRefused(context, files);
  }

  /** Why the key, which is known, may not be used here and now. The operator on the machine itself may everywhere. */
  async function refuseKey(principal: Principal, context: RequestContext, form: Form): Promise<Refusal | undefined> {
    if (principal.key === undefined) return undefined;
    if (accountIdOf(principal) !== accountOf(form.tenant))
      return refuse('AUTH_FORBIDDEN', { message: 'The form belongs to another account.' });
    const { domain: name } = form.audience;
    const domain = name === undefined ? 'none' : { name };
    const denial = decide(principal, { permission: 'forms.submit', domain, ip: context.ip });
    if (denial === 'AUTH_FORBIDDEN') return lacksPermission('forms.submit');
    if (denial !== undefined) return refuse(denial);
    return refuseOver(await parts.requests.take(principal), context);
  }

  async function drop(refusal: Refusal, read: Pick<ReadBody, 'body'> | undefined): Promise<Refusal> {
    if (read !== undefined) await files.discard(read.body.files);
    return refusal;
  }

  /** Takes the body, once. Rejects with StoreError where nothing could be written; nothing happened then. */
  async function processBody(post: FormPost): Promise<Processed> {
    const { headers } = post.formRequest.context.request;
    const isRecognised = headers['idempotency-key'] === undefined && clientOf(headers) === 'navigation';
    return isRecognised ? processNavigation(post) : processUnderKey(post);
  }

  async function processUnderKey(post: FormPost): Promise<Processed> {
    const { form, body, formRequest } = post;
    const request = { context: formRequest.context, scope: `form:${counterOf(form)}`, hash: () => hashOfBody(body) };
    let taken: Accepted | 'refused' | undefined;
    const answer = await answerOnce(parts, request, async (stored) => {
      let success: Answer | undefined;
      const outcome = await take(post, (made) => stored((success = answerFor(post, made))));
      taken = 'id' in outcome ? outcome : 'refused';
      return 'id' in outcome ? (success ?? answerFor(post, outcome)) : outcome;
    });
    if ('kind' in answer) return refusedAs(await drop(answer, post));
    if (taken === undefined) await files.discard(body.files);
    return { answer, isAccepted: typeof taken === 'object' && isTaken(taken) };
  }

  /**
   * The same post of a browser again is answered as the first was, also while that is in progress, and counts like it toward
   * every limit. What was refused had no effect, and is checked anew.
   */
  async function processNavigation(post: FormPost): Promise<Processed> {
    const { form, body, ip, formRequest } = post;
    const { at, request } = formRequest.context;
    const client = [header(request, 'user-agent'), header(request, 'accept-language')];
    const known = identifyPost({ form, body, ip, headers: client, at });
    const name = `${known.scope} ${known.key}`;
    while (inProgress.has(name)) await inProgress.get(name);
    const { promise, resolve } = Promise.withResolvers<void>();
    inProgress.set(name, promise);
    try {
      const before = await findRepeated(parts.store, known);
      if (before !== undefined) return await repeated(post, before);
      const outcome = await take(post, (made) => [notePost(known, made)]);
      return 'id' in outcome ? { answer: answerFor(post, outcome), isAccepted: isTaken(outcome) } : refusedAs(outcome);
    } catch (error) {
      // Another daemon on the same database was faster.
      const before = error instanceof UnmetError ? await findRepeated(parts.store, known) : undefined;
      if (before === undefined) throw error;
      return await repeated(post, before);
    } finally {
      inProgress.delete(name);
      resolve();
    }
  }

  async function repeated(post: FormPost, before: Accepted): Promise<Processed> {
    const { form, body } = post;
    await files.discard(body.files);
    if (before.status !== 'spam') await limits.takePost({ id: counterOf(form), maxPerHour: form.maxPerHour });
    const answer = answerFor(post, before);
    const headers = { ...answer.headers, 'Idempotent-Replayed': 'true' };
    return { answer: { ...answer, headers }, isAccepted: isTaken(before) };
  }

  /** Checks the submission and commits it with what else belongs to its unit. */
  async function take(post: FormPost, also: (accepted: Accepted) => readonly Statement[]): Promise<Accepted | Answer> {
    const { formRequest, progress, form, ip, body } = post;
    const { context } = formRequest;
    const submission = checkSubmission(form, body, startMatching);
    if (submission.errors.length > 0) {
      await files.discard(body.files);
      return refusedForm(formRequest, refuse('VALIDATION_FAILED', { errors: submission.errors }), progress);
    }
    const passed = await passChallenge(post, submission.control);
    if (passed !== undefined && 'code' in passed) {
      await files.discard(body.files);
      return refusedForm(formRequest, passed, progress);
    }
    const { files: scanned, infected } = submission.files.length === 0 ? NO_FILES : await files.scan(submission.files);
    if (infected.length > 0) {
      await files.discard(body.files);
      const errors = infected.map((file) => infectedFile(file));
      return refusedForm(formRequest, refuse('VALIDATION_FAILED', { errors }), progress);
    }
    const accepted = await accept({
      form,
      ...submission,
      files: scanned,
      spamVerdict: await spamFilter(form, { ...submission, ip, visit: visitOf(context, passed) }),
      ip,
      userAgent: context.request.headers['user-agent'] ?? '',
      referer: context.request.headers.referer ?? '',
      request: context.id,
      environment: environmentOf(form.tenant),
      also,
    });
    progress.outcome = accepted.status;
    log.info(`submission.${accepted.status}`, {
      submission: accepted.id,
      form: form.id,
      fields: submission.fields.length,
      files: submission.files.length,
      ip: accepted.ip,
      request: context.id,
    });
    return accepted;
  }

  async function hasPageToken(form: Form, { entries }: SubmittedBody): Promise<boolean> {
    return challenges.knows(form, sortEntries(entries, form.config).control);
  }

  /** What the page proved of its visitor, or why that is not enough; nothing is asked of servers, which have a key. */
  async function passChallenge(
    { form, ip, progress }: FormPost,
    control: Control,
  ): Promise<PassedChallenge | Refusal | undefined> {
    if (progress.principal !== undefined) return undefined;
    const outcome = await challenges.check(form, { control, ip });
    if (outcome.kind === 'passed') return outcome;
    return refuse(outcome.kind === 'missing' ? 'CHALLENGE_REQUIRED' : 'CHALLENGE_FAILED');
  }

  async function look(formRequest: FormRequest): Promise<Answer> {
    const { context, domain } = formRequest;
    // Without a body it is the form that a body without a field `form` would go to.
    const form = isSend(formRequest) && domain !== undefined ? findSendForm(domain, undefined) : formRequest.form;
    const progress: RequestProgress = { form };
    const refusal = refuseOver(context.limit, context) ?? (await refuseUnserved(formRequest, parts, progress));
    if (refusal !== undefined) return refusedForm(formRequest, refusal, progress);
    if (form === undefined && !isSend(formRequest)) return refusedForm(formRequest, refuse('FORM_NOT_FOUND'), progress);
    if (form === undefined || !takesHtml(context.request.headers)) return notAllowed(formRequest);
    return context.query === 'thanks'
      ? thankYou(formRequest, form)
      : formAddress(form, endpointOf(context, form), translationFor(context, form));
  }
}

/** What became of a post that was not stored now. */
function outcomeOf({ status, headers }: Answer): SubmissionOutcome {
  if (headers?.['Idempotent-Replayed'] !== undefined) return 'repeated';
  return status >= 500 ? 'failed' : 'rejected';
}

/** What a test key means by the address: a form of its partition goes before the live one of the same name. */
function inPartition(formRequest: FormRequest, principal: Principal | Refusal | undefined): FormRequest {
  const { context, path } = formRequest;
  if (principal === undefined || 'kind' in principal || principal.environment !== 'test') return formRequest;
  if (path.kind !== 'domain') return formRequest;
  const name = parseDomain(path.domain) ?? '';
  const domain = context.snapshot.claims.get(claimId(principal.tenant.id, name));
  if (domain === undefined) return formRequest;
  return { context, path, domain, form: path.key === undefined ? undefined : domain.forms.get(path.key) };
}

/** Whose limits count: the client's, or with a key those of the visitor that the site's server names. */
function visitorOf({ request, ip }: RequestContext, principal: Principal | undefined): string | Refusal {
  const named = header(request, 'postern-client-ip');
  if (principal === undefined || named === undefined) return ip;
  const address = plainAddress(named.trim());
  if (isIP(address) !== 0) return address;
  return refuse('VALIDATION_FAILED', { message: 'Postern-Client-IP must be an IP address, such as 192.0.2.10.' });
}

/** What the request tells the spam filter; without a passed challenge it came with an API key. */
function visitOf({ request }: RequestContext, passed: PassedChallenge | undefined): Visit {
  return {
    headers: request.headers,
    hasKey: passed === undefined,
    isSecure: isSecure(request) || request.headers['x-forwarded-proto'] === 'https',
    token: passed?.token,
    challenge: passed?.challenge,
  };
}

function isSend({ path }: FormRequest): boolean {
  return path.kind === 'domain' && path.key === undefined;
}

function refuseStranger(context: RequestContext, form: Form): Refusal | undefined {
  return form.requireApiKey ? refuseMissingKey() : refuseOrigin(context, form);
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

function refusedAs(answer: Answer | Refusal): Processed {
  return { answer, isAccepted: false };
}

/** Whether the sender's post counts as one that was accepted. */
function isTaken({ status, isOverflow }: Accepted): boolean {
  return status !== 'spam' || isOverflow;
}

/** The answer to a submission that was stored. */
function answerFor({ formRequest, form, progress, body }: FormPost, { id, status, isOverflow }: Accepted): Answer {
  const isBlocked = status === 'spam' && !isOverflow && form.config.spam_protection.on_spam === 'reject';
  return isBlocked
    ? refusedForm(formRequest, refuse('BLOCKED'), progress)
    : acceptedForm(formRequest, form, { id, next: nextOf(body.entries, form.config) });
}

/** What is left of preflights: those of what is no origin, and requests that only ask what is allowed here. */
function options(formRequest: FormRequest): Answer {
  const { origin, 'access-control-request-method': preflight } = formRequest.context.request.headers;
  if (preflight !== undefined && origin !== undefined && readableFor(formRequest) === '') {
    const refusal = refuse('ORIGIN_NOT_ALLOWED', { message: 'The Origin header is not valid.' });
    const translation = translationFor(formRequest.context, formRequest.form);
    return json(shapeB(refusal, formRequest.context.id, translation), statusOf(refusal));
  }
  return { status: 204, type: 'application/json', body: '', headers: { Allow: ALLOW } };
}

function notAllowed(formRequest: FormRequest): Answer {
  const refusal = refuse('METHOD_NOT_ALLOWED', { message: 'Send the form with POST.', headers: { Allow: ALLOW } });
  return refusedForm(formRequest, refusal, { form: formRequest.form });
}
