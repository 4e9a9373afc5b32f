/** What a row of the table is: two things measured in turn in one run on one machine, and the ratio that we want. */

/** What is measured of one row; most have one, some two (accepted and delivered). */
export interface Goal {
  /** Told apart in the table where a row has several. */
  readonly name?: string;
  /** Ours divided by the reference's must be this or more. */
  readonly atLeast?: number;
  /** Ours alone must be this or less. */
  readonly atMost?: number;
}

/** Per second unless the row says otherwise, one figure per round; a goal that is a limit has no reference. */
export interface Samples {
  readonly ours: readonly number[];
  readonly reference: readonly number[];
}

export interface Row {
  /** In the table; `4b` stands behind `4`. */
  readonly number: string;
  readonly measure: string;
  /** What a user would take instead, or the physical limit. */
  readonly reference: string;
  readonly goals: readonly Goal[];
  /** Measures both sides; answers the samples of each goal, in their order. */
  run(options: { readonly rounds: number }): Promise<readonly Samples[]>;
}
