/** What a schema says against a query or a body, as the details of a refusal. */
import type { z } from 'zod';
import { isRaw, wantedBy, knownKeys } from '../../config/explain.ts';
import { nearest } from '../../config/problem.ts';
import type { FieldError } from '../../forms/check.ts';
import { type Refusal, refuse } from '../errors.ts';

type Issue = z.core.$ZodIssue;

const MOST = 50;

/** The refusal of a value that did not pass its schema. */
export function invalid(error: z.ZodError, schema: z.ZodType): Refusal {
  const errors = error.issues.flatMap((issue) => explain(issue, [], schema));
  const [first] = errors;
  const message = errors.length === 1 && first ? sentence(first) : `${errors.length} values are not valid.`;
  return refuse('VALIDATION_FAILED', { message, errors: errors.slice(0, MOST) });
}

/** The refusal of one value, for what no schema can know. */
export function invalidAt(path: string, message: string): Refusal {
  const error = { field: path, code: 'TYPE_TEXT', message };
  return refuse('VALIDATION_FAILED', { message: sentence(error), errors: [error] });
}

function sentence({ field, message }: FieldError): string {
  return `${field === undefined || field === '' ? 'The body' : field} ${message}.`;
}

function explain(issue: Issue, base: readonly PropertyKey[], schema: z.ZodType): FieldError[] {
  const path = [...base, ...issue.path];
  if (issue.code === 'unrecognized_keys') return issue.keys.map((key) => unknownKey(key, path, schema));
  if (issue.code === 'invalid_union') {
    const inner = issue.errors.find((branch) => branch.some((nested) => nested.path.length > 0));
    if (inner !== undefined) return inner.flatMap((nested) => explain(nested, path, schema));
  }
  return [{ field: path.map(String).join('.'), code: 'TYPE_TEXT', message: wordsOf(issue) }];
}

function wordsOf(issue: Issue): string {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined ? 'is missing' : `must be ${wantedBy(issue)}`;
    case 'invalid_value':
      return `must be ${wantedBy(issue)}`;
    default:
      // Schemas of project files say what they expected.
      return isRaw(issue) ? `must be ${wantedBy(issue)}` : issue.message.replace(/^expected /, 'must be ');
  }
}

function unknownKey(key: string, path: readonly PropertyKey[], schema: z.ZodType): FieldError {
  const known = knownKeys(
    schema,
    path.map((step) => (typeof step === 'symbol' ? String(step) : step)),
  );
  const meant = nearest(key, known);
  const words = meant === undefined ? `; known here: ${known.join(', ')}` : `; did you mean ${meant}?`;
  return { field: [...path, key].map(String).join('.'), code: 'TYPE_TEXT', message: `is not known${words}` };
}
