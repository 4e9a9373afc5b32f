import { expect, test } from 'vitest';
import { faultOf, isPolicy } from '../../src/smtp/bounce-meaning.ts';

test.each([
  ['550 5.7.1 Message rejected due to policy', true],
  ['554 5.7.26 Unauthenticated email is not accepted', true],
  ['550-5.7.1 [192.0.2.1] Our system has detected', true],
  ['554 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org', true],
  ['550 5.1.1 the address is in no blocklist', true],
  ['550 your address is on our blacklist', true],
  ['550 5.1.1 no such user', false],
  ['552 5.2.2 mailbox full', false],
  ['550 the mailbox is blocked', false],
  ['451 4.7.1 greylisted', false],
  ['421 4.7.0 our DNSBL says later', false],
])('%s: a policy: %s', (reply, policy) => {
  expect(isPolicy(reply)).toBe(policy);
});

test.each([
  ['5.7.1', 'no', 'policy'],
  ['5.0.0', 'blocked using bl.spamcop.net', 'policy'],
  ['', 'Client host blacklisted', 'policy'],
  ['5.1.1', 'no such user', 'mailbox'],
  ['', 'user unknown', 'mailbox'],
  ['5.2.2', 'over quota', 'other'],
])('a report with %s and %s is the fault of: %s', (status, diagnostic, fault) => {
  expect(faultOf({ status, diagnostic })).toBe(fault);
});
