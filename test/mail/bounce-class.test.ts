import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { bounceMeaning, type BounceClass } from '../../src/mail/bounce-class.ts';
import { leastCpuSeconds } from '../harness/cpu.ts';

/** Replies as servers give them, by what they mean; names and addresses are made up. */
const REPLIES: Readonly<Record<BounceClass, readonly string[]>> = {
  no_mailbox: [
    '550 5.1.1 no such user',
    '550 5.1.1 <ana@example.org>: Recipient address rejected: User unknown in virtual mailbox table',
    '550 5.1.1 <ana@example.org>: Recipient address rejected: User unknown in local recipient table',
    '550 5.1.1 <ana@example.org>... User unknown',
    '550 5.1.6 recipient no longer on server: ana@example.org',
    '550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient not found by SMTP address lookup',
    '550 5.1.1 RESOLVER.ADR.RecipNotFound; not found',
    '550 5.4.1 Recipient address rejected: Access denied. [AM5EUR03FT021.eop-EUR03.prod.protection.outlook.com]',
    '550 5.4.1 [ana@example.org]: Recipient address rejected: Access denied',
    '550 5.5.0 Requested action not taken: mailbox unavailable (S2017062302). [VE1EUR03FT030.eop-EUR03.prod]',
    '550 Requested action not taken: mailbox unavailable',
    '550 5.1.351 Remote server returned unknown recipient or mailbox unavailable -> 550 No such user here',
    "554 delivery error: dd This user doesn't have a yahoo.com account (ana@yahoo.test) [0] - mta1082.mail.bf1.yahoo.test",
    "550-5.1.1 The email account that you tried to reach does not exist. Please try 550-5.1.1 double-checking the recipient's email address for typos or 550 5.1.1 unnecessary spaces. https://support.google.com/mail/?p=NoSuchUser a1-2 - gsmtp",
    '550 5.1.1 https://support.google.com/mail/?p=NoSuchUser x12si345 - gsmtp',
    '550 5.1.1 <ana@icloud.test>: inactive email address',
    '550 5.1.1 unknown or illegal alias: ana@icloud.test',
    '550 5.1.1 <ana@icloud.test>: user does not exist',
    '550 Unrouteable address',
    '550 No Such User Here',
    '550 No such user here',
    '550 unknown user',
    '550 User unknown',
    '550 5.2.1 <ana@example.org>... User Unknown',
    '550 sorry, no mailbox here by that name (#5.1.1 - chkuser)',
    '511 sorry, no mailbox here by that name (#5.1.1 - chkuser)',
    '553 sorry, this recipient is not in my validrcptto list (#5.7.1)',
    '550 5.7.1 No such user!',
    '550 5.7.1 <ana@example.org>: Recipient address rejected: User unknown',
    '554 5.1.1 User (ana@example.org) not listed in Domino Directory',
    '550 ana@example.org... No such user',
    '550 5.1.1 Email address could not be found, or was misspelled (G8)',
    '553 5.1.1 Invalid recipient: ana@zoho.test',
    '550 Message was not accepted -- invalid mailbox.  Local mailbox ana@mail.test is unavailable: user not found',
    '550 5.1.1 <ana@web.test>: Requested action not taken: mailbox unavailable',
    '550 Unknown user ana@docomo.test',
    '550 <ana@au.test>: User unknown',
    '550 Invalid recipient: <ana@softbank.test>',
    '550 Mailbox not found. http://service.mail.qq.com/cgi-bin/help?subtype=1&&id=20022&&no=1000728',
    '550 User not found: ana@163.test',
    '550 5.1.1 Mailbox unavailable or access denied [a1b2]',
    '553 Mailbox not exist',
    '550 Invalid Recipient - https://community.mimecast.com/docs/DOC-1369#550 [AbCdEf]',
    '550 5.1.1 User Unknown',
    '550 permanent failure for one or more recipients (ana@example.org:550 5.1.1 User unknown)',
    '550 5.1.1 Recipient not found. <https://cloudfilter.test>',
    '550 5.1.1 Adresse d au moins un destinataire invalide. Invalid recipient. OFR_416 [416]',
    '550 5.5.0 Adresse destinataire invalide. Invalid recipient. LPN007_416',
    '550 5.1.1 <ana@libero.test>: utente sconosciuto',
    '550 Nessun utente con questo indirizzo',
    '550 5.1.1 Empfänger unbekannt',
    '550 Das Postfach existiert nicht',
    '550 no existe ese usuario',
    '550 El usuario no existe en este servidor',
    '550 Usuário inexistente',
    '550 Utilisateur inconnu !',
    '550 пользователь не найден',
    '550 Нет такого пользователя',
    '550 用户不存在',
    '550 収信: 宛先のユーザーが存在しません',
    '550 존재하지 않는 사용자입니다',
    '550 5.1.1 Address rejected ana@example.org',
    '550 #5.1.0 Address rejected.',
    '550 5.1.1 That mailbox is not a valid mailbox',
    '550 Recipient not exists',
    '551 5.1.6 The mailbox has moved',
    '550 cuda_nsu No such user (ana@example.org)',
    '550 5.1.1 <spamhaus@example.org>: Recipient address rejected: User unknown',
    '550 5.1.1 <blacklist.policy@quota.example.org> user unknown',
    '550 5.1.3 bad recipient address syntax',
    '550 ana@example.org is not a valid mailbox',
    '550 Account not found',
    "550 5.1.1 The email address you entered couldn't be found",
    '550 Invalid User',
    '550 ana@example.org is not a registered user',
  ],
  no_domain: [
    '550 5.1.2 <ana@example.invalid>: Recipient address rejected: Domain not found',
    '550 5.1.2 Host unknown (Name server: example.invalid: host not found)',
    '556 5.1.10 Recipient address has null MX',
    '550 5.1.2 the domain does not exist',
    '550 5.4.310 DNS domain example.invalid does not exist',
    '550 no such domain',
    '521 5.3.2 no mail here',
    'host mx.example.org said: 521 5.3.2 no mail here',
    '550 The domain may not exist, or they may be blacklisted',
    '550 Domain name not found: nxdomain',
    '554 The mail could not be delivered to the recipient because the domain is not reachable.',
  ],
  disabled: [
    '550 5.2.1 The email account that you tried to reach is disabled. https://support.google.com/mail/?p=DisabledUser',
    '554 delivery error: dd Sorry your message to ana@yahoo.test cannot be delivered. This account has been disabled or discontinued [#102].',
    '525 5.7.13 Disabled recipient address',
    '550 5.2.1 mailbox disabled, not accepting messages',
    '550 Mailbox is frozen. See http://mail.i.test/err/3/',
    '550 account is locked',
    '550 the mailbox is blocked',
    '550 5.5.0 Le compte du destinataire est bloqué. The recipient account is blocked.',
    '550 user account suspended',
    '550 Casilla expirado por falta de uso',
  ],
  mailbox_full: [
    '552 5.2.2 mailbox full',
    '452 4.2.2 The email account that you tried to reach is over quota. https://support.google.com/mail/?p=OverQuotaTemp',
    "552 5.2.2 The recipient's inbox is out of storage space and inactive. https://support.google.com/mail/?p=OverQuotaPerm",
    '554 5.2.2 mailbox full; STOREDRV.Deliver.Exception:QuotaExceededException.MapiExceptionShutoffQuotaExceeded',
    '552 sorry, mailbox ana@example.org is over quota temporarily (#5.1.1)',
    '550 5.1.1 <ana@example.org> Quota exceeded (mailbox for user is full)',
    '552 5.2.2 <ana@icloud.test>: user is over quota',
    '550 Benutzer hat zuviele Mails auf dem Server: Postfach ist voll',
    '550 Boîte du destinataire pleine. Recipient overquota. OFR_417',
    '552 Mailbox size limit exceeded',
    '522 5.2.0 Delivery failed: Over quota',
    '550 邮箱空间不足',
    '550 mail box space not enough',
    '552 Account exceeds its storage allocation: not enough storage space',
  ],
  blocked: [
    '550 5.1.1 550 5.7.1 IP address blacklisted by recipient',
    '550 5.7.1 Service unavailable, Client host [192.0.2.1] blocked using zen.spamhaus.org',
    '554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using bl.spamcop.net',
    "550 5.7.1 Unfortunately, messages from [192.0.2.1] weren't sent. Please contact your Internet service provider since part of their network is on our block list (S3150).",
    '550 5.7.606 Access denied, banned sending IP [192.0.2.1]',
    '550 5.7.511 Access denied, banned sender[192.0.2.1]',
    '421 4.7.0 [192.0.2.1 15] Our system has detected that this message is suspicious due to the very low reputation of the sending IP address',
    '554 IMTA1 comcast 192.0.2.1 Comcast block for spam.  Please see http://postmaster.comcast.test/ BL000000 your IP is listed',
    "550 SC-001 (COL004-MC1F15) Unfortunately, messages from 192.0.2.1 weren't sent.",
    '550 5.1.1 user unknown; 192.0.2.1 is on our blocklist',
    '550 5.7.25 [192.0.2.1] The IP address sending this message does not have a PTR record setup',
    '554 5.7.1 Reverse DNS lookup for host 192.0.2.1 failed permanently',
    '450 4.7.25 Client host rejected: cannot find your hostname, [192.0.2.1]',
    '554 5.7.1 <mail.example.com[192.0.2.1]>: Client host rejected: Access denied',
    '554 Blocked - see https://ipcheck.proofpoint.com/?ip=192.0.2.1 reputation',
    '550 permanent failure: 554 Service unavailable; Client host [192.0.2.1] blocked using Barracuda Reputation; http://www.barracudanetworks.com/reputation/',
    '553 http://www.spamhaus.org/query/bl?ip=192.0.2.1',
    '550 5.7.1 Your IP address 192.0.2.1 ist gesperrt',
    '554 5.7.1 The server [192.0.2.1] is blocked for abuse',
    '550 mwinf5c04 ME Adresse IP source bloquee pour incident de spam. OFR006_102',
    '550 5.1.1 rejected: your server has a bad reputation',
    '550 Insecure mail relay',
  ],
  authentication: [
    "550-5.7.26 Unauthenticated email from example.com is not accepted due to domain's 550 5.7.26 DMARC policy.",
    '550 5.7.26 This mail has been blocked because the sender is unauthenticated.',
    '550 5.7.509 Access denied, sending domain example.com does not pass DMARC verification and has a DMARC policy of reject.',
    "550 5.7.515 Access denied, sending domain example.com doesn't meet the required authentication level.",
    '550 5.7.23 The message was rejected because of Sender Policy Framework violation',
    '550 5.1.1 SPF check failed',
    '550 5.7.1 DKIM signature required',
    '530 5.7.0 Authentication required',
    '550 5.7.1 RESOLVER.RST.AuthRequired; authentication required',
  ],
  policy: [
    '550 5.7.1 Message rejected due to policy',
    '554 5.7.9 Message not accepted for policy reasons. See https://postmaster.yahooinc.test/error-codes',
    '550 5.1.1 <ana@example.org>: rejected by local policy',
    '550 5.7.1 Delivery not authorized, message refused',
    '550 5.7.133 RESOLVER.RST.SenderNotAuthenticatedForGroup; not permitted to send to the group',
    '550 5.1.8 <contact@example.com>: Sender address rejected: Domain not found',
    '550 5.1.7 The sender address is unknown here',
    '550 <contact@example.com>: Sender address rejected: User unknown',
    '550 Sender verify failed',
    '550 5.7.1 Access denied',
    '554 5.7.1 <ana@example.org>: Recipient address rejected: Access denied',
    '550 You have been blocked by the recipient',
    "550 'ana@example.org' is not a registered gateway user",
    '541 5.4.1 Mail rejected by the domain',
    '550 Administrative prohibition - envelope blocked',
    '550 5.1.1 RCP-P2 http://postmaster.facebook.test/response_codes#rcp Refused due to recipient preferences',
    '550 rejected',
  ],
  spam: [
    '550 5.7.1 Our system has detected that this message is likely unsolicited mail.',
    '554 5.7.1 Message rejected as spam by Content Filtering.',
    '554 5.6.0 This message has been scored as spam with a probability of more than 90%',
    '550 5.1.1 message looks like spam',
    '554 DT:SPM 163 smtp10,123,http://mail.163.test/help/help_spam_16.htm',
    '550 5.7.1 Message content rejected, UBE, id=00000-00-000',
    '554 REJECTED - Blacklisted URL in message. See http://lookup.uribl.com.',
  ],
  content: [
    '552 5.7.0 This message was blocked because its content presents a potential security issue.',
    '554 5.7.1 Virus detected; Content Rejected',
    '550 5.6.0 Message content not acceptable',
    '550-5.7.1 [192.0.2.1 11] Messages with multiple addresses in From: header are not accepted.',
    '550 5.6.7 the server does not accept non-ASCII addresses (no SMTPUTF8)',
    '552 illegal attachment',
  ],
  rate: [
    '421 4.7.28 Our system has detected an unusual rate of unsolicited mail: too many messages from your IP address',
    '450 4.2.1 The user you are trying to contact is receiving mail too quickly.',
    '550 5.2.1 The user you are trying to contact is receiving mail at a rate that prevents additional messages from being delivered.',
    '421 4.7.0 [TSS04] Messages from 192.0.2.1 temporarily deferred due to unexpected volume or user complaints',
    '451 4.7.650 The mail server [192.0.2.1] has been temporarily rate limited due to IP reputation.',
    '550 Ip frequency limited. http://service.mail.qq.com/cgi-bin/help?subtype=1&&id=20022&&no=1000722',
    '550 5.1.1 <ana@example.org> - 192.0.2.1 has sent to too many recipients this hour. IB607',
    '452 4.3.2 Connection rate limit exceeded.',
    "554 You've reached your daily relay quota - 192.0.2.1",
    '550 5.7.1 Message rate limit exceeded, user unknown to us',
  ],
  greylisted: [
    '451 4.7.1 Greylisting in action, please come back later',
    '450 4.2.0 <ana@example.org>: Recipient address rejected: Greylisted, see http://postgrey.schweikert.ch/help/example.org.html',
    '451 4.7.1 Please try again in 300 seconds',
    '550 5.1.1 greylisted: user unknown yet',
    '451 4.7.500 graylisted, come back in 5 minutes',
  ],
  relay_denied: [
    '550 5.7.1 Unable to relay for ana@example.org',
    '554 5.7.1 <ana@example.org>: Relay access denied',
    '550 relay not permitted',
    "553 sorry, that domain isn't in my list of allowed rcpthosts (#5.7.1)",
    '550 5.7.54 SMTP; Unable to relay recipient in non-accepted domain',
    '553 Relaying disallowed. Invalid Domain',
    '550 5.1.1 relaying denied',
  ],
  too_large: [
    '552 5.3.4 Message size exceeds fixed maximum message size',
    '550 5.2.3 RESOLVER.RST.RecipSizeLimit; message too large for this recipient',
    '552 5.2.3 Message length exceeds administrative limit',
    "552-5.2.3 Your message exceeded Google's message size limits.",
    '550 5.1.1 message too big',
  ],
  temporary: [
    '451 4.3.0 Temporary server error. Please try again later.',
    '421 4.4.2 Connection timed out',
    '451 4.4.3 Host or domain name not found. Name service error for name=example.org type=MX: Host not found, try again',
    '450 4.1.1 <ana@example.org>: unverified address: connect to mx.example.org[192.0.2.7]:25: Connection refused',
    '554 5.4.6 Too many hops',
    '554 5.3.0 unknown mailer error 255',
    '451 4.3.2 Internal server error',
    '550 5.4.7 Delivery expired (message too old)',
    '550 5.1.1 the connection timed out',
    '452 4.3.1 Insufficient system storage',
    '554 the recipient server did not respond',
    '554 connection to the mail exchanger failed',
  ],
  unknown: [
    '550',
    '550 5.0.0 no',
    '554 Transaction failed',
    '554 It was rejected by the recipient domain. The other server said no.',
    '550 5.5.1 Protocol error',
    '',
  ],
};

