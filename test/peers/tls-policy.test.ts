/**
 * DANE and MTA-STS against real servers: every outcome of mail to Postfix with right and wrong certificates, under records that
 * Debian's unbound validates.
 */
import { execFileSync } from 'node:child_process';
import { createHash, X509Certificate } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { createDnssec } from '../../src/dns/dnssec.ts';
import { createResolver } from '../../src/dns/resolver.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { openAppliance } from '../harness/binary.ts';
import { freePort } from '../harness/child.ts';
import { policy, startPolicyServer } from '../harness/policy-server.ts';
import { startPostfix, type Postfix } from '../harness/postfix.ts';
import { startQueue } from '../harness/queue.ts';
import { startSignedDns, type SignedDns } from '../harness/unbound.ts';

const WAIT = { timeout: 30_000, interval: 10 };
const folder = mkdtempSync(join(tmpdir(), 'postern-tls-policy-'));

function openssl(...args: readonly string[]): void {
  execFileSync('openssl', args, { cwd: folder, stdio: 'pipe' });
}

function newKey(name: string): readonly string[] {
  return ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', `${name}.key`];
}

function pem(name: string): string {
  return readFileSync(join(folder, `${name}.pem`), 'utf8');
}

function authority(name: string): void {
  const use = ['-addext', 'basicConstraints=critical,CA:TRUE,pathlen:0', '-addext', 'keyUsage=critical,keyCertSign'];
  openssl('req', '-x509', ...newKey(name), '-out', `${name}.pem`, '-subj', `/CN=${name}`, '-days', '30', ...use);
}

/** A certificate of `by` for these names, with the authority's own after it. */
function issued(name: string, { names, by, days = 30 }: { names: readonly string[]; by: string; days?: number }): void {
  const alternatives = `subjectAltName=${names.map((each) => `DNS:${each}`).join(',')}`;
  openssl('req', '-new', ...newKey(name), '-out', `${name}.csr`, '-subj', '/O=Mail', '-addext', alternatives);
  const sign = ['-CA', `${by}.pem`, '-CAkey', `${by}.key`, '-copy_extensions', 'copy', '-days', `${days}`];
  openssl('x509', '-req', '-in', `${name}.csr`, ...sign, '-out', `${name}.pem`);
  writeFileSync(join(folder, `${name}.pem`), pem(name) + pem(by));
}

/** A record of what a host proves itself with, such as `3 1 1`. */
function tlsa(kind: string, of: string): string {
  const [, selector, matching] = kind.split(' ');
  const certificate = new X509Certificate(pem(of));
  const whole = selector === '0' ? certificate.raw : certificate.publicKey.export({ type: 'spki', format: 'der' });
  const digest = matching === '1' ? 'sha256' : 'sha512';
  const data = matching === '0' ? whole : createHash(digest).update(whole).digest();
  return `${kind} ${data.toString('hex')}`;
}

authority('ca');
authority('other-ca');
// The host of the domain <label>.test is <label>.mx.test.
const names = ['*.mx.test'];
issued('right', { names, by: 'ca' });
issued('expired', { names, by: 'ca', days: -1 });
issued('misnamed', { names: ['mx.other.test'], by: 'ca' });
issued('of-domain', { names: ['ta-named-domain.test'], by: 'ca' });
issued('foreign', { names, by: 'other-ca' });

const SERVERS = ['right', 'expired', 'misnamed', 'of-domain', 'foreign', 'plain'] as const;
type Server = (typeof SERVERS)[number];

const ports = new Map<Server, number>();
for (const server of SERVERS) ports.set(server, await freePort());

/** The MX of a domain, its address, and what it proves itself with. */
function mail(label: string, { server, tlsa: records = [], host = `${label}.mx.test` }: Mail): string[] {
  const port = ports.get(server);
  const data = records.map((each) => `_${port}._tcp.${host}. TLSA ${each}`);
  return [`${label}.test. MX 10 ${host}.`, `${host}. A 127.0.0.1`, ...data];
}

interface Mail {
  /** What the host answers with. */
  readonly server: Server;
  readonly tlsa?: readonly string[];
  readonly host?: string;
}

interface Outcome extends Mail {
  readonly state: 'delivered' | 'deferred';
  readonly policy?: string | null;
  readonly result: string | null;
  /** Of the reply. */
  readonly words?: string;
}

