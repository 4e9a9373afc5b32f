import { expect, test } from 'vitest';
import { newId } from '../../src/lib/ids.ts';
import { insertInboundLog } from '../../src/store/inbound.ts';
import type { InboundLogRow } from '../../src/store/tables.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { testClock } from '../harness/clock.ts';
import { startHttp, type TestHttp } from '../harness/http.ts';
import { runOperator } from '../harness/terminal.ts';

const SAID = {
  ip: '192.0.2.7',
  helo: 'mx.sender.example',
  sender: 'ann@sender.example',
  recipient: 'hello@example.com',
  tenant: OPERATOR,
  domain: 'example.com',
  outcome: 'accepted',
  reply: '250 2.0.0 taken',
  reason: 'forward',
  inbound: null,
} as const;
const REFUSED = { ...SAID, outcome: 'rejected' } as const;

function said(row: Omit<InboundLogRow, 'id' | 'created_at'>, at: number) {
  return insertInboundLog({ ...row, id: newId('inl', at), created_at: at });
}

/** Three entries, a day apart. */
async function fill(): Promise<TestHttp> {
  const clock = testClock();
  const http = await startHttp({ clock });
  const now = clock.now();
  const nobodys = { tenant: null, domain: null, recipient: 'a%b@else.example' };
  await http.store.write([
    said({ ...SAID, inbound: 'inb_1' }, now),
    said(
      { ...REFUSED, recipient: 'nope@example.com', reply: '550 5.1.1 no such address', reason: 'unknown_recipient' },
      now + 86_400_000,
    ),
    said(
      { ...REFUSED, ...nobodys, sender: '', reply: '550 5.7.1 relaying denied', reason: 'relay_denied' },
      now + 2 * 86_400_000,
    ),
  ]);
  return http;
}

async function list(http: TestHttp, query: string) {
  const answer = (await http.request(`/v1/admin/inbound${query}`, { local: true })).json();
  const { inbound } = answer as { inbound: { reason: string }[] };
  return { ...answer, reasons: inbound.map(({ reason }) => reason) };
}

test('every refusal is shown with its reason, newest first, in pages', async () => {
  const http = await fill();
  const first = await list(http, '?limit=2');
  expect(first).toMatchObject({
    count: 3,
    inbound: [
      { outcome: 'rejected', reason: 'relay_denied', recipient: 'a%b@else.example', tenant: null, domain: null },
      {
        at: '2026-01-02T00:00:00.000Z',
        tenant: OPERATOR,
        domain: 'example.com',
        ip: '192.0.2.7',
        helo: 'mx.sender.example',
        sender: 'ann@sender.example',
        recipient: 'nope@example.com',
        outcome: 'rejected',
        reply: '550 5.1.1 no such address',
        reason: 'unknown_recipient',
        inbound: null,
      },
    ],
  });
  const rest = await list(http, `?limit=2&cursor=${String(first['next_cursor' as keyof typeof first])}`);
  expect(rest).toMatchObject({ reasons: ['forward'], count: 3, next_cursor: null, inbound: [{ inbound: 'inb_1' }] });
});

test.each([
  ['?outcome=accepted', ['forward']],
  ['?outcome=rejected&domain=EXAMPLE.com', ['unknown_recipient']],
  ['?reason=relay_denied', ['relay_denied']],
  ['?from=2026-01-02', ['relay_denied', 'unknown_recipient']],
  ['?from=2026-01-02&to=2026-01-02', ['unknown_recipient']],
  ['?to=2026-01-02T00:00:00Z', ['forward']],
])('%s narrows the list and its count', async (query, reasons) => {
  const http = await fill();
  expect(await list(http, query)).toMatchObject({ reasons, count: reasons.length });
});

test.each(['outcome=lost', 'reason=UP', 'domain=x%20y', 'from=yesterday', 'cursor=x'])(
  '?%s is refused by name',
  async (query) => {
    const http = await startHttp();
    const answer = await http.request(`/admin/inbound?${query}`, { local: true });
    expect([answer.status, answer.json()]).toEqual([
      400,
      expect.objectContaining({ details: [{ path: query.split('=')[0], message: expect.any(String) }] }),
    ]);
  },
);

test('postern inbound list shows a line for each, or the daemon’s JSON', async () => {
  const http = await fill();
  const list = (...args: string[]) => runOperator(http.socket, ['inbound', 'list', ...args]);
  const shown = await list('--outcome', 'rejected', '--limit', '1');
  expect(shown.code).toBe(0);
  expect(shown.out.split('\n')).toEqual([
    expect.stringMatching(/^AT +OUTCOME +REASON +FROM +SENDER +RECIPIENT +REPLY$/),
    '2026-01-03T00:00:00Z  rejected  relay_denied  192.0.2.7  <>      a%b@else.example  550 5.7.1 relaying denied',
    expect.stringMatching(/^1 of 2; for more, add --cursor inl_/),
    '',
  ]);
  expect(JSON.parse((await list('--domain', 'example.com', '--json')).out)).toMatchObject({ count: 2 });
  expect(await list('--reason', 'dmarc')).toEqual({ code: 0, out: 'No matching mail.\n', err: '' });
  expect(await list('--reason', 'NO REASON')).toMatchObject({ code: 1, err: expect.stringMatching(/^reason /) });
});
