import { expect, test } from 'vitest';
import { formatBucketUrl, parseBucketUrl } from '../../src/config/bucket-url.ts';

test.each([
  [
    's3://mail?region=eu-central-1',
    { bucket: 'mail', prefix: '', endpoint: 'https://s3.eu-central-1.amazonaws.com', region: 'eu-central-1' },
  ],
  [
    's3://mail/?endpoint=https://storage.example.net/',
    { bucket: 'mail', prefix: '', endpoint: 'https://storage.example.net', region: 'us-east-1' },
  ],
  [
    's3://my.mail-1/postern/files/?endpoint=http://[::1]:9000&region=garage',
    { bucket: 'my.mail-1', prefix: 'postern/files/', endpoint: 'http://[::1]:9000', region: 'garage' },
  ],
])('%s is read, and written the same way', (text, place) => {
  expect(parseBucketUrl(text)).toEqual(place);
  expect(parseBucketUrl(formatBucketUrl(place))).toEqual(place);
});

test.each([
  ['https://storage.example.net/mail', 'expected s3://bucket or s3://bucket/prefix'],
  ['s3://key:secret@mail?region=x', 'expected no credentials in the URL'],
  ['s3://Mail?region=x', 'expected a bucket name'],
  ['s3://m?region=x', 'expected a bucket name'],
  ['s3://mail/a//b?region=x', 'expected a prefix of letters'],
  ['s3://mail/../b?region=x', 'expected a prefix of letters'],
  ['s3://mail/a b?region=x', 'expected a prefix of letters'],
  ['s3://mail', 'expected the parameter region'],
  ['s3://mail?region=EU', 'expected a region such as eu-central-1'],
  ['s3://mail?region=x&tls=off', 'expected the parameters endpoint and region, found tls'],
  ['s3://mail?endpoint=storage.example.net', 'expected endpoint to be https://host:port'],
  ['s3://mail?endpoint=https://storage.example.net/path', 'expected endpoint to be https://host:port'],
  ['s3://mail?endpoint=https://a:b@storage.example.net', 'expected endpoint to be https://host:port'],
  ['s3://mail?endpoint=ftp://storage.example.net', 'expected endpoint to be https://host:port'],
])('%s is refused', (text, words) => {
  expect(() => parseBucketUrl(text)).toThrow(words);
});
