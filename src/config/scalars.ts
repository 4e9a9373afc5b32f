/**
 * The values that keys may hold, each with the one sentence that says what is expected. All of them are codecs: `decode`
 * gives what the code works with (milliseconds, bytes, normal forms), `encode` gives back what a person would write, so
 * that `config show` and diffs speak the YAML's language.
 */
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { z } from 'zod';
import { formatBucketUrl, parseBucketUrl, type BucketPlace } from './bucket-url.ts';
import { imageProblem, imageTypeOf, isDataUrl } from './images.ts';
import { formatMailbox, parseAddress, parseDomain, parseMailbox } from '../lib/addresses.ts';
import { messageOf } from '../lib/errors.ts';
import { postgresUrlProblem } from '../lib/postgres-url.ts';

const DURATIONS = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000 } as const;

const SIZES = { GiB: 1024 ** 3, MiB: 1024 ** 2, KiB: 1024, B: 1 } as const;

/** `30s`, `5m`, `2h`, `7d` as milliseconds. */
export const duration = measure(DURATIONS, /^[1-9]\d{0,5}[smhd]$/, 'expected a duration such as 30s, 5m, 2h or 7d');

/** `256KiB`, `25MiB` as bytes. */
export const size = measure(SIZES, /^[1-9]\d{0,9}(B|KiB|MiB|GiB)$/, 'expected a size such as 256KiB or 25MiB');

/** How long something is kept: milliseconds, or `forever`. */
export type Retention = number | 'forever';

export const retention = z.union([duration, z.literal(0), z.literal('forever')], {
  error: 'expected a duration such as 90d, or 0, or forever',
});

/** What was before this moment (ms) is kept no longer. */
export function keptSince(keep: Retention, now: number): number {
  return keep === 'forever' ? 0 : now - keep;
}

export const count = z.int().min(1);

export const price = z.number('expected a price such as 0 or 9.90').min(0, 'expected a price such as 0 or 9.90');

export const port = z.int().min(1).max(65_535);

/** An email address in its normal form (`lib/addresses`). */
export const address = normal(
  (text) => parseAddress(text)?.address,
  'expected an email address such as you@example.com',
);

/** One address or a list of them; always a list in code. */
export const addresses = z.codec(
  z.union([address, z.array(address).min(1)], { error: 'expected an email address or a list of them' }),
  z.array(z.string()),
  { decode: (value) => (typeof value === 'string' ? [value] : value), encode: (list) => list },
);

/** A domain name: lower case, A-labels. */
export const domainName = normal(parseDomain, 'expected a domain name such as example.com');

/** The name of this server: a host name (RFC 1123 §2.1), which a domain name with `_` is not. */
export const hostName = normal((text) => {
  const name = parseDomain(text);
  return name?.includes('_') === true ? undefined : name;
}, 'expected a full host name such as mail.example.net');

/** A key of `forwarding`: an address or `*@domain`, in lower case, because the receiver is us (RFC 5321 §2.4). */
export const forwardingKey = normal((text) => {
  if (!text.startsWith('*@')) return parseAddress(text)?.address.toLowerCase();
  const domain = parseDomain(text.slice(2));
  return domain === undefined ? undefined : `*@${domain}`;
}, 'expected an address of this domain or its catch-all such as "*@example.com"');

/** `[::]:80`, `127.0.0.1:8080`; port 0 takes a free one. */
export const listenAddress = hostAndPort('expected address:port such as "[::]:80" or 127.0.0.1:8080');

/** The same, or `https://[::]:8443` where TLS is spoken. */
export const httpListenAddress = hostAndPort(
  'expected address:port such as "[::]:80", or https://address:port for TLS on a port other than 443',
  /^(https:\/\/)?/,
);

/** `host:port` of a machine that takes mail. */
export const mailHost = hostAndPort('expected host:port such as mail.internal:25');

/** Where a program listens: `unix:/path` or `host:port`. */
export const socketPlace = z.union([z.string().regex(/^unix:\/[^\0]{1,100}$/), mailHost], {
  error: 'expected unix:/run/clamav/clamd.ctl or host:port such as 127.0.0.1:3310',
});

/** An address of a resolver, with a port or without. */
export const dnsServer = word(
  /^(\[[0-9a-fA-F:.]+\](:\d{1,5})?|[0-9.]+(:\d{1,5})?|[0-9a-fA-F:]+)$/,
  'expected a resolver such as 192.0.2.53, 127.0.0.1:5353 or "[2001:db8::53]:53"',
  (text) => portOf(text) <= 65_535,
);

/** An email address, with a name before it or not. */
export const mailbox = normal((text) => {
  const parsed = parseMailbox(text);
  return parsed && formatMailbox(parsed);
}, 'expected an email address such as shop@example.com or Shop <shop@example.com>');

