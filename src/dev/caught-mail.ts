/**
 * The mails that the catching MX took, as files: `<id>.eml` holds the bytes as they came, `<id>.json` what else is known.
 * The JSON is written last, so that a mail is there as a whole or not at all; the newest 1,000 are kept. In memory there
 * is one small entry for each.
 */
import { randomBytes } from 'node:crypto';
import { mkdir, readFile, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { messageOf } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import type { Verdicts } from './verdicts.ts';

export interface CaughtMail {
  readonly id: string;
  /** When it was taken, in milliseconds. */
  readonly at: number;
  readonly envelope: {
    /** Empty for the null sender. */
    readonly from: string;
    readonly to: readonly string[];
    readonly client: string;
    readonly helo: string;
    /** `TLSv1.3` and the like; null for clear text. */
    readonly tls: string | null;
  };
  readonly size: number;
  /** From the header, decoded. */
  readonly from: string;
  readonly to: string;
  readonly subject: string;
  readonly attachments: number;
  readonly verdicts: Verdicts;
}

const MOST_MAILS = 1000;
const FILE = /^(\d{13}-[0-9a-f]{8})\.(eml|json|part|json\.part)$/;

/** Opens the folder (made if it is not there) and removes the halves that a crash left. */
export async function openCaughtMails(folder: string, log: Log): Promise<CaughtMails> {
  await mkdir(folder, { recursive: true });
  const files = new Set(await readdir(folder));
  const mails: CaughtMail[] = [];
  for (const file of [...files].sort()) {
    const [, id = '', kind] = FILE.exec(file) ?? [];
    if (kind === undefined) continue;
    if (kind.endsWith('part') || !files.has(`${id}.json`) || !files.has(`${id}.eml`)) await rm(join(folder, file));
    else if (kind === 'json') mails.push(...(await readEntry(join(folder, file), log)));
  }
  return new CaughtMails(folder, mails);
}

async function readEntry(path: string, log: Log): Promise<CaughtMail[]> {
  try {
    // Our own file, written whole.
    return [JSON.parse(await readFile(path, 'utf8')) as CaughtMail];
  } catch (error) {
    log.warn('outbox.unreadable', { path, error: messageOf(error) });
    return [];
  }
}

export class CaughtMails {
  readonly #folder: string;
  readonly #mails: Map<string, CaughtMail>;

  constructor(folder: string, mails: readonly CaughtMail[]) {
    this.#folder = folder;
    this.#mails = new Map(mails.map((mail) => [mail.id, mail]));
  }

  /** Newest first. */
  list(): CaughtMail[] {
    return [...this.#mails.values()].reverse();
  }

  get(id: string): CaughtMail | undefined {
    return this.#mails.get(id);
  }

  /** The bytes of a mail that `get` knows. */
  source(mail: CaughtMail): Promise<Buffer> {
    return readFile(this.#file(mail.id, 'eml'));
  }

  /** A new id, and the file into which its bytes go until it is kept or dropped. */
  begin(now: number): { id: string; path: string } {
    const id = `${String(now).padStart(13, '0')}-${randomBytes(4).toString('hex')}`;
    return { id, path: this.#file(id, 'part') };
  }

  /** Keeps a mail whose bytes are in the file of `begin`, and drops the oldest beyond the limit. */
  async keep(mail: CaughtMail): Promise<void> {
    await rename(this.#file(mail.id, 'part'), this.#file(mail.id, 'eml'));
    await writeFile(this.#file(mail.id, 'json.part'), JSON.stringify(mail, undefined, 2));
    await rename(this.#file(mail.id, 'json.part'), this.#file(mail.id, 'json'));
    this.#mails.set(mail.id, mail);
    const surplus = [...this.#mails.keys()].slice(0, Math.max(0, this.#mails.size - MOST_MAILS));
    for (const id of surplus) await this.remove(id);
  }

  /** Forgets a mail; false where there is none. */
  async remove(id: string): Promise<boolean> {
    if (!this.#mails.delete(id)) return false;
    await rm(this.#file(id, 'json'), { force: true });
    await rm(this.#file(id, 'eml'), { force: true });
    return true;
  }

  async drop(id: string): Promise<void> {
    await rm(this.#file(id, 'part'), { force: true });
  }

  #file(id: string, extension: string): string {
    return join(this.#folder, `${id}.${extension}`);
  }
}
