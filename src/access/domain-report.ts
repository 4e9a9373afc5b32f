/** What somebody is shown of a domain: its state, what it has to publish, and how each record was last found. */
import type { CheckedRecord } from '../dns/check.ts';
import type { DomainRecord } from '../dns/records.ts';
import type { DomainRow, DomainStatus } from '../store/tables.ts';

export interface DomainReport {
  readonly name: string;
  readonly project: string;
  readonly status: DomainStatus;
  readonly records: readonly CheckedRecord[];
  /** ms */
  readonly checkedAt: number | null;
  readonly verifiedAt: number | null;
}

/** The report of a domain whose records are as they were just found. */
export function reportOf(row: DomainRow, records: readonly CheckedRecord[]): DomainReport {
  const { name, project, status, checked_at: checkedAt, verified_at: verifiedAt } = row;
  return { name, project, status, records, checkedAt, verifiedAt };
}

/** The report from what the last check found of the records that are wanted now. */
export function lastReport(row: DomainRow, wanted: readonly DomainRecord[]): DomainReport {
  return reportOf(row, lastSeen(wanted, readRecords(row)));
}

/** An advised value is merged into what stands there; a required one that has changed since was never seen. */
function lastSeen(wanted: readonly DomainRecord[], last: readonly CheckedRecord[]): CheckedRecord[] {
  return wanted.map((record) => {
    const seen = last.find(({ purpose, name }) => purpose === record.purpose && name === record.name);
    const current = seen !== undefined && (!record.required || seen.value === record.value);
    return current
      ? { ...seen, required: record.required, ...noteOf(record) }
      : { ...record, status: 'unknown', found: [] };
  });
}

function noteOf({ note }: DomainRecord): Pick<DomainRecord, 'note'> {
  return note === undefined ? {} : { note };
}

function readRecords({ records }: DomainRow): readonly CheckedRecord[] {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- nobody but the check of `domains` writes it
  return records === null ? [] : (JSON.parse(records) as CheckedRecord[]);
}
