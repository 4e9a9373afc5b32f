/**
 * Instant forms mail nobody until the recipient agrees: a link goes to the address, and whoever follows it presses a button.
 * What came in until then is mailed in the very unit that notes the agreement, so that no submission is mailed twice or
 * falls between the two, whenever it comes and whatever dies.
 */
import { LINK_LIFE, newToken, type ConfirmKind } from '../access/tokens.ts';
import type { ServerConfig } from '../config/schema.ts';
import type { Clock } from '../lib/clock.ts';
import { systemMail } from '../queue/system-mail.ts';
import { counterOf, formCounters, noteForm, stillCounted } from '../store/form-counters.ts';
import { confirmForm, findForm, unmailedSubmissions } from '../store/forms.ts';
import type { Statement } from '../store/statement.ts';
import { UnmetError, type Store } from '../store/store.ts';
import type { FormRow } from '../store/tables-accounts.ts';
import { notification } from './accept.ts';
import { formOfRow } from './find.ts';

/** So many of those that were kept are mailed, oldest first; the others stay to be read. */
export const MOST_MAILED = 100;
/** A submission that comes in between makes it begin again. */
const TRIES = 20;

export interface FormConfirmationParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly config: () => ServerConfig;
  /** Tells the queue that there is something to do. */
  readonly wake: () => void;
}

/** The links of instant forms. */
export function formConfirmation(parts: FormConfirmationParts): ConfirmKind {
  const { store, config, wake } = parts;
  return async ({ subject: id }) => {
    const row = await findForm(store, id);
    if (row === undefined) return undefined;
    const { to } = formOfRow(row, config());
    return {
      question: {
        heading: 'Get mail from a form',
        text: [
          `Somebody, probably you, has made the form “${row.name}” for ${to.join(', ')}. What people send with it is mailed to this address as soon as you agree.`,
          'If it was not you, close this page: no more mail comes of it.',
        ],
        button: 'Agree',
      },
      done: {
        heading: 'The form is at work',
        text: ['What people send with it is mailed to you from now on, and so is what came in until now.'],
      },
      isDone: row.confirmed_at !== null,
      async confirm() {
        if (await settle(row, parts)) wake();
      },
    };
  };
}

/** Notes the agreement and mails what was kept; false where somebody has agreed before, or the form is another now. */
async function settle(row: FormRow, { store, clock, config }: FormConfirmationParts): Promise<boolean> {
  const server = config();
  const form = formOfRow({ ...row, confirmed_at: clock.now() }, server);
  for (let i = 0; i < TRIES; i++) {
    const now = clock.now();
    const current = await findForm(store, row.id);
    if (current?.confirmed_at !== null || current.config !== row.config) return false;
    const counted = counterOf(row);
    const counter = (await formCounters(store, [counted])).get(counted);
    const kept = await unmailedSubmissions(store, row.id, MOST_MAILED);
    const ttl = server.delivery.expire.default;
    try {
      await store.write([
        // A millisecond apart, so that they are due in the order in which they came.
        ...kept.flatMap(({ id, environment }, i) =>
          notification({ form, id, ttl, environment, now: now - kept.length + i }),
        ),
        confirmForm({ id: row.id, config: row.config, at: now }, 1),
        counter === undefined
          ? noteForm({ form: counted, at: now }, 1)
          : stillCounted({ form: counted, submissions: counter.submissions }, 1),
      ]);
      return true;
    } catch (error) {
      if (!(error instanceof UnmetError)) throw error;
    }
  }
  throw new Error(`the form ${row.id} gets so many submissions that it could not be confirmed`);
}

/** The statements that ask for the agreement. No word of the mail is the account's: it goes to whomever that names. */
export function askToConfirm(row: FormRow, config: ServerConfig, now: number): Statement[] {
  const { id, tenant } = row;
  const { hostname } = config.server;
  const { link, statement } = newToken({ kind: 'form', tenant, subject: id }, config, now);
  const text = `Somebody, probably you, has made a form on ${hostname} whose submissions go to this address.

To get them by mail, open this link within ${LINK_LIFE} and press the button:

${link}

Until then nothing is mailed to you; what people send is kept. If it was not you, ignore this mail.
`;
  const subject = `Confirm your form on ${hostname}`;
  const letters = formOfRow(row, config).to.flatMap((to) => systemMail({ tenant, to, subject, text }, hostname, now));
  return [statement, ...letters];
}
