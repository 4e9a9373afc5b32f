/**
 * The file that `postern backup` writes: a tar archive, compressed by gzip and, with a passphrase, encrypted in the format of age, so
 * that `age`, `gzip` and `tar` open it without Postern. Its first entry is the manifest, with the size and SHA-256 of all
 * others; who reads the archive to its end knows that it is whole.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, readFile, type FileHandle } from 'node:fs/promises';
import { resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { ReadableStream, DecompressionStream } from 'node:stream/web';
import { constants, createGzip } from 'node:zlib';
import { createTarDecoder, createTarPacker, type TarHeader } from 'modern-tar';
import { z } from 'zod';
import { fileFault, messageOf } from '../lib/errors.ts';
import { CommandFailed, UsageError } from './client.ts';
import type { Terminal } from './terminal.ts';

const MANIFEST = 'manifest.json';
const MAX_MANIFEST_BYTES = 16 * 1024 * 1024;
/** How every file in the format of age begins. */
const AGE = 'age-encryption.org/v1\n';

/** Where the database is in the archive. */
export const DATABASE = 'database/postern.db';
/** Files from the folder of server.yml, by their paths from there. */
export const CONFIG = 'config/';
/** The server.yml, whatever it is called. */
export const SERVER_FILE = `${CONFIG}server.yml`;
/** Files elsewhere that the configuration names, by their paths. */
export const ELSEWHERE = 'files/';

const fileInArchive = z.object({
  /** Nothing in it leads out of the folder that it is unpacked in, and it can be shown on a terminal. */
  name: z.string().regex(/^(?:database|config|files)(?:\/(?!\.\.?(?:\/|$))[^/\p{Cc}]+)+$/u),
  size: z.int().nonnegative(),
  sha256: z.hex().length(64),
  /** Permissions. */
  mode: z.int().min(0).max(0o777),
});

const manifestSchema = z.object({
  postern_backup: z.literal(1),
  created_at: z.iso.datetime(),
  hostname: z.string(),
  /** Of Postern. */
  version: z.string(),
  /** The newest migration of the database. */
  schema: z.string(),
  rows: z.int(),
  /** What has files and messages that the database names. */
  bucket: z.string().nullable().default(null),
  files: z.array(fileInArchive),
});

export type ArchiveFile = z.output<typeof fileInArchive>;
export type Manifest = z.output<typeof manifestSchema>;

export interface Entry extends ArchiveFile {
  readonly content: AsyncIterable<Uint8Array>;
}

export interface NewArchive {
  readonly manifest: Omit<Manifest, 'postern_backup' | 'files'>;
  readonly entries: readonly Entry[];
  readonly passphrase: string | undefined;
}

/** Writes an archive to the file, and syncs it. Rejects where an entry's content is not as long as it says. */
export async function writeArchive(target: FileHandle, archive: NewArchive, signal: AbortSignal): Promise<void> {
  const { entries, passphrase } = archive;
  const files = entries.map(({ name, size, sha256, mode }) => ({ name, size, sha256, mode }));
  const manifest = Buffer.from(JSON.stringify({ postern_backup: 1, ...archive.manifest, files }, null, 2));
  const { readable, controller } = createTarPacker();
  const mtime = new Date(archive.manifest.created_at);

  async function add(header: TarHeader, content: AsyncIterable<Uint8Array>): Promise<void> {
    const writer = controller.add({ ...header, mtime }).getWriter();
    for await (const piece of content) await writer.write(piece);
    await writer.close();
  }

  async function pack(): Promise<void> {
    try {
      await add({ name: MANIFEST, size: manifest.length, mode: 0o600 }, contentFrom(manifest));
      for (const { name, size, mode, content } of entries) await add({ name, size, mode }, content);
      controller.finalize();
    } catch (error) {
      controller.error(error);
      throw error;
    }
  }

  // Not its stream, which holds on to the handle until it is closed by it.
  async function sink(source: AsyncIterable<Uint8Array>): Promise<void> {
    for await (const piece of source) await target.writeFile(piece);
  }

  // Fast: the disk and what arrives from the daemon set the pace, and mail that is base64 is no smaller for more effort.
  const gzip = createGzip({ level: constants.Z_BEST_SPEED });
  const writing =
    passphrase === undefined
      ? pipeline(readable, gzip, sink, { signal })
      : pipeline(readable, gzip, (source: AsyncIterable<Uint8Array>) => encrypted(source, passphrase), sink, {
          signal,
        });
  const [packed, written] = await Promise.allSettled([pack(), writing]);
  // What packing fails by, writing fails by as well.
  for (const result of [written, packed]) if (result.status === 'rejected') throw result.reason;
  await target.sync();
}

/**
 * Reads an archive to its end, and has each file but the manifest taken in its order. Rejects with CommandFailed where something
 * is missing, damaged or no backup: what was taken by then is not to be used.
 */
