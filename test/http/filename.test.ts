import { expect, test } from 'vitest';
import { filenameOf } from '../../src/http/multipart.ts';

const utf8 = (text: string) => Buffer.from(text).toString('latin1');
const WINDOWS = new TextDecoder('windows-1252', { fatal: true });
const UTF8 = new TextDecoder('utf-8', { fatal: true });

test.each([
  ['raw UTF-8', utf8('履歴書.pdf'), '履歴書.pdf'],
  ['right to left', utf8('السيرة الذاتية.pdf'), 'السيرة الذاتية.pdf'],
  ['Latin-1', 'Gr\xfc\xdfe.txt', 'Grüße.txt'],
  ['encoded words', '=?UTF-8?B?R3LDvMOfZS50eHQ=?=', 'Grüße.txt'],
  ['encoded twice', utf8(utf8('Größe.txt')), 'Größe.txt'],
  ['encoded twice by way of Windows-1252', utf8('RÃ©sumÃ© â€“ 1.pdf'), 'Résumé – 1.pdf'],
  ['decomposed, as on a Mac', utf8('Mu\u0308ller.pdf'), 'Müller.pdf'],
  ['a direction override', utf8('photo\u202egpj.exe'), 'photogpj.exe'],
  ['a joiner that Persian needs', utf8('می\u200cخواهم.pdf'), 'می\u200cخواهم.pdf'],
  ['control characters', 'a\0b\x1b[31m\x7f.txt', 'ab[31m.txt'],
  ['escaped line ends and quotes', 'a%0D%0AX: y%22.txt', 'aX: y".txt'],
  ['a path', '../../etc/passwd', 'passwd'],
  ['a path of Windows', 'C:\\fakepath\\cv.pdf', 'cv.pdf'],
  ['nothing', '..', 'file'],
  ['a long name', `${'x'.repeat(400)}.docx`, `${'x'.repeat(195)}.docx`],
])('%s', (_, binary, expected) => {
  expect(filenameOf(binary, WINDOWS)).toBe(expected);
  expect(filenameOf(binary, UTF8)).toBe(expected);
});
