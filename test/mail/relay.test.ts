import { createSecretKey } from 'node:crypto';
import { expect, test } from 'vitest';
import { parseAddress } from '../../src/lib/addresses.ts';
import { newId } from '../../src/lib/ids.ts';
import { openReplyAddress, replyAddress } from '../../src/mail/own-addresses.ts';
import { relayHeader } from '../../src/mail/forward.ts';

const SECRET = createSecretKey(Buffer.alloc(32, 1));
const OTHER = createSecretKey(Buffer.alloc(32, 2));

function open(text: string, secret = SECRET) {
  const address = parseAddress(text);
  return address && openReplyAddress(address, secret);
}

test.each(['visitor', 'owner'] as const)('an address for the %s opens again, whatever became of its case', (to) => {
  const message = newId('msg', 1_700_000_000_000);
  const address = replyAddress({ message, to }, 'example.com', SECRET);
  expect(address).toMatch(/^reply\+[vo][0-9a-z]{26}[a-z2-7]{16}@example\.com$/);
  expect(open(address)).toEqual({ message, to });
  expect(open(address.toUpperCase())).toEqual({ message, to });
});

test('nobody makes one, turns one round, or takes one elsewhere', () => {
  const address = replyAddress({ message: newId('msg', 1), to: 'owner' }, 'example.com', SECRET);
  const forgeries = [
    address.replace('reply+o', 'reply+v'),
    address.replace('example.com', 'example.org'),
    address.replace(/.@/, (end) => (end === 'a@' ? 'b@' : 'a@')),
    address.replace('@', 'a@'),
    'reply+@example.com',
    'reply+good@example.com',
  ];
  expect(forgeries.map((text) => open(text))).toEqual(forgeries.map(() => undefined));
  expect(open(address, OTHER)).toBeUndefined();
});

test('of a header only what the message is about passes, byte for byte', () => {
  const kept = [
    'Subject: =?utf-8?Q?Gr=C3=BC=C3=9Fe?=\r\n',
    'date:  Thu, 1 Jan 2026 00:00:00 +0000\r\n',
    'In-Reply-To: <a@b>\r\nReferences: <a@b>\r\n\t<c@d>\r\n',
    'MIME-Version: 1.0\r\nContent-Type: multipart/mixed;\r\n boundary=x\r\nContent-Language: de\r\n',
  ];
  const dropped = [
    'Return-Path: <owner@home.test>\r\n',
    'Received: from [192.0.2.1]\r\n\tby home.test\r\n',
    'Delivered-To: owner@home.test\r\nDKIM-Signature: d=home.test;\r\n b=x\r\nAuthentication-Results: home.test\r\n',
    'From: Owner <owner@home.test>\r\nSender: owner@home.test\r\nReply-To: owner@home.test\r\nTo: x\r\nCc: boss@home.test\r\n',
    'Bcc: boss@home.test\r\nMessage-ID: <1@home.test>\r\nX-Originating-IP: 192.0.2.1\r\nAutocrypt: addr=owner@home.test\r\n',
    'Disposition-Notification-To: owner@home.test\r\nOrganization: Home\r\nUser-Agent: Mail\r\nARC-Seal: d=home.test\r\n',
  ];
  const header = kept.flatMap((lines, i) => [lines, dropped[i] ?? '']).join('') + dropped.slice(kept.length).join('');
  const about = { messageId: '<2@example.com>', date: 0, to: [{ address: 'vera@inbox.test' }] };
  const passed = relayHeader(header, { ...about, from: { name: 'Shop, Inc.', address: 'reply+x@example.com' } });
  expect(passed).toBe(
    `From: "Shop, Inc." <reply+x@example.com>\r\nTo: vera@inbox.test\r\nMessage-ID: <2@example.com>\r\n${kept.join('')}`,
  );
  const bare = relayHeader('', { ...about, from: { address: 'reply+x@example.com' } });
  expect(bare).toMatch(/Message-ID: <2@example\.com>\r\nDate: Thu, 01 Jan 1970 00:00:00 \+0000\r\n$/);
});
