import { describe, expect, test } from 'vitest';
import { startHttp } from '../harness/http.ts';

interface Document {
  openapi: string;
  servers: { url: string }[];
  paths: Record<
    string,
    Record<string, { operationId: string; security?: object[]; parameters?: { in: string; name: string }[] }>
  >;
}

describe('GET /openapi.json', () => {
  test('is an OpenAPI 3.1 document in which every operation has a name of its own', async () => {
    const http = await startHttp();
    const answer = await http.request('/openapi.json');
    expect(answer.status).toBe(200);
    expect(answer.headers['content-type']).toBe('application/json');
    const document = JSON.parse(answer.text) as Document;
    expect(document.openapi).toMatch(/^3\.1\./);
    expect(document.servers.map(({ url }) => url)).toEqual(['/', '/api', '/v1']);
    const operations = Object.values(document.paths).flatMap((methods) => Object.values(methods));
    const names = operations.map(({ operationId }) => operationId);
    expect(new Set(names).size).toBe(names.length);
    for (const [path, methods] of Object.entries(document.paths)) {
      for (const { parameters = [] } of Object.values(methods)) {
        const inPath = parameters.filter((parameter) => parameter.in === 'path').map(({ name }) => name);
        expect(inPath, path).toEqual([...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name));
      }
    }
  });

  test('leads to addresses that exist', async () => {
    const http = await startHttp();
    const { paths } = (await http.request('/openapi.json')).json() as unknown as Document;
    for (const [path, methods] of Object.entries(paths)) {
      for (const method of Object.keys(methods)) {
        const target = path.replaceAll('{domain}', 'x.example').replaceAll(/\{\w+\}/g, 'x');
        const { status, text } = await http.request(target, { method: method.toUpperCase(), local: true });
        expect([status, text.includes('There is nothing at this address.')], `${method} ${path}`).not.toEqual([
          404,
          true,
        ]);
        expect(status, `${method} ${path}`).not.toBe(405);
      }
    }
  });
});

describe('GET /openapi.json as a contract', () => {
  test('lists every error code, and the headers of an answer that asks to wait', async () => {
    const http = await startHttp();
    const document = (await http.request('/openapi.json')).json() as unknown as Document & {
      components: {
        schemas: { ErrorCode: { enum: string[]; description: string } };
        responses: Record<string, { headers: Record<string, object>; description: string }>;
      };
    };
    const { schemas, responses } = document.components;
    expect(schemas.ErrorCode.enum).toEqual(expect.arrayContaining(['AUTH_MISSING_KEY', 'RATE_LIMITED', 'UNAVAILABLE']));
    expect(schemas.ErrorCode.description).toContain('`AUTH_MISSING_KEY` (401): An API key is required.');
    const tooMany = Object.entries(responses).filter(([name]) => /429/.test(name));
    expect(tooMany.length).toBeGreaterThan(0);
    for (const [, { headers }] of tooMany) {
      expect(Object.keys(headers)).toEqual([
        'X-Request-Id',
        'X-RateLimit-Limit',
        'X-RateLimit-Remaining',
        'X-RateLimit-Reset',
        'Retry-After',
      ]);
    }
  });
});

describe('GET /docs', () => {
  test('names every documented route, and fetches nothing from anywhere', async () => {
    const http = await startHttp();
    const page = await http.request('/docs', { headers: { 'Sec-Fetch-Mode': 'navigate' } });
    expect(page.status).toBe(200);
    expect(page.headers['content-type']).toBe('text/html; charset=utf-8');
    expect(page.headers['content-security-policy']).toMatch(/^default-src 'none'; style-src 'sha256-/);
    const { paths } = (await http.request('/openapi.json')).json() as unknown as Document;
    for (const path of Object.keys(paths)) expect(page.text).toContain(`<code>${path}</code>`);
    expect(page.headers['content-security-policy']).toMatch(/; script-src 'sha256-[^ ]+'$/);
    // An empty icon, so that no browser asks for one.
    const text = page.text.replace('<link rel="icon" href="data:,">', '');
    expect(text).not.toMatch(/<(?:img|link|iframe)\b|<script[^>]/);
    expect([...text.matchAll(/(?:href|src)="([^"]*)"/g)].filter(([, url]) => !/^[#/]/.test(url ?? ''))).toEqual([]);
  });
});
