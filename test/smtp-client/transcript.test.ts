import { expect, test } from 'vitest';
import { joinDialogues, Transcript } from '../../src/smtp-client/wire.ts';

test('a dialogue has a line for each command, each line of a reply, and each note', () => {
  const transcript = new Transcript();
  transcript.note('connecting');
  transcript.said('MAIL FROM:<a@example.com>\r\nRCPT TO:<b@example.com>\r\n');
  transcript.replied(250, ['first', 'second']);
  transcript.replied(354, ['']);
  expect(transcript.take().split('\n')).toEqual([
    '- connecting',
    '> MAIL FROM:<a@example.com>',
    '> RCPT TO:<b@example.com>',
    '< 250-first',
    '< 250 second',
    '< 354',
  ]);
  expect(transcript.take()).toBe('');
});

test('however much is said, what is kept is bounded, and has its beginning and its end', () => {
  const transcript = new Transcript();
  transcript.note('the beginning');
  for (let i = 0; i < 2000; i++) transcript.replied(250, ['x'.repeat(2000)]);
  transcript.replied(550, ['the end']);
  const text = transcript.take();
  expect(text.length).toBeLessThan(6100);
  expect(text).toMatch(/^- the beginning\n[^]*\n- \(lines omitted here\)\n[^]*\n< 550 the end$/);
  expect(joinDialogues([text, text]).length).toBeLessThan(6100);
});
