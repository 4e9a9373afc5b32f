/** `postern setup` in a booted Debian: from nothing, again, with changes of an administrator, and where other programs are in the way. */
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { bootDebian } from '../harness/debian-machine.ts';

const ROOT = join(import.meta.dirname, '../..');
const PROGRAM = '/opt/postern-9.9.9';
const FLAGS = 'you@example.net --hostname mail.example.net --yes';
/** The first test of a machine makes the root file system of all. */
vi.setConfig({ testTimeout: 400_000 });

test('it makes what is missing, keeps what an administrator changed, and says what is in the way', async () => {
  const machine = await bootDebian({ [ROOT]: PROGRAM });
  const setup = (flags: string) => machine.run(`${PROGRAM}/bin/postern setup ${flags}`);

  const unasked = await setup('you@example.net --hostname mail.example.net --domain example.com');
  expect(unasked).toMatchObject({ code: 2, output: expect.stringContaining('add --yes to confirm') });
  const dry = await setup(`${FLAGS} --domain example.com --dry-run`);
  expect(dry.output).toContain('create   /etc/postern/server.yml');
  await machine.succeed('test ! -e /etc/postern && ! id postern');

  // What Debian's exim4 or apache2 would do.
  await machine.succeed(
    `systemd-run --unit=apache2 ${PROGRAM}/node_modules/.bin/node -e 'require("net").createServer().listen(80, "127.0.0.1")'`,
  );
  await machine.succeed('until (exec 3<>/dev/tcp/127.0.0.1/80) 2>&-; do sleep 0.1; done');
  const blocked = await setup(`${FLAGS} --domain example.com`);
  expect(blocked.code).toBe(1);
  expect(blocked.output).toMatch(
    /^failed +ports +port 80 is used by \S+\n +→ Stop it: systemctl disable --now apache2\.service$/m,
  );
  await machine.succeed('test ! -e /etc/postern');
  await machine.succeed('systemctl stop apache2.service');

  const first = await setup(`${FLAGS} --domain example.com --zone /root/records.zone`);
  expect(first.output).toMatch(/^Created 11 items\. postern\.service is running/m);
  expect(first.code).toBe(0);
  expect(await machine.succeed('systemctl is-active postern; systemctl is-enabled postern')).toBe('active\nenabled\n');
  expect(await machine.succeed("cd /etc/postern; stat -c '%n %U:%G %a' . server.yml projects projects/*")).toBe(
    '. root:postern 750\nserver.yml root:postern 640\nprojects root:postern 750\nprojects/example-com.yml root:postern 640\n',
  );
  expect(await machine.succeed('postern config check')).toBe(
    '/etc/postern/server.yml and 1 project: 0 errors, 0 warnings\n',
  );
  const zone = await machine.succeed('cat /root/records.zone');
  expect(zone).toMatch(/^postern\._domainkey\.mail\.example\.net\. 3600 IN TXT "v=DKIM1; /m);
  expect(zone).toMatch(/^mail\.example\.net\. 3600 IN TXT "v=spf1 a -all"$/m);
  expect(zone).toMatch(/^_postern\.example\.com\. 3600 IN TXT "postern-verification=\w+"$/m);
  for (const name of ['postern._domainkey.mail.example.net', '_postern.example.com'])
    expect(first.output).toContain(name);

  const again = await setup(FLAGS);
  expect(again.code).toBe(0);
  expect(again.output).not.toMatch(/^ +(?:create|keep) /m);
  expect(again.output).not.toContain('Made ');
  // The records of the domain that is there are shown again.
  expect(again.output).toContain('_postern.example.com');

  await machine.succeed(`sed -i 's/^MemoryMax=.*/MemoryMax=2G/' /etc/systemd/system/postern.service
echo '# mine' >> /etc/postern/server.yml
echo '# mine' >> /etc/postern/projects/example-com.yml
rm /usr/local/bin/postern`);
  const other = await setup('me@example.net --hostname mx.example.net --domain example.org --yes');
  expect(other.output).toMatch(
    /keep +\/etc\/systemd\/system\/postern\.service, .*\n +- MemoryMax=2G\n +\+ MemoryMax=1G\n/,
  );
  expect(other.output).toMatch(/keep +server\.hostname: mail\.example\.net\. To change it to mx\.example\.net, edit/);
  expect(other.output).toMatch(/keep +server\.operator: you@example\.net\. To change it to me@example\.net, edit/);
  expect(other.output).toMatch(/^Created 3 items\. /m);
  expect(other.output).toContain('_postern.example.org');
  expect(other.output).not.toContain('_postern.example.com');
  expect(await machine.succeed('grep -c mine /etc/postern/server.yml /etc/postern/projects/example-com.yml')).toBe(
    '/etc/postern/server.yml:1\n/etc/postern/projects/example-com.yml:1\n',
  );
  expect(await machine.succeed('postern --version')).toMatch(/^\d/);

  // A domain that another file has is not made a second time.
  await machine.succeed('mv /etc/postern/projects/example-org.yml /etc/postern/projects/shop.yml');
  const renamed = await setup('you@example.net --domain example.org --yes');
  expect(renamed.output).not.toMatch(/^ +create /m);
});

test('it refuses a program that the service cannot read, another user than root, and a server.yml with a mistake', async () => {
  const machine = await bootDebian({ [ROOT]: '/root/postern' });
  const hidden = await machine.run(`/root/postern/bin/postern setup ${FLAGS}`);
  expect(hidden.output).toMatch(/The service cannot read \/root\/postern: .*mv \/root\/postern \/opt\/postern/);
  expect(hidden.code).toBe(1);

  await machine.succeed('mkdir /opt/postern && mount --bind /root/postern /opt/postern');
  const nobody = 'setpriv --reuid=65534 --regid=65534 --clear-groups';
  const user = await machine.run(`cd / && ${nobody} /opt/postern/bin/postern setup ${FLAGS}`);
  expect(user.output).toContain('must run as root');
  expect(user.code).toBe(1);

  await machine.succeed("mkdir /etc/postern && echo 'server: { hostnam: x }' > /etc/postern/server.yml");
  const mistaken = await machine.run(`/opt/postern/bin/postern setup ${FLAGS}`);
  expect(mistaken.output).toMatch(/server\.yml:1:\d+.*hostnam/);
  expect(mistaken.code).toBe(78);
});
