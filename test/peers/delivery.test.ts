/** The real program delivers to Debian's Postfix: what is accepted arrives, once, signed, whatever Postfix says first. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { selfSignedCertificate } from '../../src/lib/x509.ts';
import { openAppliance, type Appliance } from '../harness/binary.ts';
import { freePort, until } from '../harness/child.ts';
import { verifyWithDkimpy } from '../harness/dkimpy.ts';
import { referenceIn, sendMany } from '../harness/load.ts';
import type { StoredMail } from '../harness/maildir.ts';
import { startPostfix, type Postfix, type PostfixOptions } from '../harness/postfix.ts';
import { temporaryFolder } from '../harness/store.ts';

async function postfix(options?: PostfixOptions): Promise<Postfix> {
  const started = await startPostfix(options);
  onTestFinished(() => started.close());
  return started;
}

/** Where Postfix finds a key and a certificate. */
async function certificate(): Promise<{ cert: string; key: string }> {
  const folder = await temporaryFolder();
  const { key, cert } = selfSignedCertificate(['mx.inbox.test'], Date.now());
  const files = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') };
  await writeFile(files.cert, cert);
  await writeFile(files.key, key, { mode: 0o600 });
  return files;
}

function references(mails: readonly StoredMail[]): string[] {
  return mails.map(({ raw }) => referenceIn(raw.toString('latin1')) ?? 'none').sort();
}

/** What the operator sees of the only message there is. */
async function shown(appliance: Appliance): Promise<unknown> {
  const { body } = await appliance.admin('/admin/queue');
  const { deliveries } = body as { deliveries: { id: string }[] };
  expect(deliveries.length).toBe(1);
  return (await appliance.admin(`/admin/queue/${deliveries[0]?.id}`)).body;
}

function delivery(more: object): object {
  return { deliveries: [expect.objectContaining(more)] };
}

test('a thousand submissions over 16 connections arrive once each, over TLS, with signatures that dkimpy verifies', async () => {
  const mx = await postfix({ tls: await certificate() });
  const appliance = await openAppliance({ deliverTo: mx.port });
  await appliance.startVerified();
  const { accepted, refused, unanswered } = await sendMany({ url: appliance.formUrl, connections: 16, count: 1000 });
  expect({ accepted: accepted.size, refused: [...refused], unanswered: [...unanswered] }).toEqual({
    accepted: 1000,
    refused: [],
    unanswered: [],
  });
  await until('the queue is empty', async () => (await appliance.waiting()) === 0, 120_000);
  const mails = await mx.untilMessages(1000, 60_000);
  expect(references(mails)).toEqual([...accepted].sort());
  expect(new Set(mails.map(({ recipient }) => recipient))).toEqual(new Set(['owner@inbox.test']));
  const tries = await appliance.look((db) => db.selectFrom('attempts').select(['outcome', 'tls']).execute());
  expect(tries).toEqual(Array.from({ length: 1000 }, () => ({ outcome: 'delivered', tls: 'TLSv1.3' })));
  const sample = mails.slice(0, 100).map(({ raw }) => raw);
  expect(await verifyWithDkimpy(sample, appliance.published())).toEqual(sample.map(() => ['pass']));
});

test('451 twice, then 250: three attempts, one mail', async () => {
  let asked = 0;
  const mx = await postfix({ judge: () => (++asked <= 2 ? '451 4.7.1 come back in a second' : undefined) });
  const appliance = await openAppliance({ deliverTo: mx.port, server: { delivery: { retry: ['1s', '1s'] } } });
  await appliance.startVerified();
  const { accepted } = await sendMany({ url: appliance.formUrl, connections: 1, count: 1 });
  expect(references(await mx.untilMessages(1))).toEqual([...accepted]);
  await until('it is written down', async () => (await appliance.waiting()) === 0);
  const message = await shown(appliance);
  expect(message).toMatchObject(
    delivery({
      state: 'delivered',
      attempts: 3,
      tries: [
        expect.objectContaining({
          number: 1,
          outcome: 'deferred',
          reply: expect.stringMatching(/^451 4\.7\.1 .*come back in a second/),
        }),
        expect.objectContaining({
          number: 2,
          outcome: 'deferred',
          reply: expect.stringMatching(/^451 4\.7\.1 .*come back in a second/),
        }),
        expect.objectContaining({ number: 3, outcome: 'delivered', host: 'mx.inbox.test', address: '127.0.0.1' }),
      ],
    }),
  );
  const waits = waitsOf(message);
  expect(waits.length).toBe(2);
  // A second with 10 % of jitter; a busy machine may add to it.
  for (const wait of waits) expect(wait).toBeGreaterThanOrEqual(900);
  expect(asked).toBe(3);
  expect(await mx.count()).toBe(1);
});

test('550 bounces at once, with the words of the server', async () => {
  const mx = await postfix({ judge: () => '550 5.1.1 nobody of that name lives here' });
  const appliance = await openAppliance({ deliverTo: mx.port });
  await appliance.startVerified();
  await sendMany({ url: appliance.formUrl, connections: 1, count: 1 });
  await until('it is over', async () => (await appliance.waiting()) === 0);
  const words = expect.stringMatching(/^550 5\.1\.1 .*nobody of that name lives here/);
  expect(await shown(appliance)).toMatchObject(
    delivery({
      state: 'bounced',
      attempts: 1,
      last_reply: words,
      tries: [expect.objectContaining({ outcome: 'bounced', host: 'mx.inbox.test', reply: words })],
    }),
  );
  expect(await mx.count()).toBe(0);
});

test('a server that is down for a while gets everything once it is back, each once', async () => {
  const port = await freePort();
  const appliance = await openAppliance({ deliverTo: port });
  await appliance.startVerified();
  const { accepted } = await sendMany({ url: appliance.formUrl, connections: 8, count: 200 });
  expect(accepted.size).toBe(200);
  await until('it was tried in vain', async () => {
    const [destination] = await appliance.look((db) => db.selectFrom('destinations').selectAll().execute());
    return (destination?.failures ?? 0) > 1;
  });
  const mx = await postfix({ port });
  expect(references(await mx.untilMessages(200, 60_000))).toEqual([...accepted].sort());
  await until('the queue is empty', async () => (await appliance.waiting()) === 0);
  expect(await mx.count()).toBe(200);
});

/** How long after each try the next came, ms. */
function waitsOf(message: unknown): number[] {
  const { deliveries } = message as { deliveries: { tries: { at: string }[] }[] };
  const times = (deliveries[0]?.tries ?? []).map(({ at }) => Date.parse(at));
  return times.slice(1).map((time, i) => time - (times[i] ?? 0));
}
