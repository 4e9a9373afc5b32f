/** Reports as the usual servers write them; each was written by hand after their form. Lines end in CRLF. */

function mail(...lines: readonly string[]): string {
  return lines.join('\r\n');
}

interface Status {
  readonly head: readonly string[];
  readonly words: readonly string[];
  readonly groups: readonly (readonly string[])[];
  readonly type?: string;
}

function report({ head, words, groups, type = 'message/delivery-status' }: Status): string {
  return mail(
    ...head,
    'MIME-Version: 1.0',
    'Content-Type: multipart/report; report-type=delivery-status;',
    '\tboundary="0F1.2A/mx.example.org"',
    '',
    'This is a MIME-encapsulated message.',
    '',
    '--0F1.2A/mx.example.org',
    'Content-Type: text/plain; charset=us-ascii',
    '',
    ...words,
    '',
    '--0F1.2A/mx.example.org',
    `Content-Type: ${type}`,
    '',
    ...groups.flatMap((group) => [...group, '']),
    '--0F1.2A/mx.example.org',
    'Content-Type: text/rfc822-headers',
    '',
    'From: Site <contact@example.com>',
    'To: ana@example.org',
    'Subject: Your order',
    'X-Failed-Recipients: somebody@else.example',
    '',
    '--0F1.2A/mx.example.org--',
    '',
  );
}

export const POSTFIX = report({
  head: [
    'Date: Thu,  1 Jan 2026 01:00:00 +0100 (CET)',
    'From: MAILER-DAEMON@mx.example.org (Mail Delivery System)',
    'Subject: Undelivered Mail Returned to Sender',
    'To: b+token@mail.postern.test',
    'Auto-Submitted: auto-replied',
  ],
  words: [
    'This is the mail system at host mx.example.org.',
    '',
    '<ana@example.org>: host store.example.org[192.0.2.7] said: 550 5.1.1',
    '    <ana@example.org>: Recipient address rejected: User unknown in local',
    '    recipient table (in reply to RCPT TO command)',
  ],
  groups: [
    ['Reporting-MTA: dns; mx.example.org', 'X-Postfix-Queue-ID: 0F1', 'Arrival-Date: Thu,  1 Jan 2026 00:59:58 +0100'],
    [
      'Final-Recipient: rfc822; ana@example.org',
      'Original-Recipient: rfc822;Ana@example.org',
      'Action: failed',
      'Status: 5.1.1',
      'Remote-MTA: dns; store.example.org',
      'Diagnostic-Code: smtp; 550 5.1.1 <ana@example.org>: Recipient address rejected:',
      '    User unknown in local recipient table',
    ],
  ],
});

/** Exim puts 5.0.0 into each. */
export const EXIM = report({
  head: [
    'X-Failed-Recipients: ana@example.org, ben@example.org',
    'Auto-Submitted: auto-replied',
    'From: Mail Delivery System <Mailer-Daemon@mx.example.org>',
    'Subject: Mail delivery failed: returning message to sender',
  ],
  words: ['This message was created automatically by mail delivery software.'],
  groups: [
    ['Reporting-MTA: dns; mx.example.org'],
    [
      'Action: failed',
      'Final-Recipient: rfc822;ana@example.org',
      'Status: 5.0.0',
      'Remote-MTA: dns; store.example.org',
      'Diagnostic-Code: smtp; 550-5.1.1 The email account that you tried to reach does not exist.',
    ],
    [
      'Action: failed',
      'Final-Recipient: rfc822;ben@example.org',
      'Status: 5.0.0',
      'Diagnostic-Code: smtp; 550 No such user here',
    ],
  ],
});

