import { simpleParser } from 'mailparser';
import { describe, expect, test } from 'vitest';
import { testKey } from '../harness/keys.ts';
import { cliWorld, HTML, person, YAML, type CliWorld } from './cli-world.ts';

/** A verified domain, shop.test. */
async function verified(): Promise<CliWorld> {
  const world = await cliWorld();
  await world.write('postern.yml', YAML);
  await world.write('templates/mine.html', HTML);
  await world.say(['push', '--yes']);
  await world.publish('shop.test');
  expect((await world.say(['domains', 'verify', 'shop.test'])).code).toBe(0);
  return world;
}

describe('test send', () => {
  test('tells what the other side said', async () => {
    const world = await verified();
    const { code, out, err } = await world.say(['test', 'send', 'ana@inbox.test']);
    expect([code, err]).toEqual([0, '']);
    expect(out.split('\n')).toEqual([
      expect.stringMatching(/^msg_\w+ {2}Test message from Postern {2}from noreply@shop\.test$/),
      'ana@inbox.test  delivered',
      expect.stringMatching(
        /^ {2}\S+Z {2}delivered {2}mx\.inbox\.test 127\.0\.0\.1 {2}(?:TLSv1\.3|clear text) {2}250 /,
      ),
      '',
    ]);
    const mails = await world.caught(1);
    expect(mails.list()[0]).toMatchObject({
      subject: 'Test message from Postern',
      verdicts: { dkim: [{ result: 'pass' }] },
    });
  });

  test('sends what a form would, as its template is here', async () => {
    const world = await verified();
    await world.write('templates/mine.html', '<p>Draft for {{ form.name }}</p>');
    const { code } = await world.say(['test', 'send', 'ana@inbox.test', '--form', 'contact']);
    expect(code).toBe(0);
    const mails = await world.caught(1);
    const [mail] = mails.list();
    const parsed = await simpleParser(mail === undefined ? '' : await mails.source(mail));
    expect(parsed.from?.text).toBe('"Ada Lovelace via Contact" <forms@shop.test>');
    expect(parsed.subject).toBe('Shop: Ada Lovelace');
    expect(parsed.html).toContain('Draft for Ada Lovelace');
  });

  test('ends with 1 where the mail is refused for good', async () => {
    const world = await verified();
    world.dns.set([{ name: 'null.test', type: 'MX', value: '0 .' }]);
    const { code, out } = await world.say(['test', 'send', 'ana@null.test', '--from', 'Shop <me@shop.test>']);
    expect(code).toBe(1);
    expect(out).toContain('from Shop <me@shop.test>\nana@null.test  bounced\n');
    expect(out).toContain('556 5.1.10');
  });

  test('ends with 1 where it still waits, and says until when', async () => {
    const world = await verified();
    world.dns.set([{ name: 'far.test', type: 'A', value: '127.0.0.9' }]);
    const { code, out } = await world.say(['test', 'send', 'ana@far.test', '--timeout', '1']);
    expect(code).toBe(1);
    expect(out).toMatch(/Still queued\. To follow it, call: GET \/email\/msg_\w+\n$/);
  });

  test('--no-wait and --json say what was accepted, or all that became of it', async () => {
    const world = await verified();
    const queued = await world.say(['test', 'send', 'ana@inbox.test', '--no-wait', '--domain', 'shop.test']);
    expect([queued.code, queued.out]).toEqual([0, expect.stringMatching(/^Queued msg_\w+\./)]);
    const json = await world.say(['test', 'send', 'ana@inbox.test', '--json']);
    expect(JSON.parse(json.out)).toMatchObject({
      status: 'delivered',
      recipients: [{ attempts: [{ outcome: 'delivered' }] }],
    });
    const brief = await world.say(['test', 'send', 'ana@inbox.test', '--json', '--no-wait']);
    expect(JSON.parse(brief.out)).toMatchObject({ status: 'queued' });
  });

  test('with a test key is captured, and says so', async () => {
    const world = await verified();
    const { value } = await testKey(world.daemon.store, { tenant: world.tenant, environment: 'test' });
    const tester = await person({ POSTERN_URL: world.url, POSTERN_API_KEY: value });
    const { code, out } = await tester.say(['test', 'send', 'ana@inbox.test', '--from', 'me@shop.test']);
    expect(code).toBe(0);
    expect(out).toContain('ana@inbox.test  captured\n');
    expect(out).toMatch(/captured, not delivered\. To see the message, call: GET \/email\/msg_\w+\/source\n$/);
    expect(world.mx.mails.list()).toEqual([]);
  });

  test('ends with the code for what is wrong with the call', async () => {
    const world = await verified();
    const cases: [args: string[], code: number, words: string][] = [
      [['nobody'], 2, 'Must be an email address'],
      [['ana@inbox.test', '--timeout', 'soon'], 2, 'Must be a whole number'],
      [['ana@inbox.test', '--form', 'none'], 2, 'The project has no form none. Available: shop.test/contact'],
      [['ana@inbox.test', '--from', 'nobody'], 1, 'must be one email address'],
      [['ana@inbox.test', '--from', 'me@other.test'], 1, 'other.test is not a domain of this account'],
    ];
    for (const [args, code, words] of cases) {
      const err = expect.stringContaining(words) as string;
      expect(await world.say(['test', 'send', ...args]), args.join(' ')).toMatchObject({ code, out: '', err });
    }
  });
});
