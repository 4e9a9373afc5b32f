/**
 * Mutated HTTP requests against the real program: forms in all their shapes and every route of the API, with a key that may
 * do everything. 200,000 of them (`npm run fuzz`), or as many as `FUZZ_SECONDS` allow; `FUZZ_SEED` repeats a run.
 */
import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { mutate, mutateJson, pick, randomOf, type Random } from './mutate.ts';
import { budget, clientAddress, DOMAIN, startFuzzWorld, type FuzzWorld } from './world.ts';

const REQUESTS = 200_000;
const CONNECTIONS = 16;
const PATIENCE_MS = 20_000;

interface Input {
  readonly head: string;
  readonly body: Buffer;
  /** Where the body is JSON. */
  readonly json?: unknown;
}

test('mutated requests end no daemon, stop no other client and get no 5xx', { timeout: 3_600_000 }, async () => {
  const world = await startFuzzWorld();
  const { isOver, seed } = budget(0.6);
  const port = Number(new URL(world.appliance.url).port);
  let key = await newKey(world);
  const inputs = await inputsFor(world);
  const others = inputs.flatMap(({ head, body }) => [Buffer.from(head), body]);
  const statuses = new Map<number, number>();
  const findings: string[] = [];
  let sent = 0;

  async function client(): Promise<void> {
    while (!isOver(sent, REQUESTS) && findings.length < 10) {
      const n = sent++;
      if (n % 5000 === 4999) key = await validKey(world, key);
      const random = randomOf(seed, n);
      const bytes = requestOf(pick(random, inputs), random, { key, others });
      const answer = await exchange(port, bytes, clientAddress(n));
      const found = Array.from(answer.matchAll(/^HTTP\/1\.1 (\d{3})/gm), (match) => Number(match[1]));
      for (const status of found) statuses.set(status, (statuses.get(status) ?? 0) + 1);
      if (answer === 'no answer' || found.some((status) => status >= 500))
        findings.push(`seed ${seed}, input ${n}: ${answer.slice(0, 600)}\n${bytes.toString('latin1').slice(0, 1500)}`);
    }
  }

  await Promise.all(Array.from({ length: CONNECTIONS }, client));
  const counts = Array.from(statuses, ([status, count]) => `${status}: ${count}`).toSorted();
  process.stdout.write(`${sent} requests, seed ${seed}; ${counts.join(', ')}\n`);
  expect(findings.join('\n\n')).toBe('');
  // What was sent is not all refused at the first look.
  expect(statuses.get(200)).toBeGreaterThan(sent / 20);
  expect(statuses.get(401)).toBeLessThan(sent / 4);
  await world.expectUnharmed('HTTP');
});

/** An account whose plan stops nothing, so that what is limited hides nothing. */
async function newKey({ admin }: FuzzWorld): Promise<string> {
  const { tenant, key } = (await admin('POST', '/signup', {
    name: 'Fuzz',
    email: `fuzz${performance.now()}@inbox.test`,
  })) as { tenant: { id: string }; key: string };
  await admin('PATCH', `/admin/tenants/${tenant.id}`, { plan: 'enterprise' });
  return key;
}

/** The key, or a new one where an input has revoked it. */
async function validKey(world: FuzzWorld, key: string): Promise<string> {
  const answer = await fetch(`${world.appliance.url}/auth/status`, { headers: { 'X-Api-Key': key } });
  return answer.status === 200 ? key : newKey(world);
}

interface Around {
  readonly key: string;
  readonly others: readonly Buffer[];
}

/** Half keep the frame of HTTP and change what stands in it; the others change any byte. */
function requestOf(input: Input, random: Random, { key, others }: Around): Buffer {
  const isJson = input.json !== undefined && random() < 0.6;
  const body = isJson
    ? Buffer.from(JSON.stringify(mutateJson(input.json, random)))
    : random() < 0.6
      ? mutate(input.body, random, others)
      : input.body;
  const sized = `Content-Length: ${body.length}\r\n`;
  let head: Buffer = Buffer.from(input.head.replaceAll('{key}', key));
  if (random() < 0.3) head = mutate(head, random, others);
  const length = random() < 0.95 ? sized : `Content-Length: ${Math.floor(body.length * random() * 2)}\r\n`;
  const bytes = Buffer.concat([head, Buffer.from(body.length > 0 ? length : ''), Buffer.from('\r\n'), body]);
  return random() < 0.1 ? mutate(bytes, random, others) : bytes;
}

/** All that comes back; 'no answer' where the connection was left open without one. */
function exchange(port: number, bytes: Buffer, localAddress: string): Promise<string> {
  return new Promise((resolve) => {
    let answer = '';
    const socket = connect({ port, host: '127.0.0.1', localAddress });
    const timer = setTimeout(() => {
      answer = 'no answer';
      socket.destroy();
    }, PATIENCE_MS);
    socket.setEncoding('latin1').on('data', (piece: string) => (answer = (answer + piece).slice(0, 4096)));
    socket.on('error', () => undefined); // a server may hang up in the middle of a bad request
    socket.on('close', () => {
      clearTimeout(timer);
      resolve(answer);
    });
    socket.end(bytes);
  });
}

interface Operation {
  readonly 'x-permission'?: string;
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: Schema }>> };
}

interface Schema {
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly format?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly minimum?: number;
}

