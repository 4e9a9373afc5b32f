/** The compose files, as far as ours go. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';
import { ROOT } from './sources.ts';

const compose = z.strictObject({
  services: z.record(
    z.string(),
    z.looseObject({
      build: z.string().optional(),
      image: z.string().optional(),
      ports: z.array(z.string()).default([]),
      tmpfs: z.array(z.string()).default([]),
      volumes: z.array(z.string()).default([]),
    }),
  ),
  volumes: z.record(z.string(), z.null()).default({}),
});

/** Throws where it is none. */
export function readCompose(name: 'compose.yaml' | 'compose.postgres.yaml'): z.output<typeof compose> {
  return compose.parse(parse(readFileSync(join(ROOT, name), 'utf8')));
}
