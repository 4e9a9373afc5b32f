/** The address of a form as the world sees it. */
import { baseUrlOf } from '../config/http-address.ts';
import type { Form } from '../config/forms.ts';
import type { Exchange } from './context.ts';
import { isSecure } from './secure.ts';

/** `https://mail.example.net/example.com/contact`, `…/c/partners/signup`, `…/f/frm_…`, `…/example.com/frm_…` */
export function endpointOf(exchange: Exchange, { id, kind, audience }: Pick<Form, 'id' | 'kind' | 'audience'>): string {
  const own = kind === 'api' || kind === 'instant';
  return `${baseOf(exchange)}/${own ? `${audience.domain ?? 'f'}/` : ''}${encodeURI(id)}`;
}

/** Where none is configured, the address that the client itself used. */
function baseOf({ snapshot, request, local }: Exchange): string {
  const { host } = request.headers;
  if (local || host === undefined || snapshot.server.server.http.base_url !== null) return baseUrlOf(snapshot.server);
  return `${isSecure(request) ? 'https' : 'http'}://${host}`;
}
