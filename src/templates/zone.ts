/** Moments in the time zone of a project. */
import { UserError } from '../lib/errors.ts';

export interface Zone {
  /** The IANA name. */
  readonly name: string;
  /** Minutes that local time is ahead of UTC at a moment (milliseconds). */
  offset(ms: number): number;
  /** `2026-01-05 15:03:00 +01:00`: a person reads it, and so does the `date` filter. */
  format(ms: number): string;
}

/** The zone of an IANA name such as Europe/Berlin. A formatter is kept: making one costs a hundred times what using it does. */
export function createZone(name: string): Zone {
  const parts = formatter(name);
  // No zone changes its offset within a minute, and many mails are made in each.
  let last = { minute: Number.NaN, offset: 0 };

  function offset(ms: number): number {
    const minute = Math.floor(ms / 60_000);
    if (minute !== last.minute) last = { minute, offset: offsetAt(minute * 60_000) };
    return last.offset;
  }

  function offsetAt(ms: number): number {
    const at: Record<string, number> = {};
    for (const { type, value } of parts.formatToParts(ms)) at[type] = Number(value);
    const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = at;
    return Math.round((Date.UTC(year, month - 1, day, hour, minute, second) - ms) / 60_000);
  }
  return {
    name,
    offset,
    format: (ms) => {
      const minutes = offset(ms);
      const local = new Date(ms + minutes * 60_000).toISOString().replace('T', ' ').slice(0, 19);
      const ahead = new Date(Math.abs(minutes) * 60_000).toISOString().slice(11, 16);
      return `${local} ${minutes < 0 ? '-' : '+'}${ahead}`;
    },
  };
}

function formatter(timeZone: string): Intl.DateTimeFormat {
  try {
    return new Intl.DateTimeFormat('en-US', {
      timeZone,
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
  } catch (cause) {
    throw new UserError(`${JSON.stringify(timeZone)} is no time zone such as Europe/Berlin or UTC`, { cause });
  }
}
