/** The MTA-STS policy of each domain whose mail comes here encrypted, at `mta-sts.<domain>` (RFC 8461 §3.3). */
import { takesMail } from '../../config/forwarding.ts';
import { policyText } from '../../dns/mta-sts.ts';
import { refusedA, type Answer } from '../answer.ts';
import { refuse } from '../errors.ts';
import type { Exchange } from '../exchange.ts';

const HOST = /^mta-sts\.(.+?)\.?(?::\d+)?$/;

export function mtaSts({ request, snapshot, id }: Exchange): Answer {
  const [, name = ''] = HOST.exec((request.headers.host ?? '').toLowerCase()) ?? [];
  const domain = snapshot.domains.get(name);
  const { server, tls } = snapshot.server;
  if (domain === undefined || tls.mode === 'off' || !takesMail(domain.config)) {
    return refusedA(refuse('NOT_FOUND', { message: 'There is no MTA-STS policy for this host.' }), id);
  }
  return { status: 200, type: 'text/plain; charset=utf-8', body: policyText(server.hostname) };
}
