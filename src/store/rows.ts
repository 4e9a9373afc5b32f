/** A list of any length as one parameter, so that a statement that takes one is compiled once. */
import { sql, type RawBuilder } from 'kysely';
import type { Dialect } from './statement.ts';

/** The rows of a JSON array of texts, for `in`: the two databases call it differently. */
export function listed(json: string, dialect: Dialect): RawBuilder<string> {
  return dialect === 'sqlite'
    ? sql`(select value from json_each(${json}))`
    : sql`(select value from json_array_elements_text(${json}::json) as list(value))`;
}
