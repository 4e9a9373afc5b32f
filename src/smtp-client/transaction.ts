/**
 * One mail transaction (RFC 5321 §3.3) on an open session: MAIL, every RCPT and DATA in one segment where the server takes
 * PIPELINING (RFC 2920), then the message. Each recipient gets a verdict, whatever happens; a fault decides for those that
 * nobody has answered yet.
 */
import { isIP } from 'node:net';
import { needsSmtpUtf8 } from '../lib/addresses.ts';
import {
  NOBODY,
  sameForAll,
  type Body,
  type Peer,
  type Recipient,
  type RecipientResult,
  type Result,
} from '../queue/transport.ts';
import { classify, happeningText, type Happening, type Reply, type ReplyClass, type Step } from './reply.ts';
import { faultOf, type Session, type Target } from './session.ts';
import { joinDialogues, WireFault, type Wire } from './wire.ts';

export interface Spoken {
  readonly recipient: Recipient;
  readonly verdict: ReplyClass;
  readonly reply: string;
}

interface Outcome {
  /** One for each recipient, unless it was called off. */
  readonly spoken: readonly Spoken[];
  /** Whether the session can carry another message. */
  readonly usable: boolean;
  /** A kept connection turned out to be closed before it was used: nobody has refused anything. */
  readonly stale: boolean;
  /** `mayLeave` said no; nothing was sent. */
  readonly calledOff: boolean;
  /** What was said, from the beginning of the session where this is its first message. */
  readonly dialogue: string;
}

interface TransactionOptions {
  readonly body: Body;
  /** At least one, at most 100. */
  readonly recipients: readonly Recipient[];
  /** Asked right before the message leaves; where it answers false, it does not leave. */
  readonly mayLeave: () => boolean;
}

/** Tries to hand the message over. */
export async function transact(session: Session, options: TransactionOptions): Promise<Outcome> {
  const { wire } = session;
  const transaction = new Transaction(session, options);
  const done = wire.endAfter(wire.timeouts.transaction, 'the message');
  const isReused = session.used > 0;
  if (isReused) wire.transcript.note('reusing the connection of an earlier message');
  try {
    const outcome = await transaction.run();
    return { ...outcome, dialogue: wire.transcript.take() };
  } catch (error) {
    wire.close();
    const stale = isReused && error instanceof WireFault && error.fault === 'closed' && !transaction.answered;
    const happening = faultOf(error);
    wire.transcript.note(happeningText(happening));
    const dialogue = wire.transcript.take();
    return { spoken: transaction.fail(happening), usable: false, stale, calledOff: false, dialogue };
  } finally {
    done();
    session.used += 1;
  }
}

class Transaction {
  readonly #session: Session;
  readonly #wire: Wire;
  readonly #body: Body;
  readonly #mayLeave: () => boolean;
  readonly #spoken: Spoken[] = [];
  #undecided: readonly Recipient[];
  /** Whether the server has said anything. */
  answered = false;

  constructor(session: Session, { body, recipients, mayLeave }: TransactionOptions) {
    this.#session = session;
    this.#wire = session.wire;
    this.#body = session.features.smtpUtf8 ? body : (body.plain ?? body);
    this.#undecided = recipients;
    this.#mayLeave = mayLeave;
  }

  async run(): Promise<Omit<Outcome, 'dialogue'>> {
    this.#refuseUnfit();
    const asked = this.#undecided;
    if (asked.length === 0) return this.#end(true);
    const accepted = await this.#envelope(asked);
    if (accepted.length === 0) return this.#end(true);
    // Here everything can still be called off; a step further a crash may duplicate the message.
    if (!this.#mayLeave()) {
      this.#wire.close();
      return { spoken: [], usable: false, stale: false, calledOff: true };
    }
    const { reply, early } = await this.#sendBody();
    this.#decide(accepted, { step: 'final', reply });
    // RFC 5321 §4.2: a session in which the two sides disagree about where they are is worth nothing.
    return this.#end(!early);
  }

  /** The fault decides for everybody who is left. */
  fail(happening: Happening): readonly Spoken[] {
    this.#decide(this.#undecided, happening);
    return this.#spoken;
  }

