/** The whole daemon with a form that the API made, for clients that post to it by its id. */
import { expect } from 'vitest';
import { OPERATOR } from '../../src/store/tenants.ts';
import { startTestWorld, type TestWorld } from './daemon.ts';
import { testKey } from './keys.ts';

export interface FormWorld extends TestWorld {
  /** `frm_…` of a form made by the API; its mail goes to owner@inbox.test. */
  readonly form: string;
}

/** The daemon with that form. */
export async function formWorld(settings: object = {}): Promise<FormWorld> {
  const world = await startTestWorld();
  const { headers } = await testKey(world.daemon.store, { tenant: OPERATOR });
  const response = await fetch(`${world.url}/api/forms`, {
    method: 'POST',
    headers: { ...headers, 'Content-Type': 'application/json' },
    body: JSON.stringify({ name: 'Contact', to: 'owner@inbox.test', subject: 'From the site', ...settings }),
  });
  expect(response.status).toBe(200);
  const { id } = (await response.json()) as { id: string };
  return { ...world, form: id };
}
