/**
 * The ARC set (RFC 8617) of what is forwarded: what we saw when it came, sealed, so that the next server may believe us
 * where forwarding breaks SPF. The private-key operations run in the thread pool.
 */
import { relaxHeader, type HeaderField, selectFields, signHeader, type Hashed, type SigningKey } from './dkim.ts';
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
const SIGNED = [
  'From',
  'Sender',
  'Reply-To',
  'Subject',
  'Date',
  'Message-ID',
  'To',
  'Cc',
  'MIME-Version',
  'Content-Type',
  'Content-Transfer-Encoding',
  'In-Reply-To',
  'References',
  'List-Id',
  'List-Unsubscribe',
  'List-Unsubscribe-Post',
  'DKIM-Signature',
];

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
  const instance = last + 1;
  const [i, a, t] = [`i=${instance}`, 'a=rsa-sha256', `t=${Math.floor(now / 1000)}`];
  const by = [`d=${key.domain}`, `s=${key.selector}`];
  const { names, canonical } = selectFields(message.fields, SIGNED);
  const found = { name: SET[0] ?? '', value: ` i=${instance};${results}` };
  const tags = [i, a, 'c=relaxed/relaxed', ...by, t, `bh=${message.bodyHash}`];
  const signature = await signHeader('ARC-Message-Signature', { tags, names, canonical }, key);
  // A seal of a chain that has failed vouches for itself alone (§5.1.2).
  const before = chain === 'pass' ? Array.from({ length: last }, (_, i) => inOrder(sets.get(i + 1) ?? [])).flat() : [];
  const sealed = [...before, found, { name: SET[1] ?? '', value: signature.slice(signature.indexOf(':') + 1, -2) }];
  const seal = await signHeader(
    'ARC-Seal',
    {
      tags: [i, a, t, `cv=${chain}`, ...by],
      names: [],
      canonical: sealed.map((field) => `${relaxHeader(field)}\r\n`).join(''),
    },
    key,
  );
  return `${seal}${signature}ARC-Authentication-Results:${found.value}\r\n`;
}

/** The sets that stand on the message, by instance. */
function setsOf(fields: readonly HeaderField[]): Map<number, HeaderField[]> {
  const sets = new Map<number, HeaderField[]>();
  for (const field of fields) {
    if (!SET.includes(field.name)) continue;
    const instance = Number(tagOf(field, 'i'));
    if (Number.isInteger(instance) && instance > 0) sets.set(instance, [...(sets.get(instance) ?? []), field]);
  }
  return sets;
}

function inOrder(set: readonly HeaderField[]): HeaderField[] {
  return SET.flatMap((name) => set.filter((field) => field.name === name));
}

function tagOf({ value }: HeaderField, name: string): string | undefined {
  for (const tag of value.split(';')) {
    const [key = '', ...text] = tag.split('=');
    if (key.trim().toLowerCase() === name) return text.join('=').trim().toLowerCase();
  }
  return undefined;
}
