/** The thread that reads foreign reports. It knows nothing but the bytes that it is handed, and may be ended at any time. */
import { parentPort } from 'node:worker_threads';
import { readReport } from '../mail/report.ts';
import type { Report } from '../mail/report-parts.ts';

/** The first word says that it is there. */
export type FromReports = 'ready' | Report;

parentPort?.on('message', (head: Uint8Array) => say(readReport(head)));
say('ready');

function say(message: FromReports): void {
  parentPort?.postMessage(message);
}
