/**
 * A process of the pool: reads and renders what tenants wrote. It may be killed at any moment, holds nothing that lasts, and
 * knows no secret.
 */
import { closeSync, openSync, writeFileSync } from 'node:fs';
import { Recent } from '../lib/lru.ts';
import {
  editYaml,
  findInForms,
  locateIn,
  readBundle,
  type Bundle,
  type DomainEdit,
  type ReadBundle,
} from '../config/bundle.ts';
import type { FormPlace, CheckTemplates } from '../config/checks.ts';
import type { Finding, Problem } from '../config/problem.ts';
import { systemClock } from '../lib/clock.ts';
import { checkTemplates, TemplateSet } from '../templates/engine.ts';
import { renderParts, type ProjectTemplates, type RenderedPart, type RenderPart } from '../templates/render.ts';

/** `ms` is the time that templates may take together. */
export type Order =
  | { readonly kind: 'ready' }
  | { readonly kind: 'read'; readonly bundle: Bundle; readonly accepted: boolean; readonly ms: number }
  | { readonly kind: 'locate'; readonly yaml: string; readonly findings: readonly Finding[] }
  | { readonly kind: 'edit'; readonly yaml: string; readonly edit: DomainEdit }
  | { readonly kind: 'forms'; readonly forms: readonly FormPlace[]; readonly ms: number }
  | { readonly kind: 'render'; readonly parts: readonly RenderPart[]; readonly ms: number };

export type Reply =
  | { readonly kind: 'ready' }
  | { readonly kind: 'read'; readonly read: ReadBundle }
  | { readonly kind: 'locate'; readonly problems: readonly Problem[] }
  | { readonly kind: 'edit'; readonly yaml: string | undefined }
  | { readonly kind: 'forms'; readonly findings: readonly Finding[] }
  | { readonly kind: 'render'; readonly parts: readonly RenderedPart[] };

/** Projects whose templates stay parsed. */
const KEPT_PROJECTS = 50;
const parsed = new Recent<TemplateSet>(KEPT_PROJECTS);

beExpendable();

/** Does what the pool orders. */
export function work(order: Order): Reply {
  switch (order.kind) {
    case 'ready':
      return { kind: 'ready' };
    case 'read':
      return { kind: 'read', read: readBundle(order.bundle, order.accepted ? 'accepted' : checkWithin(order.ms)) };
    case 'locate':
      return { kind: 'locate', problems: locateIn(order.yaml, order.findings) };
    case 'edit':
      return { kind: 'edit', yaml: editYaml(order.yaml, order.edit) };
    case 'forms':
      return { kind: 'forms', findings: findInForms(order.forms, checkWithin(order.ms)) };
    case 'render':
      return { kind: 'render', parts: renderParts(order.parts, timeLeft(order.ms), open) };
  }
}

function checkWithin(ms: number): CheckTemplates {
  const left = timeLeft(ms);
  return (templates) => checkTemplates(templates, left);
}

function timeLeft(ms: number): () => number {
  const end = systemClock.monotonic() + ms;
  return () => end - systemClock.monotonic();
}

function open({ revision, templates, timezone }: ProjectTemplates): TemplateSet {
  const key = `${revision} ${timezone}`;
  const known = parsed.get(key) ?? new TemplateSet(templates, timezone);
  parsed.set(key, known);
  return known;
}

/** Where memory is over, the daemon lives on. */
function beExpendable(): void {
  try {
    writeFileSync('/proc/self/oom_score_adj', '1000');
  } catch {
    // The kernel forbids it, or is none of Linux.
  }
  // What V8 says when the memory is over helps nobody, and stood between the lines of the log.
  closeSync(2);
  openSync('/dev/null', 'w');
}