  #end(isInStep: boolean): Omit<Outcome, 'dialogue'> {
    const usable = isInStep && !this.#spoken.some(({ verdict }) => isLost(verdict));
    if (!usable) this.#wire.close();
    return { spoken: this.#spoken, usable, stale: false, calledOff: false };
  }

  /** What this server cannot take needs no asking. */
  #refuseUnfit(): void {
    const { features } = this.#session;
    const { size, encoding, sender } = this.#body;
    if (features.size !== undefined && features.size > 0 && size > features.size) {
      const words = `message of ${size} bytes exceeds the ${features.size} bytes that the server accepts`;
      return this.#decide(this.#undecided, ownReply(552, '5.3.4', words));
    }
    if (features.smtpUtf8) return;
    const everybody = encoding === 'smtputf8' || needsSmtpUtf8(sender);
    const unfit = this.#undecided.filter(({ address }) => everybody || needsSmtpUtf8(address));
    this.#decide(unfit, ownReply(550, '5.6.7', 'the server does not accept non-ASCII addresses (no SMTPUTF8)'));
  }

  /** The accepted recipients, with the server waiting for the message; none where it waits for none, or is lost. */
  async #envelope(asked: readonly Recipient[]): Promise<readonly Recipient[]> {
    const { pipelining } = this.#session.features;
    const wasDirty = this.#session.dirty;
    const mail = this.#mailLine(asked);
    const rcpts = asked.map(({ address }) => `RCPT TO:${path(address)}\r\n`);
    if (pipelining) this.#wire.send(`${wasDirty ? 'RSET\r\n' : ''}${mail}${rcpts.join('')}DATA\r\n`);
    const say = (step: Step, line: string): Promise<Reply> => {
      if (!pipelining) this.#wire.send(line);
      return this.#read(step);
    };

    if (wasDirty) await say('mail', 'RSET\r\n');
    this.#session.dirty = true;
    const mailReply = await say('mail', mail);
    const greeted = this.#classify({ step: 'mail', reply: mailReply });
    if (greeted.kind !== 'ok') {
      this.#decide(asked, { step: 'mail', reply: mailReply });
      if (pipelining && !isLost(greeted)) await this.#drain(asked.length);
      return [];
    }
    const accepted: Recipient[] = [];
    for (const [i, recipient] of asked.entries()) {
      const reply = await say('rcpt', rcpts[i] ?? '');
      const happening = { step: 'rcpt', reply, accepted: accepted.length } as const;
      const verdict = this.#classify(happening);
      if (isLost(verdict)) {
        this.#decide(this.#undecided, happening);
        return [];
      }
      if (verdict.kind === 'ok') accepted.push(recipient);
      else this.#decide([recipient], happening);
    }
    if (accepted.length === 0) {
      if (pipelining) await this.#drain(0);
      return [];
    }
    const reply = await say('data', 'DATA\r\n');
    if (this.#classify({ step: 'data', reply }).kind === 'ok') return accepted;
    this.#decide(accepted, { step: 'data', reply });
    return [];
  }

  /** Reads the answers to what was sent along with a command that failed. */
  async #drain(rcpts: number): Promise<void> {
    for (let i = 0; i < rcpts; i++) await this.#read('rcpt');
    const data = await this.#read('data');
    if (data.code !== 354) return;
    // RFC 2920 §3.1: a server may want a message although it took no recipient; it gets an empty one.
    this.#wire.send(END_OF_DATA);
    await this.#read('data');
  }

  async #sendBody(): Promise<{ reply: Reply; early: boolean }> {
    const stuffer = new DotStuffer();
    const pieces = this.#body.pieces();
    await this.#wire.taken('data');
    if (this.#wire.hasReply) return this.#refusedEarly();
    this.#wire.transcript.note(`the message, ${this.#body.size} bytes`);
    if (Symbol.iterator in pieces) {
      this.#wire.send(...Array.from(pieces, (piece) => stuffer.push(piece)), stuffer.end());
      await this.#wire.taken('final');
    } else {
      for await (const piece of pieces) {
        this.#wire.send(stuffer.push(piece));
        await this.#wire.taken('data');
        if (this.#wire.hasReply) return this.#refusedEarly();
      }
      this.#wire.send(stuffer.end());
    }
    const reply = await this.#read('final');
    this.#session.dirty = reply.code >= 300;
    return { reply, early: false };
  }

  /** The server speaks before it has the message: "accepted" must not pass for a delivery. */
  async #refusedEarly(): Promise<{ reply: Reply; early: boolean }> {
    const reply = await this.#read('data');
    if (reply.code >= 400) return { reply, early: true };
    throw new WireFault('data', { fault: 'protocol', words: 'the server replied before it had the message' });
  }

  #mailLine(recipients: readonly Recipient[]): string {
    const { sender, size, encoding } = this.#body;
    const { features } = this.#session;
    const utf8 = encoding === 'smtputf8' || [sender, ...recipients.map(({ address }) => address)].some(needsSmtpUtf8);
    const parameters = [
      features.size === undefined ? '' : ` SIZE=${size}`,
      features.eightBit && (utf8 || encoding === '8bit') ? ' BODY=8BITMIME' : '',
      utf8 ? ' SMTPUTF8' : '',
    ];
    return `MAIL FROM:${path(sender)}${parameters.join('')}\r\n`;
  }

  async #read(step: Step): Promise<Reply> {
    const reply = await this.#wire.read(step);
    this.answered = true;
    return reply;
  }

  #classify(happening: Happening): ReplyClass {
    return classify(happening, this.#session.isRelay);
  }

  #decide(recipients: readonly Recipient[], happening: Happening): void {
    if (recipients.length === 0) return;
    const decided = new Set(recipients);
    this.#undecided = this.#undecided.filter((recipient) => !decided.has(recipient));
    const verdict = this.#classify(happening);
    const reply = happeningText(happening);
    for (const recipient of recipients) this.#spoken.push({ recipient, verdict, reply });
  }
}