/** An address or network, IPv4 or IPv6. */
export const network = z.union([z.ipv4(), z.ipv6(), z.cidrv4(), z.cidrv6()], {
  error: 'expected an IP address or network such as 192.0.2.10 or 10.0.0.0/8',
});

/** An address as DNS has it too (RFC 5952), because the two are compared. */
export const ipAddress = z.codec(
  z
    .union([z.ipv4(), z.ipv6()], {
      error: worded('expected an IP address such as 192.0.2.10 or 2001:db8::10', (text) => isIP(text) !== 0),
    })
    .refine((text) => !isMapped(text), { error: 'expected a plain IPv4 address such as 192.0.2.10' }),
  z.string(),
  { decode: (text) => ipaddr.parse(text).toString(), encode: (text) => text },
);

/** An `http` or `https` address. */
export const webUrl = z.url({
  protocol: /^https?$/,
  error: 'expected a URL such as https://example.com/thanks',
});

/** An address that events are posted to; what comes before an `@` would be sent to nobody. */
export const hookUrl = (() => {
  const error = 'expected a URL such as https://example.com/hook, without a user name';
  return z.url({ protocol: /^https?$/, error }).refine((text) => !/^https?:\/\/[^/?#]*@/i.test(text), { error });
})();

/** What signs a webhook (Standard Webhooks: 24 to 64 bytes). */
export const webhookSecret = word(
  /^whsec_(?=.{32,88}$)(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/,
  'expected whsec_ and 24 to 64 bytes in base64',
);

/** The address of this server, without a slash at its end. */
export const baseUrl = z.codec(
  z.url({ protocol: /^https?$/, error: 'expected a URL such as https://mail.example.net' }),
  z.string(),
  { decode: (text) => text.replace(/\/+$/, ''), encode: (text) => text },
);

/** What a browser sends as `Origin`: scheme, host and port. */
export const origin = normal((text) => {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  return url.pathname === '/' && url.search === '' && url.hash === '' && url.username === '' ? url.origin : undefined;
}, 'expected an origin such as https://www.example.com, without a path');

/** A smarthost as one URL, with the credentials that it wants. */
export const smarthostUrl = z
  .url({ protocol: /^smtps?$/, error: smarthostError })
  .regex(/^smtps?:\/\/(([^@/?#%]|%[0-9A-Fa-f]{2})*@)?[^@/?#]+\/?$/i, { error: smarthostError });

/** What a smarthost may be written as; a password cannot hold what ends a part of a URL. */
export function smarthostError({ input }: { readonly input?: unknown }): string {
  const isSmtp = typeof input === 'string' && /^smtps?:\/\//i.test(input);
  const encoding = ' (percent-encode @, :, / and the like in user name and password)';
  return `expected { host, user, password }, or smtp://user:password@smarthost:587 or smtps://…${isSmtp ? encoding : ''}`;
}

/** Whether a host is this very machine, so that nobody can listen in. */
export function isThisMachine(host: string): boolean {
  return /^(localhost|::1|(::ffff:)?127\..*)$/i.test(host);
}

/** The name or IP address of a machine. */
export const hostOrAddress = normal(
  (text) => (isIP(text) === 0 ? (text === 'localhost' ? text : parseDomain(text)) : text),
  'expected a host name such as smtp.example.net, or an IP address',
);

export const databaseUrl = (() => {
  const error = 'expected sqlite:/path/to/file.db, with an absolute path, or postgres://…';
  const url = z.string({ error }).check(({ value, issues }) => {
    const isSqlite = /^sqlite:\/+[^/]+(\/+[^/]+)*$/.test(value);
    const message = value.startsWith('postgres') ? postgresUrlProblem(value) : isSqlite ? undefined : error;
    if (message !== undefined) issues.push({ code: 'custom', message, input: value });
  });
  // sqlite:///path, as other programs write it.
  return z.codec(url, z.string(), {
    decode: (text) => text.replace(/^sqlite:\/+/, 'sqlite:/'),
    encode: (text) => text,
  });
})();

/** The address of a PostgreSQL server. */
export const postgresUrl = z.string({ error: 'expected postgres://…' }).check(({ value, issues }) => {
  const message = postgresUrlProblem(value);
  if (message !== undefined) issues.push({ code: 'custom', message, input: value });
});

/** A bucket, and where it is. */
export const bucketUrl = z.codec(
  z.string({ error: 'expected s3://…' }).check(({ value, issues }) => {
    try {
      parseBucketUrl(value);
    } catch (error) {
      issues.push({ code: 'custom', message: messageOf(error), input: value });
    }
  }),
  z.custom<BucketPlace>(),
  { decode: parseBucketUrl, encode: formatBucketUrl },
);

/** `#rrggbb` */
export const color = word(/^#[0-9A-Fa-f]{6}$/, 'expected a color such as "#0a7d5a"');

/** An image: as a data: URL, or the name of a file beside the project's. */
export const logo = z.string().check(({ value, issues }) => {
  const message = isDataUrl(value)
    ? imageProblem(value)
    : imageTypeOf(value) === undefined || value.length > MAX_LOGO_NAME
      ? 'expected the name of a PNG, JPEG, WebP or SVG file, such as logo.svg, or a data: URL'
      : undefined;
  if (message !== undefined) issues.push({ code: 'custom', input: value, message });
});

const MAX_LOGO_NAME = 500;

/** The key of a form or a template. */
export const identifier = word(
  /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/,
  'expected at most 64 letters, digits, - and _, beginning with a letter or digit',
);

export const slug = word(/^[a-z0-9][a-z0-9-]{0,62}$/, 'expected at most 63 lower-case letters, digits and -');

/** One label of a domain name (RFC 6376 §3.1 for selectors). */
export const dnsLabel = word(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, 'expected lower-case letters, digits and -');

/** Text of 1 to `max` characters. */
export function text(max: number): z.ZodString {
  return z.string().min(1).max(max);
}

/** A map of keys that may be left out as a whole. */
export function section<Shape extends z.ZodRawShape>(
  description: string,
  shape: Shape,
): z.ZodPrefault<z.ZodObject<Shape, z.core.$strict>>;
export function section(description: string, shape: z.ZodRawShape): z.ZodType {
  return z.strictObject(shape).prefault({}).describe(description);
}

/** One of these words; the `initial` one unless another is given. */
export function choice<const Word extends string>(
  words: readonly Word[],
  initial: NoInfer<Word>,
  description: string,
): z.ZodDefault<z.ZodEnum<{ [Each in Word]: Each }>>;
export function choice(words: readonly string[], initial: string, description: string): z.ZodType {
  return z.enum(words).default(initial).describe(description);
}

/** A list; the `initial` one unless another is given. */
export function listOf<Item extends z.ZodType>(
  item: Item,
  description: string,
  initial: z.output<Item>[] = [],
): z.ZodDefault<z.ZodArray<Item>> {
  return z.array(item).default(initial).describe(description);
}

/** true or false. */
export function flag(initial: boolean, description: string): z.ZodDefault<z.ZodBoolean> {
  return z.boolean().default(initial).describe(description);
}

function word(pattern: RegExp, error: string, check: (text: string) => boolean = () => true) {
  return z.string({ error }).regex(pattern, { error }).refine(check, { error });
}

function normal(parse: (text: string) => string | undefined, expected: string) {
  const error = worded(expected, (text) => parse(text) !== undefined);
  return z.codec(
    z.string({ error }).refine((value) => parse(value) !== undefined, { error }),
    z.string(),
    { decode: (value) => parse(value) ?? value, encode: (value) => value },
  );
}

/** What was expected, and what is too much where a text is right but for the dot with which DNS ends a name. */
function worded(expected: string, isRight: (text: string) => boolean) {
  return ({ input }: { readonly input?: unknown }) => {
    const isDotted = typeof input === 'string' && input.endsWith('.') && isRight(input.slice(0, -1));
    return isDotted ? `${expected}, without the dot at the end` : expected;
  };
}

function isMapped(text: string): boolean {
  const address = ipaddr.parse(text);
  return address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress();
}

function measure(units: Readonly<Record<string, number>>, pattern: RegExp, error: string) {
  return z.codec(word(pattern, error), z.number(), {
    decode: (value) => {
      const number = /^\d+/.exec(value)?.[0] ?? '';
      return Number(number) * (units[value.slice(number.length)] ?? Number.NaN);
    },
    encode: (value) => {
      const [name, unit] = Object.entries(units).find(([, unit]) => value % unit === 0) ?? ['', 1];
      return `${value / unit}${name}`;
    },
  });
}

function hostAndPort(error: string, before = /^/) {
  const pattern = new RegExp(`${before.source}(\\[[0-9a-fA-F:.]+\\]|[^:*\\s[\\]/]+):\\d{1,5}$`);
  return word(pattern, error, (value) => portOf(value.replace(before, '')) <= 65_535);
}

function portOf(value: string): number {
  return Number(/(?:^[^:]*|\]):(\d+)$/.exec(value)?.[1] ?? 0);
}

const MAX_LENGTH = 40;

/** A slug for a name that people gave: `Müller & Söhne` is `muller-sohne`; `project` where nothing of it can stay. */
export function slugOf(name: string): string {
  const plain = name
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .slice(0, MAX_LENGTH);
  return plain.replaceAll(/^-|-$/g, '') || 'project';
}
