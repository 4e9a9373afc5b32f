/** Types of `postern.mjs`: forms of a Postern server that are sent without leaving the page. */

/** What is wrong with the submission; without `field` it is about the whole form. */
export interface PosternError {
  readonly field?: string;
  /** Such as `REQUIRED_FIELD_MISSING`, `TYPE_EMAIL` or `RATE_LIMITED`. */
  readonly code: string;
  /** For the visitor, in the language of the form or page. */
  readonly message: string;
}

export interface PosternSuccess {
  readonly success: true;
  /** For the visitor. */
  readonly message: string;
  /** `sub_…` */
  readonly id: string;
  /** The page that a browser without JavaScript is sent to. */
  readonly next: string;
}

export interface PosternFailure {
  readonly success: false;
  /** For the visitor. */
  readonly message: string;
  /** The HTTP status. */
  readonly code: number;
  readonly errors: readonly PosternError[];
  /** Identifies the request in the server’s log. */
  readonly request_id: string;
}

export type PosternAnswer = PosternSuccess | PosternFailure;

/** Takes over all forms with `data-postern` below `root` (default: the document), also those that are added later. */
export function start(root?: Document | HTMLElement): void;

/**
 * Sends the form and shows the result in it. Resolves to the answer of the server, or to undefined if the server could not be
 * reached or the form is already being sent. Never rejects.
 */
export function send(form: HTMLFormElement, submitter?: HTMLElement | null): Promise<PosternAnswer | undefined>;

/**
 * The value of the field `_challenge` for a form that is sent by other means. Resolves once the page is old enough. `name` is
 * the field `form` of `/v1/{domain}/send`. Rejects if the server cannot be reached.
 */
export function challenge(action: string, name?: string): Promise<string>;

declare global {
  interface HTMLElementEventMap {
    /** After a submission was accepted. `preventDefault()` leaves the display of the message to the page. */
    'postern:success': CustomEvent<PosternSuccess>;
    /** After a submission was refused, or (without a detail) when the server could not be reached. */
    'postern:error': CustomEvent<PosternFailure | undefined>;
  }
}