const MISMATCH = 'the certificate of HOST does not match its TLSA records';
const NO_TLS = 'HOST does not offer STARTTLS';
const OURS = tlsa('3 1 1', 'right');
const WRONG = tlsa('3 1 1', 'foreign');

function succeeds(server: Server, ...records: readonly string[]): Outcome {
  return { server, tlsa: records, state: 'delivered', result: 'success' };
}

function fails(server: Server, [result, words]: readonly [string, string], ...records: readonly string[]): Outcome {
  return { server, tlsa: records, state: 'deferred', result, words };
}

/** By the label of the domain, in the signed zone. */
const DANE: Readonly<Record<string, Outcome>> = {
  // The host's own certificate: neither its names nor its dates count.
  'ee-key-sha256': succeeds('right', OURS),
  'ee-key-sha512': succeeds('right', tlsa('3 1 2', 'right')),
  'ee-key-whole': succeeds('right', tlsa('3 1 0', 'right')),
  'ee-certificate-sha256': succeeds('right', tlsa('3 0 1', 'right')),
  'ee-certificate-sha512': succeeds('right', tlsa('3 0 2', 'right')),
  'ee-certificate-whole': succeeds('right', tlsa('3 0 0', 'right')),
  'ee-one-of-two': succeeds('right', WRONG, OURS),
  'ee-expired': succeeds('expired', tlsa('3 1 1', 'expired')),
  'ee-misnamed': succeeds('misnamed', tlsa('3 1 1', 'misnamed')),
  'ee-wrong': fails('right', ['tlsa-invalid', MISMATCH], WRONG),
  'ee-stronger-digest-wrong': fails('right', ['tlsa-invalid', MISMATCH], OURS, tlsa('3 1 2', 'foreign')),
  'ee-no-tls': fails('plain', ['starttls-not-supported', NO_TLS], OURS),
  // An authority's certificate: names and dates count.
  'ta-certificate': succeeds('right', tlsa('2 0 1', 'ca')),
  'ta-certificate-whole': succeeds('right', tlsa('2 0 0', 'ca')),
  'ta-key': succeeds('right', tlsa('2 1 1', 'ca')),
  'ta-key-whole': succeeds('right', tlsa('2 1 0', 'ca')),
  'ta-named-domain': succeeds('of-domain', tlsa('2 0 1', 'ca')),
  'ta-other': fails('foreign', ['tlsa-invalid', MISMATCH], tlsa('2 0 1', 'ca')),
  'ta-other-whole': fails(
    'foreign',
    ['certificate-not-trusted', 'the certificate of HOST is not from a trusted CA'],
    tlsa('2 0 0', 'ca'),
  ),
  'ta-misnamed': fails(
    'misnamed',
    ['certificate-host-mismatch', 'the certificate of HOST is for another name'],
    tlsa('2 0 1', 'ca'),
  ),
  'ta-expired': fails('expired', ['certificate-expired', 'the certificate of HOST has expired'], tlsa('2 1 1', 'ca')),
  'ta-no-tls': fails('plain', ['starttls-not-supported', NO_TLS], tlsa('2 1 1', 'ca')),
  // Authorities that both sides would have to trust (usages 0 and 1), and what is no digest: TLS with any certificate.
  'unusable-usage': { server: 'foreign', tlsa: [tlsa('1 1 1', 'right')], state: 'delivered', result: 'tlsa-invalid' },
  'unusable-digest': { server: 'foreign', tlsa: ['3 1 1 0123'], state: 'delivered', result: 'tlsa-invalid' },
  'unusable-no-tls': fails('plain', ['starttls-not-supported', NO_TLS], tlsa('0 0 1', 'ca')),
  // What DNSSEC does not prove is not obeyed; what it disproves keeps mail back.
  'no-records': { server: 'plain', state: 'delivered', policy: null, result: null },
  'unsigned-host': {
    server: 'plain',
    host: 'unsigned-host.unsigned.test',
    state: 'delivered',
    policy: null,
    result: null,
  },
  'bogus-tlsa': fails('right', ['dnssec-invalid', 'DANE for bogus-tlsa.test cannot be checked: TLSA _']),
};

interface StsOutcome extends Outcome {
  readonly mode: 'enforce' | 'testing' | 'none';
  /** The mail hosts that the policy names. */
  readonly mx?: string;
}

