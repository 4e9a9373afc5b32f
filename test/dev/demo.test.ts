import { describe, expect, test } from 'vitest';
import { demoPages } from '../../src/dev/environment.ts';
import { expectStrictPage, policyOf, serve } from './pages.ts';

describe('the demo form', () => {
  test('is a plain form that needs no script, with a label for every field', async () => {
    const url = await serve(demoPages('/demo.example/contact'));
    const response = await fetch(`${url}/`);
    const page = await response.text();
    expectStrictPage(response, page);
    expect(page).toMatch(/<form action="\/demo\.example\/contact" method="post" enctype="multipart\/form-data">/);
    for (const field of ['name', 'email', 'message', 'files']) {
      expect(page).toMatch(new RegExp(`<label for="${field}">`));
      expect(page).toMatch(new RegExp(`id="${field}"\\s+name="${field}"`));
    }
    expect(page).toMatch(/type="file"\s+multiple/);
    expect(page).toContain('href="/outbox"');
    expect(page).toContain(`curl ${url}/demo.example/contact`);
  });

  test('may be sent to its own server, which must see where it comes from', async () => {
    const url = await serve(demoPages('/demo.example/contact'));
    const response = await fetch(`${url}/`);
    expect(policyOf(response)).toMatchObject({ 'form-action': "'self'", 'connect-src': "'self'" });
    expect(response.headers.get('referrer-policy')).toBe('same-origin');
  });

  test('leaves every other path and method alone', async () => {
    const url = await serve(demoPages('/demo.example/contact'));
    expect((await fetch(`${url}/else`)).status).toBe(418);
    expect((await fetch(`${url}/`, { method: 'POST' })).status).toBe(418);
    expect((await fetch(`${url}/`, { method: 'HEAD' })).status).toBe(200);
  });
});
