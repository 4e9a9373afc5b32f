/**
 * The suite of openspf.org for RFC 7208, as Debian has it beside its SPF library: each of its zones is served by a real
 * DNS server and asked through the daemon's resolver, by the checker of domains and by the judgement of mail that comes in.
 */
import { existsSync, readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { z } from 'zod';
import { mailauthResolver, type Resolver } from '../../src/dns/resolver.ts';
import { evaluateSpf } from '../../src/dns/spf.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { authenticate, createMemory } from '../../src/mail/authenticate.ts';
import { needPackage } from '../harness/debian.ts';
import { startTestDns } from '../harness/dns.ts';
import type { ZoneRecord } from '../../src/dev/dns-server.ts';

const FILE = '/usr/share/doc/python3-spf/rfc7208-tests.yml.gz';
needPackage(() => existsSync(FILE), 'python3-spf');

const one = z.object({
  helo: z.string(),
  host: z.string(),
  mailfrom: z.string(),
  result: z.union([z.string(), z.array(z.string())]).transform((result) => [result].flat()),
});
const datum = z.union([z.string(), z.number(), z.tuple([z.number(), z.string()]), z.array(z.string())]);
const scenario = z.object({
  description: z.string(),
  tests: z.record(z.string(), one),
  zonedata: z.record(z.string(), z.array(z.union([z.literal('TIMEOUT'), z.record(z.string(), datum)]))),
});
type Scenario = z.output<typeof scenario>;
type Case = z.output<typeof one>;

const SCENARIOS = parseAllDocuments(gunzipSync(readFileSync(FILE)).toString()).flatMap((document) =>
  document.contents === null ? [] : [scenario.parse(document.toJS())],
);

/** What mailauth's lenient mode, in which mail that comes in is judged, takes for good or for bad. */
const LENIENT: Readonly<Record<string, string>> = {
  'bare-ip6': '"ip6" without an address is passed over: fail instead of permerror',
  'exp-syntax-error': 'a faulty exp= is passed over: neutral instead of permerror',
  'exp-twice': 'of two exp= the first counts: fail instead of permerror',
  'exp-only-macro-char': 'macros for explanations are taken elsewhere too: fail instead of permerror',
  'invalid-hello-macro': 'an EHLO that is no host name is an error where a macro uses it, not a name that is not there',
  'hello-domain-literal': 'the same for an address literal',
  'require-valid-helo': 'the same for a single label',
};

/** Names of no host, which Node's resolver (c-ares) does not ask for, so that for us they are not there. */
const UNASKED: Readonly<Record<string, string>> = {
  'a-colon-domain': 'foo:bar/baz.example.com',
  'a-colon-domain-ip4mapped': 'foo:bar/baz.example.com',
  'mx-colon-domain': 'foo:bar/baz.example.com',
  'mx-colon-domain-ip4mapped': 'foo:bar/baz.example.com',
  'macro-mania-in-domain': 'a name with blanks and percent signs',
};

/** The suite's records under type SPF stand for TXT ones, except where it says otherwise. */
function zoneOf({ zonedata }: Scenario): ZoneRecord[] {
  const types = ['A', 'AAAA', 'CNAME', 'MX', 'PTR', 'TXT'] as const;
  return Object.entries(zonedata).flatMap(([name, data]) => {
    const rows = data.flatMap((row) => (row === 'TIMEOUT' ? [] : Object.entries(row)));
    const hasText = rows.some(([type]) => type === 'TXT');
    const records = rows.flatMap(([kind, value]): ZoneRecord[] => {
      const type = types.find((each) => each === (kind === 'SPF' && !hasText ? 'TXT' : kind));
      if (type === undefined) return [];
      if (value === 'TIMEOUT') return [{ name, fault: 'SERVFAIL', only: type }];
      return value === 'NONE' ? [] : [{ name, type, value: textOf(value) }];
    });
    const silent = types.filter((type) => !records.some((record) => 'type' in record && record.type === type));
    return [
      ...records,
      ...(data.includes('TIMEOUT') ? silent.map((only) => ({ name, fault: 'SERVFAIL', only }) as const) : []),
      // The name is there, whatever else.
      { name, type: 'NS', value: 'ns.suite.test' } as const,
    ];
  });
}

function textOf(value: z.output<typeof datum>): string {
  if (!Array.isArray(value)) return String(value);
  return typeof value[0] === 'number' ? `${value[0]} ${value[1] === '' ? '.' : value[1]}` : value.join('');
}

async function byChecker({ helo, host, mailfrom }: Case, resolver: Resolver): Promise<string> {
  return (await evaluateSpf({ sender: mailfrom, ip: host, helo, resolver })).result;
}

/** One for all cases, as the listener has it. */
const memory = createMemory();

async function byDoor({ helo, host, mailfrom }: Case, resolver: Resolver): Promise<string> {
  const mail = [Buffer.from('From: a@author.test\r\n\r\nhello\r\n')];
  const circumstances = {
    ip: host,
    helo,
    sender: mailfrom,
    mta: 'mail.our.test',
    ask: mailauthResolver(resolver),
    clock: systemClock,
    timeoutMs: 20_000,
    trusted: [],
    memory,
  };
  const first = await authenticate(mail, circumstances);
  expect(await authenticate(mail, circumstances), 'the same once more').toEqual(first);
  return first.verdicts.spf.result;
}

test('the suite is all there', () => {
  const names = SCENARIOS.flatMap(({ tests }) => Object.keys(tests));
  expect(names.length).toBeGreaterThan(200);
  expect(names).toEqual(expect.arrayContaining(Object.keys(LENIENT)));
});

describe.each(SCENARIOS.map((each) => [each.description, each] as const))('%s', (_description, each) => {
  async function misses(evaluate: typeof byChecker): Promise<string[]> {
    const { resolver } = await startTestDns(zoneOf(each));
    const missed: string[] = [];
    for (const [name, wanted] of Object.entries(each.tests)) {
      if (!wanted.result.includes(await evaluate(wanted, resolver))) missed.push(name);
    }
    return missed;
  }

  function listed(...lists: readonly Readonly<Record<string, string>>[]): string[] {
    return Object.keys(each.tests).filter((name) => lists.some((list) => name in list));
  }

  test('the checker of domains finds what the suite says', async () => {
    expect(await misses(byChecker)).toEqual(listed(UNASKED));
  });

  test('so does the judgement of mail, but for what its lenient mode misses', async () => {
    expect(await misses(byDoor)).toEqual(listed(UNASKED, LENIENT));
  });
});
