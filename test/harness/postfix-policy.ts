/** Postfix's policy protocol (SMTPD_POLICY_README): it asks before each RCPT, a function of the test answers. */
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';

/** An SMTP reply such as `451 4.3.0 later`, or undefined to go on. */
export type Judge = (rcpt: { readonly recipient: string; readonly sender: string }) => string | undefined;

export interface Policy {
  /** `127.0.0.1:PORT`. */
  readonly address: string;
  /** Replaces the rule; it holds from the next RCPT on. */
  judge(rule: Judge): void;
  close(): Promise<void>;
}

export async function startPolicy(first: Judge): Promise<Policy> {
  let rule = first;
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => socket.destroy());
    let waiting = '';
    socket.setEncoding('utf8').on('data', (text: string) => {
      const requests = (waiting + text).split('\n\n');
      waiting = requests.pop() ?? '';
      for (const request of requests) socket.write(`action=${answer(request)}\n\n`);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the policy server has no port');
  return {
    address: `127.0.0.1:${address.port}`,
    judge(next) {
      rule = next;
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };

  function answer(request: string): string {
    const fields = new Map(
      request.split('\n').map((line) => [line.split('=', 1)[0], line.slice(line.indexOf('=') + 1)]),
    );
    return rule({ recipient: fields.get('recipient') ?? '', sender: fields.get('sender') ?? '' }) ?? 'DUNNO';
  }
}
