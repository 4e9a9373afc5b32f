/**
 * Whether a submission is what its form asks for. Every fault is named at once, in words for the visitor and with the
 * codes that published browser form clients know. Pure, and linear in the size of the body.
 */
import type { FormConfig } from '../config/schema.ts';
import type { Form } from '../config/snapshot.ts';
import { checkFiles } from './check-files.ts';
import { checkControl, checkField, type StartMatching } from './check-field.ts';
import { quotedLabel, type FieldError } from './fault.ts';
import {
  isBlank,
  sortEntries,
  valuesOf,
  withoutBrackets,
  type Control,
  type Field,
  type SubmittedBody,
} from './fields.ts';
import type { Upload } from './files.ts';

export type { Control, Field, FieldError, SubmittedBody };

export interface CheckedSubmission {
  /** What was sent, without control fields. */
  readonly fields: readonly Field[];
  readonly control: Control;
  /** Without those that a browser sends where none was chosen. */
  readonly files: readonly Upload[];
  /** Empty where the submission is what the form asks for. */
  readonly errors: readonly FieldError[];
}

/** Takes a body apart and checks it against its form. */
export function checkSubmission(
  { config }: Pick<Form, 'config'>,
  body: SubmittedBody,
  startMatching: StartMatching,
): CheckedSubmission {
  const { fields, control } = sortEntries(body.entries, config.spam_protection.honeypot);
  const files = body.files.filter(({ filename, size }) => filename !== '' || size > 0);
  const errors = [...checkRequired(fields, config, files)];
  const checks = { config, matches: startMatching() };
  for (const [name, value] of fields) errors.push(...checkField([name, value], checks));
  errors.push(...checkControl(control), ...checkFiles(files, config));
  if (errors.length === 0 && files.length === 0 && isEmpty(fields)) {
    errors.push({ code: 'EMPTY', message: 'The form is empty. Please fill it in.' });
  }
  return { fields: [...fields], control, files, errors };
}

type Fields = ReadonlyMap<string, string | readonly string[]>;

function checkRequired(fields: Fields, config: FormConfig, files: readonly Upload[]): FieldError[] {
  return config.required.flatMap((required) => {
    const field = withoutBrackets(required);
    const value = fields.get(field);
    if (value !== undefined && !valuesOf(value).every(isBlank)) return [];
    if (files.some((file) => withoutBrackets(file.field) === field)) return [];
    const code = value === undefined ? 'REQUIRED_FIELD_MISSING' : 'REQUIRED_FIELD_EMPTY';
    return [{ field, code, message: `Please fill in ${quotedLabel(field, config)}.` }];
  });
}

function isEmpty(fields: Fields): boolean {
  return [...fields.values()].every((value) => valuesOf(value).every(isBlank));
}
