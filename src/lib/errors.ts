/** The error of a thing that the caller or the operator can correct: its message says what, where and how. */
export class UserError extends Error {
  override readonly name: string = 'UserError';
}

/** One that may pass by itself: worth another try without anybody mending anything. */
export class PassingError extends UserError {
  override readonly name = 'PassingError';
}

/** Too much is in progress: worth another try in a moment. */
export class BusyError extends Error {
  override readonly name = 'BusyError';
}

/** The words of whatever was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The words of an error of the file system whose file is named already: `no such file or directory`. */
export function fileFault(error: unknown): string {
  return messageOf(error).replace(/^E[A-Z0-9]+: (.+?), \w+(?: '.*)?$/s, '$1');
}

/** The `code` of a Node, SQLite or DNS error, else undefined. */
export function codeOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

/** What a log line holds of an error: its words, its code and where it was thrown. */
export function errorFields(error: unknown): { error: string; code?: string; stack?: string } {
  const code = codeOf(error);
  return {
    error: messageOf(error),
    ...(code === undefined ? {} : { code }),
    ...(error instanceof Error && error.stack !== undefined ? { stack: error.stack } : {}),
  };
}