const CASES = Object.entries(REPLIES).flatMap(([name, replies]) => replies.map((reply) => [name, reply] as const));
const GONE = new Set(['no_mailbox', 'no_domain']);

test.each(CASES)('%s: %s', (name, reply) => {
  expect(bounceMeaning({ words: reply })).toEqual({ class: name, suppress: GONE.has(name) });
});

test('the table is as large as it should be', () => {
  expect(CASES.length).toBeGreaterThanOrEqual(200);
});

describe('what a report says in its fields', () => {
  test.each([
    ['5.1.1', '550 5.7.1 IP address blacklisted', 'blocked', false],
    ['5.1.1', '550 rejected', 'no_mailbox', true],
    ['5.1.1', '', 'no_mailbox', true],
    ['5.1.1', '550 5.7.1 rejected', 'policy', false],
    ['5.7.1', '550 5.1.1 no', 'policy', false],
    ['5.0.0', 'sorry, no mailbox here by that name', 'no_mailbox', true],
    ['5.1.10', '', 'no_domain', true],
    ['5.2.2', 'no more', 'mailbox_full', false],
    ['5.2.0', '550 Unknown user ana@docomo.test', 'policy', false],
    ['5.3.0', '550 Unknown user ana@docomo.test', 'policy', false],
    ['5.0.0', '550 Unknown user ana@docomo.test -- SMTP command DATA', 'policy', false],
    ['5.2.0', '550 5.1.1 Unknown user ana@docomo.test', 'no_mailbox', true],
    ['4.4.7', 'delivery time expired', 'temporary', false],
    ['', 'user unknown', 'no_mailbox', false],
    ['4.0.0', 'nxdomain', 'no_domain', false],
    // The server's own code is more exact than what another server made of it.
    ['5.1.1', '450 4.1.1 user unknown', 'no_mailbox', false],
    ['5.1.1', 'host mx.example.org said: 450 4.1.1 user unknown', 'no_mailbox', false],
    ['4.0.0', 'No MX found. This is only a temporary failure report.', 'no_domain', false],
  ])('%s and "%s": %s', (status, words, name, suppress) => {
    expect(bounceMeaning({ words, status })).toEqual({ class: name, suppress });
  });
});

