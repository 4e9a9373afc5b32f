/** What kind of fault an error of the store is: one that passes, a damaged file, missing permission. */
import { PassingError, codeOf, messageOf } from '../lib/errors.ts';

const PASSING =
  /^(?:ECONNREFUSED|ECONNRESET|EPIPE|ETIMEDOUT|EAI_AGAIN|ENOTFOUND|E(?:HOST|NET)(?:UNREACH|DOWN)|ENOSPC|EIO|SQLITE_(?:FULL|BUSY|IOERR.*)|STORAGE_UNAVAILABLE)$/;
/**
 * PostgreSQL, appendix A: connection failures (class 08), read-only (25006), lock not available (55P03), out of disk,
 * memory or connections (53), shutting down or starting up (57P), a time-out (57014), I/O error (58).
 */
const PASSING_STATE = /^(?:08...|25006|53...|55P03|57014|57P0.|58...)$/;
/** What pg says of a connection that was closed or not made in time. */
const PASSING_WORDS =
  /^(?:Connection terminated|timeout expired|timeout exceeded|Client (?:was closed|has encountered a connection error))/;

/** A server or a bucket that cannot be reached or is not up yet, a disk without room, a daemon that has not ended yet. */
export function isPassing(error: unknown): boolean {
  return causesOf(error).some((cause) => {
    const code = codeOf(cause);
    if (code === undefined) return cause instanceof PassingError || PASSING_WORDS.test(messageOf(cause));
    return PASSING.test(code) || PASSING_STATE.test(code);
  });
}

/** Whether the file is no database any more, or not a whole one. */
export function isDamaged(error: unknown): boolean {
  return causesOf(error).some((cause) => /^SQLITE_(?:CORRUPT|NOTADB)/.test(codeOf(cause) ?? ''));
}

/** Whether the user of this process lacks a permission on the file or its folder. */
export function isForbidden(error: unknown): boolean {
  const codes = ['EACCES', 'EPERM', 'EROFS', 'SQLITE_CANTOPEN', 'SQLITE_READONLY'];
  return causesOf(error).some((cause) => codes.some((code) => codeOf(cause)?.startsWith(code)));
}

function causesOf(error: unknown): unknown[] {
  return error instanceof Error ? [error, ...causesOf(error.cause)] : [];
}
