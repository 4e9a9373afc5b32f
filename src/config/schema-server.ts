/** The keys of server.yml. `restart: true` marks what a running daemon cannot change; all else follows a reload. */
import { z } from 'zod';
import * as is from './scalars.ts';
import { choice, flag, listOf, section } from './scalars.ts';

const server = z.strictObject({
  hostname: is.hostName.describe(
    'Host name of this server, used in EHLO, in message IDs and as MX target. Needs matching forward and reverse DNS.',
  ),
  operator: is.address.describe(
    'Email address of the operator. Receives alerts, and mail that has no other recipient.',
  ),
  public_ips: z
    .array(is.ipAddress)
    .refine((list) => new Set(list).size === list.length, { error: 'expected each IP address once' })
    .prefault([])
    .describe('IP addresses that mail is sent from. If empty, the addresses of hostname.'),
  http: section('The HTTP server.', {
    listen: listOf(
      is.httpListenAddress,
      'Addresses and ports to listen on. Port 443 and addresses that begin with https:// use TLS. Port 443 is skipped while tls.mode is off.',
      ['[::]:80', '[::]:443'],
    ).meta({ restart: true }),
    base_url: is.baseUrl
      .nullable()
      .default(null)
      .describe('Public URL of this server. null: the hostname, with https:// if port 443 uses TLS.'),
    trusted_proxies: listOf(is.network, 'Proxies whose X-Forwarded-For header is trusted, read from the right.'),
    proxy_protocol: listOf(
      is.network,
      'Proxies whose connections must begin with a PROXY protocol header (version 1) that names the client.',
    ),
    cors_origins: listOf(
      is.origin,
      'Origins whose pages may call the API from a browser, such as https://admin.example.com.',
    ),
  }),
  smtp: section('The SMTP server.', {
    listen: listOf(is.listenAddress, 'Addresses and ports that receive mail. If empty, no mail is received.', [
      '[::]:25',
    ]).meta({
      restart: true,
    }),
    submission: section('SMTP submission for programs that have an API key.', {
      listen: listOf(is.listenAddress, 'Addresses and ports to listen on. Port 465 uses implicit TLS.', [
        '[::]:587',
      ]).meta({ restart: true }),
      enabled: flag(false, 'Accept submissions. Needs a certificate in tls.').meta({ restart: true }),
    }),
  }),
  metrics: section('Metrics for Prometheus, in addition to GET /metrics on the Unix socket.', {
    listen: listOf(is.listenAddress, 'Addresses and ports to listen on. If empty, there is no listener.').meta({
      restart: true,
    }),
  }),
  admin_socket: z
    .string()
    .regex(/^\//, { error: 'expected the absolute path of a Unix socket such as /run/postern/admin.sock' })
    .default('/run/postern/admin.sock')
    .meta({ description: 'Unix socket for administration by root and the group of the service.', restart: true }),
  roles: z
    .array(z.enum(['http', 'smtp', 'delivery']))
    .min(1)
    .default(['http', 'smtp', 'delivery'])
    .meta({
      description: 'What this daemon does: http serves forms and the API, smtp receives mail, delivery sends it.',
      restart: true,
    }),
  signup: choice(
    ['closed', 'open'],
    'closed',
    'open: anyone can create an account and confirms it with an emailed link. closed: only the operator creates accounts.',
  ),
  console: section('The web console at /console.', {
    enabled: flag(true, 'Serve the console, and let people sign in to it.'),
    require_totp: flag(false, 'Require everyone who signs in to set up one-time codes (TOTP) as a second step.'),
  }),
  watch: flag(true, 'Reload when a *.yml file in the configuration folder changes. false: reload on SIGHUP only.'),
});

/** The authority that certificates come from, unless another one is named. */
export const LETS_ENCRYPT = 'https://acme-v02.api.letsencrypt.org/directory';

const tls = z
  .strictObject({
    mode: z
      .enum(['acme', 'files', 'off'])
      .nullable()
      .default(null)
      .describe(
        'acme: obtain and renew certificates. files: the certificate below. off: no TLS. null: acme if the hostname is public, otherwise off.',
      )
      .meta({ restart: true }),
    acme: section('Certificates from ACME (RFC 8555), for HTTPS and STARTTLS.', {
      email: is.address
        .nullable()
        .default(null)
        .describe('Contact address for the certificate authority. null: server.operator.'),
      directory: is.webUrl.default(LETS_ENCRYPT).describe('ACME directory of the certificate authority.'),
      names: listOf(is.domainName, 'Host names to obtain certificates for, besides server.hostname.'),
      eab: z
        .strictObject({
          key_id: z.string().min(1).describe('Key identifier.'),
          hmac_key: z
            .string()
            .regex(/^[\w-]+=*$/, 'expected a key in base64url')
            .describe('HMAC key, in base64url.'),
        })
        .nullable()
        .default(null)
        .describe('External account binding, if the certificate authority requires one.'),
      ca: z
        .string()
        .min(1)
        .nullable()
        .default(null)
        .describe('PEM file with the CA certificates to trust for the directory. null: those of the system.'),
    }),
    files: z
      .strictObject({
        cert: z.string().min(1).describe('Certificate file with its chain, in PEM format.'),
        key: z.string().min(1).describe('Private key file, in PEM format.'),
      })
      .nullable()
      .default(null)
      .describe('Reloaded when the files change. null unless mode is files.'),
    hsts: is.duration
      .nullable()
      .prefault('180d')
      .describe(
        'max-age of Strict-Transport-Security (RFC 6797). Sent over HTTPS once the certificate has been valid for a week. null: never.',
      ),
  })
  .refine(({ mode, files }) => mode !== 'files' || files !== null, {
    path: ['files'],
    message: 'expected the files cert and key, because mode is files',
  });

const database = z
  .strictObject({
    url: is.databaseUrl.default('sqlite:/var/lib/postern/postern.db').meta({
      description:
        'sqlite:/path or postgres://user@host1,host2/name. Several daemons can share one PostgreSQL database. Parameters such as sslmode work as in libpq.',
      restart: true,
    }),
    listen_url: is.postgresUrl.nullable().default(null).meta({
      description:
        'Direct URL of PostgreSQL for LISTEN, locks and migrations, if url is a pooler such as PgBouncer. null: url.',
      restart: true,
    }),
    prepare: flag(
      true,
      'Keep prepared statements and settings for the duration of a PostgreSQL session. false: for a connection pooler in transaction mode, together with listen_url.',
    ).meta({ restart: true }),
    pool_size: z.int().min(2).max(1000).default(10).meta({
      description:
        'Maximum PostgreSQL connections per thread (a daemon has two threads). Two more carry messages between daemons.',
      restart: true,
    }),
  })
  .refine(({ prepare, listen_url }) => prepare || listen_url !== null, {
    path: ['listen_url'],
    message: 'expected the URL of PostgreSQL itself, because prepare is false',
  });

const storage = z
  .strictObject({
    url: is.bucketUrl.nullable().default(null).meta({
      description:
        'S3-compatible bucket for large stored objects, such as s3://bucket/prefix?endpoint=https://storage.example.net&region=eu-central-1. Without endpoint: Amazon S3. null: everything is stored in the database.',
      restart: true,
    }),
    access_key_id: is.text(200).nullable().default(null).meta({
      description: 'Access key that can read, write and delete objects in the bucket.',
      restart: true,
    }),
    secret_access_key: is.text(2000).nullable().default(null).meta({
      description: 'Secret access key. ${VARIABLE} or file:/path keeps it out of this file.',
      restart: true,
    }),
  })
  .refine(({ url, access_key_id }) => (url === null) === (access_key_id === null), {
    path: ['access_key_id'],
    message: 'expected url and access_key_id together',
  })
  .refine(({ url, secret_access_key }) => (url === null) === (secret_access_key === null), {
    path: ['secret_access_key'],
    message: 'expected url and secret_access_key together',
  });

const dns = z.strictObject({
  servers: listOf(is.dnsServer, 'DNS resolvers. If empty, the system resolvers.').meta({ restart: true }),
  validating: z
    .union([z.boolean(), z.literal('auto')], 'expected auto, true or false')
    .default('auto')
    .meta({
      description:
        'Whether the resolvers validate DNSSEC, which DANE requires. auto: trust a resolver on this machine that says so. true: trust all of them. false: do not use DANE.',
      restart: true,
    }),
  recheck: is.duration.prefault('6h').describe('How often the DNS records of each domain are checked.'),
  grace: is.duration
    .prefault('72h')
    .describe('How long a verified domain may keep sending while its DNS records are wrong.'),
  release: is.duration
    .prefault('14d')
    .describe('How long a domain must have failed before another account can verify it.'),
});

const inbound = z.strictObject({
  proxy_protocol: listOf(
    is.network,
    'Peers whose connections begin with a PROXY protocol header (version 1) that names the client.',
  ),
  dmarc: choice(
    ['enforce', 'record'],
    'enforce',
    'enforce: refuse mail that fails DMARC if the domain of its author publishes p=reject. record: only record the result.',
  ),
  from_rewrite: choice(
    ['auto', 'never'],
    'auto',
    'auto: rewrite the From header of forwarded mail that would otherwise fail DMARC. never: leave it unchanged.',
  ),
  arc: section('Authenticated Received Chain (RFC 8617).', {
    seal: flag(true, 'Add an ARC seal with the authentication results to forwarded mail.'),
    trusted: listOf(is.domainName, 'Domains whose ARC seals are trusted: mail that passed DMARC there passes here.'),
  }),
});

const uploads = z.strictObject({
  clamd: is.socketPlace
    .nullable()
    .default(null)
    .describe(
      'Socket of clamd (ClamAV), such as unix:/run/clamav/clamd.ctl or 127.0.0.1:3310. Uploaded files that it finds infected are refused. null: files are not scanned.',
    ),
});

const webhooks = z.strictObject({
  allow_private_networks: flag(false, 'Allow webhook URLs in private and loopback networks.'),
});

const relay = z
  .strictObject({
    host: is.hostOrAddress.describe('Host name of the smarthost.'),
    port: is.port.default(587).describe('Port. Port 465 uses implicit TLS, others use STARTTLS.'),
    user: is.text(500).optional().describe('User name. If missing, authentication is not used.'),
    password: is.text(2000).optional().describe('Password. ${VARIABLE} or file:/path keeps it out of this file.'),
    tls: choice(
      ['required', 'opportunistic', 'off'],
      'required',
      'required: TLS with a trusted certificate for the host. opportunistic: any certificate, or clear text if the smarthost has no TLS. off: clear text.',
    ),
    ca: is.text(4096).optional().describe('PEM file with the CA certificates to trust. Default: those of the system.'),
  })
  .refine(({ user, password }) => (user === undefined) === (password === undefined), {
    path: ['password'],
    message: 'expected user and password together',
  })
  .refine(({ host, user, tls }) => user === undefined || tls === 'required' || is.isThisMachine(host), {
    path: ['tls'],
    message: 'expected required, because a password is never sent without TLS and a trusted certificate',
  });

const delivery = z.strictObject({
  port: is.port.default(25).describe('Port of the MX hosts.'),
  relay: z
    .union([is.smarthostUrl, relay], { error: is.smarthostError })
    .nullable()
    .default(null)
    .describe(
      'Smarthost for all outgoing mail, for servers whose port 25 is blocked: the keys below, or a URL. null: deliver directly to MX hosts.',
    ),
  routes: z
    .record(is.domainName, is.mailHost)
    .default({})
    .describe('Next hop (host:port) by destination domain, for private destinations. Overrides relay and MX records.'),
  tls_reports: flag(true, 'Send daily TLS reports (RFC 8460) to recipient domains that request them.'),
  concurrency: is.count
    .default(100)
    .describe(
      'Total connections to servers that have answered before. Connections to other servers, which may hang, are counted separately: up to 20 times as many, shared fairly between accounts.',
    ),
  per_destination: is.count
    .default(20)
    .describe('Maximum connections to one destination. Starts at 2, grows on success, halves on failure.'),
  messages_per_connection: is.count
    .default(100)
    .describe('Messages sent on one connection before a new one is opened.'),
  retry: z
    .array(is.duration)
    .min(1)
    .prefault(['5m', '10m', '20m', '40m', '1h', '1h', '2h', '2h', '4h', '4h', '4h', '6h'])
    .describe(
      'Time between delivery attempts, with 10 % jitter. The last value repeats. After a connection or DNS error, one extra attempt comes first, after about a minute at most.',
    ),
  expire: section('When undeliverable mail expires.', {
    default: is.duration.prefault('5d').describe('Age at which undelivered mail expires.'),
    acknowledgment: is.duration.prefault('24h').describe('The same for acknowledgments.'),
    dsn: is.duration
      .prefault('2d')
      .describe('The same for delivery status notifications to senders whose mail could not be forwarded.'),
  }),
  allow_private_networks: flag(false, 'Allow delivery to MX hosts in private and loopback networks.'),
});

const limits = z.strictObject({
  body: is.size.prefault('20MiB').describe('Maximum size of a request body.'),
  fields: is.count.default(200).describe('Maximum number of fields in a submission.'),
  field: is.size.prefault('64KiB').describe('Maximum size of a field.'),
  files: is.count.default(10).describe('Maximum number of files in a submission.'),
  file: is.size.prefault('10MiB').describe('Maximum size of a file.'),
  files_total: is.size
    .prefault('18MiB')
    .describe('Maximum total size of the files in a submission. Once encoded, they must fit into limits.message.'),
  recipients: is.count.default(50).describe('Maximum recipients of a message sent through the API or SMTP submission.'),
  form_recipients: is.count.default(20).describe('Maximum recipients of a form, counted after forwarding.'),
  message: is.size.prefault('25MiB').describe('Maximum message size. Most receivers refuse larger messages.'),
  requests_per_minute_per_address: is.count
    .default(600)
    .describe('Requests per minute from one client. An IPv6 /64 network counts as one client.'),
  smtp: section('Inbound mail.', {
    connections: is.count.default(500).describe('Maximum simultaneous connections.'),
    per_address: is.count
      .default(50)
      .describe('Maximum simultaneous connections from one client. An IPv6 /64 network counts as one client.'),
    errors: is.count
      .default(20)
      .describe(
        'Errors allowed on one connection, and per minute from a client that has sent no accepted mail in the last hour.',
      ),
    recipients: is.count.default(100).describe('Maximum recipients of a message.'),
    hops: is.count.default(50).describe('Maximum number of Received headers. More indicate a mail loop.'),
  }),
  free_disk: is.size.prefault('256MiB').describe('Minimum free disk space. Below it, nothing is accepted.'),
});

const TWO_DAYS = 2 * 86_400_000;

const retention = z.strictObject({
  submissions: is.retention
    .prefault('90d')
    .describe(
      'How long submissions and their files are kept. 0: until their mail is delivered. They are never deleted before that.',
    ),
  message_bodies: is.retention
    .prefault('7d')
    .describe(
      'How long message content is kept after the last recipient has a final result. The delivery record stays.',
    ),
  events: is.duration
    .refine((ms) => ms >= TWO_DAYS, 'expected 2d or more, because webhooks are retried for more than a day')
    .prefault('30d')
    .describe('How long events are kept. Analytics counts stay.'),
});

/** What an account has a number of. */
export const OBJECT_KINDS = ['projects', 'domains', 'forms', 'collections', 'keys', 'webhooks'] as const;

export type ObjectKind = (typeof OBJECT_KINDS)[number];

type Limits<Name extends string> = Readonly<Partial<Record<Name, number>>>;

interface PlanDefaults extends Limits<
  'requests_per_hour' | 'requests_per_minute' | 'messages_per_hour' | 'messages_per_day'
> {
  readonly objects?: Limits<ObjectKind>;
}

/** `null`: no such limit. */
function plan({ objects = {}, ...defaults }: PlanDefaults = {}) {
  function most(value: number | undefined, what: string) {
    return is.count
      .nullable()
      .default(value ?? null)
      .describe(`${what}; null: no limit.`);
  }

  return z
    .strictObject({
      requests_per_hour: most(defaults.requests_per_hour, 'Requests per hour'),
      requests_per_minute: most(defaults.requests_per_minute, 'Requests per minute'),
      messages_per_hour: most(defaults.messages_per_hour, 'Recipients per hour'),
      messages_per_day: most(defaults.messages_per_day, 'Recipients per 24 hours'),
      objects: section('Maximum number of each per account.', {
        projects: most(objects.projects, 'Projects'),
        domains: most(objects.domains, 'Domains in all projects'),
        forms: most(objects.forms, 'Forms of all kinds'),
        collections: most(objects.collections, 'Collections'),
        keys: most(objects.keys, 'API keys that are neither revoked nor expired'),
        webhooks: most(objects.webhooks, 'Webhooks, including those in configurations'),
      }),
      price: is.price.default(0).describe('Monthly price, in currency.'),
    })
    .prefault({});
}

const plans = z
  .object({
    free: plan({
      requests_per_hour: 100,
      requests_per_minute: 60,
      messages_per_hour: 200,
      messages_per_day: 1000,
      objects: { projects: 20, domains: 20, forms: 200, collections: 50, keys: 100, webhooks: 50 },
    }).describe('Plan of new accounts.'),
    pro: plan({
      requests_per_hour: 1000,
      requests_per_minute: 300,
      messages_per_hour: 2000,
      messages_per_day: 20_000,
      objects: { projects: 200, domains: 200, forms: 2000, collections: 500, keys: 1000, webhooks: 500 },
    }).describe('For accounts that send more.'),
    enterprise: plan().describe('Limits are set per account.'),
    currency: z
      .string()
      .regex(/^[A-Z]{3}$/, 'expected a currency code such as EUR')
      .default('EUR')
      .describe('Currency of the prices (ISO 4217).'),
  })
  .catchall(plan().describe('A custom plan.'));

const alerts = z.strictObject({
  dnsbl: listOf(
    is.domainName,
    'DNS block lists to query every hour for the IP addresses of this server, such as zen.spamhaus.org. The operator is alerted if one is listed. If empty, none is queried.',
  ),
});

const log = z.strictObject({
  level: choice(['debug', 'info', 'warn', 'error', 'silent'], 'info', 'Minimum severity.'),
  format: choice(['auto', 'json', 'pretty'], 'auto', 'auto: pretty on a terminal, JSON lines elsewhere.').meta({
    restart: true,
  }),
  redact_addresses: flag(false, 'Mask the local part of every email address in the log.'),
});

export const serverSchema = z
  .strictObject({
    server: server.describe('Identity and listeners of this server.'),
    tls: tls.prefault({}).describe('The certificate of this server.'),
    database: database.prefault({}).describe('The database.'),
    storage: storage.prefault({}).describe('Where files and the bodies of messages are stored.'),
    dns: dns.prefault({}).describe('DNS lookups and checks.'),
    inbound: inbound.prefault({}).describe('Inbound mail.'),
    uploads: uploads.prefault({}).describe('Files that forms receive.'),
    webhooks: webhooks.prefault({}).describe('Webhooks.'),
    delivery: delivery.prefault({}).describe('Outbound delivery.'),
    limits: limits.prefault({}).describe('Limits on what is accepted.'),
    retention: retention.prefault({}).describe('How long data is kept.'),
    plans: plans.prefault({}).describe('Plans: limits and prices for accounts.'),
    alerts: alerts.prefault({}).describe('Alerts to the operator.'),
    log: log.prefault({}).describe('Log output.'),
  })
  .refine(({ server, tls }) => !server.smtp.submission.enabled || tlsModeOf({ server, tls }) !== 'off', {
    path: ['server', 'smtp', 'submission', 'enabled'],
    message: 'expected false while tls.mode is off, because API keys are not accepted in clear text',
  })
  .refine(
    ({ server, tls }) =>
      tlsModeOf({ server, tls }) !== 'off' || !server.http.listen.some((place) => place.startsWith('https:')),
    {
      path: ['server', 'http', 'listen'],
      message: 'expected no https:// while tls.mode is off, because TLS needs a certificate',
    },
  )
  .refine(({ server, tls }) => server.http.listen.length === 0 || httpPlaces({ server, tls }).length > 0, {
    path: ['server', 'http', 'listen'],
    message: 'expected a port other than 443 while tls.mode is off, because TLS needs a certificate',
  })
  .meta({
    title: 'Postern: server.yml',
    description: 'Server configuration: listeners, TLS, database, delivery, limits.',
  });

/** What of server.yml decides where HTTP is served. */
interface Addressing {
  readonly server: { hostname: string; http: { listen: readonly string[]; base_url: string | null } };
  readonly tls: { readonly mode: TlsMode | null };
}

export type TlsMode = 'acme' | 'files' | 'off';

/** What no authority on the Internet gives a certificate for: names for special uses (RFC 6761 and later), and private ones. */
export const PRIVATE_NAME =
  /^[^.]+$|(^|\.)(localhost|localdomain|test|example|example\.(com|net|org)|invalid|internal|intranet|private|corp|home|lan|local|home\.arpa|onion|alt)$/;

/** `tls.mode`, where it is not set the default for the host name. */
export function tlsModeOf({
  server,
  tls,
}: Pick<Addressing, 'tls'> & { readonly server: { hostname: string } }): TlsMode {
  return tls.mode ?? (PRIVATE_NAME.test(server.hostname) ? 'off' : 'acme');
}

const HTTPS_PORT = /:443$/;

/** One entry of `server.http.listen`: where, and whether TLS is spoken there. */
export function parseHttpListen(text: string): { readonly address: string; readonly secure: boolean } {
  const address = text.replace(/^https:\/\//, '');
  return { address, secure: address !== text || HTTPS_PORT.test(address) };
}

/** What is listened on: without a certificate, TLS is spoken nowhere. */
export function httpPlaces({ server, tls }: Addressing): ReturnType<typeof parseHttpListen>[] {
  return server.http.listen
    .map(parseHttpListen)
    .filter(({ secure }) => !secure || tlsModeOf({ server, tls }) !== 'off');
}

/** `https://mail.example.net`, without a slash at its end: `base_url`, else the host name, by TLS where port 443 speaks it. */
export function baseUrlOf(config: Addressing): string {
  const { hostname, http } = config.server;
  const secure = httpPlaces(config).some(({ address }) => HTTPS_PORT.test(address));
  return http.base_url ?? `${secure ? 'https' : 'http'}://${hostname}`;
}
