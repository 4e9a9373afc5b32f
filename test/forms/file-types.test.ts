import { expect, test } from 'vitest';
import { isOfTypes, mediaTypeOf, signatureOf, type Signature } from '../../src/forms/file-types.ts';

const latin1 = (text: string) => Buffer.from(text, 'latin1');
const box = (brand: string, more = '') => `\0\0\0\x18ftyp${brand}\0\0\0\0${more}`;
const zip = (...names: string[]) =>
  names
    .map(
      (name) =>
        `PK\x03\x04\x14\0\0\0\x08\0\0\0!\0\0\0\0\0\0\0\0\0\0\0\0\0${String.fromCharCode(name.length)}\0\0\0${name}`,
    )
    .join('data');

const FILES: Record<string, readonly [string, Signature | undefined]> = {
  pdf: ['%PDF-1.7\n%\xe2\xe3\xcf\xd3', 'pdf'],
  'pdf after a line': ['\r\n%PDF-1.4', 'pdf'],
  jpeg: ['\xff\xd8\xff\xe0\0\x10JFIF\0', 'jpeg'],
  png: ['\x89PNG\r\n\x1a\n\0\0\0\rIHDR', 'png'],
  gif: ['GIF89a\x01\0\x01\0', 'gif'],
  webp: ['RIFF\x24\0\0\0WEBPVP8 ', 'webp'],
  heic: [box('heic', 'mif1heic'), 'heif'],
  'heif with a general brand': [box('mif1', 'mif1heic'), 'heif'],
  avif: [box('avif', 'avifmif1'), 'avif'],
  mp4: [box('isom', 'isomavc1'), 'mp4'],
  mov: [box('qt  '), 'quicktime'],
  'old mov': ['\0\0\0\x08wide\0\0\0\0mdat', 'quicktime'],
  mp3: ['ID3\x04\0\0\0', 'mp3'],
  'mp3 without tags': ['\xff\xfb\x90\x64\0', 'mp3'],
  zip: [zip('photo.jpg'), 'zip'],
  'empty zip': ['PK\x05\x06' + '\0'.repeat(18), 'zip'],
  docx: [zip('[Content_Types].xml', '_rels/.rels', 'word/document.xml'), 'word'],
  xlsx: [zip('_rels/.rels', 'docProps/core.xml', 'xl/workbook.xml'), 'excel'],
  pptx: [zip('[Content_Types].xml', 'ppt/presentation.xml'), 'powerpoint'],
  'office without a kind': [zip('[Content_Types].xml', 'docProps/app.xml'), 'ooxml'],
  odt: [`${zip('mimetype')}application/vnd.oasis.opendocument.text`, 'opendocument'],
  doc: ['\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1', 'ole'],
  svg: ['<?xml version="1.0"?>\n<!-- a - b -->\n<svg xmlns="http://www.w3.org/2000/svg">', 'svg'],
  text: ['Dear all,\r\n\tGr\xfc\xdfe', 'text'],
  'UTF-16': ['\xff\xfeH\0i\0', 'text'],
  'Windows program': ['MZ\x90\0\x03', 'executable'],
  'Linux program': ['\x7fELF\x02\x01', 'executable'],
  'nothing known': ['\0\x01\x02\x03', undefined],
};

test.each(Object.entries(FILES))('%s', (_, [bytes, expected]) => {
  expect(signatureOf(latin1(bytes))).toBe(expected);
});

test.each<[file: string, sent: string, signature: Signature | undefined, types: string[], taken: boolean]>([
  ['IMG_1.HEIC', 'application/octet-stream', 'heif', ['image/*'], true],
  ['IMG_1.HEIC', '', 'heif', ['image/heic'], true],
  ['blob', 'image/png', 'png', ['image/*'], true],
  // A program that is called a photo, and a photo that is called a program.
  ['photo.jpg', 'image/jpeg', 'executable', ['image/*'], false],
  ['photo.jpg', 'image/jpeg', 'executable', ['.jpg'], false],
  ['photo.exe', 'image/jpeg', 'jpeg', ['image/*'], false],
  ['photo.jpg', 'image/jpeg', 'text', ['image/*', '.jpg'], false],
  ['photo.jpg', 'image/jpeg', undefined, ['image/*', '.jpg'], false],
  // Cameras and messengers mix these up.
  ['photo.jpg', 'image/jpeg', 'webp', ['image/*'], true],
  ['photo.jpg', 'image/jpeg', 'webp', ['.jpg'], false],
  ['cv.pdf', 'application/pdf', 'pdf', ['application/pdf'], true],
  ['cv.PDF', 'application/octet-stream', 'pdf', ['pdf'], true],
  ['cv.pdf', 'application/pdf', 'zip', ['application/pdf', '.pdf'], false],
  ['cv.docx', 'application/octet-stream', 'word', ['.docx'], true],
  ['cv.docx', 'x/y', 'ooxml', ['application/vnd.openxmlformats-officedocument.wordprocessingml.document'], true],
  ['cv.docx', 'application/zip', 'word', ['application/zip'], false],
  ['parts.zip', 'application/zip', 'word', ['.zip'], true],
  ['list.xls', 'application/vnd.ms-excel', 'ole', ['application/vnd.ms-excel'], true],
  ['list.csv', 'application/vnd.ms-excel', 'text', ['text/csv'], true],
  ['notes.txt', 'text/plain', 'text', ['text/*'], true],
  ['notes.txt', 'text/plain', 'executable', ['.txt'], false],
  ['run.js', 'text/plain', 'text', ['text/plain'], false],
  ['logo.svg', 'image/svg+xml', 'svg', ['image/*'], true],
  ['page.html', 'text/html', 'text', ['image/*'], false],
  // Formats that the table does not know.
  ['part.step', 'model/step', 'text', ['.step', 'model/step'], true],
  ['part.step', 'model/step', undefined, ['model/*'], true],
  ['part.step', 'model/step', 'executable', ['.step', 'model/step'], false],
  ['raw.cr2', 'image/x-canon-cr2', 'tiff', ['image/*'], true],
])('%s, sent as %s, showing %s, for %s: %s', (filename, contentType, signature, types, taken) => {
  expect(isOfTypes({ filename, contentType, signature }, types)).toBe(taken);
});

test.each<[file: string, sent: string, signature: Signature | undefined, type: string]>([
  ['IMG_1.HEIC', 'application/octet-stream', 'heif', 'image/heic'],
  ['photo.jpg', 'text/html', 'jpeg', 'image/jpeg'],
  ['list.csv', 'application/vnd.ms-excel', 'text', 'text/csv'],
  ['data.ndjson', 'application/x-ndjson', 'text', 'application/x-ndjson'],
  ['a.bin', 'application/octet-stream', undefined, 'application/octet-stream'],
  [
    'cv.docx',
    'application/octet-stream',
    'word',
    'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
  ],
])('the media type of %s, sent as %s, showing %s, is %s', (filename, contentType, signature, type) => {
  expect(mediaTypeOf({ filename, contentType, signature })).toBe(type);
});
