/** What helps to build a form: code for its page, previews of its mail and pages, and a test post. */
import { buildSnapshot, type Form } from '../../config/snapshot.ts';
import { PUSHED_FILE, type Bundle } from '../../config/bundle.ts';
import type { Problem } from '../../config/problem.ts';
import * as contract from '../../contract/forms.ts';
import {
  checkSubmission,
  createMatching,
  readFields,
  valuesOf,
  type Field,
  type FieldError,
} from '../../forms/fields.ts';
import { parseFormId, type FormId } from '../../forms/find.ts';
import { previewMail, sampleOfForm } from '../../forms/preview.ts';
import { snippetForm, snippetOf } from '../../forms/snippet.ts';
import { formatMailbox } from '../../lib/addresses.ts';
import { environmentOf, newId, claimId } from '../../lib/ids.ts';
import { localized, translationOf, type Translation } from '../../languages/languages.ts';
import { findDomain } from '../../store/domains.ts';
import { filesOf, findSubmission } from '../../store/submissions.ts';
import type { SubmissionRow } from '../../store/tables.ts';
import type { TemplateFault } from '../../templates/template.ts';
import { type Refusal, refuse } from '../answer.ts';
import { endpointOf } from '../context.ts';
import { thanksPage } from '../forms/outcome.ts';
import { errorPage } from '../pages/error.ts';
import { knownForm, mayTouchForm } from './forms.ts';
import {
  type Call,
  type CallOf,
  type DataOf,
  implement,
  success,
  notFound,
  type Outcome,
  type Route,
  type Services,
} from './route.ts';

type FormCall = Pick<Call<unknown, unknown, 'id'>, 'principal' | 'context' | 'params'>;
type Preview = DataOf<typeof contract.formTools.preview>;
type PreviewCall = CallOf<typeof contract.formTools.preview>;

const MAX_ERRORS = 100;
const MAX_YAML_BYTES = 256 * 1024;

