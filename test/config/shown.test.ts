/** What the console shows of server.yml: where each value comes from, and no secret. */
import { expect, test } from 'vitest';
import { parseServer } from '../../src/config/parse.ts';
import { shownSettings } from '../../src/config/shown.ts';

const SECRETS = { variable: () => 'resolved-secret', file: () => 'resolved-secret' };

function shown(yaml: string) {
  const read = parseServer(`server: { hostname: mail.test, operator: ops@inbox.test }\n${yaml}`, 'server.yml', SECRETS);
  if (!('ok' in read)) throw new Error(JSON.stringify(read.errors));
  const settings = shownSettings(read.ok, read);
  return { text: JSON.stringify(settings), by: new Map(settings.map(({ path, ...setting }) => [path, setting])) };
}

test('each setting has its value as it is written, and where it comes from', () => {
  const { by } = shown('log: { level: warn }\ndelivery: { retry: [1m, 2h] }\ndatabase: { url: "sqlite:/srv/a.db" }');
  expect(by.get('log.level')).toEqual({ value: 'warn', source: 'file', restart: false });
  expect(by.get('log.format')).toMatchObject({ source: 'default' });
  expect(by.get('delivery.retry')).toEqual({ value: ['1m', '2h'], source: 'file', restart: false });
  expect(by.get('database.url')).toEqual({ value: 'sqlite:/srv/a.db', source: 'file', restart: true });
  expect(by.get('server.hostname')).toMatchObject({ value: 'mail.test', source: 'file' });
});

test.each([
  ['database: { url: "postgres://u:hunter2@db/x" }', 'postgres://u:***@db/x'],
  ['database: { url: "postgres://u:${PASSWORD}@db/x" }', 'postgres://u:${PASSWORD}@db/x'],
  ['delivery: { relay: { host: smtp.test, user: u, password: hunter2 } }', '"***"'],
  ['delivery: { relay: { host: smtp.test, user: u, password: "file:/run/p" } }', 'file:/run/p'],
  ['tls: { acme: { eab: { key_id: k, hmac_key: hunter2 } } }', '"***"'],
  ['tls: { acme: { eab: { key_id: k, hmac_key: "${KEY}" } } }', '${KEY}'],
  ['storage: { url: "s3://mail?region=x", access_key_id: k, secret_access_key: hunter2 }', '"***"'],
  ['storage: { url: "s3://mail?region=x", access_key_id: k, secret_access_key: "${KEY}" }', '${KEY}'],
])('%s shows no secret', (yaml, visible) => {
  const { text } = shown(yaml);
  expect(text).not.toMatch(/hunter2|resolved-secret/);
  expect(text).toContain(visible);
});
