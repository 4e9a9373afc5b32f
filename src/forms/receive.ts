/**
 * Whether a submission is what its form asks for. Every fault is named at once, in words for the visitor and with the
 * codes that published browser form clients know. Pure, and linear in the size of the body.
 */
import type { FormConfig } from '../config/schema.ts';

import type { Form } from '../config/forms.ts';
import {
  checkControl,
  checkField,
  type StartMatching,
  isBlank,
  sortEntries,
  valuesOf,
  withoutBrackets,
  type Control,
  type Field,
  type SubmittedBody,
} from './fields.ts';
import { quotedLabel, type FieldError } from './fault.ts';
import type { Upload } from './files.ts';

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

// Whether the files of a submission are what the form takes. Names and types are the visitor's words: no proof of content.

const MIB = 1024 * 1024;

/** The faults of the files; those with codes for the whole form have no field, or form clients would not know them. */
function checkFiles(files: readonly Upload[], { uploads }: FormConfig): FieldError[] {
  if (files.length === 0) return [];
  if (uploads === undefined || !uploads.enabled) {
    return [{ code: 'NO_FILE_UPLOADS', message: 'This form takes no files.' }];
  }
  const { max_files: most, max_size: largest, types } = uploads;
  const errors: FieldError[] = [];
  if (most !== undefined && files.length > most) {
    errors.push({
      code: 'TOO_MANY_FILES',
      message: `This form takes at most ${most} ${most === 1 ? 'file' : 'files'}.`,
    });
  }
  for (const { field, filename, contentType, size } of files) {
    if (largest !== undefined && size > largest) {
      errors.push({
        code: 'FILES_TOO_BIG',
        message: `The file ${quote(filename)} is too big: at most ${shown(largest)}.`,
      });
    }
    if (types !== undefined && !types.some((type) => isOfType(type, { filename, contentType }))) {
      const message = `The file ${quote(filename)} is of a type that this form does not take. It takes: ${types.join(', ')}.`;
      errors.push({ field, code: 'FILE_TYPE_NOT_ALLOWED', message });
    }
  }
  return errors;
}

/** `image/*`, `application/pdf`, `.pdf` or `pdf`, without case. */
function isOfType(type: string, { filename, contentType }: { filename: string; contentType: string }): boolean {
  const wanted = type.toLowerCase();
  if (!wanted.includes('/')) return filename.toLowerCase().endsWith(wanted.startsWith('.') ? wanted : `.${wanted}`);
  const given = contentType.toLowerCase().split(';')[0]?.trim() ?? '';
  return wanted.endsWith('/*') ? given.startsWith(wanted.slice(0, -1)) : given === wanted;
}

function quote(filename: string): string {
  return `“${filename.length > 60 ? `${filename.slice(0, 59)}…` : filename}”`;
}

function shown(bytes: number): string {
  return bytes >= MIB ? `${Math.floor((bytes / MIB) * 10) / 10} MiB` : `${Math.floor(bytes / 1024)} KiB`;
}
