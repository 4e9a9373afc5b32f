/** The envelope sender, in its normal form. */
import { needsSmtpUtf8, parseAddress } from '../lib/addresses.ts';
import type { Refusal } from './header-check.ts';

/** The sender as MAIL FROM has it, empty for the null sender; or why it is not taken: bounces could not find back to it. */
export function readSender(
  text: string,
  smtpUtf8: boolean,
): { readonly address: string } | { readonly refusal: Refusal } {
  if (text === '') return { address: '' };
  const parsed = parseAddress(text);
  if (parsed === undefined) {
    return { refusal: { reply: '553 5.1.7 the sender is no address that mail could go to', reason: 'invalid_sender' } };
  }
  if (needsSmtpUtf8(parsed.address) && !smtpUtf8) {
    return { refusal: { reply: '553 5.6.7 this sender needs SMTPUTF8', reason: 'invalid_sender' } };
  }
  return { address: parsed.address };
}
