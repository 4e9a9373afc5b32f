/**
 * What a plan is made of. The shape of its values is only hoped for: they are what a server says of a configuration that may
 * be newer than this program.
 */

/** A key that came (`from` is null), went (`to` is null) or changed. */
export interface PlanChange {
  readonly op: 'add' | 'remove' | 'change';
  readonly keys: readonly string[];
  readonly from: unknown;
  readonly to: unknown;
}

export interface PlanLine {
  readonly sign: '+' | '-' | '~';
  readonly text: string;
}

/** The members of a map, or undefined where it is none. */
export function membersOf(value: unknown): [string, unknown][] | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.entries(value) : undefined;
}

/** A text or a list of them, as a list; what else there is counts as none. */
export function stringsOf(value: unknown): string[] {
  const list: readonly unknown[] = Array.isArray(value) ? value : [value];
  return list.filter((item) => typeof item === 'string');
}
