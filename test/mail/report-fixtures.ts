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

/** A bounce for people alone: From, Subject and the words. */
function notice(subject: string, lines: readonly string[], head: readonly string[] = []): string {
  return mail(
    'From: MAILER-DAEMON@mx.example.org',
    'To: b+token@mail.postern.test',
    `Subject: ${subject}`,
    ...head,
    '',
    ...lines,
    '',
  );
}

function failed(status: string, diagnostic: string, ...words: readonly string[]): string {
  return report({
    head: ['From: MAILER-DAEMON@mx.example.org', 'Subject: Undelivered Mail Returned to Sender'],
    words: words.length === 0 ? ['No.'] : words,
    groups: [
      ['Reporting-MTA: dns; mx.example.org'],
      [
        'Final-Recipient: rfc822; ana@example.org',
        'Action: failed',
        ...(status === '' ? [] : [`Status: ${status}`]),
        ...(diagnostic === '' ? [] : [`Diagnostic-Code: smtp; ${diagnostic}`]),
      ],
    ],
  });
}

function json(value: unknown): string {
  return mail(
    'From: Notices <no-reply@sns.example>',
    'Subject: Notification Message',
    'Content-Type: text/plain; charset=UTF-8',
    '',
    JSON.stringify(value),
    '',
    '--',
    'If you wish to stop receiving these, follow the link below.',
  );
}

const SES_BOUNCE = {
  notificationType: 'Bounce',
  bounce: {
    bounceType: 'Permanent',
    bouncedRecipients: [
      {
        emailAddress: 'ana@example.org',
        action: 'failed',
        status: '5.1.1',
        diagnosticCode: 'smtp; 550 5.1.1 user unknown',
      },
    ],
  },
  mail: { source: 'contact@example.com', destination: ['ana@example.org'] },
};

const ARF_HEAD = ['From: <abuse@provider.example>', 'Subject: complaint about a message', 'MIME-Version: 1.0'];

