/** What a template sees. */
import { nullPrototype } from './liquid.ts';
import type { Variables } from './template.ts';
import type { Zone } from './zone.ts';

/** What is given stands over the template's own variables; names such as `__proto__` are names. */
export function scopeOf(defaults: Variables, given: Variables, zone: Zone): Variables {
  const scope = nullPrototype(defaults);
  for (const [name, value] of Object.entries(given)) if (value !== undefined) scope[name] = value;
  const timestamp = scope['timestamp'];
  if (typeof timestamp === 'number' || typeof timestamp === 'string' || timestamp instanceof Date) {
    const ms = new Date(timestamp).getTime();
    if (!Number.isNaN(ms)) scope['timestamp'] = zone.format(ms);
  }
  return scope;
}
