/**
 * A process of the pool: reads and renders what tenants wrote. It may be killed at any moment, holds nothing that lasts, and
 * knows no secret.
 */
import { closeSync, openSync, writeFileSync } from 'node:fs';
import { LruMap } from '../lib/lru.ts';
import { findInForms, readBundle, type Bundle, type ReadBundle } from '../config/bundle.ts';
import type { FormPlace, CheckTemplates } from '../config/checks.ts';
import type { Finding } from '../config/problem.ts';
import { systemClock } from '../lib/clock.ts';
import { checkTemplates, TemplateSet } from '../templates/engine.ts';
import { renderParts, type ProjectTemplates, type RenderedPart, type RenderPart } from '../templates/render.ts';

// What the pool orders, by the name of the function; `ms` is the time that templates may take together.
export { editYaml as edit, locateIn as locate } from '../config/bundle.ts';

/** Projects whose templates stay parsed. */
const KEPT_PROJECTS = 50;
const parsed = new LruMap<TemplateSet>(KEPT_PROJECTS);

beExpendable();

/** Only says that the process has started. */
export function ready(): void {}

/** Reads a configuration. */
export function read({ bundle, accepted, ms }: { bundle: Bundle; accepted: boolean; ms: number }): ReadBundle {
  return readBundle(bundle, accepted ? 'accepted' : checkWithin(ms));
}

/** Checks forms that the API makes. */
export function forms({ places, ms }: { places: readonly FormPlace[]; ms: number }): Finding[] {
  return findInForms(places, checkWithin(ms));
}

/** Renders parts of a message. */
export function render({ parts, ms }: { parts: readonly RenderPart[]; ms: number }): readonly RenderedPart[] {
  return renderParts(parts, timeLeft(ms), open);
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

/** Where memory is over, the daemon lives on. What an operator signals by mistake changes nothing. */
function beExpendable(): void {
  // As ps shows it beside the daemon.
  process.title = 'postern: render';
  process.on('SIGUSR1', () => undefined);
  process.on('SIGUSR2', () => undefined);
  try {
    writeFileSync('/proc/self/oom_score_adj', '1000');
  } catch {
    // The kernel forbids it, or is none of Linux.
  }
  // What V8 says when the memory is over helps nobody, and stood between the lines of the log.
  closeSync(2);
  openSync('/dev/null', 'w');
}
