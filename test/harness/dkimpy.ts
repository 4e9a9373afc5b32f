/** dkimpy, a verifier of DKIM and ARC that shares no code with us. */
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { needPackage, succeeds } from './debian.ts';

const run = promisify(execFile);
const PYTHON = '/usr/bin/python3';

const READ = `
import dkim, json, sys
folder, count = sys.argv[1], int(sys.argv[2])
records = json.load(open(folder + '/records.json'))
def dnsfunc(name, timeout=5):
    return records.get(name.decode().rstrip('.'), '').encode()
def messages():
    for i in range(count):
        yield open('%s/%d.eml' % (folder, i), 'rb').read()
`;

const SIGNATURES = `${READ}
for message in messages():
    verdicts = []
    for n in range(message.split(b'\\r\\n\\r\\n')[0].lower().count(b'dkim-signature:')):
        try:
            verdicts.append('pass' if dkim.DKIM(message).verify(idx=n, dnsfunc=dnsfunc) else 'fail')
        except dkim.DKIMException as error:
            verdicts.append(str(error))
    print(json.dumps(verdicts))
`;

const CHAINS = `${READ}
for message in messages():
    status, results, reason = dkim.ARC(message).verify(dnsfunc=dnsfunc)
    print(json.dumps([status.decode() if status else 'none', reason]))
`;

type Records = readonly { readonly name: string; readonly value: string }[];

/** The verdict of each signature of each message: `pass`, or why not. Records are TXT, by name. */
export function verifyWithDkimpy(messages: readonly Uint8Array[], records: Records): Promise<string[][]> {
  return runDkimpy(SIGNATURES, messages, records);
}

/** What each message's ARC chain is, `pass`, `fail` or `none`, and why. */
export function verifyChainsWithDkimpy(messages: readonly Uint8Array[], records: Records): Promise<string[][]> {
  return runDkimpy(CHAINS, messages, records);
}

async function runDkimpy(script: string, messages: readonly Uint8Array[], records: Records): Promise<string[][]> {
  needPackage(() => succeeds(PYTHON, ['-c', 'import dkim, nacl']), 'python3-dkim python3-nacl');
  const folder = await mkdtemp(join(tmpdir(), 'postern-dkimpy-'));
  try {
    const zone = Object.fromEntries(records.map(({ name, value }) => [name, value]));
    await writeFile(join(folder, 'records.json'), JSON.stringify(zone));
    for (const [i, message] of messages.entries()) await writeFile(join(folder, `${i}.eml`), message);
    const { stdout } = await run(PYTHON, ['-c', script, folder, `${messages.length}`]);
    return stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as string[]);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