/** Requests that are answered well, to start from. */
async function inputsFor({ admin }: FuzzWorld): Promise<Input[]> {
  const { paths } = (await admin('GET', '/openapi.json')) as { paths: Record<string, Record<string, Operation>> };
  const routes = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, operation]): Input[] => {
      // Whom the operator trusts with all of it.
      if (operation['x-permission'] === 'admin') return [];
      // An answer without an end.
      if (path === '/events/stream') return [];
      const schema = operation.requestBody?.content['application/json']?.schema;
      const address = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => PARAMETERS[name] ?? 'contact');
      const query =
        method === 'get' ? '?limit=5&from=2026-01-01&interval=day' : path.endsWith('/config') ? '?dry_run=true' : '';
      const example = schema === undefined ? undefined : exampleOf(schema, 'x');
      return [jsonInput(`${method.toUpperCase()} ${address}${query}`, example)];
    }),
  );
  const push = jsonInput('PUT /projects/fuzz/config?dry_run=true', {
    config: `project: { name: Fuzz, slug: fuzz }\ndomains: { fuzz.test: { forms: { contact: { to: a@inbox.test, template: t, fields: { a: { pattern: '[a-z]+' } } } }, forwarding: { "*@fuzz.test": b@inbox.test } } }\ntemplates: { t: { type: form, subject: "{{ form.name }}", html_file: t.html } }\n`,
    files: { 't.html': '<p>{{ form.message | nl2br }}{% for f in fields %}{{ f.label }}{% endfor %}</p>' },
  });
  const mail = jsonInput('POST /email/send', {
    to: 'ana@inbox.test',
    from: `a@${DOMAIN}`,
    subject: 'Hi',
    html: '<p>Hello <a href="https://example.com">there</a></p>',
    attachments: [{ filename: 'a.txt', content: 'aGVsbG8=', content_type: 'text/plain' }],
    headers: { 'X-Ref': '1' },
  });
  const form = `POST /${DOMAIN}/contact`;
  const fields = { name: 'Ann', email: 'ann@inbox.test', message: 'Are you open on Friday?', 'list[]': ['a', 'b'] };
  const urlencoded =
    'name=Ann&email=ann%40inbox.test&message=Are+you+open%3F&list%5B%5D=a&list%5B%5D=b&_subject=Hi&_next=%2Fx';
  const multipart = [
    '--b\r\nContent-Disposition: form-data; name="name"\r\n\r\nAnn\r\n',
    '--b\r\nContent-Disposition: form-data; name="message"\r\nContent-Type: text/plain; charset=iso-8859-1\r\n\r\nHi\r\n',
    '--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"; filename*=UTF-8\'\'%e2%82%ac.txt\r\nContent-Type: text/plain\r\n\r\nhello\r\n--b--\r\n',
  ].join('');
  const forms: Input[] = [
    input(form, 'Content-Type: application/x-www-form-urlencoded\r\nSec-Fetch-Mode: navigate\r\n', urlencoded),
    input(
      form,
      `Content-Type: application/x-www-form-urlencoded\r\nOrigin: https://${DOMAIN}\r\nAccept: application/json\r\n`,
      urlencoded,
    ),
    input(form, 'Content-Type: multipart/form-data; boundary=b\r\n', multipart),
    jsonInput(form, fields),
    jsonInput(`POST /v1/${DOMAIN}/send`, { ...fields, form: 'contact' }),
    jsonInput('POST /submit/contact', fields, `Origin: https://${DOMAIN}\r\n`),
    input(`OPTIONS /${DOMAIN}/contact`, `Origin: https://${DOMAIN}\r\nAccess-Control-Request-Method: POST\r\n`, ''),
    ...[
      '/',
      `/${DOMAIN}/contact`,
      '/docs',
      '/openapi.json',
      '/healthz',
      '/confirm/x',
      '/unsubscribe/x',
      '/.well-known/security.txt',
      '/c/a/b',
      '/f/frm_x',
    ].map((path) => input(`GET ${path}`, 'Accept: text/html\r\n', '')),
  ];
  return [...forms, ...forms, ...routes, push, push, push, mail, mail];
}

const PARAMETERS: Readonly<Record<string, string>> = { domain: DOMAIN, form: 'contact', slug: 'fuzz', project: 'fuzz' };

function input(line: string, headers: string, body: string): Input {
  return {
    head: `${line} HTTP/1.1\r\nHost: mail.postern.test\r\nConnection: close\r\nUser-Agent: fuzz\r\n${headers}`,
    body: Buffer.from(body, 'latin1'),
  };
}

function jsonInput(line: string, json: unknown, headers = ''): Input {
  const body = json === undefined ? '' : JSON.stringify(json);
  const type = json === undefined ? '' : 'Content-Type: application/json\r\n';
  return {
    ...input(line, `Authorization: Bearer {key}\r\n${type}${headers}`, body),
    ...(json === undefined ? {} : { json }),
  };
}

/** A value of the schema's shape. */
function exampleOf(schema: Schema, name: string): unknown {
  const choice = schema.anyOf?.[0] ?? schema.oneOf?.[0];
  if (choice !== undefined) return exampleOf(choice, name);
  if (schema.const !== undefined) return schema.const;
  if (schema.enum !== undefined) return schema.enum[0];
  switch ([schema.type].flat()[0]) {
    case 'object':
      return Object.fromEntries(
        Object.entries(schema.properties ?? {}).map(([key, inner]) => [key, exampleOf(inner, key)]),
      );
    case 'array':
      return schema.items === undefined ? [] : [exampleOf(schema.items, name)];
    case 'boolean':
      return true;
    case 'integer':
    case 'number':
      return schema.minimum ?? 1;
    default:
      return EXAMPLES[name] ?? 'example';
  }
}

const EXAMPLES: Readonly<Record<string, string>> = {
  email: 'ann@inbox.test',
  to: 'ann@inbox.test',
  from: `a@${DOMAIN}`,
  domain: 'fuzz.test',
  project: 'fuzz',
  slug: 'fuzz',
  url: 'https://hooks.example.com/x',
  month: '2026-11',
};
