/** A tenant of a running daemon, who asks its API with a key. */
import type { Daemon } from '../../src/daemon/daemon.ts';
import { expectListedCode } from './contract.ts';
import { testKey, type TestKeySettings } from './keys.ts';

export interface Asked {
  readonly status: number;
  readonly headers: Headers;
  /** The body as JSON. */
  readonly body: unknown;
}

export interface Client {
  readonly tenant: string;
  ask(method: string, path: string, body?: object): Promise<Asked>;
}

/** Default: A client with a full key of a new tenant. */
export async function apiClient(
  world: { daemon: Daemon; url: string },
  settings: TestKeySettings = {},
): Promise<Client> {
  const { tenant, headers } = await testKey(world.daemon.store, settings);
  return {
    tenant,
    async ask(method, path, body) {
      const response = await fetch(world.url + path, {
        method,
        headers: { ...headers, ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const answer: unknown = await response.json();
      expectListedCode(method, path, answer);
      return { status: response.status, headers: response.headers, body: answer };
    },
  };
}
