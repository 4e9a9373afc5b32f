/** A look at everything on which mail depends beside the daemon itself. */
import { z } from 'zod';
import { parseDomain } from '../../lib/addresses.ts';
import { json } from '../answer.ts';
import { defineRoute, type Route } from './route.ts';

export interface AdminDoctorParts {
  readonly doctor: (inquiry: { dnsbl: readonly string[]; port25: string | undefined }) => Promise<{
    readonly checks: readonly {
      readonly name: string;
      readonly status: 'ok' | 'warning' | 'failed' | 'unknown';
      readonly found: string;
      readonly advice?: string;
    }[];
    readonly ok: boolean;
  }>;
}

const MOST_LISTS = 20;

const zone = z
  .string()
  .transform((text) => parseDomain(text))
  .refine((name) => name !== undefined, 'must be a zone such as zen.spamhaus.org');
const diagnosis = z.object({
  checks: z.array(
    z.object({
      name: z.string().describe('A stable name, such as reverse_dns; several checks may have one name.'),
      status: z.enum(['ok', 'warning', 'failed', 'unknown']).describe('unknown: it could not be found out.'),
      found: z.string(),
      advice: z.string().optional().describe('What to do; absent where there is nothing to do.'),
    }),
  ),
  ok: z.boolean().describe('Whether no check failed.'),
});

/** `/admin/doctor` */
export function adminDoctorRoutes({ doctor }: AdminDoctorParts): Route[] {
  return [
    defineRoute({
      method: 'GET',
      path: '/admin/doctor',
      permission: 'admin',
      domains: 'refuse',
      tag: 'Administration',
      summary:
        'Looks at the server’s name in DNS, its way out, its machine and its configuration; takes up to half a minute.',
      query: z.strictObject({
        dnsbl: z
          .union([z.string(), z.array(z.string())])
          .transform((zones) => [zones].flat())
          .pipe(z.array(zone).max(MOST_LISTS, `must be ${MOST_LISTS} zones at most`))
          .default([])
          .describe('A DNS block list to look the server’s addresses up in; may be repeated.'),
        port25: z
          .string()
          .regex(/^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]{1,253})(:\d{1,5})?$/, 'must be a host or host:port')
          .refine((text) => Number(/\]?:(\d+)$/.exec(text)?.[1] ?? 25) <= 65_535, 'must name a port up to 65535')
          .optional()
          .describe('A mail server to try; the smarthost, or those of well-known domains, unless told.'),
      }),
      answer: diagnosis,
      async handle({ query: { dnsbl, port25 } }) {
        return json(await doctor({ dnsbl: dnsbl.filter((name) => name !== undefined), port25 }));
      },
    }),
  ];
}
