/** The thread that reads foreign reports. It knows nothing but the bytes that it is handed, and may be ended at any time. */
import { parentPort } from 'node:worker_threads';
import { readReport } from '../mail/report.ts';

parentPort?.on('message', (head: Uint8Array) => parentPort?.postMessage(readReport(head)));
// It is there.
parentPort?.postMessage('ready');
