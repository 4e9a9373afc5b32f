import fc from 'fast-check';
import { expect, test } from 'vitest';
import { fieldsOf, receivedLine } from '../../src/mail/header.ts';

const arrival = {
  ip: '192.0.2.1',
  helo: 'client.example.com',
  protocol: 'ESMTPS',
  tls: 'TLSv1.3',
  hostname: 'mail.example.net',
  id: 'inb_01',
  recipients: [{ original: 'jane@example.org' }],
  at: Date.UTC(2026, 10, 21, 10, 35),
};

test('a Received line says who brought it, how, to whom and when', () => {
  expect(receivedLine(arrival)).toBe(
    [
      'Received: from client.example.com ([192.0.2.1])',
      ' by mail.example.net with ESMTPS (TLSv1.3) id inb_01',
      ' for <jane@example.org>;',
      ' Sat, 21 Nov 2026 10:35:00 +0000',
      '',
    ].join('\r\n'),
  );
});

test('it names nobody where there are several recipients, and no TLS where there was none', () => {
  expect(
    receivedLine({
      ...arrival,
      recipients: [...arrival.recipients, { original: 'bob@example.org' }],
      tls: null,
      protocol: 'ESMTP',
    }),
  ).toBe(
    'Received: from client.example.com ([192.0.2.1])\r\n by mail.example.net with ESMTP id inb_01;\r\n Sat, 21 Nov 2026 10:35:00 +0000\r\n',
  );
});

test.each([
  ['[192.0.2.1]', '192.0.2.1', 'from [192.0.2.1] ([192.0.2.1])'],
  ['[192.0.2.9]', '192.0.2.1', 'from [192.0.2.1] ([192.0.2.1] helo=[192.0.2.9])'],
  ['[IPv6:2001:db8::1]', '2001:db8::1', 'from [IPv6:2001:db8::1] ([IPv6:2001:db8::1])'],
  ['localhost', '192.0.2.1', 'from [192.0.2.1] ([192.0.2.1] helo=localhost)'],
  ['a) by evil.example (x\\', '192.0.2.1', 'from [192.0.2.1] ([192.0.2.1] helo=a??by?evil.example??x?)'],
  ['', '192.0.2.1', 'from [192.0.2.1] ([192.0.2.1] helo=)'],
])('a client that calls itself %j', (helo, ip, said) => {
  expect(receivedLine({ ...arrival, helo, ip }).split('\r\n')[0]).toBe(`Received: ${said}`);
});

test('whatever a client says of itself, it is one field of short lines of ASCII', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 400 }), fc.string({ unit: 'binary' }), (helo, tls) => {
      const line = receivedLine({ ...arrival, helo, tls });
      expect(fieldsOf(line).map(({ name }) => name)).toEqual(['received']);
      expect(line.split('\r\n').every((each) => /^[\x20-\x7e]{0,800}$/.test(each))).toBe(true);
    }),
  );
});
