import { expect, test } from 'vitest';
import {
  addDmarcResult,
  addTlsResult,
  agedReportDays,
  claimUnreadReport,
  countReportRows,
  countUnreadReports,
  deleteUnreadReport,
  dmarcDays,
  dmarcSums,
  forgetReportDay,
  insertUnreadReport,
  noteReceivedReport,
  reporters,
  tlsSums,
  tlsTotals,
} from '../../src/store/aggregate-reports.ts';
import { UnmetError } from '../../src/store/store.ts';
import { openTestStore } from '../harness/store.ts';

const DAY = 86_400_000;
const ABOUT = { tenant: 'ten_1', domain: 'example.com', day: 10 * DAY, reporter: 'receiver.test' };
const MAIL = {
  ...ABOUT,
  source: '192.0.2.1',
  disposition: 'none',
  dkim: 'aligned',
  spf: 'failed',
  dkim_domain: 'example.com',
  spf_domain: '',
} as const;
const SPAN = { tenant: 'ten_1', domain: 'example.com', from: 0, until: 100 * DAY };

test('a report is read by one at a time, and again where reading never ended', async () => {
  const store = await openTestStore();
  await store.write([insertUnreadReport({ inbound: 'inb_1', tries: 0, due: 1000, created_at: 1000 })]);
  expect(await claimUnreadReport(store, { now: 999, until: 5000 })).toBeUndefined();
  const claims = await Promise.all([1, 2].map(() => claimUnreadReport(store, { now: 1000, until: 5000 })));
  expect(claims.filter((each) => each !== undefined)).toMatchObject([{ inbound: 'inb_1', tries: 1 }]);
  expect(await claimUnreadReport(store, { now: 5000, until: 9000 })).toMatchObject({ tries: 2 });
  expect(await countUnreadReports(store)).toBe(1);
  await store.write([deleteUnreadReport({ inbound: 'inb_1' })]);
  expect(await countUnreadReports(store)).toBe(0);
});

test('what reports say is summed up by domain and account, each report once, until it is forgotten', async () => {
  const store = await openTestStore();
  const report = { ...ABOUT, hash: 'a', kind: 'dmarc', created_at: 1 } as const;
  await store.write([
    noteReceivedReport(report),
    addDmarcResult({ ...MAIL, count: 5 }),
    addDmarcResult({ ...MAIL, count: 2 }),
    addDmarcResult({ ...MAIL, reporter: 'other.test', count: 1 }),
    addDmarcResult({ ...MAIL, dkim: 'failed', day: 11 * DAY, count: 4 }),
    addDmarcResult({ ...MAIL, tenant: 'ten_2', count: 100 }),
    addTlsResult({ ...ABOUT, policy: 'sts', result: 'success', mx: '', count: 9 }),
    addTlsResult({ ...ABOUT, policy: 'sts', result: 'certificate-expired', mx: 'mx.example.com', count: 1 }),
  ]);
  await expect(store.write([noteReceivedReport(report), addDmarcResult({ ...MAIL, count: 50 })])).rejects.toThrow(
    UnmetError,
  );
  expect(await dmarcSums(store, SPAN, 10)).toMatchObject([
    { dkim: 'aligned', messages: 8 },
    { dkim: 'failed', messages: 4 },
  ]);
  expect(await dmarcDays(store, SPAN)).toEqual([
    { day: 10 * DAY, messages: 8, passed: 8 },
    { day: 11 * DAY, messages: 4, passed: 0 },
  ]);
  expect(await tlsTotals(store, SPAN)).toEqual({ sessions: 10, failures: 1 });
  expect(await tlsTotals(store, { ...SPAN, domain: 'none.test' })).toEqual({ sessions: 0, failures: 0 });
  expect(await tlsSums(store, SPAN, 1)).toMatchObject([{ result: 'success', sessions: 9 }]);
  expect(await reporters(store, SPAN, 10)).toEqual([{ reporter: 'receiver.test', kind: 'dmarc', reports: 1 }]);
  // The report, two kinds of mail (one of another account) and two of connections; and one kind of another reporter.
  expect(await countReportRows(store, ABOUT)).toEqual({ all: 6, own: 5 });
  expect(await agedReportDays(store, 10 * DAY)).toEqual([]);
  expect(await agedReportDays(store, 11 * DAY)).toEqual([{ domain: 'example.com', day: 10 * DAY }]);
  await store.write(forgetReportDay(ABOUT));
  expect(await dmarcDays(store, SPAN)).toEqual([{ day: 11 * DAY, messages: 4, passed: 0 }]);
  await store.write([noteReceivedReport(report)]);
});
