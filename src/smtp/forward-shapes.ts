/** What accepting writes as JSON for a message that is forwarded, and delivering reads again: one place says the shape. */
import { z } from 'zod';

const forward = z.object({
  /** `inb_…`, whose pieces are the message. */
  inbound: z.string(),
  /** The recipient as it was named in RCPT, at a domain of ours; what stands in Delivered-To. */
  original: z.string(),
  /** The envelope sender as it came; empty for the null sender. */
  sender: z.string(),
});

/** `messages.source` of the kind `forward`: one message for each original recipient. */
export type ForwardSource = z.output<typeof forward>;

export function readForward(json: string): ForwardSource {
  return forward.parse(JSON.parse(json));
}
