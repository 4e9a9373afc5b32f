/**
 * One-time codes (TOTP, RFC 6238) as the second step of signing in, optional for each account. A secret counts once a code
 * has proved that it arrived; each code counts once; and guessing is limited for the account as a whole. Ten recovery codes
 * replace a lost device, each once.
 */
import { createHmac, hash, randomBytes, randomInt, timingSafeEqual } from 'node:crypto';
import type { Clock } from '../lib/clock.ts';
import { recordEvent } from '../store/events.ts';
import {
  confirmTotp,
  dropRecoveryCodes,
  dropTotp,
  findTotp,
  insertRecoveryCode,
  saveTotp,
  useRecoveryCode,
  useTotpStep,
} from '../store/sessions.ts';
import type { Statement } from '../store/statement.ts';
import { type Store, writeIfMet } from '../store/store.ts';
import type { Limit, Limits, Verdict } from './rate-limits.ts';

const STEP_MS = 30_000;
const DIGITS = 6;
/** Of the clock of a telephone, each way. */
const MAX_DRIFT_STEPS = 1;
const SECRET_BYTES = 20;
const RECOVERY_CODES = 10;
const RECOVERY_LENGTH = 10;
/** Of an account: a million codes, of which three count at a time, cannot be tried. */
const TRIES: Limit = { count: 10, windowMs: 900_000 };

/** What became of a code. `unit` uses it up, with what it lets in; it fails with UnmetError where it was used meanwhile. */
export type CodeCheck =
  | { readonly kind: 'right'; readonly unit: readonly Statement[] }
  | { readonly kind: 'wrong' }
  | { readonly kind: 'limited'; readonly verdict: Verdict };

export type Confirmed =
  | { readonly kind: 'confirmed'; readonly recoveryCodes: readonly string[] }
  | { readonly kind: 'wrong' }
  | { readonly kind: 'not started' }
  | { readonly kind: 'limited'; readonly verdict: Verdict };

export interface Totp {
  /** Whether the account asks for a code. */
  isEnabled(tenant: string): Promise<boolean>;
  /** A new secret, in Base32, which counts once it is confirmed; undefined where the account has one. */
  start(tenant: string): Promise<string | undefined>;
  confirm(tenant: string, code: string): Promise<Confirmed>;
  check(tenant: string, code: string): Promise<CodeCheck>;
  /** Ends it, with `unit`: the code that was checked; false where it had ended, or the code was used meanwhile. */
  remove(tenant: string, unit?: readonly Statement[]): Promise<boolean>;
}

export function createTotp({
  store,
  clock,
  limits,
}: {
  readonly store: Store;
  readonly clock: Clock;
  readonly limits: Pick<Limits, 'take'>;
}): Totp {
  /** Counts a try, whatever becomes of it: those that come at the same time must not all be the last one. */
  async function take(tenant: string): Promise<Verdict> {
    return limits.take(`totp:${tenant}`, TRIES);
  }

  return {
    async isEnabled(tenant) {
      const row = await findTotp(store, tenant);
      return row !== undefined && row.confirmed_at !== null;
    },
    async start(tenant) {
      const secret = base32(randomBytes(SECRET_BYTES));
      const [saved] = await store.write([saveTotp({ tenant, secret, now: clock.now() })]);
      return saved.changes === 1 ? secret : undefined;
    },
    async confirm(tenant, code) {
      const row = await findTotp(store, tenant);
      if (row === undefined || row.confirmed_at !== null) return { kind: 'not started' };
      const verdict = await take(tenant);
      if (!verdict.allowed) return { kind: 'limited', verdict };
      const now = clock.now();
      const { secret } = row;
      const step = stepOf(secret, code, now);
      if (step === undefined) return { kind: 'wrong' };
      const recoveryCodes = Array.from({ length: RECOVERY_CODES }, newRecoveryCode);
      const written = await writeIfMet(store, [
        confirmTotp({ tenant, secret, step, now }, 1),
        dropRecoveryCodes({ tenant }),
        ...recoveryCodes.map((one) => insertRecoveryCode({ tenant, hash: hashOfCode(one) })),
        recordEvent({ type: 'auth.totp_enabled', tenant, at: now, data: {} }),
      ]);
      return written === undefined ? { kind: 'not started' } : { kind: 'confirmed', recoveryCodes };
    },
    async check(tenant, code) {
      const verdict = await take(tenant);
      if (!verdict.allowed) return { kind: 'limited', verdict };
      if (!/^\d+$/.test(code.trim())) {
        return { kind: 'right', unit: [useRecoveryCode({ tenant, hash: hashOfCode(code) }, 1)] };
      }
      const row = await findTotp(store, tenant);
      const step = row === undefined ? undefined : stepOf(row.secret, code.trim(), clock.now());
      return step === undefined || step <= (row?.last_step ?? 0)
        ? { kind: 'wrong' }
        : { kind: 'right', unit: [useTotpStep({ tenant, step }, 1)] };
    },
    async remove(tenant, unit = []) {
      const told = recordEvent({ type: 'auth.totp_disabled', tenant, at: clock.now(), data: {} });
      const written = await writeIfMet(store, [...unit, dropTotp({ tenant }, 1), dropRecoveryCodes({ tenant }), told]);
      return written !== undefined;
    },
  };
}

