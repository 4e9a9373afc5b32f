/** The keys of server.yml. `restart: true` marks what a running daemon cannot change; all else follows a reload. */
import { z } from 'zod';
import * as is from './scalars.ts';
import { choice, flag, listOf, section } from './scalars.ts';
import { httpPlaces } from './http-address.ts';

const server = z.strictObject({
  hostname: is.domainName.describe(
    'Name of this machine: EHLO, MX target, message ids. Needs forward and reverse DNS.',
  ),
  operator: is.address.describe('Address of the operator: alerts, and the last resort for mail without an owner.'),
  public_ips: z
    .array(is.ipAddress)
    .refine((list) => new Set(list).size === list.length, { error: 'expected each address once' })
    .prefault([])
    .describe('Addresses that mail leaves from; discovered from the hostname when empty.'),
  http: section('The HTTP side.', {
    listen: listOf(
      is.httpListenAddress,
      'Addresses and ports of the HTTP server. Port 443, and what begins with https://, speaks TLS; port 443 is left alone while tls.mode is off.',
      ['[::]:80', '[::]:443'],
    ).meta({ restart: true }),
    base_url: is.baseUrl
      .nullable()
      .default(null)
      .describe(
        'Address under which the world reaches this server; null: the hostname, with https:// where port 443 speaks TLS.',
      ),
    trusted_proxies: listOf(is.network, 'Proxies whose X-Forwarded-For is believed, counted from the right.'),
    cors_origins: listOf(
      is.origin,
      'Origins whose pages may call the API from a browser, such as https://admin.example.com.',
    ),
  }),
  smtp: section('The SMTP side.', {
    listen: listOf(is.listenAddress, 'Addresses and ports on which mail is taken; none when empty.', ['[::]:25']).meta({
      restart: true,
    }),
    submission: section('Programs that have an API key send mail here.', {
      listen: listOf(is.listenAddress, 'Addresses and ports; port 465 speaks TLS from the first byte on.', [
        '[::]:587',
      ]).meta({ restart: true }),
      enabled: flag(false, 'Whether there is such a door; it needs the certificate of tls.').meta({ restart: true }),
    }),
  }),
  metrics: section('Figures for Prometheus; GET /metrics on the Unix socket has them as well.', {
    listen: listOf(is.listenAddress, 'Addresses of the listener for Prometheus; none when empty.').meta({
      restart: true,
    }),
  }),
  admin_socket: z
    .string()
    .min(1)
    .default('/run/postern/admin.sock')
    .meta({ description: 'Unix socket on which root and the service’s group administer.', restart: true }),
  roles: z
    .array(z.enum(['http', 'smtp', 'delivery']))
    .min(1)
    .default(['http', 'smtp', 'delivery'])
    .meta({
      description: 'What this daemon does: http accepts submissions, smtp takes mail, delivery sends it.',
      restart: true,
    }),
  signup: choice(
    ['closed', 'open'],
    'closed',
    'open: strangers may make accounts, each confirmed by a mailed link. closed: the operator makes them.',
  ),
  watch: flag(true, 'Reload when a *.yml of the configuration folder changes; without it, on SIGHUP alone.'),
});

const tls = z
  .strictObject({
    mode: choice(
      ['files', 'off'],
      'off',
      'files: the certificate below, for HTTPS and STARTTLS. off: all is in clear text.',
    ).meta({ restart: true }),
    files: z
      .strictObject({
        cert: z.string().min(1).describe('File of the certificate with its chain, in PEM.'),
        key: z.string().min(1).describe('File of its private key, in PEM.'),
      })
      .nullable()
      .default(null)
      .describe('Read again when they change; null where mode is not files.'),
  })
  .refine(({ mode, files }) => mode !== 'files' || files !== null, {
    path: ['files'],
    message: 'expected the files cert and key, because mode is files',
  });

const database = z.strictObject({
  url: is.databaseUrl
    .default('sqlite:/var/lib/postern/postern.db')
    .meta({ description: 'sqlite:/path or postgres://…; several daemons may share one PostgreSQL.', restart: true }),
});

const dns = z.strictObject({
  servers: listOf(is.dnsServer, 'Resolvers to ask; empty: those of the system.').meta({ restart: true }),
  recheck: is.duration.prefault('6h').describe('How often the records of each domain are looked up again.'),
  grace: is.duration.prefault('72h').describe('How long a verified domain keeps sending after its records break.'),
  release: is.duration
    .prefault('14d')
    .describe('How long a domain may be failed before another account whose records are right can own it.'),
});

