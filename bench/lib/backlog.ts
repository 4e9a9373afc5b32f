/** Mail that waits, put into the SQLite database of a stopped daemon by a few statements for each destination. */
import { newId } from '../../src/lib/ids.ts';
import { openForWriting } from '../../src/store/sqlite-connection.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { DOMAIN } from './postern.ts';

export interface Backlog {
  readonly destination: string;
  readonly count: number;
  /** Whether the operator holds the destination, which has answered before. */
  readonly isHeld: boolean;
}

const HOUR_MS = 3_600_000;
/** An id without what makes it differ from others of the same time. */
const STEM = 'msg_'.length + 10;

const NUMBERS = 'with recursive numbers (i) as (select :first union all select i + 1 from numbers where i + 1 < :last)';
const MESSAGES = `insert into messages (id, tenant, kind, submission, domain, source, body, size, sender, encoding,
    destinations, environment, created_at, expires_at)
  ${NUMBERS} select :message || printf('%016d', i), :tenant, 'notification', null, :domain, '{}', 'stored', length(:bytes),
    'forms@' || :domain, '7bit', 1, 'live', :due, :expires from numbers`;
const CHUNKS = `insert into message_chunks (message, seq, bytes)
  ${NUMBERS} select :message || printf('%016d', i), 0, :bytes from numbers`;
const DELIVERIES = `insert into deliveries (id, message, tenant, recipient, destination, state, attempts, next_attempt_at,
    begun, bulk, flow, created_at, expires_at)
  ${NUMBERS} select :delivery || printf('%016d', i), :message || printf('%016d', i), :tenant, 'a' || i || '@' || :destination,
    :destination, 'queued', 0, :due + i % 1000, 0, 0, :domain || '/contact', :due, :expires from numbers`;
const DESTINATION = `insert into destinations (name, next_due_at, failures, pauses, held, line)
  values (:destination, :due, 0, 0, :held, :line)`;

/** Adds finished notifications for these destinations, due for an hour; only of those that are held there are bytes. */
export function fillQueue(path: string, backlogs: readonly Backlog[], now = Date.now()): void {
  const database = openForWriting(path);
  database.pragma('synchronous = OFF');
  const due = now - HOUR_MS;
  const all = {
    due,
    expires: now + 24 * HOUR_MS,
    tenant: OPERATOR,
    domain: DOMAIN,
    message: newId('msg', due).slice(0, STEM),
    delivery: newId('dlv', due).slice(0, STEM),
    bytes: Buffer.from(`From: forms@${DOMAIN}\r\nSubject: It waits\r\n\r\n${'It waits.\r\n'.repeat(100)}`),
  };
  let first = 0;
  for (const { destination, count, isHeld } of backlogs) {
    const last = first + count;
    const values = { ...all, destination, first, last, held: isHeld ? 1 : 0, line: isHeld ? '' : OPERATOR };
    database.transaction(() => {
      for (const sql of [MESSAGES, ...(isHeld ? [CHUNKS] : []), DELIVERIES, DESTINATION])
        database.prepare(sql).run(values);
    })();
    first = last;
  }
  database.close();
}
