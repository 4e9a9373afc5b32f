/** The URL of a bucket for objects, as `storage.url` has it: `s3://bucket/prefix?endpoint=https://…&region=…`. */

/** A part of a bucket of a server that speaks the S3 protocol. */
export interface BucketPlace {
  readonly bucket: string;
  /** What the keys of all objects begin with: empty, or with a slash at its end. */
  readonly prefix: string;
  /** `https://host:port`, without a path. */
  readonly endpoint: string;
  readonly region: string;
}

const ADDRESS = /^s3:\/\/([^/?#]*)\/?([^?#]*)(\?[^#]*)?$/;
const BUCKET = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;
const SEGMENT = /^(?!\.{1,2}$)[\w.-]{1,100}$/;
const REGION = /^[a-z0-9-]{1,50}$/;
const PARAMETERS: ReadonlySet<string> = new Set(['endpoint', 'region']);
/** What servers other than Amazon's expect unless they are set up otherwise. */
const DEFAULT_REGION = 'us-east-1';

/** Reads an address. Throws Error where it is none; the message says what was expected. */
export function parseBucketUrl(text: string): BucketPlace {
  const [, bucket = '', path = '', query = ''] =
    ADDRESS.exec(text) ?? fail('s3://bucket or s3://bucket/prefix, with ?endpoint=https://… and &region=… if needed');
  if (bucket.includes('@')) fail('no credentials in the URL: set access_key_id and secret_access_key');
  if (!BUCKET.test(bucket)) fail('a bucket name of 3 to 63 lower-case letters, digits, dots and hyphens');
  const segments = path.replace(/\/$/, '').split('/');
  if (path !== '' && !segments.every((segment) => SEGMENT.test(segment))) {
    fail('a prefix of letters, digits, dots, hyphens and underscores, such as s3://bucket/postern/files');
  }
  const parameters = new URLSearchParams(query);
  const unknown = [...parameters.keys()].find((name) => !PARAMETERS.has(name));
  if (unknown !== undefined) fail(`the parameters endpoint and region, found ${unknown}`);
  const given = parameters.get('endpoint');
  const named = parameters.get('region');
  if (given === null && named === null)
    fail('the parameter region, because without endpoint the bucket is on Amazon S3');
  const region = named ?? DEFAULT_REGION;
  if (!REGION.test(region)) fail('a region such as eu-central-1');
  const endpoint = given === null ? `https://s3.${region}.amazonaws.com` : originOf(given);
  return { bucket, prefix: path === '' ? '' : `${segments.join('/')}/`, endpoint, region };
}

/** The address of the place, with all its parameters. */
export function formatBucketUrl({ bucket, prefix, endpoint, region }: BucketPlace): string {
  return `s3://${bucket}/${prefix.replace(/\/$/, '')}?endpoint=${endpoint}&region=${region}`;
}

/** Scheme, host and port. */
function originOf(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isOrigin = url?.href === `${url?.origin}/` && /^https?:$/.test(url.protocol);
  return url !== undefined && isOrigin ? url.origin : fail('endpoint to be https://host:port, without a path');
}

function fail(expected: string): never {
  throw new Error(`expected ${expected}`);
}