const inbound = z.strictObject({
  proxy_protocol: listOf(
    is.network,
    'Peers whose connections begin with a PROXY header (version 1), which says who the client is.',
  ),
  dmarc: choice(
    ['enforce', 'record'],
    'enforce',
    'enforce: mail is refused where its author’s domain wants that (p=reject). record: it is only noted.',
  ),
  from_rewrite: choice(
    ['auto', 'never'],
    'auto',
    'auto: the From of what is forwarded names our domain where DMARC would refuse it under its own.',
  ),
  arc: section('The chain of those who have passed a message on.', {
    seal: flag(true, 'Seal what is forwarded with what was found when it came (ARC).'),
    trusted: listOf(is.domainName, 'Domains whose seals are believed: what passed DMARC there passes here.'),
  }),
});

const webhooks = z.strictObject({
  allow_private_networks: flag(false, 'Post to targets in private and loopback networks too.'),
});

const delivery = z.strictObject({
  port: is.port.default(25).describe('Port of the MX hosts that mail is delivered to.'),
  relay: is.smarthost
    .nullable()
    .default(null)
    .describe('Smarthost that takes all mail, for machines whose port 25 is closed; null: straight to the MX hosts.'),
  routes: z
    .record(is.domainName, is.mailHost)
    .default({})
    .describe('Destination domain to host:port, for private destinations; goes before relay and MX.'),
  concurrency: is.count
    .default(100)
    .describe(
      'Connections in all to servers that have answered. Those to servers that have not, and may hang, are beside them: up to 20 times as many, shared fairly by tenants.',
    ),
  per_destination: is.count
    .default(20)
    .describe('Connections to one destination at most; starts at 2, grows on success, halves on faults.'),
  messages_per_connection: is.count.default(100).describe('Messages on one connection before a new one is made.'),
  retry: z
    .array(is.duration)
    .min(1)
    .prefault(['5m', '10m', '20m', '40m', '1h', '1h', '2h', '2h', '4h', '4h', '4h', '6h'])
    .describe('Waits between attempts, each with 10 % jitter; the last repeats.'),
  expire: section('When mail that cannot be delivered is given up.', {
    default: is.duration.prefault('5d').describe('Age at which undelivered mail is given up.'),
    acknowledgment: is.duration.prefault('24h').describe('The same for acknowledgments.'),
    dsn: is.duration.prefault('2d').describe('The same for reports to senders whose mail could not be forwarded.'),
  }),
  allow_private_networks: flag(false, 'Deliver to MX hosts in private and loopback networks too.'),
});

const limits = z.strictObject({
  body: is.size.prefault('20MiB').describe('Largest request body.'),
  fields: is.count.default(200).describe('Fields in one submission.'),
  field: is.size.prefault('64KiB').describe('Largest field.'),
  files: is.count.default(10).describe('Files in one submission.'),
  file: is.size.prefault('10MiB').describe('Largest file.'),
  files_total: is.size
    .prefault('18MiB')
    .describe('All files of a submission, so that the encoded mail stays below message.'),
  recipients: is.count
    .default(50)
    .describe('Recipients of one mail that is sent through the API or submitted by SMTP.'),
  form_recipients: is.count.default(20).describe('Recipients of one form, counted where forwarding leads.'),
  message: is.size.prefault('25MiB').describe('Largest message; most receivers refuse more.'),
  requests_per_minute_per_address: is.count
    .default(600)
    .describe('Requests per minute of one client, an IPv6 /64 being one.'),
  smtp: section('Mail that comes in.', {
    connections: is.count.default(500).describe('Connections at a time.'),
    per_address: is.count.default(50).describe('Connections of one client at a time, an IPv6 /64 being one.'),
    errors: is.count
      .default(20)
      .describe('Errors in one connection, and in a minute of a client that has sent no accepted mail for an hour.'),
    recipients: is.count.default(100).describe('Recipients of one message.'),
    hops: is.count.default(50).describe('Received lines of one message; with more it goes round in a loop.'),
  }),
  free_disk: is.size.prefault('256MiB').describe('Free disk space below which nothing is accepted.'),
});

const TWO_DAYS = 2 * 86_400_000;

const retention = z.strictObject({
  submissions: is.retention
    .prefault('90d')
    .describe('Age at which submissions go, with their files; 0: once their mail has arrived. Never before that.'),
  message_bodies: is.retention
    .prefault('7d')
    .describe('How long what a mail says is kept after its last recipient is settled; who got it and when stays.'),
  events: is.duration
    .refine((ms) => ms >= TWO_DAYS, 'expected 2d or more, because webhooks are tried for more than a day')
    .prefault('30d')
    .describe('Age at which single events are forgotten; what was counted of them stays.'),
});

/** What an account has a number of. */
export const OBJECT_KINDS = ['projects', 'domains', 'forms', 'collections', 'keys', 'webhooks'] as const;

