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

describe('GET /docs', () => {
  test('names every documented route, and fetches nothing from anywhere', async () => {
    const http = await startHttp();
    const page = await http.request('/docs', { headers: { 'Sec-Fetch-Mode': 'navigate' } });
    expect(page.status).toBe(200);
    expect(page.headers['content-type']).toBe('text/html; charset=utf-8');
    expect(page.headers['content-security-policy']).toMatch(/^default-src 'none'; style-src 'sha256-/);
    const { paths } = (await http.request('/openapi.json')).json() as unknown as Document;
    for (const path of Object.keys(paths)) expect(page.text).toContain(`<code>${path}</code>`);
    expect(page.text).not.toMatch(/<(?:script|img|link|iframe)\b/);
    expect([...page.text.matchAll(/(?:href|src)="([^"]*)"/g)].filter(([, url]) => !/^[#/]/.test(url ?? ''))).toEqual(
      [],
    );
  });
});
