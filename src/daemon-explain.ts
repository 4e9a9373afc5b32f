/** Explanations and traces, composed: with what decides when there is mail, and what is kept of it. */
import { createKeyring } from './access/keyring.ts';
import { openDirectory } from './daemon-smtp.ts';
import { ownDoor } from './delivery.ts';
import { createExplain, type Explain } from './explain/explain.ts';
import { trace, type Trace } from './explain/trace.ts';
import type { ExplainParts } from './explain/parts.ts';
import type { Domains } from './access/domains.ts';
import { openSrsKeys } from './smtp/srs-keys.ts';

type Parts = Omit<ExplainParts, 'keysOf' | 'directory' | 'domains' | 'door'> & {
  readonly domains: Pick<Domains, 'status' | 'report'>;
};

export interface Insight {
  /** What would happen. */
  readonly explain: Explain;
  /** What did happen. */
  readonly trace: (id: string) => Promise<Trace | undefined>;
}

/** The functions that explain, and trace. */
export async function openExplain(parts: Parts): Promise<Insight> {
  const { store, clock, snapshot } = parts;
  const srs = await openSrsKeys({ store, clock });
  const directory = await openDirectory(parts, srs);
  const explain = createExplain({
    ...parts,
    // Under its name: that is enough to say where mail would go.
    door: ownDoor({ store, config: () => snapshot().server, door: () => undefined }),
    keysOf: createKeyring({ store, clock, hostname: () => snapshot().server.server.hostname }),
    async directory() {
      await srs.renew();
      return directory();
    },
  });
  return { explain, trace: (id) => trace(store, id) };
}
