/**
 * Why mail was refused, from all that a server or a report says: reply code, enhanced status code and words. They often
 * contradict each other, so words about the sending server, the message or a full mailbox win over a code that says that
 * the mailbox does not exist: an address must never be suppressed for what is not its fault. Every pattern takes linear
 * time, and the text is cut first.
 */

export type BounceClass =
  /** The address does not exist, or has moved. */
  | 'no_mailbox'
  /** The domain does not exist, or takes no mail. */
  | 'no_domain'
  /** The mailbox exists and is switched off. */
  | 'disabled'
  | 'mailbox_full'
  /** The sending server is on a block list, has a poor reputation or no reverse DNS. */
  | 'blocked'
  /** SPF, DKIM or DMARC failed, or the server wants a login. */
  | 'authentication'
  /** A rule of the recipient or of its server, also one about the sender's address. */
  | 'policy'
  /** The message was taken for spam. */
  | 'spam'
  /** A virus, a forbidden attachment, a malformed header. */
  | 'content'
  | 'rate'
  | 'greylisted'
  /** The server does not consider itself responsible for the domain. */
  | 'relay_denied'
  | 'too_large'
  /** A time-out, a broken connection, a fault of a server: another day it may work. */
  | 'temporary'
  | 'unknown';

/** What a server had been sent before it refused: nothing or the sender alone, the recipient, or the whole message. */
export type TransactionStage = 'sender' | 'recipient' | 'message';

export interface BounceSign {
  /** A reply (`550 5.1.1 no such user`), or the diagnostic text of a report. */
  readonly words: string;
  /** What the report says in its `Status` field; empty where it says nothing. */
  readonly status?: string;
  /** Where it is not given, the words may say it. */
  readonly after?: TransactionStage | undefined;
}

export interface BounceMeaning {
  readonly class: BounceClass;
  /** Whether no mail should go to the address any more: it is permanent, and the address itself is the reason. */
  readonly suppress: boolean;
}

const MAX_WORDS = 2000;

/** Codes with a subject and detail that are said of the envelope sender (RFC 3463 §3.2, RFC 7505 §4.2). */
const SENDER_STATUS = /^[45]\.(?:1\.[78]|7\.27)$/;

/** What a reply was to, in the words of Postfix, Exim, qmail and DragonFly. */
const AFTER_SENDER =
  /(?:in reply to|after|did not like our|while sending) (?:mail from|ehlo|helo|initial connection)|refused to talk to me|(?:sender was|my name was) rejected/;
const AFTER_MESSAGE = /(?:end of data|after i sent the message|did not like our final data|smtp command data)/;

/** Mobile carriers in Japan say so of their subscribers' filters too, once they have the message. */
const UNKNOWN_USER = /\b(?:user unknown|unknown user)\b/;

const USER =
  '(?:users?|recipients?|mail ?box(?:es)?|(?:e-?mail )?address(?:es)?|accounts?|addressees?|alias(?:es)?|person|userid|e-?mail|local.?part)';

/**
 * What decides whatever the codes say, most careful first: a reply with words of two classes gets the one further up, and
 * only the last two suppress an address.
 */