function enforced(server: Server, [result, words = '']: readonly [string, string?]): StsOutcome {
  const state = result === 'success' ? 'delivered' : 'deferred';
  return { server, mode: 'enforce', state, policy: 'mta-sts enforce', result, words };
}

function noted(server: Server, result: string): StsOutcome {
  return { server, mode: 'testing', state: 'delivered', policy: 'mta-sts testing', result };
}

/** Whoever `ca` has signed is trusted. */
const MTA_STS: Readonly<Record<string, StsOutcome>> = {
  'sts-enforce': enforced('right', ['success']),
  'sts-enforce-expired': enforced('expired', ['certificate-expired', 'the certificate of HOST has expired']),
  'sts-enforce-misnamed': enforced('misnamed', [
    'certificate-host-mismatch',
    'the certificate of HOST is for another name',
  ]),
  'sts-enforce-foreign': enforced('foreign', [
    'certificate-not-trusted',
    'the certificate of HOST is not from a trusted CA',
  ]),
  'sts-enforce-no-tls': enforced('plain', ['starttls-not-supported', NO_TLS]),
  'sts-enforce-other-host': {
    ...enforced('right', ['validation-failure', 'names none of its MX hosts (HOST)']),
    mx: 'mx.elsewhere.test',
  },
  'sts-testing': noted('right', 'success'),
  'sts-testing-expired': noted('expired', 'certificate-expired'),
  'sts-testing-misnamed': noted('misnamed', 'certificate-host-mismatch'),
  'sts-testing-foreign': noted('foreign', 'certificate-not-trusted'),
  'sts-testing-no-tls': noted('plain', 'starttls-not-supported'),
  'sts-testing-other-host': { ...noted('right', 'validation-failure'), mx: 'mx.elsewhere.test' },
  'sts-none': { server: 'plain', mode: 'none', state: 'delivered', policy: null, result: null },
  // With both, DANE alone decides about a host that has it (RFC 8461 §2).
  'dane-with-sts': { ...succeeds('foreign', tlsa('3 1 1', 'foreign')), mode: 'enforce', mx: 'mx.elsewhere.test' },
  'dane-wrong-with-sts': { ...fails('right', ['tlsa-invalid', MISMATCH], WRONG), mode: 'enforce' },
};

const UNSIGNED: Outcome = { server: 'right', tlsa: [WRONG], state: 'delivered', policy: null, result: null };
const BOGUS: Outcome = { server: 'right', state: 'deferred', policy: null, result: null, words: 'SERVFAIL' };

const servers = new Map<Server, Postfix>();
let dns: SignedDns;

beforeAll(async () => {
  for (const server of SERVERS) {
    const files = { cert: join(folder, `${server}.pem`), key: join(folder, `${server}.key`) };
    const tls = server === 'plain' ? {} : { tls: files };
    servers.set(server, await startPostfix({ port: ports.get(server) ?? 0, ...tls }));
  }
  dns = await startSignedDns({
    signed: [
      ...Object.entries(DANE).flatMap(([label, outcome]) =>
        mail(label, outcome).filter((record) => !record.includes('unsigned.test. A')),
      ),
      ...Object.entries(MTA_STS).flatMap(([label, outcome]) => [
        ...mail(label, outcome),
        `_mta-sts.${label}.test. TXT "v=STSv1; id=a1;"`,
      ]),
      'alias.test. MX 10 alias.mx.test.',
      'alias.mx.test. CNAME target.mx.test.',
      'target.mx.test. A 127.0.0.1',
      `_${ports.get('right')}._tcp.target.mx.test. TLSA ${OURS}`,
    ],
    unsigned: {
      'unsigned.test': [...mail('unsigned', { ...UNSIGNED, host: 'mx.unsigned.test' }), 'unsigned-host A 127.0.0.1'],
    },
    bogus: {
      'bogus.test': mail('bogus', { ...BOGUS, host: 'mx.bogus.test' }),
      '_tcp.bogus-tlsa.mx.test': [`_${ports.get('right')} TLSA ${OURS}`],
    },
  });
});

afterAll(async () => {
  await dns.close();
  for (const server of servers.values()) await server.close();
  rmSync(folder, { recursive: true });
});

function dnssec(validating: 'auto' | boolean = 'auto', address = dns.address) {
  return createDnssec({ servers: [address], validating, clock: systemClock });
}

