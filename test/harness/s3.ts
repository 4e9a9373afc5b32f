/** A server that speaks the S3 protocol and checks signatures, with one bucket, behind a proxy that can go silent. */
import { glob } from 'node:fs/promises';
import { basename } from 'node:path';
import S3rver from '@20minutes/s3rver';
import { onTestFinished } from 'vitest';
import type { BucketOptions } from '../../src/store/s3.ts';
import { temporaryFolder } from './store.ts';
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';

export interface TestBucket {
  readonly options: BucketOptions;
  /** The section `storage` of server.yml. */
  readonly settings: Readonly<Record<'url' | 'access_key_id' | 'secret_access_key', string>>;
  readonly proxy: TcpProxy;
  /** The keys of all objects, without the prefix, oldest first. */
  objects(): Promise<string[]>;
}

/** As the server has them built in. */
const KEY = 'S3RVER';
/** What the server calls its files. */
const SUFFIX = '._S3rver_object';

export async function startTestBucket(): Promise<TestBucket> {
  const directory = await temporaryFolder();
  const configureBuckets = [{ name: 'mail' }];
  const server = new S3rver({ address: '127.0.0.1', port: 0, silent: true, directory, configureBuckets });
  const { port } = await server.run();
  onTestFinished(() => server.close());
  const proxy = await startTcpProxy(port);
  const endpoint = `http://127.0.0.1:${proxy.port}`;
  return {
    options: {
      bucket: 'mail',
      prefix: 'postern/test/',
      endpoint,
      region: 'us-east-1',
      accessKeyId: KEY,
      secretAccessKey: KEY,
    },
    settings: {
      url: `s3://mail/postern/test?endpoint=${endpoint}`,
      access_key_id: KEY,
      secret_access_key: KEY,
    },
    proxy,
    async objects() {
      const files = await Array.fromAsync(glob(`${directory}/mail/postern/test/*${SUFFIX}`));
      return files.map((path) => basename(path, SUFFIX)).toSorted();
    },
  };
}
