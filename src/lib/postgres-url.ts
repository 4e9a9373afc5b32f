/**
 * Addresses of PostgreSQL as libpq reads them: `postgres://user:password@db1,db2:5433/name?sslmode=verify-full`. Several hosts
 * are tried in their order. What a parameter means is said in the manual of libpq, "Parameter Key Words".
 */

/** One of the hosts of an address; undefined where the address leaves it to PGHOST, PGPORT or the default. */
export interface PostgresHost {
  readonly host: string | undefined;
  readonly port: number | undefined;
}

export interface PostgresUrl {
  /** In the order in which they are tried; at least one. */
  readonly hosts: readonly PostgresHost[];
  /** The same address without its hosts and their ports. */
  readonly base: string;
  readonly parameters: URLSearchParams;
}

const SSL_MODES = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'] as const;
export type SslMode = (typeof SSL_MODES)[number];

/** A daemon writes, so that it needs a server that takes writes, whatever the address says. */
const SESSION_ATTRS = ['any', 'primary', 'read-write'];

/** What Postern or its driver heeds; libpq has more. */
const PARAMETERS = [
  'application_name',
  'connect_timeout',
  'host',
  'options',
  'password',
  'port',
  'sslcert',
  'sslkey',
  'sslmode',
  'sslnegotiation',
  'sslrootcert',
  'target_session_attrs',
  'user',
];

/** scheme, user and password, hosts, path, parameters: what is special in user name and password is percent-encoded. */
const ADDRESS = /^(postgres(?:ql)?:\/\/)([^/?#]*@)?([^/?#@]*)((?:\/[^?#@]*)?)(\?[^#]*)?$/;
const HOST = /^(\[[^\]]+\]|[^:]*)(?::(\d{1,5}))?$/;

/** Reads an address. Throws Error where it is none; the message says what was expected. */
export function parsePostgresUrl(text: string): PostgresUrl {
  const [, scheme = '', user = '', authority = '', path = '', query = ''] = ADDRESS.exec(text) ?? fail('postgres://…');
  if (/^\?[^=]*@/.test(query)) fail('the user name and password to be percent-encoded');
  const parameters = new URLSearchParams(query);
  const named = parameters.get('host');
  const hosts = named === null ? authority.split(',').map(hostOf) : pairHosts(named, parameters.get('port'));
  parameters.delete('host');
  parameters.delete('port');
  const rest = parameters.toString();
  const base = `${scheme}${user}localhost${path}${rest === '' ? '' : `?${rest}`}`;
  if (!URL.canParse(base)) fail('the user name and password to be percent-encoded');
  return { hosts, base, parameters };
}

/** What is wrong with an address that begins like one of PostgreSQL, in words; undefined where nothing is. */
export function postgresUrlProblem(text: string): string | undefined {
  try {
    const { parameters } = parsePostgresUrl(text);
    checkParameters(parameters);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** The address without its password, wherever that stands: for messages. */
export function withoutPassword(text: string): string {
  const [, scheme = '', user = '', hosts = '', path = ''] = ADDRESS.exec(text) ?? [];
  return scheme === '' ? 'at database.url' : `${scheme}${user.replace(/:.*@$/, '@')}${hosts}${path}`;
}

/** Whether and how the connection is encrypted: `prefer` where neither the address nor PGSSLMODE says it. */
export function sslModeOf(parameters: URLSearchParams, env: Readonly<Record<string, string | undefined>>): SslMode {
  // As in libpq: the system's authorities vouch for names, not for whoever has a certificate.
  const isSystem = parameters.get('sslrootcert') === 'system';
  const text = parameters.get('sslmode') ?? env['PGSSLMODE'] ?? (isSystem ? 'verify-full' : 'prefer');
  return SSL_MODES.find((mode) => mode === text) ?? fail(`sslmode to be ${oneOf(SSL_MODES)}`);
}

function checkParameters(parameters: URLSearchParams): void {
  for (const name of parameters.keys()) {
    if (!PARAMETERS.includes(name)) fail(`the parameters ${PARAMETERS.join(', ')}, found ${name}`);
  }
  const mode = sslModeOf(parameters, {});
  const root = parameters.get('sslrootcert');
  if (mode === 'verify-ca' && root === null) fail('sslrootcert with sslmode=verify-ca, or sslmode=verify-full');
  if (root === 'system' && mode !== 'verify-full') fail('sslmode=verify-full with sslrootcert=system');
  if (parameters.has('sslcert') !== parameters.has('sslkey')) fail('sslcert and sslkey together');
  const attrs = parameters.get('target_session_attrs') ?? 'any';
  if (!SESSION_ATTRS.includes(attrs))
    fail(`target_session_attrs to be ${oneOf(SESSION_ATTRS)}, because Postern writes`);
  if (!/^\d{1,4}$/.test(parameters.get('connect_timeout') ?? '0')) fail('connect_timeout in seconds');
  const negotiation = parameters.get('sslnegotiation') ?? 'postgres';
  if (!['postgres', 'direct'].includes(negotiation)) fail('sslnegotiation to be postgres or direct');
  if (negotiation === 'direct' && ['disable', 'allow', 'prefer'].includes(mode)) {
    fail('sslmode=require or stronger with sslnegotiation=direct');
  }
}

function hostOf(text: string): PostgresHost {
  const [, host = '', port] = HOST.exec(text) ?? fail('host:port, or several of them separated by commas');
  return { host: host === '' ? undefined : decoded(host), port: port === undefined ? undefined : Number(port) };
}

/** Lists with commas; one port is that of all hosts. */
function pairHosts(hosts: string, ports: string | null): PostgresHost[] {
  const names = hosts.split(',');
  const numbers = ports === null ? [''] : ports.split(',');
  if (numbers.length !== 1 && numbers.length !== names.length) fail('one port, or as many ports as hosts');
  if (numbers.some((number) => !/^\d{0,5}$/.test(number))) fail('ports to be numbers');
  return names.map((host, i) => {
    const port = (numbers.length === 1 ? numbers[0] : numbers[i]) ?? '';
    return { host: host === '' ? undefined : host, port: port === '' ? undefined : Number(port) };
  });
}

/** A host in the place of an address is percent-encoded, such as the folder of a Unix socket; an IPv6 address has brackets. */
function decoded(host: string): string {
  try {
    return decodeURIComponent(host).replace(/^\[(.+)\]$/, '$1');
  } catch {
    return fail('hosts to be percent-encoded');
  }
}

function oneOf(values: readonly string[]): string {
  return `${values.slice(0, -1).join(', ')} or ${values.at(-1)}`;
}

function fail(expected: string): never {
  throw new Error(`expected ${expected}`);
}