/** `[name, mail, recipients as "address action class", and ! where the address is to be suppressed]` */
export const BOUNCES: readonly (readonly [string, string, ...string[]])[] = [
  ['a block list behind 5.1.1', failed('5.1.1', '550 5.7.1 IP address blacklisted'), 'ana@example.org failed blocked'],
  [
    'a sender check',
    failed(
      '5.1.1',
      '550 5.1.1 User unknown',
      '<ana@example.org>: host mx.example.org[192.0.2.7] said: 550 5.1.1 User unknown (in reply to MAIL FROM command)',
    ),
    'ana@example.org failed policy',
  ],
  [
    'a filter after the message',
    failed(
      '5.0.0',
      '550 Unknown user ana@example.org',
      '<ana@example.org>: host mx.example.org[192.0.2.7] said: 550 Unknown user ana@example.org (in reply to end of DATA command)',
    ),
    'ana@example.org failed policy',
  ],
  [
    'Exim, whose words stand in the text alone',
    failed(
      '5.0.0',
      '',
      '  ana@example.org',
      '    host mx.example.org [192.0.2.7]',
      '    SMTP error from remote mail server after RCPT TO:<ana@example.org>:',
      '    550 No such user here',
    ),
    'ana@example.org failed no_mailbox!',
  ],
  [
    'Exim, a full mailbox',
    failed('5.0.0', '', '  ana@example.org', '    mailbox is full: retry timeout exceeded'),
    'ana@example.org failed mailbox_full',
  ],
  ['a status without a word', failed('5.1.1', ''), 'ana@example.org failed no_mailbox!'],
  [
    'an address whose type is misspelt',
    failed('5.1.1', '').replace('rfc822; ana', 'rfc/822; ana'),
    'ana@example.org failed no_mailbox!',
  ],
  [
    'a status without a word, about a message that is a report itself',
    failed('5.1.1', '').replace(
      /text\/rfc822-headers[^]*?(?=--0F1)/,
      mail('message/rfc822', '', failed('5.2.2', '').replaceAll('0F1.2A', 'inner').replace('ana@', 'ben@'), ''),
    ),
    'ana@example.org failed no_mailbox!',
  ],
  [
    'a sender check on one line',
    notice('Undelivered Mail', ['<ana@example.org>: 550 user unknown (in reply to MAIL FROM command)']),
    'ana@example.org failed policy',
  ],
  [
    'a full mailbox in the words, and none in the fields',
    failed('5.1.1', '550 5.1.1 User unknown', 'Your message to ana was rejected: not enough disk space'),
    'ana@example.org failed mailbox_full',
  ],
  [
    'a disabled account in the words, and none in the fields',
    failed('5.0.0', '550 user unknown', 'The account is disabled.'),
    'ana@example.org failed disabled',
  ],
  [
    'two recipients in one group of fields',
    failed('5.1.1', 'x').replace(
      /Final-Recipient(?:.*\r\n)*?(?=\r\n)/,
      ['ana', 'ben']
        .map((name) =>
          mail(
            `Original-Recipient: rfc822; ${name}@example.org`,
            `Final-Recipient: rfc822; ${name}@example.org`,
            'Action: failed',
            `Status: ${name === 'ana' ? '5.2.2' : '5.1.1'}`,
            '',
          ),
        )
        .join(''),
    ),
    'ana@example.org failed mailbox_full',
    'ben@example.org failed no_mailbox!',
  ],
  [
    'fields in the text, one of them folded',
    notice('Returned mail', [
      'Final-Recipient: rfc822;ana@example.org',
      'Action: failed',
      'Status: 5.0.0',
      "Diagnostic-Code: smtp; 550 'ana@example.org' is not a",
      ' known user',
    ]),
    'ana@example.org failed no_mailbox!',
  ],
  [
    'fields in the text, indented',
    notice('Returned mail', ['  Final-Recipient: rfc822;ana@example.org', '  Action: failed', '  Status: 5.1.1']),
    'ana@example.org failed no_mailbox!',
  ],
  [
    "a transcript of sendmail, where the server's words stand before the recipient",
    notice('Returned mail', [
      '   ----- Transcript of session follows -----',
      '>>> MAIL From:<b+token@mail.postern.test>',
      '<<< 550 your server is an open relay',
      '554 <ana@example.org>... Remote protocol error',
      '>>> RCPT To:<ben@example.org>',
      '<<< 550 user unknown',
      '554 <ben@example.org>... Remote protocol error',
      '554 <eve@example.org>... Remote protocol error',
      '',
      '554 <dan@example.org>... Remote protocol error',
    ]),
    'ana@example.org failed blocked',
    'ben@example.org failed no_mailbox!',
    'eve@example.org failed no_mailbox!',
    'dan@example.org failed unknown',
  ],
  [
    'a sender that takes no answer, with the message that it returns',
    mail(
      'From: no-reply@mobile.example.org',
      'To: b+token@mail.postern.test',
      'Subject: Mail',
      'Content-Type: multipart/mixed; boundary=part',
      '',
      '--part',
      '',
      'Could not be delivered to: <ana@example.org>',
      'As the mailbox is full.',
      '--part',
      'Content-Type: message/rfc822',
      '',
      'Subject: Your order',
      '--part--',
    ),
    'ana@example.org failed mailbox_full',
  ],
  [
    'a report that a gateway returns as the message',
    mail(
      'From: MAILER-DAEMON@gateway.example.org',
      'Subject: Returned mail',
      'Content-Type: multipart/mixed; boundary=outer',
      '',
      '--outer',
      '',
      'These addresses had errors; write to <help@example.net>.',
      '--outer',
      'Content-Type: message/rfc822',
      '',
      POSTFIX,
      '--outer--',
    ),
    'ana@example.org failed no_mailbox!',
  ],
  [
    'a report within the text',
    notice('Returned mail', [
      'Your message could not be delivered; write to <help@example.net>.',
      '',
      'From MAILER-DAEMON  Thu Jan  1 01:00:00 2026',
      'Received: by mx.example.org',
      POSTFIX,
    ]),
    'ana@example.org failed no_mailbox!',
  ],
  [
    'a status of the server itself',
    failed('5.0.0', '550-5.2.2 The inbox is out of storage space'),
    'ana@example.org failed mailbox_full',
  ],
  [
    'Exchange, a restricted group',
    failed('5.7.133', '550 5.7.133 RESOLVER.RST.SenderNotAuthenticatedForGroup; not permitted'),
    'ana@example.org failed policy',
  ],
  [
    'Exchange, its own words',
    failed('5.1.1', '#550 5.1.1 RESOLVER.ADR.RecipNotFound; not found ##'),
    'ana@example.org failed no_mailbox!',
  ],
  [
    'Microsoft 365, an address it does not know',
    failed('5.4.1', '550 5.4.1 Recipient address rejected: Access denied. [AM5EUR03FT021]'),
    'ana@example.org failed no_mailbox!',
  ],
  [
    'Postfix, a domain that does not exist',
    failed(
      '5.4.4',
      'X-Postfix; Host or domain name not found. Name service error for name=example.org type=A: Host not found',
    ),
    'ana@example.org failed no_domain!',
  ],
  [
    'Postfix, given up',
    failed('4.4.1', 'connect to mx.example.org[192.0.2.7]:25: Connection timed out'),
    'ana@example.org failed temporary',
  ],
  [
    'fields without their types, as gateways leave them',
    notice('Returned mail: see transcript', [
      'Final-Recipient: rfc822; ana@example.org',
      'Action: failed',
      'Status: 5.1.1',
      'Diagnostic-Code: smtp; 550 5.1.1 no such user',
    ]),
    'ana@example.org failed no_mailbox!',
  ],
  [
    'a multipart without its boundaries',
    notice(
      'Returned mail',
      ['', '<ana@example.org>: 550 5.1.1 no such user'],
      ['Content-Type: multipart/report; boundary=gone'],
    ),
    'ana@example.org failed no_mailbox!',
  ],
  [
    'qmail',
    notice('failure notice', [
      'Hi. This is the qmail-send program at mx.example.org.',
      "This is a permanent error; I've given up.",
      '',
      '<ana@example.org>:',
      'Sorry, no mailbox here by that name. (#5.1.1)',
      '',
      '<ben@example.org>:',
      '192.0.2.7 does not like recipient.',
      'Remote host said: 552 5.2.2 quota',
      'Giving up on 192.0.2.7.',
      '',
      '--- Below this line is a copy of the message.',
      '',
      'To: somebody@else.example',
    ]),
    'ana@example.org failed no_mailbox!',
    'ben@example.org failed mailbox_full',
  ],
  [
    'qmail, a server that was never reached',
    notice('failure notice', [
      "I'm afraid I wasn't able to deliver your message to the following addresses.",
      '',
      '<ana@example.org>:',
      "Sorry, I wasn't able to establish an SMTP connection. (#4.4.1)",
      "I'm not going to try again; this message has been in the queue too long.",
    ]),
    'ana@example.org failed temporary',
  ],
  [
    'qmail, an account that forwards elsewhere',
    notice('failure notice', [
      '<ana@example.org>:',
      '192.0.2.7 does not like recipient.',
      'Remote host said: 550 5.1.1 <ana.b@elsewhere.example>... User unknown',
    ]),
    'ana@example.org failed no_mailbox!',
  ],
  [
    'Yahoo',
    notice('Delivery failure', [
      'Unable to deliver message to the following address(es).',
      '',
      '<ana@example.org>:',
      "This user doesn't have a example.org account (ana@example.org) [0]",
      '',
      '<ben@example.org>:',
      'This account has been disabled or discontinued [#102].',
    ]),
    'ana@example.org failed no_mailbox!',
    'ben@example.org failed disabled',
  ],
  [
    'GMX',
    notice('Mail delivery failed: returning message to sender', [
      'This is a permanent error. The following address',
      'failed:',
      '',
      '"ana@example.org":',
      'SMTP error from remote server after RCPT command:',
      'host: mx.example.org',
      '5.2.1 <ana@example.org>... User Unknown',
      '"ben@example.org":',
      'SMTP error from remote server after RCPT command:',
      'host: mx.example.org',
      '5.2.2 <ben@example.org>... Mailbox Full',
      '',
      '--- The header of the original message is following. ---',
      'To: c@example.org',
    ]),
    'ana@example.org failed no_mailbox!',
    'ben@example.org failed mailbox_full',
  ],
  [
    'Zoho',
    notice('Undelivered Mail Returned to Sender', [
      'ana@example.org Invalid Address, ERROR_CODE :550, ERROR_CODE :5.1.1 <ana@example.org>... User Unknown',
      'ben@example.org Invalid Address, ERROR_CODE :552, ERROR_CODE :5.2.2 Mailbox Full',
    ]),
    'ana@example.org failed no_mailbox!',
    'ben@example.org failed mailbox_full',
  ],
  [
    'OpenSMTPD',
    notice('Delivery status notification: error', [
      'Hi!',
      'An error has occurred while attempting to deliver a message for',
      'the following list of recipients:',
      '',
      'ana@example.org: 550 5.1.1 <ana@example.org>... User Unknown',
      'ben@example.org: 550 5.7.1 blocked using zen.spamhaus.org',
      '',
      'Below is a copy of the original message:',
      'To: x@example.org',
    ]),
    'ana@example.org failed no_mailbox!',
    'ben@example.org failed blocked',
  ],
  [
    'sendmail of old',
    notice('Returned mail: User unknown', [
      '   ----- Transcript of session follows -----',
      'While talking to mx.example.org:',
      '>>> RCPT To:<ana@example.org>',
      '<<< 550 No such user here.',
      '550 <ana@example.org>... User unknown',
      '421 elsewhere.example (smtp)... Deferred: Connection timed out',
      '',
      '   ----- Unsent message follows -----',
      'To: x@example.org',
    ]),
    'ana@example.org failed no_mailbox!',
  ],
  [
    'sendmail',
    notice('Returned mail: see transcript for details', [
      '   ----- The following addresses had permanent fatal errors -----',
      '<ana@example.org>',
      '    (reason: 550 5.1.1 <ana@example.org>... User unknown)',
      '',
      '   ----- Transcript of session follows -----',
      '... while talking to mx.example.org.:',
      '>>> DATA',
      '<<< 503 5.0.0 Need RCPT (recipient)',
    ]),
    'ana@example.org failed no_mailbox!',
  ],
  [
    'Exchange of old',
    mail(
      'From: postmaster@example.org',
      'Subject: Undeliverable: Your order',
      '',
      'Your message',
      '',
      '  Subject: Your order',
      '',
      'did not reach the following recipient(s):',
      '',
      'ana@example.org on Thu, 1 Jan 2026 00:00:00 -0500',
      '    The recipient name is not recognized',
      '    MSEXCH:IMS:EXAMPLE:ORG 0 (000C05A6) Unknown Recipient',
    ),
    'ana@example.org failed no_mailbox!',
  ],
  [
    'Domino',
    mail(
      'From: Postmaster@example.org',
      'Subject: DELIVERY FAILURE: User ana (ana@example.org) not listed in Domino Directory',
      '',
      'Your message',
      '',
      'was not delivered to:',
      '',
      '  ana@example.org',
      '',
      'because:',
      '',
      '  User ana (ana@example.org) not listed in Domino Directory',
    ),
    'ana@example.org failed no_mailbox!',
  ],
  [
    'Notes, in Japanese',
    `From: postmaster@example.org\r\nSubject: Undeliverable message\r\nContent-Type: text/plain; charset=ISO-2022-JP\r\n\r\n------- Failure Reasons  --------\r\n\r\n\x1b$B%G%#%l%/%H%j$N%j%9%H$K$"$j$^$;$s\x1b(B\r\nana@example.org\r\n\r\n------- Returned Message --------\r\nTo: x@example.org\r\n`,
    'ana@example.org failed no_mailbox!',
  ],
  [
    'm-FILTER and others, the reason first',
    notice('failure notice', [
      '-------server message',
      '550 5.1.1 <ana@example.org>: Recipient address rejected: User unknown in local recipient table',
    ]),
    'ana@example.org failed no_mailbox!',
  ],
  [
    'MDaemon',
    mail(
      'From: MDaemon at mx.example.org <MDaemon@mx.example.org>',
      'Subject: Permanent Delivery Failure',
      '',
      'The attached message had PERMANENT fatal delivery errors!',
      '',
      'Session transcript:',
      '--> RCPT To:<ana@example.org>',
      '<-- 550 ana@example.org, Recipient unknown',
    ),
    'ana@example.org failed no_mailbox!',
  ],
  [
    'James',
    mail(
      'From: post_master@example.org',
      'Subject: Re:Your order',
      '',
      'Error message below:',
      '550 - Requested action not taken: no such user here',
      '',
      'Message details:',
      '  RCPT TO: ana@example.org',
    ),
    'ana@example.org failed no_mailbox!',
  ],
  [
    'X-Failed-Recipients',
    notice(
      'Delivery Status Notification (Failure)',
      [
        'Delivery to the following recipient failed permanently:',
        '',
        '     ana@example.org',
        '',
        'Technical details of permanent failure:',
        'The error that the other server returned was: 550 550 5.1.1 no such user (state 13).',
      ],
      ['X-Failed-Recipients: ana@example.org'],
    ),
    'ana@example.org failed no_mailbox!',
  ],
  [
    'a notice in HTML',
    notice(
      'Delivery failed',
      [
        '<html><style>p { color: red }</style><body><p>Your message to <a href="mailto:x">&lt;ana@example.org&gt;</a> could not be delivered.</p><p>550 5.1.1 <b>user unknown</b></p></body></html>',
      ],
      ['Content-Type: text/html; charset=utf-8'],
    ),
    'ana@example.org failed no_mailbox!',
  ],
  [
    'a group that takes mail of members alone',
    notice(
      'Delivery Status Notification (Failure)',
      [
        "We're writing to let you know that the group you tried to contact may not exist, or you may not have permission to post messages to the group.",
      ],
      ['X-Failed-Recipients: ana@example.org'],
    ),
    'ana@example.org failed policy',
  ],
  [
    'a failure without a reason',
    notice('Undeliverable mail', ['Delivery failed 20 attempts: ana@example.org']),
    'ana@example.org failed unknown',
  ],
  [
    'a delay of Exim, which says what becomes of it',
    notice('Warning: message 1abcde-000123-AB delayed 24 hours', [
      'A message that you sent has not yet been delivered to one or more of its',
      'recipients after more than 24 hours on the queue.',
      '',
      '  ana@example.org',
      '    Delay reason: SMTP error from remote mail server: 451 try later',
      '',
      'No action is required on your part. Delivery attempts will continue for',
      'some time. Eventually the mail delivery software will give up,',
      'and when that happens, the message will be returned to you.',
    ]),
    'ana@example.org delayed temporary',
  ],
  [
    'a delay of Zoho',
    notice('Mail Delivery Status Notification (Delay)', [
      'THIS IS A WARNING MESSAGE ONLY.',
      '[Status: Error, Address: <ana@example.org>, ResponseCode 421, , Host not reachable.]',
      'Message will be retried for 4 more day(s)',
    ]),
    'ana@example.org delayed temporary',
  ],
  [
    'a delay of qmail clones',
    notice('Delivery delayed', [
      'ana@example.org: 450 5.1.1 greylisted',
      'Your message is delayed and will be retried.',
    ]),
    'ana@example.org delayed greylisted',
  ],
  ['SES', json(SES_BOUNCE), 'ana@example.org failed no_mailbox!'],
  [
    'SES in the envelope of SNS',
    json({ Type: 'Notification', MessageId: '1', Message: JSON.stringify(SES_BOUNCE) }),
    'ana@example.org failed no_mailbox!',
  ],
  [
    'SES, in lines that a server has cut',
    json({ ...SES_BOUNCE, pad: 'x'.repeat(900) }).replace('"Permanent"', '"Per!\r\n manent"'),
    'ana@example.org failed no_mailbox!',
  ],
  [
    'SES, for now',
    json({
      notificationType: 'Bounce',
      bounce: { bounceType: 'Transient', bouncedRecipients: [{ emailAddress: 'ana@example.org' }] },
    }),
    'ana@example.org failed unknown',
  ],
  [
    'SendGrid',
    json([
      { email: 'ana@example.org', event: 'bounce', status: '5.1.1', reason: '550 5.1.1 no such user', type: 'bounce' },
    ]),
    'ana@example.org failed no_mailbox!',
  ],
  [
    'SendGrid, blocked',
    json([
      {
        email: 'ana@example.org',
        event: 'bounce',
        status: '5.0.0',
        reason: '554 blocked using a block list',
        type: 'blocked',
      },
    ]),
    'ana@example.org failed blocked',
  ],
  [
    'Mailgun',
    json({
      'event-data': {
        event: 'failed',
        severity: 'permanent',
        recipient: 'ana@example.org',
        'delivery-status': { code: 550, message: '5.1.1 no such user' },
      },
    }),
    'ana@example.org failed no_mailbox!',
  ],
  [
    'Mailgun, for now',
    json({
      'event-data': {
        event: 'failed',
        severity: 'temporary',
        recipient: 'ana@example.org',
        'delivery-status': { code: 421, message: 'try again later' },
      },
    }),
    'ana@example.org delayed temporary',
  ],
  [
    'Postmark',
    json({
      RecordType: 'Bounce',
      Type: 'HardBounce',
      Email: 'ana@example.org',
      Details: 'smtp;550 5.1.1 no such user',
    }),
    'ana@example.org failed no_mailbox!',
  ],
];

