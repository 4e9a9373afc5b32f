/**
 * `sh bin/run scripts/classify-bounces.ts DIR…`: what the daemon reads from the mails in these folders, one line for each
 * recipient, to measure it by a collection of real bounces: file, kind, address, action, status, class, whether the address
 * would be suppressed, and the words.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readReport } from '../src/mail/report.ts';
import type { Report } from '../src/mail/report-parts.ts';

function linesOf(report: Report): string[][] {
  switch (report.kind) {
    case 'bounce':
      return report.recipients.map(({ address, action, status, diagnostic, meaning }) => {
        const suppress = meaning.suppress ? 'suppress' : '-';
        return [address || '-', action || '-', status || '-', meaning.class, suppress, diagnostic];
      });
    case 'complaint':
      return (report.recipients.length === 0 ? ['-'] : report.recipients).map((address) => [address, report.feedback]);
    case 'automatic':
    case 'unknown':
      return [[]];
  }
}

const folders = process.argv.slice(2);
if (folders.length === 0) {
  console.error('Name a folder of mails: sh bin/run scripts/classify-bounces.ts DIR…');
  process.exitCode = 64;
}
for (const folder of folders) {
  for (const entry of readdirSync(folder, { withFileTypes: true }).filter((each) => each.isFile())) {
    const report = readReport(readFileSync(join(folder, entry.name)));
    for (const columns of linesOf(report)) console.log([entry.name, report.kind, ...columns].join('\t'));
  }
}
