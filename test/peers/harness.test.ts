/** The peers themselves: what the other suites lean on does what it says. */
import { generateKeyPairSync } from 'node:crypto';
import pg from 'pg';
import { afterEach, describe, expect, test } from 'vitest';
import { startOpendkim } from '../harness/opendkim.ts';
import { startPostfix, type Postfix, type PostfixOptions } from '../harness/postfix.ts';
import { startPostgres } from '../harness/postgres.ts';
import { swaks } from '../harness/swaks.ts';

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  while (open.length > 0) await open.pop()?.close();
});

async function postfix(options?: PostfixOptions): Promise<Postfix> {
  const started = await startPostfix(options);
  open.push(started);
  return started;
}

function send(port: number, to: string): ReturnType<typeof swaks> {
  return swaks(port, ['--from', 'ann@sender.test', '--to', to, '--header', 'Subject: hello', '--body', 'one line']);
}

describe('Postfix', () => {
  test('keeps what it takes, for any recipient, with its envelope', async () => {
    const mx = await postfix();
    expect(await send(mx.port, 'bob@any.test')).toMatchObject({ code: 0 });
    const [mail] = await mx.untilMessages(1);
    expect(mail).toMatchObject({ recipient: 'bob@any.test', sender: 'ann@sender.test' });
    expect(mail?.raw.toString()).toMatch(/^Date: [^]*\r\nSubject: hello\r\n[^]*\r\n\r\none line\r\n/);
    // It is in the mailbox before it is out of the queue.
    await expect.poll(() => mx.queued()).toBe(0);
  });

  test('answers recipients by a rule that may change', async () => {
    const mx = await postfix({ judge: () => '451 4.3.0 come back later' });
    expect((await send(mx.port, 'bob@any.test')).transcript).toContain('451 4.3.0');
    mx.judge(({ recipient }) => (recipient === 'gone@any.test' ? '550 5.1.1 no such user' : undefined));
    expect((await send(mx.port, 'gone@any.test')).transcript).toContain('550 5.1.1');
    expect(await send(mx.port, 'bob@any.test')).toMatchObject({ code: 0 });
    expect(await mx.untilMessages(1)).toMatchObject([{ recipient: 'bob@any.test' }]);
  });

  test('hands on to another server, signed by OpenDKIM', async () => {
    const { privateKey } = generateKeyPairSync('rsa', {
      modulusLength: 2048,
      publicKeyEncoding: { type: 'spki', format: 'pem' },
      privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    });
    const milter = await startOpendkim({ domain: 'sender.test', selector: 'one', privateKey });
    open.push(milter);
    const mx = await postfix();
    const relay = await postfix({ relayTo: `127.0.0.1:${mx.port}`, milter: milter.milter });
    expect(await send(relay.port, 'bob@any.test')).toMatchObject({ code: 0 });
    const [mail] = await mx.untilMessages(1);
    expect(mail?.raw.toString()).toMatch(/^DKIM-Signature: [^]*d=sender\.test; s=one;/m);
  });
});

test('PostgreSQL answers, durable, with a database per name', async () => {
  const server = await startPostgres();
  open.push(server);
  const client = new pg.Client({ connectionString: await server.createDatabase('a_test') });
  await client.connect();
  const { rows } = await client.query("SELECT current_database() AS name, current_setting('fsync') AS fsync");
  await client.end();
  expect(rows).toEqual([{ name: 'a_test', fsync: 'on' }]);
});
