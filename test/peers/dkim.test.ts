/** Two verifiers that share no line of code with us or with each other: dkimpy and OpenDKIM. */
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { composeMail } from '../../src/mail/compose.ts';
import { signDkim } from '../../src/mail/dkim.ts';
import { needPackage, succeeds } from '../harness/debian.ts';
import { corpus, testKey, type TestKey } from '../mail/dkim-corpus.ts';

const run = promisify(execFile);

/** Reads `records.json` and prints, for each file named, whether each of its `count` signatures verifies. */
const DKIMPY = `
import dkim, json, sys
folder, count, *files = sys.argv[1:]
records = json.load(open(folder + '/records.json'))
def dnsfunc(name, timeout=5):
    return records.get(name.decode().rstrip('.'), '').encode()
for file in files:
    message = open(folder + '/' + file, 'rb').read()
    for i in range(int(count)):
        try:
            verdict = dkim.DKIM(message).verify(idx=i, dnsfunc=dnsfunc)
        except dkim.DKIMException as error:
            verdict = error
        print(file, i, verdict)
`;

let folder: string;
let keys: readonly [TestKey, TestKey];
/** File names, in the order of `names`. */
const files: string[] = [];
const names: string[] = [];

async function messages(): Promise<{ name: string; bytes: Buffer }[]> {
  const mail = {
    from: { name: 'フォーム "x"', address: 'forms@example.com' },
    to: [{ address: 'owner@example.net' }],
    replyTo: [{ name: 'Ada', address: 'ada@example.org' }],
    subject: 'Neue Anfrage: 日本語 '.repeat(10),
    text: `Hallo\r\n.\r\n日本語 \n${'long '.repeat(300)}\n\n\n`,
    html: `<p>${'ü'.repeat(3000)}</p>`,
    date: Date.UTC(2024, 0, 2),
    messageId: '<1@example.com>',
    headers: [['Auto-Submitted', 'auto-generated']] as const,
  };
  const attachments = [{ filename: '報告書.pdf', contentType: 'application/pdf', content: Buffer.alloc(1 << 20, 7) }];
  return [
    ...corpus,
    { name: 'composed', bytes: await composeMail(mail) },
    { name: 'composed with a file', bytes: await composeMail({ ...mail, attachments }) },
  ];
}

beforeAll(async () => {
  needPackage('/usr/sbin/opendkim', 'opendkim');
  needPackage(() => succeeds('/usr/bin/python3', ['-c', 'import dkim, nacl']), 'python3-dkim python3-nacl');
  folder = await mkdtemp(join(tmpdir(), 'postern-dkim-'));
  keys = [await testKey('rsa'), await testKey('ed25519')];
  await writeFile(join(folder, 'records.json'), JSON.stringify(Object.fromEntries(keys.map((key) => key.record))));
  await writeFile(join(folder, 'records'), keys.map(({ record }) => `${record.join(' ')}\n`).join(''));
  await writeFile(join(folder, 'opendkim.conf'), `Mode v\nTestDNSData file:${join(folder, 'records')}\n`);
  for (const { name, bytes } of await messages()) {
    const file = `${names.push(name)}.eml`;
    files.push(file);
    await writeFile(join(folder, file), await transmitted(bytes, keys));
    for (const key of keys) await writeFile(join(folder, `${key.algorithm}-${file}`), await transmitted(bytes, [key]));
  }
});

afterAll(() => rm(folder, { recursive: true, force: true }));

test('dkimpy verifies both signatures of every message, and not a changed one', async () => {
  await writeFile(join(folder, 'changed.eml'), await changed());
  const { stdout } = await run('/usr/bin/python3', ['-c', DKIMPY, folder, '2', ...files, 'changed.eml']);
  const verdicts = stdout.trim().split('\n');
  expect(verdicts.slice(0, -2)).toEqual(files.flatMap((file) => [`${file} 0 True`, `${file} 1 True`]));
  expect(verdicts.slice(-2).join()).toMatch(/^changed.eml 0 body hash mismatch.*changed.eml 1 body hash mismatch/);
});

test('OpenDKIM verifies both signatures of every message, and not a changed one', async () => {
  await writeFile(join(folder, 'changed.eml'), await changed());
  for (const { algorithm } of keys) {
    const list = [...files.map((file) => `${algorithm}-${file}`), 'changed.eml'];
    const { stderr, stdout } = await run(
      '/usr/sbin/opendkim',
      ['-x', 'opendkim.conf', '-b', 'v', '-t', list.join(',')],
      {
        cwd: folder,
      },
    );
    const verdicts = (stderr + stdout).match(/(?<=^opendkim: )\S+: verification .*$/gm) ?? [];
    const passed = verdicts.filter((line) => line.endsWith('succeeded')).map((line) => line.split(':')[0]);
    expect(passed).toEqual(list.slice(0, -1));
    expect(verdicts.at(-1)).toMatch(/^changed\.eml: .*failed/);
  }
});

/** Signed, and as SMTP carries it: the last line has an end, whether it had one when it was signed or not. */
async function transmitted(bytes: Buffer, by: readonly TestKey[]): Promise<Buffer> {
  const end = bytes.at(-1) === 0x0a ? '' : '\r\n';
  return Buffer.concat([await signDkim([bytes], by, Date.now()), bytes, Buffer.from(end)]);
}

/** The first message with one more line in its body. */
async function changed(): Promise<Buffer> {
  const [first] = await messages();
  return Buffer.concat([await transmitted(first?.bytes ?? Buffer.alloc(0), keys), Buffer.from('x\r\n')]);
}
