/** docs/webhooks.md says what the code does. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { bodyOf } from '../../src/events/event-body.ts';
import { WEBHOOK_RETRY_MS } from '../../src/queue/retry.ts';
import { PUBLIC_EVENTS } from '../../src/lib/event-types.ts';

const text = readFileSync(join(import.meta.dirname, '../../docs/webhooks.md'), 'utf8');

interface Example {
  readonly type: string;
  readonly timestamp: string;
  readonly data: Record<string, unknown>;
}

const examples = Array.from(text.matchAll(/```json\n([^]*?)```/g), ([, json = '']) => JSON.parse(json) as Example);

test('every kind of event is named, and no other has an example', () => {
  expect(PUBLIC_EVENTS.filter((type) => !text.includes(`"${type}"`) && !text.includes(`\`${type}\``))).toEqual([]);
  expect(examples.filter(({ type }) => !PUBLIC_EVENTS.some((known) => known === type))).toEqual([]);
});

describe('the examples', () => {
  test.each(examples.map((example) => [example.type, example] as const))('%s', (_type, example) => {
    const { event: id, submission, message, domain, form, fields, files, id: sent, ...data } = example.data;
    const named = (value: unknown) => (typeof value === 'string' ? value : null);
    const row = {
      id: String(id),
      tenant: 'ten_1',
      type: example.type,
      data: JSON.stringify(data),
      form: named(form),
      submission: named(submission),
      message: named(message),
      domain: named(domain),
      request: null,
      created_at: Date.parse(example.timestamp),
    };
    const content = {
      submission: { id: String(sent), form: String(form), fields: JSON.stringify(Object.entries(fields ?? {})) },
      files: ((files ?? []) as { field: string; filename: string; content_type: string; size: number }[]).map(
        (file, position) => ({ ...file, id: 'fil_1', submission: String(sent), position, unscanned: 0 }),
      ),
    };
    expect(JSON.parse(bodyOf(row, fields === undefined ? undefined : content))).toEqual(example);
  });
});

test('the table of tries', () => {
  const units = { s: 1000, m: 60_000, h: 3_600_000 } as const;
  const rows = Array.from(text.matchAll(/^\| (\d) +\| (at once|(\d+) ([smh])) +\|$/gm), ([, number, , wait, unit]) => [
    Number(number),
    wait === undefined ? 0 : Number(wait) * units[unit as keyof typeof units],
  ]);
  expect(rows).toEqual([0, ...WEBHOOK_RETRY_MS].map((wait, i) => [i + 1, wait]));
});
