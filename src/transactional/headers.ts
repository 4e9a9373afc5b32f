/** Headers that a program may add: those by which mail is sorted, threaded and unsubscribed from. All others are ours. */
import { isFreeHeader } from '../mail/compose.ts';
import { faultAt, type Fault } from './fault.ts';

const MOST = 50;
const LONGEST = 2000;

/** The fault of the first header that cannot be set; undefined where all can. */
export function headersFault(headers: Readonly<Record<string, string>>): Fault | undefined {
  const names = Object.keys(headers);
  if (names.length > MOST) return faultAt('headers', `must be ${MOST} at most`);
  const seen = new Set<string>();
  for (const [name, value] of Object.entries(headers)) {
    const path = `headers.${name.slice(0, 100)}`;
    if (!isFreeHeader(name)) {
      return faultAt(
        path,
        'cannot be set: X-…, List-…, In-Reply-To, References, Feedback-ID, Precedence and the like can',
      );
    }
    if (seen.has(name.toLowerCase())) return faultAt(path, 'stands there twice');
    seen.add(name.toLowerCase());
    // oxlint-disable-next-line no-control-regex -- they are what must not be in it
    if (/[\x00-\x08\x0a-\x1f\x7f]/.test(value)) return faultAt(path, 'must be one line');
    if (value.length > LONGEST) return faultAt(path, `must have ${LONGEST} characters at most`);
  }
  return undefined;
}
