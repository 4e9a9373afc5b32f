import { describe, expect, test } from 'vitest';
import { baseUrlOf, httpPlaces, parseHttpListen, tlsModeOf, type TlsMode } from '../../src/config/schema-server.ts';

test.each([
  ['[::]:80', '[::]:80', false],
  ['[::]:443', '[::]:443', true],
  ['127.0.0.1:8443', '127.0.0.1:8443', false],
  ['https://127.0.0.1:8443', '127.0.0.1:8443', true],
  ['127.0.0.1:1443', '127.0.0.1:1443', false],
])('%s listens on %s, by TLS: %s', (text, address, secure) => {
  expect(parseHttpListen(text)).toEqual({ address, secure });
});

function places(listen: readonly string[], mode: TlsMode, base_url: string | null = null) {
  return { server: { hostname: 'mail.example.net', http: { listen, base_url } }, tls: { mode } };
}

test('without a certificate TLS is spoken nowhere', () => {
  expect(httpPlaces(places(['[::]:80', '[::]:443'], 'off')).map(({ address }) => address)).toEqual(['[::]:80']);
  expect(httpPlaces(places(['[::]:80', '[::]:443'], 'files'))).toHaveLength(2);
});

describe('the world reaches this server', () => {
  test.each([
    [places(['[::]:80', '[::]:443'], 'files'), 'https://mail.example.net'],
    [places(['[::]:80', '[::]:443'], 'off'), 'http://mail.example.net'],
    [places(['[::]:80', 'https://[::]:8443'], 'files'), 'http://mail.example.net'],
    [places(['127.0.0.1:8080'], 'files', 'https://forms.example.net'), 'https://forms.example.net'],
  ])('%o at %s', (config, url) => {
    expect(baseUrlOf(config)).toBe(url);
  });
});

test.each<[string, TlsMode | null, TlsMode]>([
  ['mail.acme-shop.net', null, 'acme'],
  ['mail.acme-shop.net', 'off', 'off'],
  ['mail.internal', 'acme', 'acme'],
  ...['localhost', 'mail', 'mail.test', 'mail.corp.internal', 'mail.local', 'mail.example', 'mail.example.net'].map(
    (name): [string, TlsMode | null, TlsMode] => [name, null, 'off'],
  ),
])('%s with tls.mode %s: %s', (hostname, mode, expected) => {
  expect(tlsModeOf({ server: { hostname }, tls: { mode } })).toBe(expected);
});
