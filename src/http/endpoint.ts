/** The address of a form as the world sees it. */
import type { Form } from '../config/forms.ts';
import type { Exchange } from './exchange.ts';

/** `https://mail.example.net/example.com/contact`, `…/c/partners/signup`, `…/f/frm_…` */
export function endpointOf({ snapshot, request, local }: Exchange, { id, kind }: Pick<Form, 'id' | 'kind'>): string {
  const { http, hostname } = snapshot.server.server;
  const base = http.base_url ?? `http://${(local ? undefined : request.headers.host) ?? hostname}`;
  const own = kind === 'api' || kind === 'instant';
  return `${base.replace(/\/+$/, '')}/${own ? 'f/' : ''}${encodeURI(id)}`;
}
