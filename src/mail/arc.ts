/**
 * The ARC set (RFC 8617) of what is forwarded: what we saw when it came, sealed, so that the next server may believe us
 * where forwarding breaks SPF. The private-key operations run in the thread pool.
 */
import { messageTags, relaxed, selectFields, signHeader, type Hashed, type SigningKey } from './dkim.ts';
import { fieldsOf, tagsOf, type Field } from './header.ts';
import type { AuthResults } from './auth-results.ts';

export interface Seal {
  /** What the chain was found to be when the message came. */
  readonly chain: AuthResults['arc']['result'];
  /** The value of our Authentication-Results. */
  readonly results: string;
  /** RSA: validators know no other (RFC 8617 §4.1.3 with RFC 8301). */
  readonly key: SigningKey;
  /** Milliseconds. */
  readonly now: number;
}

/** RFC 8617 §4.2.1 */
const MAX_SETS = 50;
const SIGNED = (
  'From:Sender:Reply-To:Subject:Date:Message-ID:To:Cc:MIME-Version:Content-Type:Content-Transfer-Encoding:' +
  'In-Reply-To:References:List-Id:List-Unsubscribe:List-Unsubscribe-Post:DKIM-Signature'
).split(':');

/** In the order in which a seal is over them (RFC 8617 §5.1.1). */
const SET = ['arc-authentication-results', 'arc-message-signature', 'arc-seal'];

/**
 * The three fields to put in front of the message, each line with its CRLF; nothing where the chain is closed, full, or
 * could not be judged. `message` is what goes out, without them.
 */
export async function arcSeal(message: Hashed, { chain, results, key, now }: Seal): Promise<string> {
  const sets = setsOf(message.fields);
  const last = Math.max(0, ...sets.keys());
  const closed = sets.get(last)?.some((field) => field.name === 'arc-seal' && tagOf(field, 'cv') === 'fail') ?? false;
  if (chain === 'temperror' || closed || last >= MAX_SETS || key.algorithm !== 'rsa') return '';
  const i = `i=${last + 1}`;
  const found = `ARC-Authentication-Results: ${i};${results}\r\n`;
  const tags = [i, ...messageTags(message, key, now)];
  const signature = await signHeader('ARC-Message-Signature', { ...selectFields(message.fields, SIGNED), tags }, key);
  // A seal of a chain that has failed vouches for itself alone (§5.1.2).
  const before =
    chain === 'pass' ? Array.from({ length: last }, (_, at) => inOrder(sets.get(at + 1) ?? [])).flat() : [];
  const canonical = [...before, ...fieldsOf(found + signature)].map(relaxed).join('');
  const time = `t=${Math.floor(now / 1000)}`;
  const sealTags = [i, 'a=rsa-sha256', time, `cv=${chain}`, `d=${key.domain}`, `s=${key.selector}`];
  const seal = await signHeader('ARC-Seal', { tags: sealTags, names: [], canonical }, key);
  return seal + signature + found;
}

/** The sets that stand on the message, by instance. */
function setsOf(fields: readonly Field[]): Map<number, Field[]> {
  const sets = Map.groupBy(
    fields.filter(({ name }) => SET.includes(name)),
    (field) => Number(tagOf(field, 'i')),
  );
  return new Map([...sets].filter(([instance]) => Number.isInteger(instance) && instance > 0));
}

function inOrder(set: readonly Field[]): Field[] {
  return SET.flatMap((name) => set.filter((field) => field.name === name));
}

function tagOf(field: Field, name: string): string | undefined {
  return tagsOf(field).get(name)?.toLowerCase();
}
