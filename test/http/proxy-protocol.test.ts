/** Whose address counts behind a proxy: by the PROXY protocol, and by the headers that Traefik and Cloudflare send. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { addressInRanges } from '../../src/dns/networks.ts';
import { startHttp, type TestHttp } from '../harness/http.ts';

const ADDRESS = '/example.com/contact';
const BODY = 'email=ann@example.org&message=Hello';
const POST = `POST ${ADDRESS} HTTP/1.1\r\nHost: mail.example.net\r\nAccept: application/json\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: ${BODY.length}\r\nConnection: close\r\n`;

const place = z.object({ server: z.object({ http: z.object({ trusted_proxies: z.array(z.string()) }) }) });

/** `trusted_proxies` of a file in config/proxies. */
function trustedBy(name: string): string[] {
  const text = readFileSync(join(import.meta.dirname, '../../config/proxies', name), 'utf8');
  return place.parse(parse(text)).server.http.trusted_proxies;
}

async function addressesOf(http: TestHttp): Promise<string[]> {
  return (await http.submissions()).map(({ ip }) => ip);
}

describe('the PROXY protocol', () => {
  function behind(proxy_protocol: readonly string[]) {
    return startHttp({ server: { http: { listen: ['127.0.0.1:0'], proxy_protocol } } });
  }

  test.each([
    ['IPv4', 'PROXY TCP4 203.0.113.9 127.0.0.1 4711 80\r\n', '203.0.113.9'],
    ['IPv6', 'PROXY TCP6 2001:db8::9 2001:db8::1 4711 80\r\n', '2001:db8::9'],
    ['no client', 'PROXY UNKNOWN\r\n', '127.0.0.1'],
  ])('of a listed peer says who the client is: %s', async (_, header, client) => {
    const http = await behind(['127.0.0.1']);
    expect(await http.raw(`${header}${POST}\r\n${BODY}`)).toMatch(/^HTTP\/1\.1 200/);
    expect(await addressesOf(http)).toEqual([client]);
  });

  test('in pieces', async () => {
    const http = await behind(['127.0.0.1']);
    const rest = `3 127.0.0.1 4711 80\r\n${POST}\r\n${BODY}`;
    const answer = http.raw('PROXY TCP4 203.0.113.', (socket) => void setTimeout(() => socket.write(rest), 20));
    expect(await answer).toMatch(/^HTTP\/1\.1 200/);
    expect(await addressesOf(http)).toEqual(['203.0.113.3']);
  });

  test('the client that it names is not a proxy that is trusted', async () => {
    const http = await startHttp({
      server: { http: { listen: ['127.0.0.1:0'], proxy_protocol: ['127.0.0.1'], trusted_proxies: ['127.0.0.1'] } },
    });
    const claim = 'X-Forwarded-For: 198.51.100.1\r\n';
    await http.raw(`PROXY TCP4 203.0.113.9 127.0.0.1 4711 80\r\n${POST}${claim}\r\n${BODY}`);
    expect(await addressesOf(http)).toEqual(['203.0.113.9']);
  });

  test('who is not listed is not believed, and who is has to say it', async () => {
    const open = await behind([]);
    expect(await open.raw(`PROXY TCP4 203.0.113.9 127.0.0.1 4711 80\r\n${POST}\r\n${BODY}`)).toMatch(/^HTTP\/1\.1 400/);
    const listed = await behind(['127.0.0.1']);
    expect(await listed.raw(`${POST}\r\n${BODY}`)).toBe('');
    expect(await listed.raw(`PROXY TCP4 ${'9'.repeat(200)}`)).toBe('');
    expect(await listed.raw('PROXY TCP4 mail.example.net 127.0.0.1 4711 80\r\n')).toBe('');
    expect([...(await addressesOf(open)), ...(await addressesOf(listed))]).toEqual([]);
  });
});

describe('the headers of', () => {
  test.each([
    [
      'Traefik, which replaces what a client claims',
      'server.yml',
      {
        'X-Forwarded-For': '203.0.113.9',
        'X-Forwarded-Host': 'mail.example.net',
        'X-Forwarded-Port': '443',
        'X-Forwarded-Proto': 'https',
        'X-Forwarded-Server': 'traefik',
        'X-Real-Ip': '203.0.113.9',
      },
    ],
    [
      'Cloudflare, which appends to what a client claims',
      'cloudflare.yml',
      {
        'X-Forwarded-For': '198.51.100.1, 203.0.113.9',
        'CF-Connecting-IP': '203.0.113.9',
        'CF-Visitor': '{"scheme":"https"}',
        'X-Forwarded-Proto': 'https',
      },
    ],
  ])('%s, lead to the visitor', async (_, name, headers) => {
    // The peer of the test is on loopback.
    const trusted_proxies = [...trustedBy(name), '127.0.0.1'];
    const http = await startHttp({ server: { http: { listen: ['127.0.0.1:0'], trusted_proxies } } });
    const lines = Object.entries(headers).map(([key, value]) => `${key}: ${value}\r\n`);
    expect(await http.raw(`${POST}${lines.join('')}\r\n${BODY}`)).toMatch(/^HTTP\/1\.1 200/);
    expect(await addressesOf(http)).toEqual(['203.0.113.9']);
  });

  test('Cloudflare are believed from its servers alone', () => {
    const trusted = trustedBy('cloudflare.yml');
    expect(['173.245.48.9', '104.27.255.254', '2606:4700::6810:1'].map((ip) => addressInRanges(ip, trusted))).toEqual([
      true,
      true,
      true,
    ]);
    expect(['203.0.113.9', '104.28.0.1', '2001:db8::9'].some((ip) => addressInRanges(ip, trusted))).toBe(false);
  });
});
