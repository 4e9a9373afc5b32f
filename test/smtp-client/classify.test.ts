import { expect, test } from 'vitest';
import {
  classify,
  type ConnectionFault,
  type Happening,
  type Step,
  type ReplyClass,
} from '../../src/smtp-client/reply.ts';

const OK = 'ok';
const ADDRESS = 'temporary, next address';
const LOST = 'temporary, next address, connection';
const SCHEDULE = 'temporary, schedule, connection';
const HOST = 'permanent unless another host takes it';
const FINAL = 'permanent';
const HOST_FAMILY = 'permanent unless another host takes it, other family first';
const FINAL_FAMILY = 'permanent, other family first';
const AGAIN = 'next transaction';

/** `[step, code, enhanced, recipients accepted before, meaning]` */
const REPLIES: readonly [Step, number, string | undefined, number, string][] = [
  ['greeting', 220, undefined, 0, OK],
  ['greeting', 421, '4.3.2', 0, LOST],
  ['greeting', 450, undefined, 0, LOST],
  ['greeting', 554, undefined, 0, HOST],
  ['greeting', 554, '5.7.1', 0, HOST_FAMILY],
  ['ehlo', 250, undefined, 0, OK],
  ['ehlo', 451, undefined, 0, LOST],
  ['ehlo', 550, undefined, 0, HOST],
  ['starttls', 454, '4.7.0', 0, LOST],
  ['starttls', 502, undefined, 0, LOST],
  ['auth', 235, '2.7.0', 0, OK],
  ['auth', 454, '4.7.0', 0, LOST],
  ['auth', 535, '5.7.8', 0, LOST],
  ['mail', 250, '2.1.0', 0, OK],
  ['mail', 421, undefined, 0, LOST],
  ['mail', 451, '4.3.0', 0, ADDRESS],
  ['mail', 452, '4.3.1', 0, ADDRESS],
  ['mail', 550, '5.1.8', 0, HOST],
  ['mail', 550, '5.7.1', 0, HOST_FAMILY],
  ['mail', 552, '5.3.4', 0, HOST],
  ['rcpt', 250, '2.1.5', 0, OK],
  ['rcpt', 251, '2.1.5', 0, OK],
  ['rcpt', 421, '4.2.1', 3, LOST],
  ['rcpt', 450, '4.2.0', 0, ADDRESS],
  ['rcpt', 451, '4.7.1', 0, ADDRESS],
  ['rcpt', 452, '4.2.2', 0, ADDRESS],
  ['rcpt', 452, '4.5.3', 1, AGAIN],
  ['rcpt', 552, '5.5.3', 1, AGAIN],
  ['rcpt', 552, '5.2.2', 0, FINAL],
  ['rcpt', 550, '5.1.1', 0, FINAL],
  ['rcpt', 550, '5.1.1', 5, FINAL],
  ['rcpt', 550, '5.7.1', 0, FINAL_FAMILY],
  ['rcpt', 550, '5.7.25', 0, FINAL_FAMILY],
  ['rcpt', 550, '5.70.1', 0, FINAL],
  ['rcpt', 556, '5.1.10', 0, FINAL],
  ['data', 354, undefined, 0, OK],
  ['data', 250, undefined, 0, LOST],
  ['data', 451, '4.3.0', 0, ADDRESS],
  ['data', 554, '5.6.0', 0, FINAL],
  ['final', 250, '2.0.0', 0, OK],
  ['final', 421, '4.3.2', 0, LOST],
  ['final', 451, '4.7.1', 0, ADDRESS],
  ['final', 452, '4.3.1', 0, ADDRESS],
  ['final', 550, '5.7.1', 0, FINAL_FAMILY],
  ['final', 554, '5.6.0', 0, FINAL],
  ['final', 354, undefined, 0, LOST],
  ['mail', 354, undefined, 0, LOST],
  ['rcpt', 666, undefined, 0, LOST],
];

test.each(REPLIES)('at %s, %i %s after %i accepted recipients', (step, code, enhanced, accepted, meaning) => {
  const reply = { code, lines: ['words'], ...(enhanced === undefined ? {} : { enhanced }) };
  expect(meaningOf({ step, reply, accepted })).toBe(meaning);
});

const FAULTS: readonly [Step, ConnectionFault, string][] = [
  ['connect', 'refused', LOST],
  ['connect', 'timeout', LOST],
  ['greeting', 'timeout', LOST],
  ['greeting', 'closed', LOST],
  ['ehlo', 'protocol', LOST],
  ['starttls', 'closed', LOST],
  ['auth', 'unsuitable', LOST],
  ['mail', 'closed', LOST],
  ['rcpt', 'timeout', LOST],
  ['data', 'timeout', LOST],
  ['data', 'closed', LOST],
  ['final', 'timeout', SCHEDULE],
  ['final', 'closed', SCHEDULE],
  ['final', 'protocol', SCHEDULE],
];

test.each(FAULTS)('at %s, %s', (step, fault, meaning) => {
  expect(meaningOf({ step, fault, words: 'words' })).toBe(meaning);
});

function meaningOf(happening: Happening): string {
  const verdict: ReplyClass = classify(happening);
  switch (verdict.kind) {
    case 'ok':
      return OK;
    case 'again':
      return AGAIN;
    case 'temporary':
      return `temporary, ${verdict.next === 'address' ? 'next address' : 'schedule'}${verdict.connection ? ', connection' : ''}`;
    case 'permanent':
      return `permanent${verdict.next === 'host' ? ' unless another host takes it' : ''}${verdict.otherFamily ? ', other family first' : ''}`;
  }
}
