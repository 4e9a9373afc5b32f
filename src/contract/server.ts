/** The server itself: its checks and its backups. */
import { z } from 'zod';
import { parseDomain } from '../lib/addresses.ts';
import { route } from './route.ts';
import { optionalTime, pageSize, parsed, time } from './values.ts';

const MAX_BLOCK_LISTS = 20;

const zone = parsed(parseDomain, 'must be a zone such as zen.spamhaus.org');

const ADMIN = { permission: 'admin', domains: 'refuse', tag: 'Administration' } as const;
/** Why no key can have a backup. */
export const SOCKET_ONLY = 'Only over the Unix socket, because a backup contains every secret of the server.';
const BACKUP = { ...ADMIN, description: SOCKET_ONLY, errors: ['CONFLICT'] } as const;

const backup = z.object({
  state: z.enum(['none', 'copying', 'verifying', 'verified', 'fetching', 'failed']),
  done: z.int().optional().describe('Bytes copied.'),
  total: z.int().optional().describe('Bytes to copy.'),
  size: z.int().optional().describe('Size of the verified copy in bytes.'),
  sha256: z.string().optional().describe('SHA-256 of the verified copy, in hexadecimal.'),
  rows: z.int().optional().describe('Rows in all tables.'),
  schema: z.string().optional().describe('Newest migration of the verified copy.'),
  version: z.string().describe('Version of the server.'),
  hostname: z.string().describe('server.hostname.'),
  server_file: z.string().describe('Path of the server’s server.yml.'),
  bucket: z
    .string()
    .nullable()
    .describe('The bucket in storage.url, whose objects are not in the copy. null: no bucket is configured.'),
  reason: z.string().optional().describe('Why it failed.'),
});

export const backups = {
  begin: route('POST /admin/backup', {
    ...BACKUP,
    summary: 'Starts a backup of the database: a consistent, verified copy, while the server runs.',
    description: `${SOCKET_ONLY} Only one backup runs at a time. It is cancelled if its state is not requested for a minute.`,
    answer: backup,
  }),
  show: route('GET /admin/backup', { ...BACKUP, summary: 'Shows the progress of the backup.', answer: backup }),
  download: route('GET /admin/backup/file', {
    ...BACKUP,
    summary: 'Downloads the verified copy once. It is then removed from the server, even if the download fails.',
    answer: z.string(),
    alsoAnswers: 'application/octet-stream',
    errors: ['CONFLICT', 'NOT_FOUND'],
  }),
  cancel: route('DELETE /admin/backup', {
    ...BACKUP,
    summary: 'Cancels the backup and removes its copy.',
    answer: backup,
  }),
};

const seconds = z.number();
const latency = z
  .object({
    buckets: z.array(
      z.object({ le: seconds.nullable().describe('Upper bound in seconds; null: no bound.'), count: z.int() }),
    ),
    count: z.int(),
  })
  .describe('A histogram since the start of the process. Buckets are cumulative.');

export const status = {
  show: route('GET /admin/status', {
    ...ADMIN,
    summary: 'Shows what the server is doing now: queue, counters, latencies, worst destinations and problems.',
    description:
      'It can be requested every second, as `postern top` does. Counters and latencies are those of the daemon that answers.',
    answer: z.object({
      hostname: z.string(),
      version: z.string(),
      now: time,
      started_at: time,
      memory: z.int().describe('Resident memory, bytes.'),
      cpu_seconds: z.number().describe('CPU time of all threads.'),
      queue: z.object({
        queued: z.int(),
        sending: z.int(),
        deferred: z.int(),
        oldest_due_seconds: seconds.describe('Age of the oldest due delivery, except held and paused ones.'),
        paused: z.int().describe('Destinations that are paused until their next attempt.'),
        held: z.int().describe('Destinations that the operator holds.'),
      }),
      accepted_last_minute: z.int().describe('Mail deliveries queued in the last minute.'),
      deliveries: z
        .object({ delivered: z.int(), deferred: z.int(), bounced: z.int(), expired: z.int() })
        .describe('Results of delivery attempts since the start of the process.'),
      latencies: z.object({
        form: latency.describe('HTTP requests to forms.'),
        smtp: latency.describe('Outbound SMTP transactions.'),
        delivery: latency.describe('From acceptance to delivery.'),
      }),
      destinations: z
        .array(
          z.object({
            destination: z.string().describe('A domain, or a webhook (`whk_…`).'),
            waiting: z.int().describe('500 means that many or more.'),
            held: z.boolean(),
            failures: z.int().describe('Consecutive connection failures.'),
            paused_until: optionalTime,
            reason: z.string().nullable().describe('The last failure, or the last reply.'),
          }),
        )
        .describe('At most 20 destinations with waiting mail: failing ones first, then held ones.'),
      problems: z.array(z.string()).describe('What needs attention; `postern doctor` shows details.'),
    }),
  }),
};

