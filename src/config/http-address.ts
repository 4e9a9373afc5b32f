/** Addresses of the HTTP server. */

/** What of server.yml decides it. */
export interface Places {
  readonly server: {
    readonly hostname: string;
    readonly http: { readonly listen: readonly string[]; readonly base_url: string | null };
  };
  readonly tls: { readonly mode: string };
}

const PREFIX = 'https://';

const HTTPS_PORT = /:443$/;

/** One entry of `server.http.listen`: where, and whether TLS is spoken there. */
export function parseHttpListen(text: string): { readonly address: string; readonly secure: boolean } {
  const address = text.startsWith(PREFIX) ? text.slice(PREFIX.length) : text;
  return { address, secure: address !== text || HTTPS_PORT.test(address) };
}

/** What is listened on: without a certificate, TLS is spoken nowhere. */
export function httpPlaces({ server, tls }: Places): ReturnType<typeof parseHttpListen>[] {
  return server.http.listen.map(parseHttpListen).filter(({ secure }) => !secure || tls.mode !== 'off');
}

/** `https://mail.example.net`, without a slash at its end: `base_url`, else the host name, by TLS where port 443 speaks it. */
export function baseUrlOf(config: Places): string {
  const { hostname, http } = config.server;
  const secure = httpPlaces(config).some(({ address }) => HTTPS_PORT.test(address));
  return http.base_url ?? `${secure ? 'https' : 'http'}://${hostname}`;
}
