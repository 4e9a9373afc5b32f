import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { startSite, useBrowser, type Site, type Visitor } from '../harness/browser.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';

const openBrowser = useBrowser();

function project(site: Site): string {
  return `
project: { name: Site, slug: site, owner: owner@inbox.test }
settings: { rate_limit: 1000 }
domains:
  example.test:
    forms:
      contact:
        to: owner@inbox.test
        required: [name, email]
        allowed_origins: ["http://localhost:${site.port}"]
        uploads: { enabled: true }
      once: { to: owner@inbox.test, rateLimit: 1 }
`;
}

interface Answered {
  readonly status: number;
  readonly type: string;
  readonly headers: Record<string, string>;
  readonly body: Record<string, unknown>;
}

/** What `fetch()` in the page comes to: what its script can read, or the words of the exception. */
type Fetched = Answered | string;

interface Scene extends Visitor {
  readonly site: Site;
  readonly world: TestWorld;
  /** Opens a page of this origin, by its host name. */
  readonly at: (host: string) => Promise<void>;
  /** Calls fetch() in it; `init` is the source of its second argument. */
  readonly send: (path: string, init: string) => Promise<Fetched>;
}

async function scene(server: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {}): Promise<Scene> {
  const site = await startSite();
  const world = await startTestWorld({ projects: { 'site.yml': project(site) }, server });
  site.pages.set('/', '<!doctype html><html lang="en"><title>A page elsewhere</title><h1>Elsewhere</h1></html>');
  const visitor = await openBrowser();
  const { page } = visitor;
  return {
    ...visitor,
    site,
    world,
    at: async (host) => void (await page.goto(`http://${host}:${site.port}/`)),
    send: (path, init) => fetchIn(page, world.url + path, init),
  };
}

function fetchIn(page: Page, url: string, init: string): Promise<Fetched> {
  return page.evaluate<Fetched>(`fetch(${JSON.stringify(url)}, ${init}).then(
    async (response) => ({
      status: response.status,
      type: response.type,
      headers: Object.fromEntries(response.headers),
      body: await response.json(),
    }),
    (error) => String(error),
  )`);
}

function asJson(fields: object, headers: object = {}): string {
  const all = { 'Content-Type': 'application/json', ...headers };
  return `{ method: 'POST', headers: ${JSON.stringify(all)}, body: ${JSON.stringify(JSON.stringify(fields))} }`;
}

function asForm(fields: Readonly<Record<string, string>>, more = ''): string {
  return `{ method: 'POST', body: (() => {
    const form = new FormData();
    for (const [name, value] of Object.entries(${JSON.stringify(fields)})) form.append(name, value);
    ${more}
    return form;
  })() }`;
}

const ANN = { name: 'Ann Lee', email: 'ann@inbox.test', message: 'Hello' };