/** Sends a mail to the domain and compares what comes of it. */
async function expectOutcome(
  label: string,
  outcome: Outcome,
  options: Parameters<typeof startQueue>[0],
): Promise<void> {
  const { server, state, policy: name = 'dane', result, words = '', host = `${label}.mx.test` } = outcome;
  const postfix = servers.get(server);
  const before = (await postfix?.count()) ?? 0;
  const queue = await startQueue({
    port: ports.get(server) ?? 0,
    resolver: createResolver({ servers: [dns.address] }),
    ...options,
  });
  const message = await queue.send(`info@${label}.test`);
  const [attempt] = await vi.waitUntil(async () => {
    const [delivery] = Object.values(await queue.deliveries(message));
    return delivery !== undefined && delivery.tries.length > 0 && delivery.tries;
  }, WAIT);
  expect(attempt).toMatchObject({ outcome: state, tls_policy: name, tls_result: result });
  if (name === 'dane' && state === 'delivered') expect(attempt?.tls).toMatch(/^TLSv1\.[23]$/);
  expect(attempt?.reply).toContain(words.replace('HOST', host));
  if (state === 'delivered') await postfix?.untilMessages(before + 1);
  expect(await postfix?.count()).toBe(state === 'delivered' ? before + 1 : before);
}

describe('DANE', () => {
  test.each(Object.entries(DANE))('%s', (label, outcome) => expectOutcome(label, outcome, { dnssec: dnssec() }));

  test('records of the name that the host is an alias of', () =>
    expectOutcome('alias', succeeds('right', OURS), { dnssec: dnssec() }));

  test('an unsigned domain', () => expectOutcome('unsigned', UNSIGNED, { dnssec: dnssec() }));

  test('a domain that DNSSEC disproves', () => expectOutcome('bogus', BOGUS, { dnssec: dnssec() }));

  test.each<[string, () => ReturnType<typeof dnssec>]>([
    ['a resolver that proves nothing', () => dnssec('auto', dns.authority)],
    ['dns.validating: false', () => dnssec(false)],
  ])('is not obeyed with %s', async (_, checked) => {
    const outcome = { ...DANE['ee-wrong'], server: 'right', state: 'delivered', policy: null, result: null, words: '' };
    await expectOutcome('ee-wrong', outcome as Outcome, { dnssec: checked() });
  });
});

test.each(Object.entries(MTA_STS))('MTA-STS: %s', async (label, outcome) => {
  const { mode, mx = `${label}.mx.test` } = outcome;
  const server = await startPolicyServer(`mta-sts.${label}.test`);
  server.answer = { text: policy(mode, [mx]) };
  await expectOutcome(label, outcome, { dnssec: dnssec(), fetchPolicy: server.fetchPolicy, ca: pem('ca') });
});

test('explain and doctor say what is found', async () => {
  const port = ports.get('right') ?? 0;
  const appliance = await openAppliance({ deliverTo: port, server: { dns: { servers: [dns.address] } } });
  const run = await appliance.start();
  async function explained(label: string): Promise<unknown> {
    const { body } = await appliance.admin(`/admin/explain?what=info@${label}.test`);
    const { steps } = z.object({ steps: z.array(z.looseObject({ step: z.string() })) }).parse(body);
    return steps.find(({ step }) => step === 'tls') ?? steps.find(({ step }) => step === 'route');
  }
  expect(await explained('ee-wrong')).toMatchObject({
    found: 'TLS is required, with a certificate that matches the TLSA records (no recent delivery)',
    because: `DANE: ee-wrong.mx.test: ${WRONG}`,
  });
  expect(await explained('alias')).toMatchObject({ because: `DANE: alias.mx.test (target.mx.test): ${OURS}` });
  expect(await explained('unsigned')).toMatchObject({ because: 'RFC 7435: no policy requires more' });
  expect(await explained('bogus-tlsa')).toMatchObject({
    verdict: 'warning',
    found: expect.stringContaining('451 4.7.5 DANE for bogus-tlsa.test cannot be checked'),
  });
  expect((await appliance.admin('/admin/doctor')).body).toMatchObject({
    checks: expect.arrayContaining([
      { name: 'dnssec', status: 'ok', found: 'the resolver validates DNSSEC: DANE is used' },
    ]),
  });
  await run.end('SIGTERM');
});
