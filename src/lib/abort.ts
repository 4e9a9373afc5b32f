/** Absolute deadlines: a peer that drips bytes cannot stretch them. */
export class DeadlineError extends Error {
  override readonly name = 'DeadlineError';
  readonly code = 'ETIMEDOUT';
}

/** What `work` answers, or a DeadlineError that names `what` once `ms` have passed; nobody waits for the work any more. */
export async function withDeadline<T>(ms: number, what: string, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new DeadlineError(`${what} took longer than ${ms / 1000} s`)), ms);
  });
  try {
    return await Promise.race([work, deadline]);
  } finally {
    clearTimeout(timer);
  }
}