describe('fetch() from a page on another origin', () => {
  test('an origin that the form lists sends JSON and FormData and reads how it went', async () => {
    const { at, send, world, site, problems } = await scene();
    await at('localhost');
    const json = await send('/example.test/contact', asJson(ANN));
    expect(json).toMatchObject({ status: 200, type: 'cors', body: { success: true, ok: true } });
    const form = await send(
      '/example.test/contact',
      asForm({ ...ANN, name: '山田 太郎' }, "form.append('file', new File(['one\\n'], '写真.txt'));"),
    );
    expect(form).toMatchObject({ status: 200, body: { success: true, id: expect.stringMatching(/^sub_/) } });
    const { headers } = form as Answered;
    expect(Number(headers['x-ratelimit-remaining'])).toBe(998);
    expect(headers['x-request-id']).toMatch(/^req_/);
    const mails = await world.caught(2);
    const sources = await Promise.all(mails.list().map((mail) => mails.source(mail)));
    // They come over two connections, in either order.
    expect(
      mails
        .list()
        .map(({ attachments }) => attachments)
        .sort(),
    ).toEqual([0, 1]);
    expect(sources.join('')).toContain(`http://localhost:${site.port}`);
    expect(problems).toEqual([]);
  });

  test('so do the pages of the domain and its subdomains, with headers that need a preflight', async () => {
    const { at, send, world, problems } = await scene();
    const headers = {
      'Idempotency-Key': 'a-key-of-the-page',
      'X-Requested-With': 'XMLHttpRequest',
      Accept: 'application/json',
      'Formspree-Client': '@formspree/core@4.0.0',
    };
    for (const host of ['example.test', 'www.example.test']) {
      await at(host);
      const answer = await send('/v1/example.test/contact', asJson(ANN, headers));
      expect(answer).toMatchObject({ status: 200, body: { success: true } });
    }
    // The second was the first once more.
    const repeated = (await send('/v1/example.test/contact', asJson(ANN, headers))) as Answered;
    expect(repeated.headers['idempotent-replayed']).toBe('true');
    await world.caught(1);
    expect((await world.daemon.store.read.selectFrom('submissions').selectAll().execute()).length).toBe(1);
    expect(problems).toEqual([]);
  });

  test('refusals can be read: fields, limits, size, unknown forms', async () => {
    const { at, send, world, problems } = await scene({ limits: { file: '1MiB' } });
    await at('www.example.test');
    for (const init of [asJson({ email: 'nobody' }), asForm({ email: 'nobody' })]) {
      const invalid = await send('/example.test/contact', init);
      expect(invalid).toMatchObject({
        status: 400,
        body: {
          success: false,
          errors: [
            { field: 'name', code: 'REQUIRED_FIELD_MISSING', message: expect.stringMatching(/\w/) },
            { field: 'email', code: 'TYPE_EMAIL', message: expect.stringMatching(/\w/) },
          ],
        },
      });
    }
    expect(await send('/example.test/once', asJson(ANN))).toMatchObject({ status: 200 });
    const limited = (await send('/example.test/once', asForm(ANN))) as Answered;
    expect(limited).toMatchObject({ status: 429, body: { code: 429, errors: [{ code: 'RATE_LIMITED' }] } });
    expect(Number(limited.headers['retry-after'])).toBeGreaterThan(0);
    for (const init of [asJson(ANN), asForm(ANN)]) {
      const unknown = await send('/example.test/nothing', init);
      expect(unknown).toMatchObject({ status: 404, body: { errors: [{ code: 'FORM_NOT_FOUND' }] } });
    }
    const malformed = await send(
      '/example.test/contact',
      "{ method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{' }",
    );
    expect(malformed).toMatchObject({ status: 400, body: { errors: [{ code: 'BODY_MALFORMED' }] } });
    await world.caught(1);
    expect(world.mx.mails.list()).toHaveLength(1);
    expect(problems).toEqual([]);
  });

  test('a file that is too big is refused in words, although the browser is still sending it', async () => {
    const { at, send, problems } = await scene({ limits: { file: '1MiB', body: '100MiB' } });
    await at('www.example.test');
    const file = "form.append('file', new File([new Uint8Array(30 * 1024 * 1024)], 'film.mp4'));";
    const answer = await send('/example.test/contact', asForm(ANN, file));
    expect(answer).toMatchObject({ status: 413, body: { errors: [{ code: 'FILES_TOO_BIG' }] } });
    expect(problems).toEqual([]);
  });

  test('a body over the limit is refused in words', async () => {
    const { at, send, problems } = await scene({ limits: { body: '2MiB', file: '1MiB', files_total: '1MiB' } });
    await at('www.example.test');
    const file = "form.append('file', new File([new Uint8Array(30 * 1024 * 1024)], 'film.mp4'));";
    expect(await send('/example.test/contact', asForm(ANN, file))).toMatchObject({ status: 413 });
    expect(problems).toEqual([]);
  });

  test('an origin that may not use the form is refused, and reads why', async () => {
    const { at, send, world, problems } = await scene();
    const refused = { status: 403, body: { errors: [{ code: 'ORIGIN_NOT_ALLOWED' }] } };
    for (const host of ['evil.test', 'notexample.test', '127.0.0.1']) {
      await at(host);
      expect(await send('/example.test/contact', asJson(ANN))).toMatchObject(refused);
      expect(await send('/example.test/contact', asForm(ANN))).toMatchObject(refused);
    }
    // The form that lists no origins is not open to the one that another form lists.
    await at('localhost');
    expect(await send('/example.test/once', asForm(ANN))).toMatchObject(refused);
    expect(await world.daemon.store.read.selectFrom('submissions').selectAll().execute()).toEqual([]);
    expect(problems).toEqual([]);
  });
});
