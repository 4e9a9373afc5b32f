/** Whom to tell of a weakness (RFC 9116). */
import { isoTime } from '../../lib/clock.ts';
import type { Answer } from '../answer.ts';
import type { Exchange } from '../exchange.ts';

const DAY = 86_400_000;
const VALID = 90 * DAY;

export function securityTxt({ at, snapshot }: Exchange): Answer {
  const { operator, http } = snapshot.server.server;
  const lines = [
    `Contact: mailto:${encodeURI(operator)}`,
    // The same all day, so that it may be kept.
    `Expires: ${isoTime(Math.floor(at / DAY) * DAY + VALID)}`,
    'Preferred-Languages: en',
    ...(http.base_url === null ? [] : [`Canonical: ${http.base_url}/.well-known/security.txt`]),
  ];
  return { status: 200, type: 'text/plain; charset=utf-8', body: `${lines.join('\n')}\n` };
}
