/**
 * A post to a form, from the socket to the answer. The order of the checks is part of the contract: what is cheap and
 * needs no body comes first. Whatever is answered with success is on the disk; whatever is refused is never sent, and what
 * had come of it is dropped.
 */
import type { Domains } from '../../access/domains.ts';
import type { Authenticator } from '../../access/authenticate.ts';
import type { Idempotency } from '../../access/idempotency.ts';
import type { Limits } from '../../access/limits.ts';
import type { Domain, Form } from '../../config/snapshot.ts';
import type { Accept } from '../../forms/accept.ts';
import type { SubmittedBody } from '../../forms/fields.ts';
import type { FileStore } from '../../forms/files.ts';
import { findSendForm } from '../../forms/find.ts';
import type { Log } from '../../lib/log.ts';
import type { Answer } from '../answer.ts';
import { principalOf } from '../auth.ts';
import { limitsFor, readBody, type ReadBody } from '../body.ts';
import { refuse, unavailable, type Refusal } from '../errors.ts';
import { tighter } from '../exchange.ts';
import type { FreeSpace } from '../free-space.ts';
import { rateLimited } from '../rate.ts';
import { faultRefusal } from '../faults.ts';
import { acceptedForm, refusedForm, type Seen } from './outcome.ts';
import { servedDomain } from './served.ts';
import { createTake, type Posted } from './take.ts';
import { refuseOrigin, type Visit } from './visit.ts';

export interface SubmitParts {
  readonly domains: Pick<Domains, 'status' | 'report'>;
  readonly authenticator: Authenticator;
  readonly limits: Pick<Limits, 'takeSubmission'>;
  readonly files: FileStore;
  readonly idempotency: Idempotency;
  readonly accept: Accept;
  readonly freeSpace: FreeSpace;
  readonly log: Log;
}

/** The handler of `POST` on a form's address. */
export function createSubmit(parts: SubmitParts): (visit: Visit) => Promise<Answer> {
  const { domains, limits, files, freeSpace, log } = parts;
  const take = createTake(parts);

  async function attempt(visit: Visit, seen: Seen): Promise<Answer | Refusal> {
    const { exchange } = visit;
    if (!exchange.limit.allowed && !exchange.local) return rateLimited(exchange.limit, exchange.at);
    const domain = await servedDomain(visit, domains, seen);
    if ('kind' in domain) return domain;
    let form = visit.form;
    let read: ReadBody | undefined;
    if (visit.path.form === undefined) {
      read = await receive(visit, undefined, seen);
      if (read.refusal !== undefined) return read.refusal;
      ({ form, read } = formOfBody(domain, read));
      seen.typed = read.typed;
    }
    if (form === undefined) return drop(refuse('FORM_NOT_FOUND'), read);
    seen.form = form;
    const principal = await principalOf(exchange, parts.authenticator);
    if (principal !== undefined && 'kind' in principal) return drop(principal, read);
    const stranger = refuseOrigin({ exchange, domain, form });
    if (stranger !== undefined) return drop(stranger, read);
    const admission = await limits.takeSubmission(form, exchange.ip);
    exchange.limit = tighter(exchange.limit, admission.verdict);
    if (!admission.verdict.allowed && !exchange.local) return drop(rateLimited(admission.verdict, exchange.at), read);
    let counts = false;
    try {
      if (freeSpace.below(exchange.snapshot.server.limits.free_disk)) return await drop(unavailable(), read);
      read ??= await receive(visit, form, seen);
      if (read.refusal !== undefined) return read.refusal;
      const taken = await take({ exchange, form, body: read.body, words: wordsFor(visit, { domain, form }, seen) });
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

  async function drop(refusal: Refusal, read: ReadBody | undefined): Promise<Refusal> {
    if (read !== undefined) await files.discard(read.body.files);
    return refusal;
  }

  return async (visit) => {
    const seen: Seen = { form: visit.form };
    const { exchange } = visit;
    try {
      const outcome = await attempt(visit, seen);
      return 'kind' in outcome ? refusedForm(visit, outcome, seen) : outcome;
    } catch (error) {
      return refusedForm(visit, faultRefusal(error, exchange, log), seen);
    }
  };
}

function wordsFor(visit: Visit, { domain, form }: { domain: Domain; form: Form }, seen: Seen): Posted['words'] {
  return {
    refused: (refusal) => refusedForm(visit, refusal, seen),
    accepted: (id, next) => acceptedForm({ visit, domain, form, id, next }),
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