function isLost(verdict: ReplyClass): boolean {
  return verdict.kind === 'temporary' && verdict.connection;
}

/** What the server would say if it were asked. */
function ownReply(code: number, enhanced: string, words: string): Happening {
  return { step: 'mail', reply: { code, enhanced, lines: [`${enhanced} ${words}`] } };
}

/** An address in a command. Addresses are checked where they come in; a hole there must not become a command here. */
function path(address: string): string {
  // oxlint-disable-next-line no-control-regex -- control characters are what may not be there
  if (/[\x00-\x20<>\x7f]/.test(address)) throw new TypeError(`not an envelope address: ${JSON.stringify(address)}`);
  return `<${address}>`;
}

const DOT = 0x2e;
const LF = 0x0a;
const LF_DOT = Buffer.from('\n.');

const END_OF_DATA = Buffer.from('.\r\n');
const CRLF = Buffer.from('\r\n');

/**
 * Transparency of DATA (RFC 5321 §4.5.2) for a message that arrives in pieces with canonical line ends, cut anywhere:
 * linear, and without a copy where no line begins with a dot.
 */
export class DotStuffer {
  #last = LF;

  /** The next piece as it goes onto the wire. */
  push(piece: Uint8Array): Uint8Array {
    const buffer = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength);
    const beginsWithDot = this.#last === LF && buffer[0] === DOT;
    this.#last = buffer.at(-1) ?? this.#last;
    if (!beginsWithDot && !buffer.includes(LF_DOT)) return piece;
    const doubled = buffer.toString('latin1').replaceAll('\n.', '\n..');
    return Buffer.from(beginsWithDot ? `.${doubled}` : doubled, 'latin1');
  }

  /** What ends the message, after a line end of our own where its last line has none. */
  end(): Uint8Array {
    return this.#last === LF ? END_OF_DATA : Buffer.concat([CRLF, END_OF_DATA]);
  }
}

// The course of one attempt through the mail hosts: which address comes next, what each recipient was told so far, and what it
// all comes to. At most five addresses (the resolver's list) and two sessions a try.

const MAX_SESSIONS = 2;
/** RFC 5321 §4.5.3.1.8: what every server takes in one transaction. */
const MAX_RECIPIENTS = 100;

