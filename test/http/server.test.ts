import { existsSync, statSync, writeFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { once } from 'node:events';
import { dirname, join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { StoreError } from '../../src/store/store.ts';
import { testClock } from '../harness/clock.ts';
import { startHttp } from '../harness/http.ts';
import { temporaryFolder } from '../harness/store.ts';

const ADDRESS = '/example.com/contact';
const BODY = new URLSearchParams({ message: 'Hello' });
const HEAD = 'HTTP/1.1\r\nHost: x\r\n';
const COUNTED = {
  'x-request-id': expect.stringMatching(/^req_[0-9a-z]{26}$/),
  'x-ratelimit-limit': expect.stringMatching(/^\d+$/),
  'x-ratelimit-remaining': expect.stringMatching(/^\d+$/),
  'x-ratelimit-reset': expect.stringMatching(/^\d{10}$/),
};

describe('every response', () => {
  test('has an id, what the limits leave, and the headers that keep browsers from guessing', async () => {
    const http = await startHttp({
      options: { extra: (ctx, next) => (ctx.path === '/outbox' ? void (ctx.body = 'x') : next()) },
    });
    const answers = await Promise.all([
      http.request('/healthz'),
      http.request('/readyz'),
      http.request('/nope'),
      http.request('/outbox'),
      http.request('/admin/queue'),
      http.request('/healthz', { local: true }),
      http.request('/nope', { local: true }),
      http.request(ADDRESS),
      http.request(ADDRESS, { body: BODY }),
      http.request(ADDRESS, { method: 'OPTIONS' }),
      http.request(ADDRESS, { method: 'DELETE' }),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 404, 200, 401, 200, 404, 200, 200, 204, 405]);
    for (const { headers } of answers) {
      expect(headers).toMatchObject({
        ...COUNTED,
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'same-origin',
        'cache-control': 'no-store',
      });
      expect(headers['x-powered-by']).toBeUndefined();
    }
    expect(new Set(answers.map(({ headers }) => headers['x-request-id'])).size).toBe(answers.length);
  });

  test.each([
    ['no HTTP at all', 'hello\r\n\r\n', 400],
    ['a bad header', `GET / ${HEAD}Bad Header: x\r\n\r\n`, 400],
    ['no host', 'GET / HTTP/1.1\r\n\r\n', 400],
    ['two lengths', `POST ${ADDRESS} ${HEAD}Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc`, 400],
    [
      'a length and chunks (request smuggling)',
      `POST ${ADDRESS} ${HEAD}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      400,
    ],
    [
      'a bad chunk',
      `POST ${ADDRESS} ${HEAD}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n`,
      400,
    ],
    ['endless headers', `GET / ${HEAD}X: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
  ])('%s is answered too', async (_, bytes, status) => {
    const http = await startHttp();
    const heard = await http.raw(bytes, (socket) => socket.end());
    expect(heard).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(heard).toMatch(/^X-Request-Id: req_/m);
    expect(heard).toMatch(/^X-RateLimit-Remaining: \d+/m);
    expect(heard).toContain('"code":"');
    expect(await http.submissions()).toEqual([]);
  });
});

describe('paths', () => {
  test('an unknown one is 404 in shape A; a page to somebody who typed it', async () => {
    const http = await startHttp();
    for (const path of [
      '/Healthz',
      '/API/projects',
      '/Projects',
      '/x',
      '/v1',
      '/c/a',
      '/f/',
      '/v1/c/a/b',
      '/api/submit/x',
      '/.well-known/acme-challenge/x',
      '/api/healthz',
      '/example.com',
      '/example.com/a/b',
      '//example.com/contact',
      '/%zz.com/a',
      '*',
    ]) {
      const answer = await http.request(path);
      expect([path, answer.status, answer.json()]).toEqual([
        path,
        404,
        { error: expect.any(String), code: 'NOT_FOUND', request_id: answer.headers['x-request-id'] },
      ]);
    }
    const page = await http.request('/x', { headers: { 'Sec-Fetch-Mode': 'navigate' } });
    expect([page.status, page.headers['content-type']]).toEqual([404, 'text/html; charset=utf-8']);
  });

  test('the first one says what the server is, with a policy that fetches nothing', async () => {
    const http = await startHttp();
    const page = await http.request('/');
    expect([page.status, page.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
    expect(page.text).toContain('<meta name="viewport"');
    expect(page.text).toContain('<a href="/docs">');
    expect(page.text).toContain('mail.example.net');
    expect(page.headers['content-security-policy']).toMatch(/^default-src 'none'; style-src 'sha256-/);
    expect(page.text).not.toMatch(/(?:src|href)="https?:/);
  });

  test('a domain in a path is written in any case, the rest in one', async () => {
    const http = await startHttp();
    const post = async (path: string) =>
      (await http.request(path, { body: new URLSearchParams({ message: 'x' }) })).status;
    expect(await post('/Example.COM/contact')).toBe(200);
    expect(await post('/example.com/Contact')).toBe(404);
    expect(await post('/V1/example.com/contact')).toBe(404);
  });

  test('a known one with another method is 405 and says which', async () => {
    const http = await startHttp();
    const answer = await http.request('/healthz', { method: 'POST' });
    expect([answer.status, answer.headers.allow, answer.json()['code']]).toEqual([
      405,
      'HEAD, GET',
      'METHOD_NOT_ALLOWED',
    ]);
    expect((await http.request('/v1/admin/queue/hold', { method: 'PUT' })).headers.allow).toBe('POST, HEAD, GET');
  });

  test.each([
    ['two hosts', 'Host: a\r\nHost: b\r\n'],
    ['the same host twice', 'Host: a\r\nhost: a\r\n'],
    ['no host', ''],
    ['two lengths', 'Host: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n'],
    ['a length and a coding', 'Host: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n'],
  ])('%s in a request is 400', async (_, headers) => {
    const http = await startHttp();
    const heard = await http.raw(`POST /example.com/contact HTTP/1.1\r\n${headers}Connection: close\r\n\r\na=b`);
    expect(heard).toMatch(/^HTTP\/1.1 400 /);
    expect(heard).toContain('"code":"REQUEST_MALFORMED"');
    expect(await http.submissions()).toEqual([]);
  });

  test('an absolute request target is its path; HEAD is GET without a body', async () => {
    const http = await startHttp();
    expect(await http.raw(`GET http://x/healthz ${HEAD}Connection: close\r\n\r\n`)).toMatch(/^HTTP\/1.1 200 /);
    const head = await http.request(ADDRESS, { method: 'HEAD' });
    expect([head.status, head.text]).toEqual([200, '']);
  });
});

describe('health', () => {
  test('readyz names what is wrong, and the configuration’s problems to the operator alone', async () => {
    let queue: string | undefined = 'nothing has moved for 5 minutes';
    const http = await startHttp({
      problems: ['projects/secret-client.yml:3:5 …'],
      options: { queueProblem: () => queue },
    });
    const down = await http.request('/readyz');
    expect(down.status).toBe(503);
    expect(down.json()).toMatchObject({
      status: 'not ready',
      checks: { database: { ok: true }, queue: { ok: false, reason: queue } },
    });
    queue = undefined;
    const up = await http.request('/readyz');
    expect([up.status, up.json()]).toEqual([
      200,
      expect.objectContaining({ status: 'ready', configuration: expect.objectContaining({ problems: 1 }) }),
    ]);
    expect(up.text).not.toContain('secret-client');
    expect((await http.request('/readyz', { local: true })).text).toContain('secret-client');
  });

  test('readyz writes to the database, but not for every caller', async () => {
    let writes = 0;
    let broken = false;
    const http = await startHttp();
    const { store } = http;
    const clock = testClock();
    const watched = await startHttp({
      clock,
      store: {
        ...store,
        write: (unit) => {
          writes++;
          return broken ? Promise.reject(new StoreError('disk full', 'SQLITE_FULL')) : store.write(unit);
        },
      },
    });
    writes = 0;
    await Promise.all(Array.from({ length: 20 }, () => watched.request('/readyz')));
    expect(writes).toBe(1);
    broken = true;
    expect((await watched.request('/readyz')).status).toBe(200);
    clock.advance(1000);
    expect((await watched.request('/readyz')).status).toBe(503);
    expect((await watched.request('/healthz')).status).toBe(200);
    broken = false;
    clock.advance(1000);
    expect((await watched.request('/readyz')).status).toBe(200);
  });
});

describe('keys and the operator', () => {
  test('over TCP nobody is the operator; over the Unix socket no key is needed, and a wrong one is wrong', async () => {
    const http = await startHttp();
    for (const prefix of ['', '/api', '/v1']) {
      const path = `${prefix}/admin/queue`;
      const codes = [
        await http.request(path),
        await http.request(path, { headers: { Authorization: 'Bearer svc_sk_live_x' } }),
        await http.request(path, { headers: { 'Service-Api-Key': 'x', 'X-Api-Key': 'x' } }),
        await http.request(path, { headers: { 'X-Api-Key': 'x' }, local: true }),
      ].map((answer) => [answer.status, answer.json()['code']]);
      expect(codes).toEqual([
        [401, 'AUTH_MISSING_KEY'],
        [401, 'AUTH_INVALID_KEY'],
        [400, 'AUTH_AMBIGUOUS'],
        [401, 'AUTH_INVALID_KEY'],
      ]);
    }
  });
});

describe('sockets', () => {
  test('the operator’s socket has mode 0660; a stale one is replaced, a living one and a file are not', async () => {
    const http = await startHttp();
    expect(statSync(http.socket).mode & 0o777).toBe(0o660);
    await expect(startHttp({ server: { admin_socket: http.socket } })).rejects.toThrow(
      'another daemon is listening on',
    );
    const file = join(await temporaryFolder(), 'file');
    writeFileSync(file, 'precious');
    await expect(startHttp({ server: { admin_socket: file } })).rejects.toThrow('is not a socket');
    expect(existsSync(file)).toBe(true);
    await http.close();
    expect(existsSync(http.socket)).toBe(false);
    const stale = join(await temporaryFolder(), 'deep', 'admin.sock');
    await leaveStale(stale);
    expect((await (await startHttp({ server: { admin_socket: stale } })).request('/healthz')).status).toBe(200);
  });

  test('several addresses; one that is taken is an error that names it, and leaves nothing listening', async () => {
    const http = await startHttp({ server: { http: { listen: ['127.0.0.1:0', '[::1]:0'] } } });
    expect((await http.request('/healthz')).status).toBe(200);
    const taken = startHttp({ server: { http: { listen: ['127.0.0.1:0', `127.0.0.1:${http.port}`] } } });
    await expect(taken).rejects.toThrow(`cannot listen on 127.0.0.1:${http.port}: another program is listening there`);
  });

  test('slow headers and slow bodies end at an absolute deadline', async () => {
    const http = await startHttp({ options: { deadlines: { headers: 300, request: 600 } } });
    const drip = (bytes: string) =>
      http.raw(bytes, (socket) => {
        const timer = setInterval(() => socket.write('a'), 50);
        socket.on('close', () => clearInterval(timer));
      });
    const began = performance.now();
    const heard = await Promise.all([
      drip(`GET / ${HEAD}X: `),
      drip(`POST ${ADDRESS} ${HEAD}Content-Type: application/json\r\nContent-Length: 9999\r\n\r\n{`),
    ]);
    expect(performance.now() - began).toBeLessThan(20_000);
    for (const text of heard) expect(text).toMatch(/^HTTP\/1.1 408 /);
  });

  test('a body that is refused early is read past, so that the answer arrives and the connection lives', async () => {
    const http = await startHttp({ limits: { body: '1KiB' } });
    const length = 3_000_000;
    const request = `POST ${ADDRESS} ${HEAD}Content-Type: application/x-www-form-urlencoded\r\nContent-Length: ${length}\r\n\r\n`;
    const heard = await http.raw(request + 'x'.repeat(length) + `GET /healthz ${HEAD}Connection: close\r\n\r\n`);
    expect(heard).toMatch(/^HTTP\/1.1 413 [^]*HTTP\/1.1 200 /);
  });

  test('Expect: 100-continue is answered when the body is wanted, and not before', async () => {
    const http = await startHttp();
    const head = (path: string, length: number) =>
      `POST ${path} ${HEAD}Expect: 100-continue\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: ${length}\r\nConnection: close\r\n\r\n`;
    const wanted = await http.raw(head(ADDRESS, 3), (socket) => socket.once('data', () => socket.write('a=b')));
    expect(wanted).toMatch(/^HTTP\/1.1 100 Continue\r\n\r\nHTTP\/1.1 200 /);
    const unwanted = await http.raw(head('/example.com/nope', 3));
    expect(unwanted).toMatch(/^HTTP\/1.1 404 [^]*connection: close/i);
  });

  test('close finishes the request in progress, takes no new one, and drops idle connections', async () => {
    let release: () => void = () => undefined;
    let began: () => void = () => undefined;
    const begun = new Promise<void>((resolve) => (began = resolve));
    const http = await startHttp({
      options: {
        accept: async () => {
          began();
          await new Promise<void>((resolve) => (release = resolve));
          return { id: 'sub_1', status: 'accepted', isOverflow: false, ip: '' };
        },
      },
    });
    const idle = http.raw(`GET /healthz ${HEAD}\r\n`);
    const answer = http.request(ADDRESS, { body: BODY, headers: { Accept: 'application/json' } });
    await begun;
    const closed = http.close(5000);
    expect(await idle).toMatch(/^HTTP\/1.1 200 /);
    await expect(http.request('/healthz')).rejects.toThrow('ECONNREFUSED');
    release();
    expect((await answer).json()).toMatchObject({ id: 'sub_1' });
    expect((await answer).headers.connection).toBe('close');
    await closed;
  });

  test('close waits no longer than it is told', async () => {
    const accept = vi.fn(() => new Promise<never>(() => undefined));
    const http = await startHttp({ options: { accept } });
    const answer = http.request(ADDRESS, { body: BODY });
    const outcome = answer.then(
      () => 'answered',
      () => 'hung up',
    );
    await expect.poll(() => accept.mock.calls.length).toBe(1);
    await http.close(100);
    expect(await outcome).toBe('hung up');
  });
});

async function leaveStale(path: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  // A socket file whose owner died: bound in a child that is killed.
  const { spawn } = await import('node:child_process');
  const child = spawn(process.execPath, [
    '-e',
    `require('node:net').createServer().listen(${JSON.stringify(path)}, () => console.log('up'))`,
  ]);
  await once(child.stdout, 'data');
  child.kill('SIGKILL');
  await once(child, 'exit');
  expect(existsSync(path)).toBe(true);
}