export const EXIM_IN_WORDS = mail(
  'X-Failed-Recipients: ana@example.org',
  'Auto-Submitted: auto-replied',
  'From: Mail Delivery System <Mailer-Daemon@mx.example.org>',
  'Subject: Mail delivery failed: returning message to sender',
  '',
  'This message was created automatically by mail delivery software (Exim 4.94.2).',
  '',
  'A message that you sent could not be delivered to one or more of its',
  'recipients. This is a permanent error. The following address(es) failed:',
  '',
  '  ana@example.org',
  '    host store.example.org [192.0.2.7]',
  '    SMTP error from remote mail server after RCPT TO:<ana@example.org>:',
  '    550 5.2.1 mailbox disabled',
  '',
  '------ This is a copy of the message, including all the headers. ------',
  '',
  'To: somebody@else.example',
  '',
  'our old letter spoke of 550 5.1.1 of somebody@else.example',
);

export const QMAIL = mail(
  'From: MAILER-DAEMON@mx.example.org',
  'To: b+token@mail.postern.test',
  'Subject: failure notice',
  '',
  'Hi. This is the qmail-send program at mx.example.org.',
  "I'm afraid I wasn't able to deliver your message to the following addresses.",
  "This is a permanent error; I've given up. Sorry it didn't work out.",
  '',
  '<ana@example.org>:',
  'Sorry, no mailbox here by that name. (#5.1.1)',
  '',
  '<ben@example.org>:',
  '192.0.2.7 does not like recipient.',
  'Remote host said: 552 mailbox is full',
  'Giving up on 192.0.2.7.',
  '',
  '--- Below this line is a copy of the message.',
  '',
  'Return-Path: <b+token@mail.postern.test>',
  '',
  'and 550 5.7.1 for somebody@else.example',
);

export const EXCHANGE = report({
  head: [
    'From: Microsoft Outlook <MicrosoftExchange329e71ec88ae4615bbc36ab6ce41109e@example.org>',
    'Subject: Undeliverable: Your order',
    'Auto-Submitted: auto-replied',
  ],
  words: ["Your message to ana@example.org couldn't be delivered.", 'ana wasn’t found at example.org.'],
  groups: [
    ['Reporting-MTA: dns;AM0PR01.eurprd01.prod.exchangelabs.example', 'X-MS-Exchange-Message-Is-Ndr:'],
    [
      'Final-Recipient: rfc822;ana@example.org',
      'Action: failed',
      'Status: 5.1.10',
      'Diagnostic-Code: smtp;550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient not found by SMTP address lookup',
      'X-Display-Name: ana',
    ],
  ],
});

export const SENDMAIL = report({
  head: [
    'From: Mail Delivery Subsystem <MAILER-DAEMON@mx.example.org>',
    'To: <b+token@mail.postern.test>',
    'Subject: Returned mail: see transcript for details',
    'Auto-Submitted: auto-generated (failure)',
  ],
  words: [
    'The original message was received at Thu, 1 Jan 2026 00:59:58 +0100',
    'from mail.postern.test [192.0.2.1]',
    '',
    '   ----- The following addresses had permanent fatal errors -----',
    '<ana@example.org>',
    '    (reason: 550 5.1.1 <ana@example.org>... User unknown)',
    '',
    '   ----- Transcript of session follows -----',
    '... while talking to store.example.org.:',
    '>>> DATA',
    '<<< 550 5.1.1 <ana@example.org>... User unknown',
    '550 5.1.1 <ana@example.org>... User unknown',
  ],
  groups: [
    ['Reporting-MTA: dns; mx.example.org', 'Received-From-MTA: DNS; mail.postern.test'],
    [
      'Final-Recipient: RFC822; ana@example.org',
      'Action: failed',
      'Status: 5.1.1',
      'Remote-MTA: DNS; store.example.org',
      'Diagnostic-Code: SMTP; 550 5.1.1 <ana@example.org>... User unknown',
    ],
  ],
});