export type ObjectKind = (typeof OBJECT_KINDS)[number];

type Limits<Name extends string> = Readonly<Record<Name, number | null>>;

interface PlanDefaults extends Limits<
  'requests_per_hour' | 'requests_per_minute' | 'messages_per_hour' | 'messages_per_day'
> {
  readonly objects: Limits<ObjectKind>;
}

const UNLIMITED: PlanDefaults = {
  requests_per_hour: null,
  requests_per_minute: null,
  messages_per_hour: null,
  messages_per_day: null,
  objects: { projects: null, domains: null, forms: null, collections: null, keys: null, webhooks: null },
};

/** `null`: no such limit. */
function plan(defaults: PlanDefaults) {
  const { objects } = defaults;

  function most(value: number | null, what: string) {
    return is.count.nullable().default(value).describe(`${what}; null: no such limit.`);
  }

  return z
    .strictObject({
      requests_per_hour: most(defaults.requests_per_hour, 'Requests per hour'),
      requests_per_minute: most(defaults.requests_per_minute, 'Requests per minute'),
      messages_per_hour: most(defaults.messages_per_hour, 'Recipients that mail is sent to per hour'),
      messages_per_day: most(defaults.messages_per_day, 'Recipients that mail is sent to in 24 hours'),
      objects: section('How many of each an account may have.', {
        projects: most(objects.projects, 'Projects'),
        domains: most(objects.domains, 'Domains of all projects'),
        forms: most(objects.forms, 'Forms of every kind'),
        collections: most(objects.collections, 'Collections'),
        keys: most(objects.keys, 'API keys that are neither revoked nor expired'),
        webhooks: most(objects.webhooks, 'Webhooks, those that configurations name included'),
      }),
      price: is.price.default(0).describe('Price of a month, in currency.'),
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
    }).describe('What a new tenant is on.'),
    pro: plan({
      requests_per_hour: 1000,
      requests_per_minute: 300,
      messages_per_hour: 2000,
      messages_per_day: 20_000,
      objects: { projects: 200, domains: 200, forms: 2000, collections: 500, keys: 1000, webhooks: 500 },
    }).describe('For tenants that send more.'),
    enterprise: plan(UNLIMITED).describe('Limits are set per tenant.'),
    currency: z
      .string()
      .regex(/^[A-Z]{3}$/, 'expected a currency such as EUR')
      .default('EUR')
      .describe('Currency of the prices (ISO 4217).'),
  })
  .catchall(plan(UNLIMITED).describe('A plan of your own.'));

const log = z.strictObject({
  level: choice(['debug', 'info', 'warn', 'error', 'silent'], 'info', 'Least severity that is written.'),
  format: choice(['auto', 'json', 'pretty'], 'auto', 'auto: pretty on a terminal, JSON lines elsewhere.').meta({
    restart: true,
  }),
  redact_addresses: flag(false, 'Mask the local part of every address in the log.'),
});

export const serverSchema = z
  .strictObject({
    server: server.describe('Who this server is and where it listens.'),
    tls: tls.prefault({}).describe('The certificate of this server.'),
    database: database.prefault({}).describe('Where everything is kept.'),
    dns: dns.prefault({}).describe('Looking up and checking DNS records.'),
    inbound: inbound.prefault({}).describe('Mail that comes in.'),
    webhooks: webhooks.prefault({}).describe('Telling other services what happened.'),
    delivery: delivery.prefault({}).describe('Sending mail.'),
    limits: limits.prefault({}).describe('What is accepted at most.'),
    retention: retention.prefault({}).describe('How long things are kept.'),
    plans: plans.prefault({}).describe('What tenants may use, and what it costs.'),
    log: log.prefault({}).describe('What is written to standard output.'),
  })
  .refine(({ server, tls }) => !server.smtp.submission.enabled || tls.mode !== 'off', {
    path: ['server', 'smtp', 'submission', 'enabled'],
    message: 'expected false while tls.mode is off, because keys are not taken in clear text',
  })
  .refine(({ server, tls }) => tls.mode !== 'off' || !server.http.listen.some((place) => place.startsWith('https:')), {
    path: ['server', 'http', 'listen'],
    message: 'expected no https:// while tls.mode is off, because TLS needs a certificate',
  })
  .refine(({ server, tls }) => server.http.listen.length === 0 || httpPlaces({ server, tls }).length > 0, {
    path: ['server', 'http', 'listen'],
    message: 'expected another port than 443 too while tls.mode is off, because TLS needs a certificate',
  })
  .meta({ title: 'Postern: server.yml', description: 'The appliance: who listens where, database, delivery.' });
