/** Debian's Postfix as the smarthost: over TLS with a certificate of a private authority, and with a password. */
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { expect, onTestFinished, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { selfSignedCertificate } from '../../src/lib/x509.ts';
import { freePort } from '../harness/child.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { startPostfix } from '../harness/postfix.ts';
import { temporaryFolder } from '../harness/store.ts';

/** Answers Postfix as Dovecot does (its authentication protocol, version 1.1), for one user. Answers its port. */
async function startPasswordServer(user: string, password: string): Promise<number> {
  const right = Buffer.from(`\0${user}\0${password}`).toString('base64');
  const server = createServer((socket) => {
    socket.write('VERSION\t1\t1\nMECH\tPLAIN\tplaintext\nSPID\t1\nCUID\t1\nCOOKIE\tabcdef\nDONE\n');
    const lines = createInterface(socket);
    lines.on('line', (line) => {
      const [command, id, ...fields] = line.split('\t');
      if (command !== 'AUTH') return;
      socket.write(fields.includes(`resp=${right}`) ? `OK\t${id}\tuser=${user}\n` : `FAIL\t${id}\tuser=${user}\n`);
    });
  });
  const port = await freePort();
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return port;
}

async function start(password: string) {
  const folder = await temporaryFolder();
  const { cert, key } = selfSignedCertificate(['localhost'], Date.now());
  const files = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') };
  await writeFile(files.cert, cert);
  await writeFile(files.key, key);
  const relay = await startPostfix({
    tls: files,
    settings: {
      smtpd_tls_security_level: 'encrypt',
      smtpd_sasl_auth_enable: 'yes',
      smtpd_sasl_type: 'dovecot',
      smtpd_sasl_path: `inet:127.0.0.1:${await startPasswordServer('joe', 'right')}`,
      smtpd_recipient_restrictions: 'permit_sasl_authenticated, reject',
    },
  });
  onTestFinished(() => relay.close());
  const world = await startTestWorld({
    server: {
      delivery: {
        relay: { host: 'localhost', port: relay.port, user: 'joe', password, tls: 'required', ca: files.cert },
      },
    },
  });
  return { relay, world };
}

async function send(world: TestWorld, message: string): Promise<void> {
  const { status } = await world.post('/example.test/contact', { email: 'ann@author.test', message });
  expect(status).toBeLessThan(400);
}

test('a form post leaves through it, signed, over TLS and with the password', async () => {
  const { relay, world } = await start('right');
  await send(world, 'Through the smarthost');
  const [mail] = await relay.untilMessages(1);
  expect(mail?.recipient).toBe('owner@inbox.test');
  expect(mail?.raw.toString()).toMatch(/^DKIM-Signature: .*d=example\.test/ms);
  expect(await relay.log()).toMatch(/sasl_method=PLAIN, sasl_username=joe/);
  expect((await world.queue())[0]).toMatchObject({ state: 'delivered', recipient: 'owner@inbox.test' });
});

test('a wrong password keeps all mail, bounces none, and its correction sends it', async () => {
  const { relay, world } = await start('wrong');
  await send(world, 'First');
  await expect.poll(async () => (await world.queue())[0]?.state).toBe('deferred');
  expect((await world.queue())[0]?.last_reply).toMatch(/^535 5\.7\.8/);
  await send(world, 'Second');
  const file = join(world.folder, 'server.yml');
  const config: unknown = parse(await readFile(file, 'utf8'), (key, value: unknown) =>
    key === 'password' ? 'right' : value,
  );
  await writeFile(file, stringify(config));
  // Mail that waits would be tried again after a minute.
  await world.daemon.reload();
  const texts = (await relay.untilMessages(2, 40_000)).map(({ raw }) => /First|Second/.exec(raw.toString())?.[0]);
  expect(texts.toSorted()).toEqual(['First', 'Second']);
  await expect.poll(async () => (await world.queue()).map(({ state }) => state)).toEqual(['delivered', 'delivered']);
});
