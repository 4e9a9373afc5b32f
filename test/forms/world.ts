/** Forms, submissions and mail for the tests of this folder, made from YAML-like configuration as the loader makes them. */
import { type ServerConfig, projectSchema } from '../../src/config/schema.ts';
import { serverSchema } from '../../src/config/schema-server.ts';
import { type Form, buildSnapshot, type Snapshot } from '../../src/config/snapshot.ts';
import type { Upload } from '../../src/forms/files.ts';

export const DOMAIN = 'example.com';

export interface WorldConfig {
  /** Of the form `contact`. */
  readonly form?: object | undefined;
  readonly forms?: Readonly<Record<string, object>>;
  readonly domain?: object;
  readonly settings?: object;
  readonly templates?: object;
  readonly server?: object;
}

export function serverOf(more: object = {}): ServerConfig {
  return serverSchema.parse({ server: { hostname: 'mail.example.net', operator: 'ops@example.net' }, ...more });
}

export function snapshotOf({ form = {}, forms = {}, domain, settings, templates, server }: WorldConfig = {}): Snapshot {
  const config = projectSchema.parse({
    project: { name: 'Site', slug: 'site', owner: 'owner@example.org' },
    settings,
    domains: { [DOMAIN]: { ...domain, forms: { contact: form, ...forms } } },
    templates,
  });
  const project = { revision: 'rev_1', slug: 'site', tenant: 'ten_operator', source: 'file', config } as const;
  return buildSnapshot({ server: serverOf(server), projects: [project] });
}

/** The form `contact` of such a configuration. */
export function formOf(config: WorldConfig = {}): Form {
  const form = snapshotOf(config).domains.get(DOMAIN)?.forms.get('contact');
  if (form === undefined) throw new Error('no such form');
  return form;
}

export function upload(more: Partial<Upload> = {}): Upload {
  return {
    id: 'fil_1',
    field: 'file',
    filename: 'a.pdf',
    contentType: 'application/pdf',
    signature: 'pdf',
    size: 3,
    pieces: 0,
    tail: Uint8Array.of(1, 2, 3),
    ...more,
  };
}
