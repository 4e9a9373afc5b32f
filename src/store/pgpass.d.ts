/** What is used of pgpass, which has no types. */

declare module 'pgpass' {
  export interface PasswordPlace {
    readonly host: string;
    readonly port: number;
    readonly database: string;
    readonly user: string;
  }

  /** The password that PGPASSFILE or ~/.pgpass has for this place; undefined where it has none. */
  export default function pgpass(place: PasswordPlace, answer: (password: string | undefined) => void): void;
}
