/**
 * The shape of the two kinds of YAML file, once: types, defaults, checks and the editors' JSON Schema all come from here.
 * Every key has the feature behind it; names are the YAML's own, in code as well. Values are decoded (`scalars.ts`):
 * durations are milliseconds, sizes are bytes, addresses and domains are in normal form, one address is a list.
 */
import type { z } from 'zod';
import type { projectSchema } from './schema-project.ts';
import type { serverSchema } from './schema-server.ts';

export type ServerConfig = z.output<typeof serverSchema>;
/** After loading, a template's `html` holds the text of its `html_file`. */
export type ProjectConfig = z.output<typeof projectSchema>;
export type DomainConfig = ProjectConfig['domains'][string];
export type FormConfig = DomainConfig['forms'][string];
export type CollectionConfig = ProjectConfig['collections'][string];
export type TemplateConfig = ProjectConfig['templates'][string];
