/** A verifier that shares no code with us believes the ARC sets of what we forward. */
import { createPrivateKey } from 'node:crypto';
import { expect, test } from 'vitest';
import { arcSeal, generateDkimKey, hashBody, parseFields, signDkim, type SigningKey } from '../../src/mail/dkim.ts';
import { splitHeader } from '../../src/mail/header.ts';
import { verifyChainsWithDkimpy, verifyWithDkimpy } from '../harness/dkimpy.ts';
import { corpus, testKey } from '../mail/dkim-corpus.ts';

async function sealed(bytes: Buffer, chain: 'none' | 'pass', key: SigningKey): Promise<Buffer> {
  const { header, body } = await splitHeader([bytes]);
  const fields = parseFields(header);
  const results = ` mail.${key.domain};\r\n dkim=pass header.i=@example.com;\r\n spf=none`;
  const seal = await arcSeal({ fields, bodyHash: await hashBody(body) }, { chain, results, key, now: Date.now() });
  return Buffer.concat([Buffer.from(seal, 'latin1'), bytes]);
}

test('dkimpy finds the chain of one and of two servers whole, the author still signed, and a change', async () => {
  const author = await testKey('rsa');
  const records = [{ name: author.record[0], value: author.record[1] }];
  const hops: SigningKey[] = [];
  for (const domain of ['one.example', 'two.example']) {
    const { privateKey, publicKey } = await generateDkimKey('rsa');
    hops.push({ domain, selector: 'arc', algorithm: 'rsa', key: createPrivateKey(privateKey) });
    records.push({ name: `arc._domainkey.${domain}`, value: `v=DKIM1; k=rsa; p=${publicKey}` });
  }
  const [first, second] = hops;
  if (first === undefined || second === undefined) throw new Error('no keys');
  const messages: Buffer[] = [];
  for (const message of corpus) {
    // What comes by SMTP ends a line.
    const bytes = Buffer.concat([message.bytes, Buffer.from(message.bytes.at(-1) === 0x0a ? '' : '\r\n')]);
    const signed = Buffer.concat([await signDkim([bytes], [author], Date.now()), bytes]);
    const one = await sealed(signed, 'none', first);
    messages.push(one, await sealed(Buffer.concat([Buffer.from('Received: by x\r\n'), one]), 'pass', second));
  }
  const last = messages.at(-1) ?? Buffer.from('');
  messages.push(Buffer.from(last.toString('latin1').replace('dkim=pass', 'dkim=fail'), 'latin1'));
  const chains = await verifyChainsWithDkimpy(messages, records);
  expect(chains.slice(0, -1).map(([status, reason]) => (status === 'pass' ? status : reason))).toEqual(
    Array.from({ length: corpus.length * 2 }, () => 'pass'),
  );
  expect(chains.at(-1)?.[0]).toBe('fail');
  expect(await verifyWithDkimpy(messages.slice(0, -1), records)).toEqual(
    Array.from({ length: corpus.length * 2 }, () => ['pass']),
  );
});