interface Word {
  readonly verdict: ReplyClass;
  readonly reply: string;
  readonly peer: Peer;
}

export class HostAttempt {
  readonly #began: number;
  readonly #targets: readonly Target[];
  readonly #tried = new Set<string>();
  /** Hosts that refused as a whole: their other addresses would say the same. */
  readonly #refusing = new Set<string>();
  readonly #words = new Map<Recipient, Word>();
  readonly #results: RecipientResult[] = [];
  /** What kept us from a session, address by address. */
  readonly #failures: Word[] = [];
  /** What was said so far. */
  readonly #dialogues: string[] = [];
  #open: readonly Recipient[];
  /** Addresses at which a transaction ended. */
  readonly #sessions = new Set<string>();
  #otherFamilyOf: Target | undefined;
  #familyTried = false;
  /** Whether those who are left want another server than the last. */
  wantsElsewhere = false;

  constructor(recipients: readonly Recipient[], targets: readonly Target[], began: number) {
    this.#open = recipients;
    this.#targets = targets;
    this.#began = began;
  }

  /** Who is still to be told something, as many as one transaction takes. */
  get open(): readonly Recipient[] {
    return this.#open.slice(0, MAX_RECIPIENTS);
  }

  /** Whether this try went to more than one server. */
  get moved(): boolean {
    return this.#sessions.size > 1;
  }

  /** Whether there is an address left to connect to. */
  get hasNext(): boolean {
    return this.#peek() !== undefined;
  }

