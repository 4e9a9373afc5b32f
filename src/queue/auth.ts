/**
 * Who we are, where that is asked for: AUTH at the smarthost (RFC 4954), PLAIN, else LOGIN, only ever where the credentials
 * may be said aloud; at our own door the mark that it gave this daemon, in a command of our own (RFC 5321 §4.1.5).
 */
import type { Reply } from './reply.ts';
import type { Credentials } from './route.ts';
import type { Limit, Wire } from './wire.ts';

/** Authenticates; answers the server's last reply, or undefined where it offers neither mechanism. Rejects with WireFault. */
export async function authenticate(
  wire: Wire,
  { user, password }: Credentials,
  { mechanisms, limit }: { mechanisms: readonly string[]; limit: Limit },
): Promise<Reply | undefined> {
  function say(line: string): Promise<Reply> {
    wire.send(`${line}\r\n`);
    return wire.read('auth', limit);
  }

  if (mechanisms.includes('PLAIN')) return say(`AUTH PLAIN ${base64(`\0${user}\0${password}`)}`);
  if (!mechanisms.includes('LOGIN')) return undefined;
  let reply = await say('AUTH LOGIN');
  if (reply.code === 334) reply = await say(base64(user));
  if (reply.code === 334) reply = await say(base64(password));
  return reply;
}

/** Shows our own door its mark. Rejects with WireFault. */
export function showMark(wire: Wire, mark: string, limit: Limit): Promise<Reply> {
  wire.send(`XOWN ${mark}\r\n`);
  return wire.read('auth', limit);
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}
