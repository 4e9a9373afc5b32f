/** DNS as a value: records by type and name, and names that cannot be asked about. */
import type { Ask } from '../../src/mail/authenticate.ts';

export interface StubDns {
  readonly ask: Ask;
  /** `TXT example.com`, … in the order they were asked. */
  readonly asked: string[];
}

/** `SERVFAIL` for a name that fails, `SILENCE` for one that is never answered. */
export function stubDns(records: Readonly<Record<string, string | readonly string[]>>): StubDns {
  const asked: string[] = [];
  return {
    asked,
    ask: (name, type) => {
      const question = `${type} ${name.toLowerCase()}`;
      asked.push(question);
      const found = records[question];
      if (found === 'SILENCE') return new Promise(() => undefined);
      if (found === 'SERVFAIL') return Promise.reject(Object.assign(new Error('SERVFAIL'), { code: 'ESERVFAIL' }));
      if (found === undefined) return Promise.reject(Object.assign(new Error('NXDOMAIN'), { code: 'ENOTFOUND' }));
      const values = typeof found === 'string' ? [found] : [...found];
      return Promise.resolve(type === 'TXT' ? values.map((value) => [value]) : values);
    },
  };
}
