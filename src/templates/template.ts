/** What goes into a template and what comes out. */

export type TemplateType = 'form' | 'acknowledgment';

/** As the configuration has it, `html_file` read into `html`. */
export interface TemplateSource {
  readonly type: TemplateType;
  readonly subject?: string | undefined;
  readonly text?: string | undefined;
  readonly html?: string | undefined;
  /** Shown where nothing of that name is given. */
  readonly variables: Readonly<Record<string, unknown>>;
}

/**
 * What templates see: `form` (values by field name), `fields` (`{ name, label, value }` in the order sent), `domain`,
 * `timestamp` (milliseconds, a Date or ISO text), `ip`, `form_name`, `submission_id`, `referer`, `files`
 * (`{ filename, size, content_type }`), and for `/email/send` whatever its data holds.
 */
export type Variables = Readonly<Record<string, unknown>>;

export interface Rendered {
  /** One line of at most 500 characters. */
  readonly subject?: string;
  readonly text: string;
  readonly html?: string;
}

/**
 * A built-in template. It is a function and not Liquid, because most mail is made by it, in a tenth of the time, and it can
 * neither fail nor pass a limit.
 */
export type Builtin = (variables: Variables) => Rendered;