export const configCheck = {
  check: route('POST /admin/config/check', {
    ...ADMIN,
    summary: 'Checks server.yml and the project files as the server would read them, and changes nothing.',
    answer: z.object({
      file: z.string().describe('Path of the server’s server.yml.'),
      projects: z.int(),
      errors: z.array(z.string()),
      warnings: z.array(z.string()),
    }),
  }),
  reload: route('POST /admin/config/reload', {
    ...ADMIN,
    summary: 'Reloads server.yml and the project files, as SIGHUP does, and applies what is valid.',
    description:
      'An invalid file is not applied: its last valid version stays active, and `problems` says what is wrong.',
    answer: z.object({
      outcome: z
        .enum(['applied', 'unchanged', 'refused'])
        .describe(
          '`refused`: nothing was applied. `applied`: changes were applied; see `problems` for those that were not.',
        ),
      changes: z.array(
        z.object({
          op: z.enum(['add', 'remove', 'change']),
          path: z.string().describe('The key, such as log.level.'),
          file: z.string(),
        }),
      ),
      waiting: z.array(z.string()).describe('Keys of server.yml whose new values take effect after a restart.'),
      problems: z.array(z.string()),
    }),
  }),
};

export const serverLog = {
  list: route('GET /admin/logs', {
    ...ADMIN,
    summary: 'Shows the last hour of the log, newest first, or only lines about one ID.',
    description:
      'Up to 4 MiB of this daemon’s log since its start, subject to `log.level` and `log.redact_addresses`. Lines about deliveries may appear 2 seconds late. The journal has the complete log.',
    query: z.strictObject({
      id: z
        .string()
        .regex(/^[a-z]{3}_[0-9a-z]{26}$/, 'must be an ID such as req_…, sub_…, msg_… or dlv_…')
        .optional()
        .describe('Only lines that name this request, submission, message, delivery or other object.'),
      limit: pageSize,
    }),
    answer: z.object({
      lines: z.array(
        z.object({
          time,
          level: z.enum(['debug', 'info', 'warn', 'error']),
          event: z.string().describe('A stable name, such as `delivery.deferred`.'),
          message: z.string(),
          fields: z.record(z.string(), z.unknown()),
        }),
      ),
      since: optionalTime.describe('When the oldest kept line was written. null: there is none.'),
    }),
  }),
};

export const serverConfig = {
  show: route('GET /admin/config', {
    ...ADMIN,
    summary: 'Shows the active settings of server.yml.',
    description: 'References to secrets are shown as written, passwords and keys as `***`.',
    answer: z.object({
      file: z.string().describe('Path of the server’s server.yml.'),
      settings: z.array(
        z.object({
          path: z.string().describe('The key, such as log.level.'),
          value: z.unknown().describe('As written in YAML.'),
          source: z.enum(['file', 'default']),
          restart: z.boolean().describe('Whether a change takes effect only after a restart.'),
        }),
      ),
      waiting: z.array(z.string()).describe('Keys whose new values take effect after a restart.'),
      problems: z.array(z.string()).describe('Why the files on disk are not active.'),
    }),
  }),
};

export const doctor = {
  check: route('GET /admin/doctor', {
    ...ADMIN,
    summary:
      'Checks the server’s DNS, outbound connections, machine and configuration. This takes up to half a minute.',
    query: z.strictObject({
      dnsbl: z
        .union([z.string(), z.array(z.string())])
        .transform((zones) => [zones].flat())
        .pipe(z.array(zone).max(MAX_BLOCK_LISTS, `must be at most ${MAX_BLOCK_LISTS} zones`))
        .default([])
        .describe(
          'A DNS block list to check the server’s IP addresses against, such as zen.spamhaus.org. May be repeated.',
        ),
      port25: z
        .string()
        .regex(/^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]{1,253})(:\d{1,5})?$/, 'must be a host or host:port')
        .refine((text) => Number(/\]?:(\d+)$/.exec(text)?.[1] ?? 25) <= 65_535, 'must name a port up to 65535')
        .optional()
        .describe('A mail server to connect to. Default: the smarthost, or the mail servers of well-known domains.'),
    }),
    answer: z.object({
      checks: z.array(
        z.object({
          name: z.string().describe('A stable name, such as reverse_dns; several checks may share one.'),
          status: z.enum(['ok', 'warning', 'failed', 'unknown']).describe('`unknown`: it could not be checked.'),
          found: z.string(),
          advice: z.string().optional().describe('What to do.'),
        }),
      ),
      ok: z.boolean().describe('Whether no check failed.'),
    }),
  }),
};
