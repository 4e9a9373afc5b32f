/** The dev world's middleware behind a real HTTP server, and what a browser would check of an answer. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import Koa from 'koa';
import { expect, onTestFinished } from 'vitest';

/** The address of a server that answers with `middleware`, and 418 to whatever that leaves alone. */
export async function serve(middleware: Koa.Middleware): Promise<string> {
  const app = new Koa();
  app.silent = true;
  app.use(middleware);
  app.use((ctx) => {
    ctx.status = 418;
  });
  const server = app.listen(0, '127.0.0.1');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, 'listening');
  const address = server.address();
  return `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : ''}`;
}

/** Directives of the Content-Security-Policy by name. */
export function policyOf(response: Response): Record<string, string> {
  const directives = (response.headers.get('content-security-policy') ?? '').split('; ');
  return Object.fromEntries(
    directives.map((directive) => {
      const [name = '', ...values] = directive.split(' ');
      return [name, values.join(' ')];
    }),
  );
}

/** That a page runs and looks as its own policy allows, and that the policy allows nothing else. */
export function expectStrictPage(response: Response, page: string): void {
  const policy = policyOf(response);
  const styles = [...page.matchAll(/<style>([^]*?)<\/style>/g)].map(([, text]) => quotedHash(text));
  const scripts = [...page.matchAll(/<script[^>]*>([^]*?)<\/script>/g)].map(([, text]) => quotedHash(text));
  expect(policy['default-src']).toBe("'none'");
  expect(policy['style-src']).toBe(styles.join(' '));
  expect(policy['script-src'] ?? '').toBe(scripts.join(' '));
  expect(policy['base-uri']).toBe("'none'");
  expect(policy['frame-ancestors']).toBe("'none'");
  // Text is escaped, so whatever looks like a tag is one; the values of their attributes are quoted.
  const tags = page.replaceAll(/<(script|style)>[^]*?<\/\1>/g, '').match(/<[a-z!][^>]*>/gi) ?? [];
  expect(
    tags.filter((tag) => /\s(on\w+|style|srcdoc)=|="\s*javascript:|<(script|object|embed|base)/i.test(tag)),
  ).toEqual([]);
  expect(response.headers.get('x-content-type-options')).toBe('nosniff');
}

function quotedHash(text = ''): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}
