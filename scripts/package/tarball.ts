/** The tarball of a release: everything under `postern-<version>/`, to be unpacked in /opt. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import type { Tree } from './tree.ts';

export interface ArchiveOptions {
  readonly out: string;
  readonly time: number;
  /** Compress little. */
  readonly quick: boolean;
  /** For files on the way; may not exist. */
  readonly work: string;
  /** `Name <address>` */
  readonly maintainer: string;
}

/** Answers the path of the new file. */
export function buildTarball({ folder, arch, manifest }: Tree, { out, time, quick }: ArchiveOptions): string {
  const file = join(out, `postern-${manifest.version}-linux-${arch}.tar.gz`);
  const compress = `gzip --no-name -${quick ? 1 : 9}`;
  const owner = ['--owner=0', '--group=0', '--numeric-owner'];
  const order = ['--sort=name', `--mtime=@${time}`, '--format=gnu'];
  const name = `--transform=s,^[.],postern-${manifest.version},`;
  execFileSync('tar', [
    '-c',
    ...owner,
    ...order,
    name,
    `--use-compress-program=${compress}`,
    '-f',
    file,
    '-C',
    folder,
    '.',
  ]);
  return file;
}
