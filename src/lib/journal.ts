/** systemd's journal takes the priority of each line from `<3>` and the like in front of it (sd-daemon(3)). */
import { fstatSync } from 'node:fs';

const PRIORITIES = { error: '<3>', warn: '<4>', info: '<6>', debug: '<7>' } as const;

/** Whether what is written to `fd` goes to the journal, which systemd names by its device and inode (JOURNAL_STREAM, systemd.exec(5)). */
export function isJournal(fd: number, stream: string | undefined): boolean {
  if (stream === undefined) return false;
  const { dev, ino } = fstatSync(fd);
  return stream === `${dev}:${ino}`;
}

/** What goes in front of a line of this level. */
export function priorityOf(level: string): string {
  return isLevel(level) ? PRIORITIES[level] : PRIORITIES.info;
}

function isLevel(level: string): level is keyof typeof PRIORITIES {
  return level in PRIORITIES;
}
