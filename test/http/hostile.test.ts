import { readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { gzipSync } from 'node:zlib';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { startHttp, type TestHttp, type TestRequest } from '../harness/http.ts';
import { testKey } from '../harness/keys.ts';
import { temporaryFolder } from '../harness/store.ts';

/** Each with the status that both kinds of route answer; `form` where a form takes what no schema can know. */
const BODIES: [name: string, request: () => TestRequest, api: number, form?: number][] = [
  ['5,000 fields, urlencoded', () => ({ body: new URLSearchParams(many(5000)) }), 415, 413],
  ['5,000 fields, multipart', () => ({ body: parts(many(5000)) }), 415, 413],
  ['5,000 fields, JSON', () => ({ body: Object.fromEntries(many(5000)) }), 400, 413],
  ['2,000 files', () => ({ body: files(2000) }), 415, 413],
  ['JSON 200,000 deep', () => json('{"a":'.repeat(200_000)), 400],
  ['lists 200,000 deep', () => json(`{"a":${'['.repeat(200_000)}${']'.repeat(200_000)}}`), 400],
  ['a gzip bomb', () => ({ ...json(gzipSync(Buffer.alloc(30_000_000, 32))), ...gzipped }), 415],
  ['__proto__', () => json('{"__proto__":{"admin":true}}'), 400, 200],
  ['a field named toString', () => json('{"toString":"x"}'), 400, 200],
  ['a member that is given twice', () => json('{"name":"a","name":"b"}'), 400],
  ['a charset that nobody knows', () => json('{}', 'application/json; charset=klingon'), 415],
  ['bytes that are not of the charset', () => json(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])), 400],
  ['nothing that is JSON', () => json('{"name":'), 400],
  ['a list', () => json('[1,2,3]'), 400],
  ['a megabyte of brackets', () => json(`{"a":[${'[],'.repeat(340_000)}[]]}`), 400, 413],
  ['no type', () => ({ body: 'name=x', method: 'POST' }), 415],
  ['XML', () => json('<a/>', 'text/xml'), 415],
];

afterEach(() => {
  vi.unstubAllEnvs();
});

describe.each([
  ['a form', '/example.com/contact'],
  ['the API', '/v1/api-keys'],
] as const)('%s', (kind, path) => {
  test.each(BODIES)('answers %s at once, with words', async (_, request, api, form = api) => {
    vi.stubEnv('TMPDIR', await temporaryFolder());
    const http = await startHttp({ forms: { contact: { to: 'owner@example.com', uploads: { enabled: true } } } });
    const key = kind === 'a form' ? undefined : await testKey(http.store);
    const before = await temporary();
    const given = request();
    const headers = { Accept: 'application/json', ...given.headers, ...key?.headers };
    const began = process.threadCpuUsage();
    const answer = await http.request(path, { ...given, headers });
    const { user } = process.threadCpuUsage(began);
    expect(answer.status).toBe(kind === 'a form' ? form : api);
    const { error, message } = answer.json();
    if (answer.status >= 400) expect(String(kind === 'a form' ? message : error)).toMatch(/\w+ \w+/);
    // Of the server and the client together, however busy the machine is.
    expect(user / 1000).toBeLessThan(1000);
    expect(await temporary()).toEqual(before);
    await expectAlive(http);
  });
});

async function expectAlive(http: TestHttp): Promise<void> {
  expect((await http.request('/healthz')).status).toBe(200);
}

/** What this process leaves behind among temporary files. */
async function temporary(): Promise<string[]> {
  return (await readdir(tmpdir())).toSorted();
}

function many(count: number): [string, string][] {
  return Array.from({ length: count }, (_, i) => [`f${i}`, '1']);
}

function parts(fields: [string, string][]): FormData {
  const data = new FormData();
  for (const [name, value] of fields) data.append(name, value);
  return data;
}

function files(count: number): FormData {
  const data = new FormData();
  for (let i = 0; i < count; i++) data.append('file', new Blob(['x']), `f${i}.txt`);
  return data;
}

const gzipped = { headers: { 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' } };

function json(body: string | Uint8Array, type = 'application/json'): TestRequest {
  return { body, method: 'POST', headers: { 'Content-Type': type } };
}