export const GMAIL = report({
  head: [
    'From: Mail Delivery Subsystem <mailer-daemon@googlemail.example>',
    'Subject: Delivery Status Notification (Failure)',
    'Auto-Submitted: auto-replied',
    'X-Failed-Recipients: ana@example.org',
  ],
  words: ['** Address not found **'],
  groups: [
    ['Reporting-MTA: dns; googlemail.example', 'Received-From-MTA: dns; ben@example.org'],
    [
      'Final-Recipient: rfc822; ana@example.org',
      'Action: failed',
      'Status: 5.2.2',
      'Remote-MTA: dns; mx.example.org. (192.0.2.7, the server for the domain example.org.)',
      'Diagnostic-Code: smtp; 552-5.2.2 The recipient’s inbox is out of storage space.',
      'Last-Attempt-Date: Thu, 01 Jan 2026 00:00:00 -0800 (PST)',
    ],
  ],
});

export const POLICY = report({
  head: ['From: postmaster@example.org', 'Subject: Undeliverable'],
  words: ['Blocked.'],
  groups: [
    ['Reporting-MTA: dns; mx.example.org'],
    [
      'Final-Recipient: rfc822; ana@example.org',
      'Action: failed',
      'Status: 5.7.1',
      'Remote-MTA: dns; store.example.org',
      'Diagnostic-Code: smtp; 550 5.7.1 Service unavailable, client host blocked using a block list',
    ],
  ],
});

export const DELAYED = report({
  head: ['From: MAILER-DAEMON@mx.example.org', 'Subject: Delayed Mail (still being retried)'],
  words: ['THIS IS A WARNING ONLY. YOU DO NOT NEED TO RESEND YOUR MESSAGE.'],
  groups: [
    ['Reporting-MTA: dns; mx.example.org'],
    ['Final-Recipient: rfc822; ana@example.org', 'Action: delayed', 'Status: 4.4.1', 'Will-Retry-Until: later'],
  ],
});

/** RFC 6533: of an address beyond ASCII. */
export const GLOBAL = report({
  head: ['From: MAILER-DAEMON@mx.example.org'],
  words: ['No.'],
  type: 'message/global-delivery-status',
  groups: [
    ['Reporting-MTA: dns; mx.example.org'],
    ['Final-Recipient: utf-8; j\\x{F6}rg@example.org', 'Action: failed', 'Status: 5.1.1'],
  ],
});

export function complaint(feedback: string, ...recipients: readonly string[]): string {
  return mail(
    'From: <abuse@provider.example>',
    'Subject: FW: Your order',
    'MIME-Version: 1.0',
    'Content-Type: multipart/report; report-type=feedback-report; boundary=part',
    '',
    '--part',
    'Content-Type: text/plain',
    '',
    'This is an email abuse report.',
    '--part',
    'Content-Type: message/feedback-report',
    '',
    `Feedback-Type: ${feedback}`,
    'User-Agent: SomeGenerator/1.0',
    'Version: 1',
    'Original-Mail-From: <b+token@mail.postern.test>',
    ...recipients.map((address) => `Original-Rcpt-To: <${address}>`),
    '--part',
    'Content-Type: message/rfc822',
    '',
    'From: contact@example.com',
    '',
    'Buy.',
    '--part--',
    '',
  );
}

export const VACATION = mail(
  'From: Ana <ana@example.org>',
  'Subject: Out of office: Your order',
  'Auto-Submitted: auto-replied (vacation)',
  '',
  'I am away. If you get 550 5.1.1 for ana@example.org, write to <ben@example.org>.',
);

export const RECEIPT = mail(
  'From: Ana <ana@example.org>',
  'Subject: Read: Your order',
  'Content-Type: multipart/report; report-type=disposition-notification; boundary=x',
  '',
  '--x',
  '',
  'It was read.',
  '--x',
  'Content-Type: message/disposition-notification',
  '',
  'Final-Recipient: rfc822; ana@example.org',
  'Disposition: manual-action/MDN-sent-manually; displayed',
  '--x--',
);

export const PERSON = mail(
  'From: Ana <ana@example.org>',
  'Subject: Re: Your order',
  '',
  'My server said 550 5.1.1 <shop@example.com>: no such user. What now?',
);
