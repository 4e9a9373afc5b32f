/** A newcomer follows a request through few files. How many is held here; the message of a failure lists them with their functions. */
import { join } from 'node:path';
import nodemailer from 'nodemailer';
import { afterEach, expect, onTestFinished, test, vi } from 'vitest';
import { z } from 'zod';
import { ask, HOSTNAME, openAppliance } from '../harness/binary.ts';
import { startCatcher } from '../harness/catcher.ts';
import { until } from '../harness/child.ts';
import { inspect, type Executed } from '../harness/executed-files.ts';

const MAX_FILES = { post: 35, delivery: 53, inbound: 30, forwarding: 44, domains: 20 };

afterEach(() => vi.unstubAllEnvs());

test('a form post, an inbound message and GET /domains each execute few files', async () => {
  vi.stubEnv('NODE_OPTIONS', '--inspect=127.0.0.1:0');
  const catcher = await startCatcher();
  const appliance = await openAppliance({ deliverTo: catcher.port });
  // A look at the files would count as part of what is measured.
  await appliance.configure({ server: { watch: false } });
  const run = await appliance.startVerified();
  async function postForm(): Promise<void> {
    const arrived = catcher.mails.length;
    const body = new URLSearchParams({ name: 'Ada', email: 'ada@example.net', message: 'Hello, are you open?' });
    const { status } = await fetch(appliance.formUrl, {
      method: 'POST',
      body,
      headers: { Accept: 'application/json' },
    });
    expect(status).toBe(200);
    await until('the mail arrives', () => catcher.mails.length > arrived);
  }

  // The delivery thread runs from the first mail on.
  await postForm();
  const inspector = await inspect(run.output());
  onTestFinished(() => inspector.close());

  const post = await inspector.executed(postForm);
  expect(post.main.size, listed('accepting one form post', post.main)).toBeLessThanOrEqual(MAX_FILES.post);
  expect(post.others.size, listed('delivering its mail', post.others)).toBeLessThanOrEqual(MAX_FILES.delivery);

  const transport = nodemailer.createTransport({ host: '127.0.0.1', port: appliance.smtpPort, ignoreTLS: true });
  const inbound = await inspector.executed(async () => {
    const arrived = catcher.mails.length;
    const text = { subject: 'Hello', text: 'Are you open?' };
    await transport.sendMail({ ...text, from: 'ada@example.net', to: `postmaster@${HOSTNAME}` });
    await until('the mail arrives', () => catcher.mails.length > arrived);
  });
  expect(inbound.main.size, listed('accepting an inbound message', inbound.main)).toBeLessThanOrEqual(
    MAX_FILES.inbound,
  );
  expect(inbound.others.size, listed('forwarding it', inbound.others)).toBeLessThanOrEqual(MAX_FILES.forwarding);

  const authorization = `Bearer ${await createKey(join(appliance.folder, 'admin.sock'))}`;
  const domains = await inspector.executed(async () => {
    const { status } = await fetch(`${appliance.url}/domains`, { headers: { authorization } });
    expect(status).toBe(200);
  });
  expect(domains.main.size, listed('GET /domains', domains.main)).toBeLessThanOrEqual(MAX_FILES.domains);
});

async function createKey(socketPath: string): Promise<string> {
  const headers = { 'Content-Type': 'application/json' };
  const body = JSON.stringify({ name: 'test', permissions: ['domains.read'] });
  const answer = await ask({ socketPath, path: '/api-keys', method: 'POST', headers }, body);
  return z.object({ key: z.string() }).parse(answer.body).key;
}

function listed(what: string, executed: Executed): string {
  const functions = [...executed.values()].reduce((sum, names) => sum + names.size, 0);
  const lines = [...executed].sort().map(([file, names]) => `  ${file}: ${[...names].join(', ')}`);
  return [`${what}: ${executed.size} files, ${functions} functions`, ...lines].join('\n');
}
