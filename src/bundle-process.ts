/** A process that reads one pushed configuration, says what it found, and is done. */
import { locateIn, readBundle, type Bundle, type ReadBundle } from './config/bundle.ts';
import type { Finding, Problem } from './config/problem.ts';
import { checkTemplates } from './templates/engine.ts';

export type BundleOrder =
  { readonly bundle: Bundle } | { readonly yaml: string; readonly findings: readonly Finding[] };

export interface BundleReply {
  readonly read?: ReadBundle;
  readonly located?: readonly Problem[];
}

process.once('message', (order: BundleOrder) => {
  const reply: BundleReply =
    'bundle' in order
      ? { read: readBundle(order.bundle, checkTemplates) }
      : { located: locateIn(order.yaml, order.findings) };
  // Before all of it has gone out, the end of the connection would cut off what a pipe does not hold.
  process.send?.(reply, undefined, undefined, () => process.disconnect());
});