/** `[name, mail, kind, and for complaints feedback and recipients]` */
export const OTHERS: readonly (readonly [string, string, ...string[]])[] = [
  [
    'Outlook.com (JMRP), without fields for programs',
    mail(
      ...ARF_HEAD,
      'Content-Type: multipart/mixed; boundary=part',
      '',
      '--part',
      'Content-Type: message/rfc822',
      '',
      'X-HmXmrOriginalRecipient: ana@example.org',
      'From: contact@example.com',
      '',
      'Buy.',
      '--part--',
    ),
    'complaint',
    'abuse',
    'ana@example.org',
  ],
  [
    'Yahoo, whose recipient stands in the message',
    mail(
      ...ARF_HEAD,
      'Content-Type: multipart/report; report-type=feedback-report; boundary=part',
      '',
      '--part',
      'Content-Type: message/feedback-report',
      '',
      'Feedback-Type: abuse',
      'Version: 0.1',
      '--part',
      'Content-Type: message/rfc822',
      '',
      'X-HmXmrOriginalRecipient: ana@example.org',
      '',
      'Buy.',
      '--part--',
    ),
    'complaint',
    'abuse',
    'ana@example.org',
  ],
  [
    'Apple Mail, which unsubscribes',
    mail(
      'From: ana@example.org',
      'Subject: unsubscribe',
      'Auto-Submitted: auto-replied',
      'X-Apple-Unsubscribe: true',
      '',
      'Apple Mail sent this email.',
    ),
    'complaint',
    'opt-out',
  ],
  [
    'SES, a complaint',
    json({
      notificationType: 'Complaint',
      complaint: { complainedRecipients: [{ emailAddress: 'ana@example.org' }], complaintFeedbackType: 'abuse' },
    }),
    'complaint',
    'abuse',
    'ana@example.org',
  ],
  [
    'SendGrid, a complaint',
    json([{ email: 'ana@example.org', event: 'spamreport' }]),
    'complaint',
    'abuse',
    'ana@example.org',
  ],
  [
    'Postmark, a complaint',
    json({ RecordType: 'SpamComplaint', Email: 'ana@example.org' }),
    'complaint',
    'abuse',
    'ana@example.org',
  ],
  ['SES, a delivery', json({ notificationType: 'Delivery', mail: { destination: ['ana@example.org'] } }), 'automatic'],
  [
    'Postmark, somebody is out',
    json({ RecordType: 'Bounce', Type: 'AutoResponder', Email: 'ana@example.org', Details: 'out' }),
    'automatic',
  ],
  [
    'a sender that takes no answer, and returns nothing',
    mail('From: no-reply@example.org', 'Subject: Mail', '', 'Could not be delivered to ana@example.org: mailbox full'),
    'unknown',
  ],
  ['JSON of something else', json({ hello: 'ana@example.org 550 5.1.1 no such user' }), 'unknown'],
  [
    'what wants to know who writes',
    mail(
      'From: Ana <ana@example.org>',
      'Subject: Please confirm your message',
      'Auto-Submitted: auto-replied',
      '',
      'Your mail has not been delivered yet. Follow the link to prove that you are a person.',
    ),
    'automatic',
  ],
  [
    'a holiday, in German',
    mail(
      'From: Ana <ana@example.org>',
      'Subject: Automatische Antwort: Ihre Anfrage',
      '',
      'Das Postfach ana@example.org existiert nicht mehr; bitte an ben@example.org.',
    ),
    'automatic',
  ],
  [
    'a person who forwards a bounce',
    mail(
      'From: Ana <ana@example.org>',
      'Subject: Fwd: Undelivered Mail Returned to Sender',
      '',
      '550 5.1.1 <ben@example.org>: no such user',
    ),
    'unknown',
  ],
];
