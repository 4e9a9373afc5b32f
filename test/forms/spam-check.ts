/** The spam filter of these tests, with the shipped model and without what others have posted. */
import { createSpamCheck, type SpamVerdict } from '../../src/forms/spam/filter.ts';
import { readModel } from '../../src/forms/spam/model.ts';
import type { Rules, SpamInput } from '../../src/forms/spam/text.ts';

const model = readModel();
const check = createSpamCheck({ model });

/** What `createSpamFilter` needs, without DNS. */
export const FILTER_PARTS = { model };

export function checkForSpam(form: Rules, submission: SpamInput): SpamVerdict {
  return check(form, submission).verdict;
}
