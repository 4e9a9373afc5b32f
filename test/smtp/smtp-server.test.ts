/** What src/smtp/smtp-server.ts relies on in smtp-server beyond its documented options and hooks; an upgrade that moves it fails here. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { SMTPServer } from 'smtp-server';
import { SMTPConnection } from 'smtp-server/lib/smtp-connection.js';
import { SMTPStream } from 'smtp-server/lib/smtp-stream.js';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { readSources } from '../structure/sources.ts';

const server = new SMTPServer({ disabledCommands: ['AUTH', 'STARTTLS'], disableReverseLookup: true, logger: false });
const calls: string[] = [];

/** Says of each of the members that it was called, with whose arguments, and lets it do its work. */
class Observed extends SMTPConnection {
  override init(): void {
    calls.push('init');
    super.init();
  }
  override connectionReady(): void {
    calls.push('connectionReady');
    super.connectionReady();
  }
  override _createParser(): SMTPStream {
    const parser = super._createParser();
    const { oncommand } = parser;
    parser.oncommand = (line, done) => {
      calls.push(`oncommand ${line.toString()}`);
      oncommand(line, done);
    };
    return parser;
  }
  override send(code: number, data?: string | string[] | null, context?: string | false): void {
    calls.push(`send ${code} ${[data].flat()[0]}`);
    super.send(code, data, context);
  }
  override close(): void {
    calls.push('close');
    super.close();
  }
  override handler_MAIL(line: Buffer, done: () => void): void {
    calls.push('handler_MAIL');
    super.handler_MAIL(line, done);
  }
  override handler_RCPT(line: Buffer, done: () => void): void {
    calls.push('handler_RCPT');
    super.handler_RCPT(line, done);
  }
  override handler_DATA(line: Buffer, done: () => void): void {
    calls.push('handler_DATA');
    super.handler_DATA(line, done);
  }
  handler_XOWN(line: Buffer, done: () => void): void {
    this.send(250, line.toString());
    done();
  }
}

beforeEach(async () => {
  vi.spyOn(server, 'connect').mockImplementation((socket, details) => {
    const connection = new Observed(server, socket, details);
    server.connections.add(connection);
    connection.init();
  });
  server.server.listen(0, '127.0.0.1');
  await once(server.server, 'listening');
});

afterEach(() => {
  server.close();
});

test('a connection goes through the members that are overridden', async () => {
  const address = server.server.address();
  const socket = connect(typeof address === 'object' ? (address?.port ?? 0) : 0, '127.0.0.1');
  let text = '';
  socket.on('data', (bytes: Buffer) => (text += bytes.toString()));
  await expect.poll(() => text).toContain('220 ');
  const commands = ['EHLO client.test', 'XOWN x', 'MAIL FROM:<> SIZE=5', 'RCPT TO:<a@b.test>', 'DATA'];
  for (const command of commands) {
    const before = text.length;
    socket.write(`${command}\r\n`);
    await expect.poll(() => text.length).toBeGreaterThan(before);
  }
  socket.write('.\r\nQUIT\r\n');
  await once(socket, 'close');
  expect(
    calls.map((call) => call.replace(/(send 220) .*/, '$1').replace(/(send 250) (?!Accepted|XOWN).*/, '$1')),
  ).toEqual([
    'init',
    'connectionReady',
    'send 220',
    'oncommand EHLO client.test',
    'send 250',
    'oncommand XOWN x',
    'send 250 XOWN x',
    'oncommand MAIL FROM:<> SIZE=5',
    'handler_MAIL',
    'send 250 Accepted',
    'oncommand RCPT TO:<a@b.test>',
    'handler_RCPT',
    'send 250 Accepted',
    'oncommand DATA',
    'handler_DATA',
    'send 354 End data with <CR><LF>.<CR><LF>',
    'send 250',
    'oncommand QUIT',
    'send 221 Bye',
    'close',
  ]);
});

test('a parser is a Writable of Node’s, which drops what comes once the connection is closing', () => {
  const parser = new SMTPStream();
  expect(Object.getPrototypeOf(SMTPStream.prototype)).toHaveProperty('_write');
  expect(parser).toHaveProperty('isClosed', false);
  expect(() => parser.oncommand(Buffer.from('NOOP'))).toThrow('Command handler is not set');
});

test('one file alone reaches into smtp-server, and names one private member of it; the other is of Node’s streams', () => {
  const reaching = readSources('src').filter(({ packages }) =>
    packages.some((name) => name.startsWith('smtp-server/')),
  );
  expect(reaching.map(({ path }) => path)).toEqual(['src/smtp/smtp-server.ts']);
  const smtp = readSources('src/smtp', 'src/dev').filter(({ code }) => code.includes('smtp-server'));
  const members = smtp.flatMap(({ code }) => Array.from(code.matchAll(/(?:\.|override )(_\w+)/g), ([, name]) => name));
  expect([...new Set(members)].sort()).toEqual(['_createParser', '_write']);
});