/** `/forms/*id/snippets`, `…/preview`, `…/test` */
export function formToolsRoutes(services: Services): Route[] {
  const { store, clock, reader, renderer, accept, spamFilter } = services;
  const startMatching = createMatching();

  async function withForm<Data>(
    call: FormCall,
    act: (form: Form) => Promise<Outcome<Data>> | Outcome<Data>,
  ): Promise<Outcome<Data>> {
    const form = await knownForm(call.params.id, call, store);
    if (form !== undefined) return act(form);
    const id = parseFormId(call.params.id)?.id;
    if (id !== undefined && !mayTouchForm(call.principal, id)) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
    return notFound('form', call.params.id, 'FORM_NOT_FOUND');
  }

  /** The form of a configuration that is not deployed. */
  async function formOfBundle(
    { principal, context }: Pick<Call, 'principal' | 'context'>,
    id: FormId,
    bundle: Bundle,
  ): Promise<Found> {
    const { id: tenant } = principal.tenant;
    const { result } = await reader.read(bundle, { tenant });
    if (!('ok' in result)) return { kind: 'invalid', problems: result.errors };
    const config = result.ok;
    const project = { revision: '', slug: config.project.slug, tenant, source: 'push', config } as const;
    const { claims, collections } = buildSnapshot({ server: context.snapshot.server, projects: [project] });
    switch (id.kind) {
      case 'domain':
        return found(claims.get(claimId(tenant, id.domain))?.forms.get(id.key));
      case 'collection':
        return found(collections.get(id.collection)?.forms.get(id.key));
      case 'own':
        return NONE;
    }
  }

  async function formToShow(call: PreviewCall): Promise<Found> {
    const { config: yaml, files } = call.body;
    const id = parseFormId(call.params.id);
    if (yaml === undefined) return found(await knownForm(call.params.id, call, store));
    if (id === undefined || !mayTouchForm(call.principal, id.id)) return NONE;
    return Buffer.byteLength(yaml) > MAX_YAML_BYTES ? TOO_LARGE : formOfBundle(call, id, { yaml, files });
  }

  /** The submission whose data is shown; one of the form and of the principal's environment. */
  async function dataOf(
    { principal, body, params }: PreviewCall,
    form: Form,
  ): Promise<SubmissionRow | Refusal | undefined> {
    if (body.submission === undefined) return undefined;
    const row = await findSubmission(store, body.submission);
    const isShown =
      row?.tenant === principal.tenant.id &&
      row.form === (parseFormId(params.id)?.id ?? form.id) &&
      environmentOf(row.tenant) === principal.environment;
    return isShown ? row : notFound('submission', body.submission);
  }

  async function previewOf(call: PreviewCall, form: Form): Promise<Outcome<Preview>> {
    const submission = await dataOf(call, form);
    if (submission !== undefined && 'kind' in submission) return submission;
    const { show, fields: given } = call.body;
    const sample = given === undefined ? sampleOfForm(form) : Object.entries(given);
    const fields = submission === undefined ? sample : readFields(submission.fields);
    const translation = translationOf(form.config.theme?.language ?? 'en');
    const shown = { ...NOTHING, language: translation.language };
    if (show === 'thank_you') return success({ ...shown, html: thanksPage(form, { translation }).html });
    if (show === 'error') return success({ ...shown, html: refusedPage(form, fields, translation) });
    const files = submission === undefined ? [] : await filesOf(store, submission.id);
    const parts = { server: call.context.snapshot.server, renderer, now: clock.now() };
    const { mail, faults } = await previewMail({ form, show, fields, submission, files }, parts);
    return success({
      ...shown,
      errors: await shownFaults(call, faults),
      from: formatMailbox(mail.from),
      to: mail.to.map(({ address }) => address),
      reply_to: mail.replyTo?.map(formatMailbox).join(', '),
      subject: mail.subject,
      text: mail.text,
      html: mail.html,
    });
  }

  /** What failed in templates; with the line of the YAML, where one was sent. */
  async function shownFaults({ principal, body }: PreviewCall, faults: readonly TemplateFault[]) {
    const findings = faults.map(({ template, part, line, column, message }) => {
      const place = part === 'subject' && template === '' ? 'an expression' : `${part}, line ${line}, column ${column}`;
      return { path: template === '' ? [] : ['templates', template], message: `${place}: ${message}` };
    });
    const problems = await reader.locate(body.config ?? '', findings, { tenant: principal.tenant.id });
    return problems.map((problem, i) => ({ ...shownProblem(problem), template: faults[i]?.template }));
  }

  /** The page that a visitor gets who left out what is required, or everything. */
  function refusedPage(form: Form, fields: readonly Field[], translation: Translation): string {
    const required = new Set(form.config.required);
    const left = fields.filter(([name]) => !required.has(name));
    const entries = required.size === 0 ? [] : entriesOf(left);
    const { errors } = checkSubmission(form, { entries, files: [] }, startMatching);
    const refusal = refuse('VALIDATION_FAILED', { errors });
    const requestId = newId('req', clock.now());
    return errorPage({ refusal, translation, requestId, form, submitted: { entries, files: [] } }).html;
  }

  /** A domain that is not verified, or is nobody's, takes no posts. */
  async function refuseInactive({ audience, tenant }: Form): Promise<Refusal | undefined> {
    if (audience.domain === undefined || environmentOf(tenant) === 'test') return undefined;
    const row = await findDomain(store, tenant, audience.domain);
    if (row === undefined || row.status !== 'pending') return undefined;
    return refuse('DOMAIN_NOT_VERIFIED', {
      message: `The domain ${audience.domain} is not verified yet. Publish its DNS records first.`,
    });
  }

  return implement(contract.formTools, {
    snippets: (call) =>
      withForm(call, (form) => {
        const known = snippetForm(form, endpointOf(call.context, form));
        const snippets = contract.SNIPPET_STYLES.map((style) => {
          return {
            style,
            language: style === 'react' ? ('jsx' as const) : ('html' as const),
            code: snippetOf(known, style),
          };
        });
        return success({ id: form.id, endpoint: known.endpoint, snippets });
      }),
    async preview(call) {
      const shown = await formToShow(call);
      switch (shown.kind) {
        case 'none':
          return notFound('form', call.params.id, 'FORM_NOT_FOUND');
        case 'invalid':
          return success({ ...NOTHING, errors: shown.problems.slice(0, MAX_ERRORS).map(shownProblem) });
        case 'form':
          return previewOf(call, shown.form);
      }
    },
    test: (call) =>
      withForm(call, async (form) => {
        const { context, principal, body } = call;
        const inactive = await refuseInactive(form);
        if (inactive !== undefined) return inactive;
        const given = body.fields === undefined ? sampleOfForm(form) : Object.entries(body.fields);
        const checked = checkSubmission(form, { entries: entriesOf(given), files: [] }, startMatching);
        if (checked.errors.length > 0) return refuseFields(checked.errors);
        const { ip, id: request } = context;
        const visit = { hasKey: true };
        const verdict = await spamFilter(form, { ...checked, ip, visit });
        const detail =
          principal.key === undefined ? 'sent by a signed-in user' : `sent with the key ${principal.key.name}`;
        const { id, status } = await accept({
          form,
          ...checked,
          files: [],
          spamVerdict: { ...verdict, reasons: [...verdict.reasons, { name: 'test', score: 0, detail }] },
          ip,
          userAgent: context.request.headers['user-agent'] ?? '',
          referer: '',
          request,
          environment: environmentOf(form.tenant),
        });
        return success({ id, status });
      }),
  });
}

type Found =
  | { readonly kind: 'form'; readonly form: Form }
  | { readonly kind: 'invalid'; readonly problems: readonly Problem[] }
  | { readonly kind: 'none' };

const NONE: Found = { kind: 'none' };
const TOO_LARGE: Found = {
  kind: 'invalid',
  problems: [{ file: PUSHED_FILE, line: 1, column: 1, path: '', message: 'the file is larger than 256 KiB' }],
};

function found(form: Form | undefined): Found {
  return form === undefined ? NONE : { kind: 'form', form };
}

const NOTHING = {
  errors: [],
  language: null,
  from: null,
  to: [],
  reply_to: null,
  subject: null,
  text: null,
  html: null,
} as const;

function shownProblem({ path, message, suggestion, line, column, file }: Problem) {
  const hint = suggestion === undefined ? '' : ` (did you mean "${suggestion}"?)`;
  return { path, message: message + hint, line, column, file, template: null };
}

function entriesOf(fields: readonly Field[]): (readonly [name: string, value: string])[] {
  return fields.flatMap(([name, value]) => valuesOf(value).map((one) => [name, one] as const));
}

/** What the form says against the fields, with where they are in the body. */
function refuseFields(errors: readonly FieldError[]): Refusal {
  const english = translationOf('en');
  const details = errors.map(({ field, code, message }) => ({
    field: field === undefined ? 'fields' : `fields.${field}`,
    code,
    message: localized(message, english),
  }));
  return refuse('VALIDATION_FAILED', { message: 'The form does not accept these fields.', errors: details });
}
