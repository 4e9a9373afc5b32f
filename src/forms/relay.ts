/** Who talks to whom about a submission, as its notification knows it: what a reply address leads to. */
import type { RevisionOf } from '../accounts/projects.ts';
import type { ServerConfig } from '../config/schema.ts';
import { needsSmtpUtf8 } from '../lib/addresses.ts';
import type { Conversation } from '../mail/relay.ts';
import { findMessage } from '../store/messages.ts';
import type { Store } from '../store/store.ts';
import { submissionToMail } from '../store/submissions.ts';
import { emailOf, replyToOf, readControl, readFields, readNotificationSource } from './fields.ts';
import { formOf } from './source.ts';

export interface ConversationsOptions {
  readonly store: Store;
  readonly config: () => ServerConfig;
  readonly revisionOf: RevisionOf;
}

/** The conversation that this notification (`msg_…`) began; undefined where it, or what it tells of, is forgotten. */
export function createConversations({
  store,
  config,
  revisionOf,
}: ConversationsOptions): (notification: string) => Promise<Conversation | undefined> {
  return async (notification) => {
    const message = await findMessage(store, notification);
    if (message?.kind !== 'notification' || message.submission === null) return undefined;
    const submission = await submissionToMail(store, message.submission);
    if (submission === undefined) return undefined;
    const { form: key, to: owners } = readNotificationSource(message.source);
    const revision = submission.revision === '' ? undefined : await revisionOf(submission.revision);
    const form = await formOf(submission, key, { revision, store, server: config() });
    if (form === undefined) return undefined;
    const visitor = replyToOf(readControl(submission.control)) ?? emailOf(readFields(submission.fields), form);
    if (visitor === undefined || needsSmtpUtf8(visitor)) return undefined;
    const { tenant, domain, environment } = message;
    return { tenant, domain, submission: submission.id, environment, name: form.name ?? key, visitor, owners };
  };
}
