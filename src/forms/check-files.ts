/** Whether the files of a submission are what the form takes. Names and types are the visitor's words: no proof of content. */
import type { FormConfig } from '../config/schema.ts';
import type { FieldError } from './fault.ts';
import type { Upload } from './files.ts';

const MIB = 1024 * 1024;

/** The faults of the files; those with codes for the whole form have no field, or form clients would not know them. */
export function checkFiles(files: readonly Upload[], { uploads }: FormConfig): FieldError[] {
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
