/** Erasing a person, from the data of the account or of the whole server. */
import { erasePerson, type Erasure } from '../../accounts/erase.ts';
import { erasure, NOT_ERASED } from '../../contract/erase.ts';
import { lacksPermission } from '../answer.ts';
import { type CallOf, implement, success, type Route, type Services } from './route.ts';

/** `/erase`, `/admin/erase` */
export function eraseRoutes(services: Services): Route[] {
  async function erase({ address, dry_run, cursor }: CallOf<typeof erasure.erase>['body'], tenant: Erasure['tenant']) {
    const { counts, mentions, next } = await erasePerson({ address, tenant, dryRun: dry_run, from: cursor }, services);
    const { kept_as_hash, in_progress, configured, ...erased } = counts;
    return success({
      address,
      dry_run,
      erased,
      kept_as_hash,
      in_progress,
      configured,
      mentions,
      not_erased: NOT_ERASED,
      next_cursor: next,
    });
  }

  return implement(erasure, {
    erase({ principal: { tenant, permissions }, body }) {
      return permissions.has('email.send') ? erase(body, tenant.id) : lacksPermission('email.send');
    },
    eraseAll: ({ body }) => erase(body, undefined),
  });
}