  /** The address to connect to next; undefined when this try has been everywhere. */
  next(): Target | undefined {
    const target = this.#peek();
    if (target === undefined) return undefined;
    if (this.#otherFamilyOf !== undefined && target === this.#siblingOf(this.#otherFamilyOf)) this.#familyTried = true;
    this.#otherFamilyOf = undefined;
    this.#tried.add(target.address);
    return target;
  }

  /** No session came about at this address. */
  failedToOpen(target: Target, word: Word): void {
    this.#failures.push(word);
    this.#dialogues.push(word.peer.dialogue ?? '');
    this.#avoid(target, word.verdict);
  }

  /** A kept connection turned out to be closed. */
  wasStale(dialogue: string): void {
    this.#dialogues.push(dialogue);
  }

  /** A transaction with the server at `target` has ended. */
  record(target: Target, spoken: readonly Spoken[], peer: Peer): void {
    this.#dialogues.push(peer.dialogue ?? '');
    this.#sessions.add(target.address);
    this.#tried.add(target.address);
    const left = new Set(this.#open);
    this.wantsElsewhere = false;
    for (const { recipient, verdict, reply } of spoken) {
      if (verdict.kind === 'again') continue;
      const word = { verdict, reply, peer };
      if (this.#isLast(target, verdict)) {
        left.delete(recipient);
        this.#results.push(this.#resultOf(recipient, word));
      } else {
        this.#note(recipient, word);
        this.#avoid(target, verdict);
        this.wantsElsewhere = true;
      }
    }
    this.#open = this.#open.filter((recipient) => left.has(recipient));
  }

  /** Ends the try for all who are left, in these words of ours. */
  settle(outcome: RecipientResult['outcome'], reply: string): Result {
    const rest = sameForAll({ recipients: this.#open }, outcome, reply);
    return this.#with(rest.recipients);
  }

  /** What it all comes to. */
  result(): Result {
    const isLost = this.#results.length === 0 && this.#open.every((recipient) => this.#isLost(recipient));
    const word = this.#lastLoss();
    if (isLost && this.#open.length > 0 && isTemporary(word.verdict)) {
      return { kind: 'unreachable', reply: word.reply, began: this.#began, ...word.peer, dialogue: this.#dialogue };
    }
    return this.#with(this.#open.map((recipient) => this.#resultOf(recipient, this.#finalWord(recipient))));
  }

  get #dialogue(): string {
    return joinDialogues(this.#dialogues);
  }

  #resultOf(recipient: Recipient, word: Word): RecipientResult {
    return resultOf(recipient, { ...word, peer: { ...word.peer, dialogue: this.#dialogue } });
  }

  #with(rest: readonly RecipientResult[]): Result {
    return { kind: 'decided', recipients: [...this.#results, ...rest] };
  }

  /** A word that no other server can change. */
  #isLast(target: Target, verdict: ReplyClass): boolean {
    if (verdict.kind === 'ok' || verdict.kind === 'again') return true;
    if (verdict.kind === 'temporary') return verdict.next === 'schedule';
    return verdict.next === 'none' && !(verdict.otherFamily && this.#mayTryOtherFamily(target));
  }

  /** A refusal of a host counts only where every host has refused: one that may pass stands against it. */
  #note(recipient: Recipient, word: Word): void {
    const before = this.#words.get(recipient);
    if (before !== undefined && isTemporary(before.verdict) && isHostRefusal(word.verdict)) return;
    this.#words.set(recipient, word);
  }

  #avoid(target: Target, verdict: ReplyClass): void {
    if (verdict.kind !== 'permanent') return;
    if (verdict.next === 'host') this.#refusing.add(target.host);
    if (verdict.otherFamily && this.#mayTryOtherFamily(target)) this.#otherFamilyOf = target;
  }

  #peek(): Target | undefined {
    if (this.#sessions.size >= MAX_SESSIONS) return undefined;
    return (
      this.#siblingOf(this.#otherFamilyOf) ??
      this.#targets.find(({ host, address }) => {
        return !this.#tried.has(address) && !this.#refusing.has(host);
      })
    );
  }

  #mayTryOtherFamily(target: Target): boolean {
    return !this.#familyTried && this.#siblingOf(target) !== undefined;
  }

  /** The same host over the other family. */
  #siblingOf(target: Target | undefined): Target | undefined {
    if (target === undefined) return undefined;
    return this.#targets.find(
      ({ host, address }) =>
        host === target.host && isIP(address) !== isIP(target.address) && !this.#tried.has(address),
    );
  }

  #isLost(recipient: Recipient): boolean {
    const verdict = this.#words.get(recipient)?.verdict;
    return verdict === undefined || (verdict.kind === 'temporary' && verdict.connection);
  }

  /** What speaks for "unreachable": a temporary fault if there was one, because it may pass; of a server rather than of no server. */
  #lastLoss(): Word {
    const words = [...this.#words.values(), ...this.#failures];
    const passing = words.filter(({ verdict }) => isTemporary(verdict));
    return passing.findLast(({ verdict }) => !isAbsent(verdict)) ?? passing.at(-1) ?? words.at(-1) ?? NO_HOST;
  }

  #finalWord(recipient: Recipient): Word {
    const word = this.#words.get(recipient) ?? this.#lastLoss();
    if (!isHostRefusal(word.verdict)) return word;
    return this.#failures.find(({ verdict }) => isTemporary(verdict)) ?? word;
  }
}

const NO_HOST: Word = {
  verdict: { kind: 'temporary', next: 'schedule', connection: true },
  reply: '451 4.4.1 no mail host is left to try',
  peer: NOBODY,
};

function isTemporary(verdict: ReplyClass): boolean {
  return verdict.kind === 'temporary';
}

function isAbsent(verdict: ReplyClass): boolean {
  return verdict.kind === 'temporary' && verdict.absent === true;
}

function isHostRefusal(verdict: ReplyClass): boolean {
  return verdict.kind === 'permanent' && verdict.next === 'host';
}

function resultOf(recipient: Recipient, { verdict, reply, peer }: Word): RecipientResult {
  const said = { recipient, reply, cause: 'reply', after: undefined, ...peer } as const;
  switch (verdict.kind) {
    case 'ok':
      return { ...said, outcome: 'delivered' };
    case 'permanent':
      return { ...said, outcome: 'bounced', after: verdict.after };
    case 'again':
      return { ...said, outcome: 'deferred' };
    case 'temporary': {
      const cause = verdict.next === 'schedule' ? 'uncertain' : 'fault';
      return { ...said, outcome: 'deferred', cause: verdict.connection ? cause : 'reply' };
    }
  }
}
