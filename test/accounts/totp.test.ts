/** One-time codes: the vectors of the RFCs, and what an authenticator app is told. */
import { expect, test } from 'vitest';
import { codeAt, totpUri } from '../../src/accounts/totp.ts';

/** `12345678901234567890` in Base32. */
const SECRET = 'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ';

test.each([
  [59, '287082'],
  [1_111_111_109, '081804'],
  [1_111_111_111, '050471'],
  [1_234_567_890, '005924'],
  [2_000_000_000, '279037'],
  [20_000_000_000, '353130'],
])('the code at %i s is that of RFC 6238, appendix B, in six digits', (seconds, code) => {
  expect(codeAt(SECRET, Math.floor(seconds / 30))).toBe(code);
});

const STEPS = ['755224', '287082', '359152', '969429', '338314', '254676', '287922', '162583', '399871', '520489'];

test('the codes of the first steps are those of RFC 4226, appendix D', () => {
  expect(STEPS.map((_, step) => codeAt(SECRET, step))).toEqual(STEPS);
});

test('what an app reads names the server and the account', () => {
  expect(totpUri({ secret: SECRET, hostname: 'mail.example.net', email: 'anna+a@example.org' })).toBe(
    `otpauth://totp/mail.example.net:anna%2Ba%40example.org?secret=${SECRET}&issuer=mail.example.net`,
  );
});
