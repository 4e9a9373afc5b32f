/** An explanation: what would happen to mail, one step after the other, each with what decides it. */

export interface Step {
  /** A stable name. */
  readonly step:
    | 'domain'
    | 'mx'
    | 'rule'
    | 'decision'
    | 'form'
    | 'access'
    | 'consent'
    | 'rate_limit'
    | 'spam'
    | 'recipients'
    | 'from'
    | 'template'
    | 'acknowledgment'
    | 'dkim'
    | 'dmarc'
    | 'srs'
    | 'arc'
    | 'suppression'
    | 'destination'
    | 'route'
    | 'tls'
    | 'attempts';
  /** Which address or destination it is about, where there are several. */
  readonly about?: string;
  /** `stop`: mail gets no further. `warning`: it may fare worse than its owner thinks. */
  readonly verdict: 'ok' | 'warning' | 'stop';
  readonly found: string;
  readonly because: string;
}

export interface Explanation {
  /** As it was asked. */
  readonly what: string;
  readonly kind: 'inbound' | 'outbound' | 'form';
  readonly steps: readonly Step[];
}

/** A step that mail passes. */
export function passes(step: Step['step'], found: string, because: string): Step {
  return { step, verdict: 'ok', found, because };
}

/** A step that mail passes, with something to be said against it. */
export function warns(step: Step['step'], found: string, because: string): Step {
  return { step, verdict: 'warning', found, because };
}

/** A step where mail ends, or waits. */
export function stops(step: Step['step'], found: string, because: string): Step {
  return { step, verdict: 'stop', found, because };
}
