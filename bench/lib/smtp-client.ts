/** Sends one message over a connection of its own, its bytes as they are: for messages that smtp-source cannot send. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { DotStuffer } from '../../src/smtp-client/transaction.ts';

export interface Mail {
  readonly port: number;
  /** Default: forms@forms.test. */
  readonly from?: string;
  readonly to: string;
  /** Canonical line ends; a last line without one gets it. */
  readonly bytes: Buffer;
}

/** The server's last reply: to the message, or to the command that it refused. Rejects where the connection ends before. */
export async function sendMail({ port, from = 'forms@forms.test', to, bytes }: Mail): Promise<string> {
  const socket = connect(port, '127.0.0.1').setEncoding('latin1');
  const ended = once(socket, 'close').then(() => {
    throw new Error('the server hung up');
  });
  ended.catch(() => undefined);
  let heard = '';
  socket.on('error', () => undefined).on('data', (text: string) => (heard += text));

  async function reply(): Promise<string> {
    let whole: RegExpExecArray | null;
    while ((whole = /^(?:\d{3}-.*\r\n)*\d{3} .*\r\n/.exec(heard)) === null) {
      await Promise.race([once(socket, 'data'), ended]);
    }
    heard = heard.slice(whole[0].length);
    return whole[0].trimEnd();
  }

  try {
    await reply();
    for (const command of ['EHLO client.test', `MAIL FROM:<${from}>`, `RCPT TO:<${to}>`, 'DATA']) {
      socket.write(`${command}\r\n`);
      const said = await reply();
      if (!/^[23]/.test(said)) return said;
    }
    const stuffer = new DotStuffer();
    socket.write(stuffer.push(bytes));
    socket.write(stuffer.end());
    return await reply();
  } finally {
    socket.destroy();
  }
}
