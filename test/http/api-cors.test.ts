import { expect, test } from 'vitest';
import { startHttp } from '../harness/http.ts';

const PREFLIGHT = { 'Access-Control-Request-Method': 'POST', 'Access-Control-Request-Headers': 'authorization' };

test('pages of the listed origins may call the API, and read its refusals', async () => {
  const http = await startHttp({
    server: { http: { listen: ['127.0.0.1:0'], cors_origins: ['https://admin.example.org'] } },
  });
  const Origin = 'https://admin.example.org';
  const preflight = await http.request('/v1/admin/queue', { method: 'OPTIONS', headers: { Origin, ...PREFLIGHT } });
  expect(preflight.status).toBe(204);
  expect(preflight.headers['access-control-allow-origin']).toBe(Origin);
  expect(preflight.headers['access-control-allow-headers']).toContain('authorization');
  const refused = await http.request('/admin/queue', { headers: { Origin } });
  expect([refused.status, refused.headers['access-control-allow-origin']]).toEqual([401, Origin]);
  expect(refused.headers['access-control-expose-headers']).toContain('X-Request-Id');
  expect(refused.headers['vary']).toContain('Origin');
});

test('no other page may, and by default none', async () => {
  const listed = await startHttp({
    server: { http: { listen: ['127.0.0.1:0'], cors_origins: ['https://admin.example.org'] } },
  });
  for (const [http, Origin] of [
    [listed, 'https://admin.example.org.evil.example'],
    [listed, 'http://admin.example.org'],
    [listed, 'null'],
    [await startHttp(), 'https://admin.example.org'],
  ] as const) {
    const preflight = await http.request('/admin/queue', { method: 'OPTIONS', headers: { Origin, ...PREFLIGHT } });
    expect(preflight.status).toBe(405);
    expect(preflight.headers['access-control-allow-origin']).toBeUndefined();
    const answer = await http.request('/admin/queue', { headers: { Origin } });
    expect(answer.headers['access-control-allow-origin']).toBeUndefined();
  }
});
