import { describe, expect, test } from 'vitest';
import { createLookups } from '../../src/mail/authenticate.ts';
import { testClock } from '../harness/clock.ts';
import { stubDns } from './stub-dns.ts';

function lookups(records: Parameters<typeof stubDns>[0]) {
  const clock = testClock();
  const dns = stubDns(records);
  return { clock, dns, ...createLookups(dns.ask, clock, 10_000) };
}

describe('the questions of one message', () => {
  test('are asked once each, whatever their case', async () => {
    const { ask, dns } = lookups({ 'TXT a.example': 'x' });
    await expect(Promise.all([ask('a.example', 'TXT'), ask('A.example', 'TXT')])).resolves.toEqual([[['x']], [['x']]]);
    await expect(ask('a.example', 'A')).rejects.toMatchObject({ code: 'ENOTFOUND' });
    expect(dns.asked).toEqual(['TXT a.example', 'A a.example']);
  });

  test('are fifty at most, and policies are not among them', async () => {
    const { ask, dns, failed, unanswered } = lookups({ 'TXT _dmarc.example.com': 'v=DMARC1' });
    const many = Array.from({ length: 60 }, (_, i) => ask(`n${i}.example`, 'TXT').catch((error: unknown) => error));
    expect((await Promise.all(many)).slice(50).every((error) => String(error).includes('too many DNS queries'))).toBe(
      true,
    );
    expect(dns.asked).toHaveLength(50);
    await expect(ask('_dmarc.example.com', 'TXT')).resolves.toEqual([['v=DMARC1']]);
    expect(failed('n55.example')).toBe(false);
    expect(unanswered(/^n55\./)).toBe(true);
    expect(unanswered(/^n45\./)).toBe(false);
  });

  test('end at the deadline; what was asked in advance had its time', async () => {
    const silent = {
      'TXT early.example': 'SILENCE',
      'TXT late.example': 'SILENCE',
      'TXT _dmarc.example.com': 'SILENCE',
    };
    const { ask, ahead, clock, failed } = lookups(silent);
    ahead(['Early.example']);
    const late = ask('late.example', 'TXT');
    const policy = ask('_dmarc.example.com', 'TXT');
    clock.advance(10_000);
    await expect(late).rejects.toMatchObject({ code: 'ESERVFAIL' });
    await expect(ask('early.example', 'TXT')).rejects.toMatchObject({ code: 'ESERVFAIL' });
    expect([failed('early.example'), failed('late.example')]).toEqual([true, false]);
    clock.advance(5000);
    await expect(policy).rejects.toMatchObject({ code: 'ESERVFAIL' });
  });

  test('of which DNS says that it failed have failed; a name that is not there has not', async () => {
    const { ask, failed } = lookups({ 'TXT broken.example': 'SERVFAIL' });
    await expect(ask('broken.example', 'TXT')).rejects.toMatchObject({ code: 'ESERVFAIL' });
    await expect(ask('none.example', 'TXT')).rejects.toMatchObject({ code: 'ENOTFOUND' });
    expect([failed('BROKEN.example'), failed('none.example')]).toEqual([true, false]);
  });

  test('that nobody waits for are no fault', async () => {
    const { ahead, end, failed } = lookups({ 'TXT broken.example': 'SERVFAIL', 'TXT silent.example': 'SILENCE' });
    ahead(['broken.example', 'silent.example', 'none.example']);
    end();
    await new Promise((resolve) => setImmediate(resolve));
    expect(failed('broken.example')).toBe(true);
  });
});
