/** The walk of a new user in front of a terminal, and what a terminal alone shows. */
import { describe, expect, test } from 'vitest';
import { startHttp } from '../harness/http.ts';
import { runInTerminal, type Seen } from '../harness/pseudo-terminal.ts';
import { temporaryFolder } from '../harness/store.ts';
import { startEmptyWorld, walk } from '../harness/walk.ts';

test('from signup to the first delivered mail, and to figures and keys', async () => {
  const world = await startEmptyWorld();
  const folder = await temporaryFolder();
  await walk(world, async ({ args, answers = [], code = 0 }) => {
    const keys = answers.map(([question, answer]) => [question, `${answer}\r`] as const);
    const seen = await runInTerminal(args, { folder, keys });
    expect(seen.code, `postern ${args.join(' ')}\n${seen.text}`).toBe(code);
    return seen.text;
  });
});

describe('a terminal', () => {
  const CONTROL = { c: '\u0003', d: '\u0004' };

  async function signup(keys: readonly (readonly [string, string])[]): Promise<Seen> {
    return runInTerminal(['signup', '--url', 'http://127.0.0.1:1'], { folder: await temporaryFolder(), keys });
  }

  test.each(['c', 'd'] as const)('Ctrl-%s at a question ends the command, without a word', async (key) => {
    const { code, text } = await signup([['Your name', CONTROL[key]]]);
    expect(code).toBe(130);
    expect(text).toMatch(/^Your name or organisation:[^a-z]*$/);
  });

  test('asks again for what will not do', async () => {
    const { code, text } = await signup([
      ['Your name', '\r'],
      ['Enter a value', 'Ana\r'],
      ['Email address', 'ana\r'],
      ['Enter an email address', 'ana@inbox.test\r'],
    ]);
    expect(code).toBe(3);
    expect(text).toContain('Cannot connect to the daemon: connection refused at http://127.0.0.1:1');
  });

  test('has headings and weights unless NO_COLOR says otherwise', async () => {
    const http = await startHttp();
    const url = `unix:${http.socket}`;
    const folder = await temporaryFolder();
    const bold = '\u001b[1m';
    const shown = await runInTerminal(['forms', 'list', '--url', url], { folder });
    expect(shown.code).toBe(0);
    expect(shown.raw).toContain(`${bold}FORM `);
    expect(shown.text).toMatch(/^FORM +NAME +RECIPIENT +SUBMISSIONS +URL\nexample\.com\/contact +Contact us/);
    expect(shown.text.split('\n').filter((line) => line.length > 100)).toEqual([]);
    const plain = await runInTerminal(['forms', 'list', '--url', url], { folder, env: { NO_COLOR: '1' } });
    expect(plain.text).toBe(shown.text);
    expect(plain.raw).not.toContain('\u001b');
  });
});
