/** A body that was read becomes a submission: checked against its form, judged, and committed together with its answer. */
import type { Claim, Idempotency } from '../../access/idempotency.ts';
import type { Form } from '../../config/snapshot.ts';
import type { Accept, Accepted } from '../../forms/accept.ts';
import { hashOfBody } from '../../forms/fields.ts';
import type { FileStore } from '../../forms/files.ts';
import type { Judge } from '../../forms/judge.ts';
import { createMatching } from '../../forms/check-field.ts';
import { checkSubmission, type CheckedSubmission, type SubmittedBody } from '../../forms/receive.ts';
import { errorFields } from '../../lib/errors.ts';
import { environmentOf } from '../../lib/ids.ts';
import type { Log } from '../../lib/log.ts';
import { counterOf } from '../../store/form-counters.ts';
import { UnmetError } from '../../store/store.ts';
import { formatAnswer, parseAnswer, type Answer } from '../answer.ts';
import { refuse, type Refusal } from '../errors.ts';
import { header, type Exchange } from '../exchange.ts';

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
export function createTake({ files, idempotency, judge, accept, log }: TakeParts): (posted: Posted) => Promise<Taken> {
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
