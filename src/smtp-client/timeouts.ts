/**
 * How long each step of a delivery may take in all, ms: ceilings of RFC 5321 §4.5.3.2. They are absolute: what drips in
 * meanwhile stretches none of them.
 */
export interface Timeouts {
  readonly connect: number;
  readonly greeting: number;
  /** EHLO, STARTTLS, AUTH, MAIL, RCPT and RSET, each. */
  readonly command: number;
  readonly tls: number;
  readonly data: number;
  /** Until a block of the message has been taken. */
  readonly block: number;
  readonly final: number;
  /** From MAIL to the answer to the final dot. */
  readonly transaction: number;
  /** While others wait for a connection: what hangs longer in a step before the message has left is cut off. */
  readonly pressedConnect: number;
  readonly pressed: number;
  /** The same at a pool that has not answered yet. */
  readonly pressedFirst: number;
  /** For the greeting, and each answer before there is a session, where another address is left to try. */
  readonly elsewhere: number;
  /** How long a connection is kept without work. */
  readonly idle: number;
  /** How old a connection may become before its next message. */
  readonly connection: number;
}

export const TIMEOUTS: Timeouts = {
  connect: 30_000,
  greeting: 300_000,
  command: 300_000,
  tls: 60_000,
  data: 120_000,
  block: 180_000,
  final: 600_000,
  transaction: 1_800_000,
  pressedConnect: 5000,
  pressed: 30_000,
  pressedFirst: 3000,
  elsewhere: 30_000,
  idle: 3000,
  connection: 300_000,
};
