/** Absolute deadlines: a peer that drips bytes cannot stretch them. */
export class DeadlineError extends Error {
  override readonly name = 'DeadlineError';
  readonly code = 'ETIMEDOUT';
}

/**
 * What `work` answers, or a DeadlineError once `ms` have passed. `stop` is called at the deadline: it must end the work
 * (destroy a socket, say), because nobody waits for it any more.
 */
export async function withDeadline<T>(ms: number, what: string, work: Promise<T>, stop?: () => void): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new DeadlineError(`${what} took longer than ${ms / 1000} s`));
      stop?.();
    }, ms);
  });
  try {
    return await Promise.race([work, deadline]);
  } finally {
    clearTimeout(timer);
  }
}
