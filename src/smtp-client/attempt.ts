/**
 * The course of one attempt through the mail hosts: which address comes next, what each recipient was told so far, and what it
 * all comes to. At most five addresses (the resolver's list) and two sessions a try.
 */
import { isIP } from 'node:net';
import type { ReplyClass } from './reply.ts';
import {
  NOBODY,
  sameForAll,
  type Peer,
  type Recipient,
  type RecipientResult,
  type Result,
} from '../queue/transport.ts';
import type { Target } from './session.ts';
import type { Spoken } from './transaction.ts';
import { joinDialogues } from './wire.ts';

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
  reply: '451 4.4.1 no mail host left to try',
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