export async function readArchive(
  file: string,
  passphrase: string | undefined,
  take: (entry: Entry, manifest: Manifest) => Promise<void>,
): Promise<Manifest> {
  function damaged(why: string, cause?: unknown): CommandFailed {
    return new CommandFailed(`${file} is damaged: ${why}`, { cause });
  }

  /** What fails here fails because of the archive, not of what is done with it. */
  async function* reading<T>(source: AsyncIterable<T>): AsyncGenerator<T> {
    try {
      yield* source;
    } catch (error) {
      throw damaged(messageOf(error), error);
    }
  }

  const tar = (await contentOf(file, passphrase)).pipeThrough(createTarDecoder({ strict: true }));
  const left = new Map<string, ArchiveFile>();
  let manifest: Manifest | undefined;
  for await (const { header, body } of reading(tar)) {
    if (manifest === undefined) {
      const text = header.name === MANIFEST && header.size <= MAX_MANIFEST_BYTES ? await textOf(reading(body)) : '';
      manifest = parseManifest(text) ?? notBackup(file);
      for (const each of manifest.files) left.set(each.name, each);
      continue;
    }
    const expected = left.get(header.name);
    if (expected === undefined) throw damaged(`it contains ${header.name}, which is not in its manifest`);
    if (header.type !== 'file') throw damaged(`${header.name} is not a regular file`);
    if (header.size !== expected.size) throw damaged(`the size of ${header.name} is wrong`);
    left.delete(header.name);
    const hash = createHash('sha256');
    await take({ ...expected, content: passing(reading(body), (piece) => hash.update(piece)) }, manifest);
    if (hash.digest('hex') !== expected.sha256) throw damaged(`the checksum of ${header.name} is wrong`);
  }
  const [missing] = left.keys();
  if (missing !== undefined) throw damaged(`${missing} is missing`);
  return manifest ?? notBackup(file);
}

/** The tar archive in the file. */
async function contentOf(file: string, passphrase: string | undefined): Promise<ReadableStream<Uint8Array>> {
  const start = await startOf(file);
  const isEncrypted = start.equals(Buffer.from(AGE));
  if (isEncrypted && passphrase === undefined) {
    throw new UsageError(`${file} is encrypted: add --passphrase-file with a file that contains its passphrase`);
  }
  // RFC 1952 §2.3.1
  if (!isEncrypted && start.readUInt16BE() !== 0x1f_8b) notBackup(file);
  const bytes = ReadableStream.from<Uint8Array>(createReadStream(file));
  const plain = isEncrypted && passphrase !== undefined ? await decrypted(bytes, passphrase, file) : bytes;
  return plain.pipeThrough(new DecompressionStream('gzip'));
}

function notBackup(file: string): never {
  throw new CommandFailed(`${file} is not a backup written by postern backup`);
}

/** The first bytes of the file, as many as tell what it is. */
async function startOf(file: string): Promise<Buffer> {
  const handle = await open(file).catch((error: unknown) => {
    throw new CommandFailed(`Cannot read ${file}: ${fileFault(error)}`, { cause: error });
  });
  try {
    const start = Buffer.alloc(AGE.length);
    await handle.read(start);
    return start;
  } finally {
    await handle.close();
  }
}

function parseManifest(text: string): Manifest | undefined {
  try {
    return manifestSchema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

async function textOf(source: AsyncIterable<Uint8Array>): Promise<string> {
  const pieces: Uint8Array[] = [];
  for await (const piece of source) pieces.push(piece);
  return Buffer.concat(pieces).toString();
}

async function* passing(
  source: AsyncIterable<Uint8Array>,
  onPiece: (piece: Uint8Array) => void,
): AsyncGenerator<Uint8Array> {
  for await (const piece of source) {
    onPiece(piece);
    yield piece;
  }
}

// The package of age is large and is needed by few: it is loaded where it is.

async function* encrypted(source: AsyncIterable<Uint8Array>, passphrase: string): AsyncGenerator<Uint8Array> {
  const { Encrypter } = await import('age-encryption');
  const encrypter = new Encrypter();
  encrypter.setPassphrase(passphrase);
  yield* await encrypter.encrypt(ReadableStream.from(source));
}

async function decrypted(
  source: ReadableStream<Uint8Array>,
  passphrase: string,
  file: string,
): Promise<ReadableStream<Uint8Array>> {
  const { Decrypter } = await import('age-encryption');
  const decrypter = new Decrypter();
  decrypter.addPassphrase(passphrase);
  try {
    return await decrypter.decrypt(source);
  } catch (error) {
    throw new CommandFailed(`Cannot decrypt ${file}: the passphrase is wrong, or the file is damaged`, {
      cause: error,
    });
  }
}

/** The passphrase in the file: its first line. */
export async function readPassphrase(
  { folder }: Pick<Terminal, 'folder'>,
  file: string | undefined,
): Promise<string | undefined> {
  if (file === undefined) return undefined;
  const text = await readFile(resolve(folder, file), 'utf8').catch((error: unknown) => {
    throw new CommandFailed(`Cannot read ${file}: ${fileFault(error)}`, { cause: error });
  });
  const [line = ''] = text.split(/\r?\n/);
  if (line === '') throw new UsageError(`${file} must contain the passphrase on its first line`);
  return line;
}

/** One piece. */
export async function* contentFrom(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}
