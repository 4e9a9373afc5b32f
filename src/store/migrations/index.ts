/** All migrations in order. One that was released is never edited; each runs in a transaction. */
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';
import { initial } from './0001-initial.ts';
import { accounts } from './0002-accounts.ts';
import { inbound } from './0003-inbound.ts';
import { consent } from './0004-consent.ts';
import { caps } from './0005-caps.ts';
import { environments } from './0006-environments.ts';
import { destinations } from './0009-destinations.ts';
import { projects } from './0010-projects.ts';
import { webhookDeliveries } from './0011-webhook-deliveries.ts';
import { spamLearned } from './0012-spam-learned.ts';
import { usedTokens } from './0014-used-tokens.ts';
import { owner } from './0015-owner.ts';
import { formOptions } from './0016-form-options.ts';
import { unscannedFiles } from './0017-unscanned-files.ts';
import { certificates } from './0018-certificates.ts';
import { tlsPolicy } from './0019-tls-policy.ts';
import { aggregateReports } from './0020-aggregate-reports.ts';
import { accountDeletions } from './0021-account-deletions.ts';
import { alerts } from './0022-alerts.ts';
import { acmeTries } from './0023-acme-tries.ts';
import { tlsReports } from './0024-tls-reports.ts';
import { sessions } from './0025-sessions.ts';
import { overview } from './0026-overview.ts';
import { inbox } from './0027-inbox.ts';
import { messageLists } from './0028-message-lists.ts';
import { webhookPosts } from './0029-webhook-posts.ts';
import { totp } from './0030-totp.ts';
import { search } from './0032-search.ts';
import { inboundLists } from './0033-inbound-lists.ts';
import { revisionAuthor } from './0034-revision-author.ts';
import { turns } from './0040-turns.ts';
import { members } from './0048-members.ts';
import { formCounts } from './0054-form-counts.ts';
import { fillfactor } from './0055-fillfactor.ts';
import { objects } from './0056-objects.ts';
import { eventsByDay } from './0057-events-by-day.ts';
import { searchMerges } from './0058-search-merges.ts';

/** By name, as Kysely's migrator wants them. */
export function migrationsFor(dialect: Dialect): Record<string, Migration> {
  return {
    '0001-initial': initial(dialect),
    '0002-accounts': accounts(dialect),
    '0003-inbound': inbound(dialect),
    '0004-consent': consent(dialect),
    '0005-caps': caps(dialect),
    '0006-environments': environments(),
    '0009-destinations': destinations(dialect),
    '0010-projects': projects(dialect),
    '0011-webhook-deliveries': webhookDeliveries(),
    '0012-spam-learned': spamLearned(dialect),
    '0014-used-tokens': usedTokens(dialect),
    '0015-owner': owner(dialect),
    '0016-form-options': formOptions(dialect),
    '0017-unscanned-files': unscannedFiles(dialect),
    '0018-certificates': certificates(dialect),
    '0019-tls-policy': tlsPolicy(dialect),
    '0020-aggregate-reports': aggregateReports(dialect),
    '0021-account-deletions': accountDeletions(dialect),
    '0022-alerts': alerts(dialect),
    '0023-acme-tries': acmeTries(dialect),
    '0024-tls-reports': tlsReports(dialect),
    '0025-sessions': sessions(dialect),
    '0026-overview': overview(dialect),
    '0027-inbox': inbox(dialect),
    '0028-message-lists': messageLists(),
    '0029-webhook-posts': webhookPosts(dialect),
    '0030-totp': totp(dialect),
    '0032-search': search(dialect),
    '0033-inbound-lists': inboundLists(),
    '0034-revision-author': revisionAuthor(dialect),
    '0040-turns': turns(dialect),
    '0048-members': members(dialect),
    '0054-form-counts': formCounts(dialect),
    '0055-fillfactor': fillfactor(dialect),
    '0056-objects': objects(dialect),
    '0057-events-by-day': eventsByDay(dialect),
    '0058-search-merges': searchMerges(dialect),
  };
}
