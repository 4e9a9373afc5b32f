/** Why a mail is not sent, for whoever asked for it. */

export interface Fault {
  readonly kind: 'fault';
  readonly code:
    | 'VALIDATION_FAILED'
    | 'DOMAIN_NOT_VERIFIED'
    | 'AUTH_DOMAIN_NOT_ALLOWED'
    | 'TEMPLATE_NOT_FOUND'
    | 'NOT_FOUND'
    | 'BODY_TOO_LARGE';
  /** Of the value that is wrong, where it is one: `from`, `headers.X-Id`. */
  readonly path?: string;
  /** Where there is a path, what follows it in a sentence without a full stop; else a sentence. */
  readonly message: string;
}

/** A value that is wrong. */
export function faultAt(path: string, message: string): Fault {
  return { kind: 'fault', code: 'VALIDATION_FAILED', path, message };
}

/** Anything else. */
export function fault(code: Exclude<Fault['code'], 'VALIDATION_FAILED'>, message: string): Fault {
  return { kind: 'fault', code, message };
}
