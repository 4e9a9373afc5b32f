import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { colorRules } from '../../src/http/pages/brand.ts';
import { startHttp } from '../harness/http.ts';

const ADDRESS = '/example.com/contact';
const NAVIGATION = { Origin: 'https://www.example.com', 'Sec-Fetch-Mode': 'navigate' };
const PNG = `data:image/png;base64,${Buffer.from('89504e470d0a1a0a00', 'hex').toString('base64')}`;
const THEME = { title: 'Café <Ada>', message: 'Call us:\n+49 30 1234', color: '#ffcc00', logo: PNG };

function fields(entries: Readonly<Record<string, string>>): URLSearchParams {
  return new URLSearchParams(entries);
}

describe('a theme', () => {
  test('shows whose page it is, on the page of thanks and of errors, and fetches nothing', async () => {
    const http = await startHttp({ forms: { contact: { theme: THEME, required: ['name'] } } });
    const refused = await http.request(ADDRESS, { body: fields({ email: 'a@example.org' }), headers: NAVIGATION });
    const thanks = await http.request(`${ADDRESS}?thanks`, { headers: NAVIGATION });
    const address = await http.request(ADDRESS, { headers: NAVIGATION });
    expect([refused.status, thanks.status, address.status]).toEqual([400, 200, 200]);
    for (const { text, headers } of [refused, thanks, address]) {
      expect(text).toMatch(/<title>[^<]+ – Café &lt;Ada&gt;<\/title>/);
      expect(text).toContain(`<img class="logo" src="${PNG}" alt=""><bdi>Café &lt;Ada&gt;</bdi>`);
      expect(text).toContain('<p>Call us:</p><p>+49 30 1234</p>');
      expect(text).toContain('--button:#ffcc00;--button-text:#000000');
      expect(headers['content-security-policy']).toMatch(
        /^default-src 'none'; style-src 'sha256-[^']+'; img-src data:;/,
      );
    }
  });

  test('without a logo a page shows no image, and no browser asks for an icon', async () => {
    const http = await startHttp({ forms: { contact: {} } });
    const { headers, text } = await http.request(`${ADDRESS}?thanks`, { headers: NAVIGATION });
    expect(headers['content-security-policy']).toContain('; img-src data:;');
    expect(text).not.toContain('<img');
    expect(text).toContain('<link rel="icon" href="data:,">');
    expect(text).toContain('<bdi>example.com</bdi>');
  });

  test('of any color leaves every text readable, in light and in dark', () => {
    const channel = fc.integer({ min: 0, max: 255 });
    fc.assert(
      fc.property(fc.tuple(channel, channel, channel), (rgb) => {
        const rules = colorRules(`#${rgb.map((part) => part.toString(16).padStart(2, '0')).join('')}`);
        const [light = '', dark = ''] = Array.from(rules.matchAll(/--accent:(#\w{6})/g), ([, color]) => color);
        const [, button = '', text = ''] = /--button:(#\w{6});--button-text:(#\w{6})/.exec(rules) ?? [];
        expect(contrast(button, text)).toBeGreaterThanOrEqual(4.5);
        for (const page of ['#f4f5f7', '#ffffff']) expect(contrast(light, page)).toBeGreaterThanOrEqual(4.5);
        for (const page of ['#12151b', '#1b2028']) expect(contrast(dark, page)).toBeGreaterThanOrEqual(4.5);
      }),
    );
  });
});

/** WCAG 2.2, contrast ratio. */
function contrast(a: string, b: string): number {
  const [dark = 0, light = 0] = [luminance(a), luminance(b)].toSorted((x, y) => x - y);
  return (light + 0.05) / (dark + 0.05);
}

function luminance(color: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => {
    const part = Number.parseInt(color.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

describe('a visitor is answered', () => {
  test.each([
    ['de-AT,de;q=0.9', 'de', 'ltr', 'Bitte füllen Sie „Nachricht“ aus.'],
    ['ar', 'ar', 'rtl', 'يُرجى ملء «\u2068الرسالة\u2069».'],
    ['ja', 'ja', 'ltr', '「メッセージ」を入力してください。'],
    ['xx', 'en', 'ltr', 'Please fill in “Message”.'],
  ])('who asks for %s in %s', async (accepted, language, direction, message) => {
    const http = await startHttp({ forms: { contact: { required: ['message'] } } });
    const headers = { ...NAVIGATION, 'Accept-Language': accepted };
    const page = await http.request(ADDRESS, { body: fields({ email: 'a@example.org' }), headers });
    expect(page.text).toContain(`<html lang="${language}" dir="${direction}">`);
    expect(page.text).toContain(message);
    expect(page.headers).toMatchObject({ 'content-language': language, vary: 'Origin, Accept-Language' });
    const script = { ...headers, 'Sec-Fetch-Mode': 'cors' };
    const json = await http.request(ADDRESS, { body: fields({ email: 'a@example.org' }), headers: script });
    expect(json.headers).toMatchObject({ 'content-language': language, vary: 'Origin, Accept-Language' });
    expect(json.json()).toMatchObject({
      message,
      errors: [{ field: 'message', code: 'REQUIRED_FIELD_MISSING', message }],
    });
  });

  test('in the language of the form, whatever the browser asks for', async () => {
    const http = await startHttp({ forms: { contact: { theme: { language: 'he' } } } });
    const headers = { ...NAVIGATION, 'Accept-Language': 'de' };
    const { text } = await http.request(`${ADDRESS}?thanks`, { headers });
    expect(text).toContain('<html lang="he" dir="rtl">');
    const script = { ...headers, 'Sec-Fetch-Mode': 'cors' };
    const { json } = await http.request(ADDRESS, { body: fields({ message: 'Hello' }), headers: script });
    expect(json()).toMatchObject({ success: true, message: 'ההודעה נשלחה.' });
  });

  test('and reads what only the owner of the site can use in English, apart from the rest', async () => {
    const http = await startHttp({ forms: { contact: {} } });
    const headers = { 'Accept-Language': 'fr', Origin: 'https://evil.example' };
    const page = await http.request(ADDRESS, {
      body: fields({ a: 'b' }),
      headers: { ...headers, 'Sec-Fetch-Mode': 'navigate' },
    });
    expect(page.text).toContain('<p>Ce formulaire ne peut pas être utilisé depuis cette page.</p>');
    expect(page.text).toMatch(
      /<details>\n<summary>Pour le propriétaire du site<\/summary>\n<p lang="en" dir="ltr">[^<]*allowed_origins/,
    );
    const { json } = await http.request(ADDRESS, {
      body: fields({ a: 'b' }),
      headers: { ...headers, 'Sec-Fetch-Mode': 'cors' },
    });
    expect(json()['message']).toMatch(/^Ce formulaire .+ \(Pages on https:\/\/evil\.example .+\)$/);
  });
});
