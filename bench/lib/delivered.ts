/** From posts or mails in to the last mail at the sink: how many per second were accepted, and how many delivered. */
import { postExactly } from './post-exactly.ts';
import { urlencodedPost } from './posts.ts';
import type { SmtpSink } from './smtp-sink.ts';

export interface Rates {
  readonly accepted: number;
  readonly delivered: number;
}

/** Posts the form `count` times over 64 connections and waits until the sink has a mail for each. */
export async function postUntilDelivered(url: string, sink: SmtpSink, count: number): Promise<Rates> {
  const before = sink.count();
  const start = performance.now();
  const seconds = await postExactly(url, urlencodedPost(), { count });
  const end = await sink.untilCount(before + count);
  return { accepted: count / seconds, delivered: perSecond(count, end - start) };
}

/** Runs `send`, which causes `count` mails, and waits until the sink has them; answers mails per second. */
export async function sendUntilDelivered(send: () => Promise<void>, sink: SmtpSink, count: number): Promise<number> {
  const before = sink.count();
  const start = performance.now();
  await send();
  return perSecond(count, (await sink.untilCount(before + count)) - start);
}

function perSecond(count: number, milliseconds: number): number {
  return (count / milliseconds) * 1000;
}
