/** The thread that reads aggregate reports of strangers. It knows nothing but the bytes that it is handed, and may be ended at any time. */
import { parentPort } from 'node:worker_threads';
import { readAggregateReport } from '../mail/aggregate-report.ts';

parentPort?.on('message', (message: Uint8Array) => {
  // What it cannot make of it ends the thread, and that is an answer too.
  void readAggregateReport(message).then((report) => parentPort?.postMessage(report));
});
// It is there.
parentPort?.postMessage('ready');
