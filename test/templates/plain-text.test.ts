import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { htmlToText } from '../../src/templates/plain-text.ts';

describe('htmlToText', () => {
  test.each([
    ['<p>One</p><p>Two<br>three</p>', 'One\n\nTwo\nthree'],
    ['  a \n b\t<b>c</b> d&nbsp;e ', 'a b c d e'],
    ['<b>a</b><i>b</i>', 'ab'],
    ['<b>a </b><i> b</i>', 'a b'],
    ['<h1>T</h1>text<ul><li>a</li><li>b <b>c</b></li></ul>end', 'T\n\ntext\n\n- a\n- b c\n\nend'],
    ['<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>', 'a b\nc'],
    ['<div>a</div><div>b</div>', 'a\nb'],
    ['a<br><br><br><br><br>b', 'a\n\n\nb'],
    ['<a href="https://example.com/x?a=1&amp;b=2">Here</a> now', 'Here (https://example.com/x?a=1&b=2) now'],
    ['<a href="https://example.com">https://example.com</a>', 'https://example.com'],
    ["<a href='mailto:a@example.com'>a@example.com</a>", 'a@example.com'],
    ['<a href="#top">up</a>', 'up'],
    ['<img alt="a logo" src="x"> b', 'a logo b'],
    ['<html><head><title>No</title><style>p{a:b>c}</style></head><body><p>Yes</p></body></html>', 'Yes'],
    ['<script>if (a < b) "</p>"</script>x', 'x'],
    ['a<!-- <p>no</p> -->b<!--[if mso]><table><tr><td><![endif]-->c<!--[if !mso]><!-->d<!--<![endif]-->', 'abcd'],
    ['<pre>a\n  b</pre>c', 'a\n  b\n\nc'],
    ['&lt;p&gt; &amp;amp; &#39;&quot;&#x20AC;&euro;&unknown;&#0;&#x110000;', '<p> &amp; \'"€€&unknown;&#0;&#x110000;'],
    ['1 < 2 and 3 > 2 & <3', '1 < 2 and 3 > 2 & <3'],
    ['<p title="a > b">x</p>', 'x'],
    ['<P>A</P>', 'A'],
    ['', ''],
    ['a<p', 'a'],
    ['a<p title="', 'a'],
    ['a<!-- b', 'a'],
    ['a<style>b', 'a'],
    ['<!DOCTYPE html><?xml x?>a', 'a'],
  ])('%j', (html, text) => {
    expect(htmlToText(html)).toBe(text);
  });

  test('takes anything, and text that was escaped comes back', () => {
    fc.assert(
      fc.property(
        fc.stringMatching(/^(?:<\/?(?:a|p|li|pre|style|br|!--)|[<>"'=&;\- ab\n]|-->|&lt;|href=)*$/),
        (html) => {
          expect(htmlToText(html)).toBe(htmlToText(html).trim());
          const escaped = html.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
          const words = (text: string): string => text.replaceAll(/\s+/g, ' ').trim();
          expect(htmlToText(`<div>${escaped}</div>`)).toBe(words(html));
        },
      ),
    );
  });

  test.each([
    '<div>',
    '<',
    '<a href="',
    '<!--',
    '<style>',
    '<p title=\'"',
    '&',
    '<td>',
    '<br>',
    ' <b',
    '<a href=x ',
    '<pre>',
  ])('is linear on half a million of %j', (piece) => {
    // A quadratic one takes minutes.
    expect(htmlToText(piece.repeat(500_000)).length).toBeLessThanOrEqual(piece.length * 500_000);
  });
});
