/** The mail of the SMTP rows: 5 kB of text, in a file, with the line ends that smtp-source wants. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface MailFile {
  readonly path: string;
  remove(): Promise<void>;
}

export async function writeMailFile(): Promise<MailFile> {
  const folder = await mkdtemp(join(tmpdir(), 'postern-bench-'));
  const path = join(folder, 'mail');
  const header = 'From: <forms@forms.test>\nTo: <info@forms.test>\nSubject: a mail of five kilobytes\n';
  const ids = 'Date: Sat, 21 Nov 2026 12:00:00 +0000\nMessage-ID: <bench@forms.test>\n';
  await writeFile(path, `${header}${ids}\n${`${'x'.repeat(70)}\n`.repeat(70)}`);
  return { path, remove: () => rm(folder, { recursive: true }) };
}