/** What an authenticator app reads from a QR code: https://github.com/google/google-authenticator/wiki/Key-Uri-Format. */
export function totpUri({ secret, hostname, email }: Record<'secret' | 'hostname' | 'email', string>): string {
  const label = `${encodeURIComponent(hostname)}:${encodeURIComponent(email)}`;
  return `otpauth://totp/${label}?secret=${secret}&issuer=${encodeURIComponent(hostname)}`;
}

/** The step whose code this is, if it is one of those that count now (RFC 6238 §5.2). */
function stepOf(secret: string, code: string, now: number): number | undefined {
  const current = Math.floor(now / STEP_MS);
  for (let step = current - MAX_DRIFT_STEPS; step <= current + MAX_DRIFT_STEPS; step++) {
    const right = codeAt(secret, step);
    if (right.length === code.length && timingSafeEqual(Buffer.from(right), Buffer.from(code))) return step;
  }
  return undefined;
}

/** The code of a step of 30 seconds since 1970 (RFC 4226 §5.3). */
export function codeAt(secret: string, step: number): string {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const mac = createHmac('sha1', fromBase32(secret)).update(counter).digest();
  const number = mac.readUInt32BE((mac.at(-1) ?? 0) & 15) & 0x7f_ff_ff_ff;
  return String(number % 10 ** DIGITS).padStart(DIGITS, '0');
}

/** RFC 4648 §6. */
const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

function base32(bytes: Uint8Array): string {
  const bits = Array.from(bytes, (byte) => byte.toString(2).padStart(8, '0')).join('');
  return (bits.match(/.{1,5}/g) ?? []).map((five) => BASE32.charAt(Number.parseInt(five.padEnd(5, '0'), 2))).join('');
}

function fromBase32(text: string): Buffer {
  const bits = Array.from(text, (char) => BASE32.indexOf(char).toString(2).padStart(5, '0')).join('');
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)));
}

/** Letters that nobody takes for another; the first is one, so that it is not taken for a one-time code. */
const LETTERS = 'abcdefghjkmnpqrstuvwxyz';

/** `abcde-fghjk`: 45 bits, of which ten guesses in a quarter of an hour find nothing. */
function newRecoveryCode(): string {
  const letters = Array.from({ length: RECOVERY_LENGTH }, () => LETTERS.charAt(randomInt(LETTERS.length))).join('');
  return `${letters.slice(0, RECOVERY_LENGTH / 2)}-${letters.slice(RECOVERY_LENGTH / 2)}`;
}

/** However it is written. */
function hashOfCode(code: string): string {
  return hash('sha256', code.toLowerCase().replaceAll(/[^a-z]/g, ''));
}