const DECISIVE: readonly (readonly [BounceClass, readonly RegExp[]])[] = [
  [
    'temporary',
    [
      /host not found,? try again|malformed or unexpected name server reply|name ?server.{0,20}(?:time|fail)/,
      /procmail|command died|couldn.t create|mailer error|operating system error|hop count|too many hops/,
    ],
  ],
  ['greylisted', [/gr[ae]y ?-?list|\bpostgrey\b|come back in \d|(?:retry|try again) in \d+ (?:sec|min)/]],
  [
    'rate',
    [
      /rate.?limit|throttl|frequency limit|mail flood|too (?:fast|frequent)|receiving mail (?:at a rate|too)/,
      /too many (?:messages|e?-?mails|connections|concurrent|sessions|requests|recipients|deliveries)/,
      /(?:hourly|daily|sending|relay|connection)(?: relay| message| sending)? (?:limit|quota)/,
      /unexpected volume|limit.{0,20}(?:per hour|per day|per minute|hourly|daily)/,
    ],
  ],
  ['spam', [/black ?listed (?:url|link|domain in)|uribl|surbl|(?:url|link).{0,30}black ?list|due to spam classif/]],
  ['content', [/not rfc.{0,8}compliant|multiple addresses in from|duplicate header/]],
  [
    'authentication',
    [
      /\b(?:spf|dkim|dmarc)\b|unauthenticated|sender policy framework|authentifizier/,
      /authentication (?:is )?(?:required|failed|checks|information|credentials|level)|must (?:be )?authenticated?|authrequired/,
      /smtp authentication|not authenticated/,
    ],
  ],
  [
    'blocked',
    [
      /(?:black|block|deny|reject) ?-?list|dnsbl|\brbls?\b|spamhaus|spamcop|\bsorbs\b|barracudacentral|reputation/,
      /blocked (?:using|for|at|due to ip)|banned|blocked ip|\bip(?:v[46])?\b.{0,60}(?:block|bloque|listed|reject|denied|not allowed|gesperrt)/,
      /\bclient (?:host|address|ip)?.{0,60}(?:rejected|blocked|denied)|no access from mail server/,
      /reverse.?dns|\br.?dns\b|\bptr\b|name lookup failed|cannot find your|forward.confirmed|mismatches client ip/,
      /(?:open|insecure)(?: mail)? relay|dynamic ip|dial-?up|residential|invalid ip for|host network not allowed|use the smtp server of your/,
      /(?:he|eh)lo (?:command )?(?:rejected|name)|not accepting connections|without a valid sender domain/,
      /messages? from .{0,60}(?:weren.t sent|blocked)|server.{0,40}(?:forbidden|blocked|banned)|\(bl\)|unverify?able sending/,
    ],
  ],
  [
    'mailbox_full',
    [
      /(?:mail ?(?:box|folder)|in ?box|account|maildir).{0,60}(?:\bfull\b|exceed|over (?:its |the )?(?:size|limit)|out of (?:storage )?space)/,
      /over ?quota|quota.{0,20}(?:exceed|full|reached|violat|ueberschritten|uberschritten)|exceed.{0,40}(?:quota|storage|mailbox)/,
      /disk quota|out of (?:storage|disk|mailbox)|not enough (?:disk |storage )?space|space not enough|full mail ?box|storage.{0,20}(?:full|limit)/,
      /postfach.{0,20}voll|boite.{0,40}pleine|buzon.{0,30}llen[oa]|casella.{0,30}piena|caixa.{0,30}cheia|skrzynka.{0,20}pelna/,
      /переполнен|邮箱.{0,10}(?:已?满|空间不足)|容量(?:を?超|不足|オーバー)|メールボックスが(?:一杯|いっぱい)|용량.{0,6}초과/,
    ],
  ],
  [
    'too_large',
    [
      /\b(?:message|e?-?mail|size|length|attachment|headers?|line).{0,40}(?:too (?:big|large|long)|exceeds?\b|exceeded)|sizelimit/,
      /(?:size|line|length) limit|message (?:is )?too (?:big|large|long)|nachricht.{0,20}zu gross|trop (?:volumineux|grand)/,
    ],
  ],
  [
    'relay_denied',
    [
      /relay(?:ing)? (?:access )?(?:is )?(?:denied|not |prohibited|disallowed|refused|rejected)|(?:unable|not permitted|cannot) to relay/,
      /(?:do|does|will) not relay|no relaying|allowed rcpthosts|no third-party relay|not configured to relay|domain.{0,60}not (?:hosted|local|served)/,
    ],
  ],
  [
    'policy',
    [
      /sender(?:'s)?(?: ip| e-?mail| domain)?(?: address)?.{0,60}(?:reject|denied|not allowed|refus|invalid|unknown|not exist|verif)/,
      /(?:domain of|verify) sender|unrout(?:e)?able sender|from: domain|mail from.{0,60}(?:reject|denied|refus)|third-party dsn|invalid sender/,
    ],
  ],
  [
    'spam',
    [
      /\bspam(?:my|ming)?(?![\w-]|\.\w)|unsolicited|\bube\b|phish|\bjunk\b|\bbulk (?:e-?)?mail|spam ?(?:content|score|detected)/,
      /\bdt:spm|\bmi:spb|mail rejete|suspicious|looks? like spam/,
    ],
  ],
  [
    'content',
    [
      /\bvirus|malware|attachment.{0,40}(?:block|allow|forbid|prohibit|reject)|(?:illegal|blocked|forbidden|executable) (?:file|attachment)/,
      /content.{0,20}(?:reject|filter|denied|block|secur|presents)|header error/,
      /improper use of|banned file|bare lf|invalid header/,
    ],
  ],
  [
    'policy',
    [
      /\bpolic(?:y|ies)\b|prohibit|not (?:permitted|authori[sz]ed)|notauthori[sz]ed|restricted|forbidden|user rules/,
      /blocked by (?:the )?(?:recipient|user)|recipient preferences|refuses? to (?:receive|accept)|recipient is only accepting/,
      /not a registered gateway|mail rejected by|permission to post|groups\.google\.com|protected by|(?:message|mail) (?:filtered|not allowed)|all recipient addresses rejected|protocol violation|user reject|empty envelope sender/,
    ],
  ],
  [
    'disabled',
    [
      new RegExp(
        `\\b${USER}\\b.{0,60}\\b(?:disabled|inactive|suspended|deactivated|discontinued|locked|frozen|closed|terminated|blocked|bloque|gesperrt|deaktiviert)\\b`,
      ),
      /account (?:has |is )?(?:expired|closed)|expirado por falta de uso|disableduser|disabled (?:recipient|user|mailbox|account)|not accepting mail for this/,
    ],
  ],
  [
    'temporary',
    [
      /time(?:d )?.?out|connection (?:refused|reset|lost|closed|dropped|attempt failed)|no route to host|unreachable network/,
      /network (?:is )?unreachable|network error|(?:envelope|message) expired|\bloop(?:s|ing)?\b|in the queue too long|delivery (?:time )?expired|not respond|connection to .{0,40} failed/,
      /try again later|please try later|internal (?:server )?error|insufficient (?:system |disk )|temporary (?:failure|error|problem)(?! report)/,
    ],
  ],
  [
    'no_domain',
    [
      /host unknown|unknown host|no such (?:host|domain)(?! at)|nxdomain|null mx|domain is not reachable|no smtp service|no mail exchanger/,
      /(?:domain|host)(?: name)?[^\d:]{0,40}(?:not (?:be )?found|does ?n[o'’]t exist|unknown\b|could not be resolved)/,
      /(?:host|domain) does not accept|find any host named|no mx (?:record )?found|find a mail exchanger|illegal host|invalid domain/,
      // RFC 7504, a host that takes no mail at all; cPanel.
      /521 5\.3\.2|domain may not exist/,
      /bad destination (?:system|host)|^(?!.{0,200}55\d ).{0,200}unrout(?:e)?able address/,
      /domini?[eo].{0,30}(?:inexistant|n.existe pas|no existe|inesistente|non esiste|nao existe)|域名.{0,6}不存在/,
    ],
  ],
  [
    'no_mailbox',
    [
      // `no such user`, `unknown or illegal alias`, `invalid recipient`
      new RegExp(
        `\\b(?:no such|unknown|invalid|non-?existent|unrecogni[sz]ed|illegal|undefined|not a (?:valid|known|local|registered)|not known|not our|no valid)(?: or illegal)?(?: local| final delivery| destination| virtual| mail| internet| customer)? ${USER}(?!\\w| error)`,
      ),
      /not our customer|no such person|unknown e-?mail|addressee unknown/,
      // `user unknown`, `the account that you tried to reach does not exist`, `address couldn't be found`
      new RegExp(
        `\\b${USER}\\b.{0,60}\\b(?:unknown|not (?:be )?(?:found|known|exist|exists|listed|registered|present|local|recogni[sz]ed)|no longer (?:on|valid|active|in use|exists|available|accepts)|does ?n[o'’]?t exist|doesnt exist|invalid|non-?existent|nonexist|missing home)`,
      ),
      new RegExp(
        `\\bno (?:mail ?box|user|account|person|one)(?: is| was)?(?: found)? (?:here|there|at this|by that|for this|with that|found)`,
      ),
      /user doesn.t have an? .{0,60}account|user not (?:local|active)|(?:couldn.t|could not|can.t|cannot) be found|nosuchuser/,
      /resolver\.adr\.|recip(?:ient)?notfound|bad ?rcpt ?to|validrcptto|not listed in|does not exist (?:here|on this)|rcpt.{0,20}exist/,
      /mailbox (?:has )?moved|has moved|5\.4\.1 .{0,120}recipient address rejected: access denied|5\.1\.0 address rejected/,
      /55\d .{0,60}unrout(?:e)?able address|remote server returned unknown recipient/,
      /utilisateur inconnu|(?:adresse|destinataire|boite|compte).{0,40}(?:invalide|inconnue?|inexistante?|n.existe pas)/,
      /no existe|usuario (?:desconocido|desconhecido|inexistente|no encontrado|nao encontrado)|buzon inexistente|nao existe/,
      /utente (?:sconosciuto|inesistente)|nessun utente|casella.{0,30}(?:inesistente|non esiste)|destinatario (?:sconosciuto|desconocido)/,
      /(?:benutzer|empfaenger|empfanger|postfach|adresse|konto).{0,60}(?:unbekannt|existiert nicht|nicht gefunden|nicht bekannt|nicht vorhanden)/,
      /unbekannter? (?:benutzer|empfaenger|empfanger|adress)|onbekende gebruiker|gebruiker onbekend|bestaat niet|finns inte/,
      /nieznany uzytkownik|uzytkownik.{0,30}nie istnieje|nie ma takiego|(?:uzivatel|adresa|schranka).{0,40}neexistuj|kullanici bulunamadi|ismeretlen/,
      /пользовател.{0,40}(?:не (?:наиден|существует)|нет)|нет такого|ящик.{0,40}не (?:наиден|существует)|несуществующ/,
      /(?:ユーザ|宛先|アドレス|受信者|メールボックス).{0,60}(?:存在しま|見つかりません|見つからない|不明)|リストにありません/,
      /(?:用户|收件人|邮箱|信箱|地址|帐号|账号).{0,12}(?:不存在|未找到|无效)|查无此|(?:使用者|收件者).{0,12}不存在|존재하지 않|찾을 수 없/,
    ],
  ],
];

/** What is too vague to stand against a code. */
const VAGUE: readonly (readonly [BounceClass, RegExp])[] = [
  // Outlook.com, GMX and others say no more of an unknown user.
  ['no_mailbox', /mail ?box (?:is )?unava/],
  [
    'temporary',
    /service (?:is )?(?:currently )?(?:unavailable|not available|refuse)|temporar|delayed|unreachable|system error|dns error|not (?:reachable|responding)|unable to (?:connect|contact)|after \d.{0,12} attempts|multiple retries/,
  ],
  ['policy', /denied|reject|refuse|blocked|not accepted|not allowed|not permitted/],
];

/** By subject and detail (RFC 3463, RFC 7372, RFC 7505); what is only a subject stands for the rest of it. */
const BY_STATUS: Readonly<Record<string, BounceClass>> = {
  '1.1': 'no_mailbox',
  '1.2': 'no_domain',
  '1.3': 'no_mailbox',
  '1.6': 'no_mailbox',
  '1.10': 'no_domain',
  '2.1': 'disabled',
  '2.2': 'mailbox_full',
  '2.3': 'too_large',
  '3.4': 'too_large',
  '3': 'temporary',
  // Microsoft 365: the domain does not exist in DNS.
  '4.310': 'no_domain',
  '4': 'temporary',
  '6': 'content',
  // TLS that is not as a policy wants it.
  '7.5': 'temporary',
  '7.8': 'authentication',
  '7.13': 'disabled',
  '7.20': 'authentication',
  '7.21': 'authentication',
  '7.22': 'authentication',
  '7.23': 'authentication',
  '7.24': 'authentication',
  '7.25': 'blocked',
  '7.26': 'authentication',
  '7.28': 'rate',
  '7.29': 'authentication',
  // Microsoft 365 and Outlook.com.
  '7.509': 'authentication',
  '7.515': 'authentication',
  '7': 'policy',
};

const BY_REPLY: Readonly<Record<string, BounceClass>> = {
  '530': 'authentication',
  '535': 'authentication',
  '552': 'mailbox_full',
  '556': 'no_domain',
};

/** What a refusal means. */
export function bounceMeaning({ words, status = '', after }: BounceSign): BounceMeaning {
  const text = normalized(words);
  const reply = replyCodeIn(text);
  const said = statusIn(text);
  const found = classOf(text, { reply, statuses: [said, status] });
  const isGone = found === 'no_mailbox' || found === 'no_domain';
  const isPermanent = reply === '' ? (said || status).startsWith('5') : reply.startsWith('5');
  // Before RCPT a server can only speak of the sender: `550 user unknown` is its sender verification.
  if (after === 'sender' || (after === undefined && AFTER_SENDER.test(text))) {
    return { class: isGone || (found === 'unknown' && isPermanent) ? 'policy' : found, suppress: false };
  }
  // Sendmail and Cisco give 5.1.x to a refused recipient, and these to what was refused later with the same reply code.
  const isLate =
    after === 'message' || (after === undefined && (AFTER_MESSAGE.test(text) || /^5\.[23]\.0$/.test(status)));
  if (isLate && said === '' && found === 'no_mailbox' && UNKNOWN_USER.test(text))
    return { class: 'policy', suppress: false };
  return { class: found, suppress: isGone && isPermanent };
}

function classOf(text: string, { reply, statuses }: { reply: string; statuses: readonly string[] }): BounceClass {
  if (statuses.some((status) => SENDER_STATUS.test(status))) return 'policy';
  const decisive = DECISIVE.find(([, patterns]) => patterns.some((pattern) => pattern.test(text)));
  if (decisive !== undefined) return decisive[0];
  const byStatus = statuses.flatMap((status) => classOfStatus(status) ?? []);
  // Where two codes contradict each other, the address gets the benefit of the doubt.
  const code = byStatus.find((each) => each !== 'no_mailbox' && each !== 'no_domain') ?? byStatus[0];
  if (code !== undefined) return code;
  const vague = VAGUE.find(([, pattern]) => pattern.test(text));
  if (vague !== undefined) return vague[0];
  return BY_REPLY[reply] ?? (reply.startsWith('4') ? 'temporary' : 'unknown');
}

function classOfStatus(status: string): BounceClass | undefined {
  const [, subject = '', detail = ''] = status.split('.');
  return BY_STATUS[`${subject}.${detail}`] ?? BY_STATUS[subject];
}

const STATUSES = [
  // `550 5.1.1 …`, `550-5.1.1 …`
  /(?<![\d.])[45]\d\d[ -][ #(]{0,3}([45]\.[0-7]\.\d{1,3})(?!\.?\d)/,
  // `(#5.1.1)`
  /#([45]\.[0-7]\.\d{1,3})(?!\.?\d)/,
  /(?<![\d.])([45]\.[0-7]\.\d{1,3})(?!\.?\d)/,
];
const REPLY = /(?<![\d.])([45][0-7]\d)(?:[ -](?=\S)|:)/;

/** The enhanced status code (RFC 3463) in a server's words; empty where there is none. */
export function statusIn(words: string): string {
  return STATUSES.map((pattern) => pattern.exec(words)?.[1]).find((status) => status !== undefined) ?? '';
}

/** The reply code (RFC 5321 §4.2) in a server's words; empty where there is none. */
export function replyCodeIn(words: string): string {
  return REPLY.exec(words)?.[1] ?? '';
}

/** In lower case, without accents, addresses and names of hosts, so that what is in those decides nothing. */
function normalized(words: string): string {
  const plain = words
    .slice(0, MAX_WORDS)
    .toLowerCase()
    .normalize('NFKD')
    .replaceAll(/[\u0300-\u036f]/g, '');
  let codes = 0;
  return (
    plain
      .normalize('NFC')
      .split(/([\s<>()[\]"';,]+)/)
      .map((word) => (word.includes('@') ? '@' : word))
      .join('')
      .replaceAll(/\s+/g, ' ')
      // The codes that each line of a long reply repeats.
      .replaceAll(/(?<![\d.])[45]\d\d[ -][45]\.\d\.\d{1,3} /g, (code) => (codes++ === 0 ? code : ''))
      .replaceAll(/\bhost \S+ ?\[[\da-f.:]*\]/g, '')
      // What qmail adds when it gives up, what Google says of its reasons and of the other server, and what cPanel says of
      // every domain that it does not find.
      .replaceAll(
        /this message has been in the queue too long|delivered for too long|to (?:best protect our users from|reduce the amount of) spam|was rejected by the (?:server for the )?recipient domain|they may be blacklisted/g,
        '',
      )
      // What Cisco adds before the words of the other server.
      .replaceAll(/\d\.\d\.\d - (?:unknown address error|other mail system problem)/g, '')
  );
}
