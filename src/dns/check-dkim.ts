/** A DKIM key in DNS (RFC 6376 §3.6.1), compared by meaning: what matters is that verifiers find our key there. */
import { missing, ok, tagList, unanswered, wrong, type Finding, type Tags } from './finding.ts';
import { recordsOf, type Resolver } from './resolver.ts';
import type { DomainRecord } from './records.ts';

/** The verdict on what stands at the selector. */
export async function checkDkim(
  { name, value }: Pick<DomainRecord, 'name' | 'value'>,
  resolver: Pick<Resolver, 'txt' | 'lookup'>,
): Promise<Finding> {
  const answer = await resolver.txt(name);
  if (answer.kind === 'failed') return unanswered(answer);
  const found = recordsOf(answer);
  const [only] = found;
  const [target] = recordsOf(await resolver.lookup(name, 'CNAME'));
  if (only === undefined) {
    return target === undefined
      ? missing('There is no such record yet.')
      : missing(`The name is a CNAME to ${target}, and there is no key there.`, [`CNAME ${target}`]);
  }
  const wanted = tagList(value);
  if (found.length > 1) {
    // §3.6.2.2: undefined; verifiers take either, or none.
    const others = found.filter((text) => differsFrom(wanted, tagList(text)) !== undefined);
    const problem = `A selector must have only one TXT record.${surplus(found, others)}`;
    return { status: 'duplicate', found, problem };
  }
  const tags = tagList(only);
  const problem = differsFrom(wanted, tags);
  const through = target === undefined ? '' : ` (by its CNAME to ${target})`;
  if (problem !== undefined) return wrong(problem + through, found);
  return ok(found, [
    target === undefined ? undefined : `It is found through a CNAME to ${target}, which is fine.`,
    // §3.6.1
    listOf(tags, 't').includes('y')
      ? 't=y says that DKIM is only being tested: remove it when testing is done.'
      : undefined,
  ]);
}

/** Which of the records to take out, `others` being those that are wrong. */
function surplus(found: readonly string[], others: readonly string[]): string {
  if (others.length === 0) return ' All of them contain the correct key: keep one.';
  return others.length < found.length ? ` Remove: ${others.join(' | ')}` : '';
}

/** Why verifiers would not find the wanted key in this record. */
function differsFrom(wanted: Tags | undefined, tags: Tags | undefined): string | undefined {
  if (tags === undefined) return 'This is not a list of tags such as "v=DKIM1; k=rsa; p=…".';
  const [first] = tags.keys();
  if (tags.has('v') && (first !== 'v' || tags.get('v') !== 'DKIM1')) return 'It does not begin with v=DKIM1.';
  const algorithm = wanted?.get('k') ?? 'rsa';
  if ((tags.get('k') ?? 'rsa') !== algorithm) return `The key type k= is not ${algorithm}.`;
  const key = bare(tags.get('p'));
  if (key === undefined) return 'There is no key: p= is missing.';
  if (key === '') return 'The key is revoked: p= is empty.';
  if (key !== bare(wanted?.get('p'))) return otherKey(key, bare(wanted?.get('p')) ?? '');
  if (tags.has('h') && !listOf(tags, 'h').includes('sha256')) return 'h= does not allow sha256.';
  if (tags.has('s') && !listOf(tags, 's').some((service) => service === '*' || service === 'email')) {
    return 's= does not allow email.';
  }
  return undefined;
}

/** Consoles that take 255 characters and no more cut the end off. */
function otherKey(key: string, wanted: string): string {
  return wanted.startsWith(key) ? 'The key p= is cut short.' : 'The key in p= is a different key.';
}

function bare(base64: string | undefined): string | undefined {
  return base64?.replaceAll(/\s+/g, '');
}

function listOf(tags: Tags | undefined, name: string): string[] {
  return (tags?.get(name) ?? '').split(':').map((item) => item.trim());
}
