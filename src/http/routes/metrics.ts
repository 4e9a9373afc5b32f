/** `GET /metrics` on the Unix socket; on the public side there is no such address. */
import { refusedA } from '../answer.ts';
import { refuse } from '../errors.ts';
import type { Handler } from '../exchange.ts';
import type { Metrics } from '../metrics.ts';

export interface MetricsRouteParts {
  readonly metrics: Pick<Metrics, 'answer' | 'answered'>;
}

export function metrics(parts: MetricsRouteParts): Handler {
  return ({ local, id }) => (local ? parts.metrics.answer() : refusedA(refuse('NOT_FOUND'), id));
}
