/** Deep freezing of the configuration. */

/**
 * Freezes the data through and through, in place. Maps lose their prototype, so that a look-up with a name that a
 * stranger chose (`constructor`, `toString`) finds nothing but what was configured.
 */
export function freeze<T>(data: T): T {
  if (typeof data !== 'object' || data === null || Object.isFrozen(data)) return data;
  if (!Array.isArray(data)) Object.setPrototypeOf(data, null);
  for (const value of Object.values(data)) freeze(value);
  return Object.freeze(data);
}

/** A Map that throws when it is changed. */
export function freezeMap<K, V>(entries: Iterable<readonly [K, V]>): ReadonlyMap<K, V> {
  const map = new Map(entries);
  for (const name of ['set', 'delete', 'clear']) Object.defineProperty(map, name, { value: refuse });
  return Object.freeze(map);
}

function refuse(): never {
  throw new TypeError('the configuration is frozen');
}