describe('what the server knew', () => {
  test.each(['550 5.1.1 user unknown', '550 no such user', '550 5.1.2 domain not found', '550 no'])(
    'before RCPT, %s is about the sender',
    (words) => {
      expect(bounceMeaning({ words, after: 'sender' })).toEqual({ class: 'policy', suppress: false });
      expect(bounceMeaning({ words: `${words} (in reply to MAIL FROM command)` }).suppress).toBe(false);
    },
  );

  test('after the message, a bare "user unknown" is also what a filter of the recipient says', () => {
    expect(bounceMeaning({ words: '550 Unknown user ana@docomo.test', after: 'message' }).suppress).toBe(false);
    expect(bounceMeaning({ words: '550 Unknown user ana@docomo.test (in reply to end of DATA command)' })).toEqual({
      class: 'policy',
      suppress: false,
    });
    expect(bounceMeaning({ words: '550 5.1.1 user unknown', after: 'message' }).suppress).toBe(true);
    expect(bounceMeaning({ words: '550 Unknown user ana@docomo.test', after: 'recipient' }).suppress).toBe(true);
  });
});

/** The words alone of what concerns us, or a full mailbox; those that say no more than "no" leave it to the codes. */
const ABOUT_US = (['blocked', 'policy', 'rate', 'greylisted', 'mailbox_full', 'authentication', 'spam'] as const)
  .flatMap((name) => REPLIES[name])
  .map((reply) => reply.replaceAll(/\b[45]\d\d[ -](?:\d\.\d\.\d+ )?/g, ''))
  .filter(
    (words) => !/^(?:rejected|Access denied|<ana@example.org>: Recipient address rejected: Access denied)$/.test(words),
  );

test('no address is suppressed for what is not its fault, whatever codes stand before it', () => {
  const code = fc.constantFrom('550 5.1.1', '550-5.1.1', '550 5.1.10', '554 5.1.2', '550 5.1.6');
  fc.assert(
    fc.property(code, fc.constantFrom('5.1.1', '5.1.2', ''), fc.constantFrom(...ABOUT_US), (first, status, words) => {
      expect(bounceMeaning({ words: `${first} ${words}`, status }).suppress).toBe(false);
    }),
  );
});

describe('hostile replies take linear time', () => {
  test.each([
    'user ',
    'ip ',
    'a@',
    'host a',
    'host [',
    'mailbox address account ',
    'no such unknown invalid ',
    '5.1.',
    '550 5.1.1 ',
    '550-',
    'message mail size line ',
    'ü',
    '\u0301',
    'sender address ',
    'domain of host ',
  ])('of %j', (piece) => {
    const words = piece.repeat(Math.ceil(1_000_000 / piece.length));
    expect(leastCpuSeconds(() => bounceMeaning({ words }), 0.1)).toBeLessThan(0.1);
  });
});
