/** Routes that are answered without a daemon, from the database alone: what goes to the server's own code, and what comes back. */

/** A request for a route. */
export interface OfflineRequest {
  /** `GET /admin/queue/:id` */
  readonly route: string;
  /** Those of its path. */
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
}

export type OfflineAnswer =
  /** The JSON of the answer; `source` is the database that it was read from, where the answer does not say itself that no daemon runs. */
  | { readonly kind: 'answered'; readonly data: unknown; readonly source: string | undefined }
  | { readonly kind: 'refused'; readonly code: string; readonly status: number; readonly message: string };

/** Answers a request under this server.yml, valid or not. Throws UserError where it or the database cannot be read. */
export type AnswerOffline = (file: string, request: OfflineRequest) => Promise<OfflineAnswer>;
