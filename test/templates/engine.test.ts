import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { builtinTemplates, checkTemplates, compileTemplates } from '../../src/templates/engine.ts';
import { TemplateError, TemplateRenderError, type TemplateSource } from '../../src/templates/template.ts';

const NOON = Date.UTC(2026, 0, 5, 11);

function source(parts: Partial<TemplateSource>): TemplateSource {
  return { type: 'form', variables: {}, ...parts };
}

function html(body: string, variables: Record<string, unknown> = {}): string {
  return compileTemplates({ t: source({ html: body }) }).render('t', variables).html ?? '';
}

function text(body: string, variables: Record<string, unknown> = {}, timezone?: string): string {
  return compileTemplates({ t: source({ text: body }) }, timezone).render('t', variables).text;
}

describe("the specification's syntax", () => {
  const form = { name: 'Ada', message: 'one\ntwo', company: '', list: ['a', 'b'] };
  test.each([
    ['{{ form.name }}', 'Ada'],
    ['{{ domain }}', 'example.com'],
    ['{{ form.none }}', ''],
    ["{{ form.company || 'none' }}", 'none'],
    ["{{ form.none || form.company || 'third' }}", 'third'],
    ["{{ form.name || 'x' }}", 'Ada'],
    ["{{ form.company || 'ada l' | upcase }}", 'ADA L'],
    ["{{ zero || 'x' }}", '0'],
    ["{{ empty_list || 'x' }}", 'x'],
    ['{{ "it\'s | a || b" }}', "it's | a || b"],
    ['{% if form.company %}yes{% else %}no{% endif %}', 'no'],
    ['{% if form.name %}yes{% endif %}', 'yes'],
    ["{% if form.none || form.name == 'Ada' %}yes{% endif %}", 'yes'],
    ["{% assign who = form.none || 'you' %}{{ who }}", 'you'],
    ['{{ form.list }}', 'a, b'],
    ["{{ form.list | join: '+' }}", 'a+b'],
    ["{{ timestamp | date: '%Y-%m-%d %H:%M' }}", '2026-01-05 11:00'],
    ['{{ timestamp }}', '2026-01-05 11:00:00 +00:00'],
    ['{{ form }}', '{"name":"Ada","message":"one\\ntwo","company":"","list":["a","b"]}'],
  ])('%s', (template, expected) => {
    expect(text(template, { form, domain: 'example.com', timestamp: NOON, zero: 0, empty_list: [] })).toBe(expected);
  });

  test("a template's variables stand below what is given", () => {
    const set = compileTemplates({ t: source({ text: '{{ a }} {{ b }} {{ c }}', variables: { a: 1, b: 2, c: 3 } }) });
    expect(set.render('t', { a: 'given', b: undefined }).text).toBe('given 2 3');
  });

  test('the subject is one line of at most 500 characters, whatever was submitted', () => {
    const set = compileTemplates({ t: source({ subject: 'From\n{{ form.name }}', text: 'x' }) });
    const subject = set.render('t', { form: { name: 'a\r\nBcc: x@example.org\0\u2028\u0085b' } }).subject;
    expect(subject).toBe('From a Bcc: x@example.org b');
    const long = set.render('t', { form: { name: '😀'.repeat(10_000) } }).subject ?? '';
    expect(long.length).toBeLessThanOrEqual(500);
    expect(long.isWellFormed()).toBe(true);
  });

  test('a line is rendered like a subject', () => {
    const set = compileTemplates({});
    expect(set.line('New: {{ form.name | upcase }} <b>', { form: { name: "O'Neil\n&" } })).toBe("New: O'NEIL & <b>");
    expect(set.line('  plain\n', {})).toBe('plain');
    expect(() => set.line('{{ x', {})).toThrow(TemplateRenderError);
  });

  test('a field may have the name of a property of every object', () => {
    const form: unknown = JSON.parse('{"__proto__":"p","constructor":"c","toString":"t","size":"s","first":"f"}');
    const names = '{{ form.__proto__ }}{{ form.constructor }}{{ form.toString }}{{ form.size }}{{ form.first }}';
    expect(text(names, { form })).toBe('pctsf');
    expect(text(names.replace('{{ form.size }}', ''), { form: {} })).toBe('');
    expect(text('{{ constructor }}{{ __proto__ }}{{ toString }}{{ form.constructor.name }}', { form: {} })).toBe('');
    const polluted = JSON.parse('{"__proto__":{"admin":"yes"}}') as Record<string, unknown>;
    expect(text('{{ admin }}', polluted)).toBe('');
  });

  test('what was submitted is data and never a template', () => {
    expect(text('{{ form.x }}', { form: { x: "{{ ip }}{% render 't' %}" }, ip: '192.0.2.1' })).toBe(
      "{{ ip }}{% render 't' %}",
    );
  });
});

describe('parts', () => {
  test('only text: text alone', () => {
    expect(compileTemplates({ t: source({ text: 'x' }) }).render('t', {})).toEqual({ text: 'x' });
  });

  test('only HTML: the text is made from it', () => {
    const rendered = compileTemplates({ t: source({ html: '<p>Hi {{ n }}</p><p>b</p>' }) }).render('t', { n: '<A&B>' });
    expect(rendered).toEqual({ html: '<p>Hi &lt;A&amp;B&gt;</p><p>b</p>', text: 'Hi <A&B>\n\nb' });
  });

  test('only a subject: the built-in bodies of its type', () => {
    const set = compileTemplates({ t: source({ type: 'acknowledgment', subject: 'Got it' }) });
    const builtin = builtinTemplates().acknowledgment({ domain: 'example.com' });
    expect(set.render('t', { domain: 'example.com' })).toEqual({ ...builtin, subject: 'Got it' });
  });

  test('templates render each other by name, HTML in HTML and text in text, and nothing else', () => {
    const set = compileTemplates({
      t: source({ text: "{% render 'foot', n: n %}", html: "<p>{% include 'foot' %}</p>" }),
      foot: source({ text: 'text {{ n }}', html: '<b>{{ n }}</b>' }),
    });
    expect(set.render('t', { n: '<' })).toMatchObject({ text: 'text <', html: '<p><b>&lt;</b></p>' });
    for (const name of ['../../etc/passwd', '/etc/passwd', 'constructor', '__proto__', 'package.json']) {
      expect(() => text('{% render name %}', { name })).toThrow(TemplateRenderError);
    }
  });

  test("the project's default is its own; the built-in one is still there", () => {
    const set = compileTemplates({ default: source({ text: 'mine' }) });
    expect(set.render('default', {}).text).toBe('mine');
    expect(builtinTemplates().form({ form_name: 'Contact' }).text).toContain('New submission: Contact');
    expect(() => set.render('other', {})).toThrow(/template "other".*no such template/);
    expect([set.has('default'), set.has('acknowledgment'), set.has('other')]).toEqual([true, true, false]);
  });
});

describe('HTML is escaped', () => {
  const x = `<script>"a" & 'b'</script>\n2`;
  const escaped = '&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;&lt;/script&gt;';
  test.each([
    ['{{ x }}', `${escaped}\n2`],
    ['{{ x | nl2br }}', `${escaped}<br>\n2`],
    ['{{ x | newline_to_br }}', `${escaped}<br>\n2`],
    ['{{ x | escape }}', `${escaped}\n2`],
    ['{{ x | escape | nl2br }}', `${escaped}<br>\n2`],
    ['{{ x | nl2br | escape }}', `${escaped}<br>\n2`],
    ['{{ none || x | nl2br }}', `${escaped}<br>\n2`],
    ['{{ x | raw }}', x],
    ["{{ '&amp;<' | escape_once }}", '&amp;&lt;'],
    ['{% capture c %}<b>{{ x }}</b>{% endcapture %}{{ c }}', `<b>${escaped}\n2</b>`],
    [
      "{% capture c %}<b>&</b>{% endcapture %}{{ c || 'x' }}{% if c == '<b>&</b>' %}same{% endif %}{{ c.size }}",
      '<b>&</b>same8',
    ],
    ['{% echo x %}', `${escaped}\n2`],
    ['{% cycle x %}', `${escaped}\n2`],
    ['{{ list }}', '&lt;a&gt;, &lt;b&gt;'],
    ['{% for i in list %}{{ i }}{% endfor %}', '&lt;a&gt;&lt;b&gt;'],
  ])('%s', (template, expected) => {
    expect(html(template, { x, list: ['<a>', '<b>'] })).toBe(expected);
  });

  test('what was safe is text again after any other filter', () => {
    const out = html(
      "{{ x | nl2br | upcase }}{{ x | escape | append: '<i>' }}{% capture c %}{{ x }}{% endcapture %}{{ c | upcase }}",
      { x },
    );
    expect(out).not.toMatch(/<(?!br>)/i);
  });

  test('whatever is submitted adds no tag and ends no attribute', () => {
    const set = compileTemplates({
      t: source({
        html: `<p title="{{ x }}" class='{{ x }}'>{{ x }}{{ x | nl2br }}{{ x | strip }}{{ x | date: '%Y' }}{{ x | truncate: 9 }}
          {{ x | split: ',' | join: ';' }}{{ x | json }}{{ x | escape_once }}{{ x | strip_html }}{{ x || 'y' }}
          {% capture c %}{{ x }}{% endcapture %}{{ c }}{{ c | downcase }}{% assign d = x %}{{ d }}</p>`,
      }),
    });
    const hostile = fc.stringMatching(/^(?:[<>"'&\n]|&lt;|&quot;|&amp;lt;|<br>|[a-z,;/=])*$/);
    fc.assert(
      fc.property(hostile, (x) => {
        const out = set.render('t', { x }).html ?? '';
        expect(out.replaceAll('<br>', '').replaceAll(/[^<>"']/g, '')).toBe(`<""''><>`);
      }),
    );
  });

  test('text is not', () => {
    expect(text('{{ x }}{{ x | nl2br }}', { x: "<'&\n>" })).toBe("<'&\n><'&\n>");
  });
});

describe('date and time', () => {
  test.each([
    ['Europe/Berlin', '2026-01-05 12:00:00 +01:00', '12:00 +0100'],
    ['America/St_Johns', '2026-01-05 07:30:00 -03:30', '07:30 -0330'],
    ['Asia/Kathmandu', '2026-01-05 16:45:00 +05:45', '16:45 +0545'],
    ['UTC', '2026-01-05 11:00:00 +00:00', '11:00 +0000'],
  ])('%s', (zone, printed, formatted) => {
    for (const timestamp of [NOON, new Date(NOON), '2026-01-05T11:00:00.000Z']) {
      expect(text('{{ timestamp }}', { timestamp }, zone)).toBe(printed);
      expect(text("{{ timestamp | date: '%H:%M %z' }}", { timestamp }, zone)).toBe(formatted);
    }
  });

  test('summer time follows the moment', () => {
    const template = "{{ timestamp | date: '%-d %B %Y, %H:%M' }}";
    expect(text(template, { timestamp: Date.UTC(2026, 6, 5, 11) }, 'Europe/Berlin')).toBe('5 July 2026, 13:00');
    expect(text(template, { timestamp: Date.UTC(2026, 2, 29, 0, 59) }, 'Europe/Berlin')).toBe('29 March 2026, 01:59');
    expect(text(template, { timestamp: Date.UTC(2026, 2, 29, 1, 0) }, 'Europe/Berlin')).toBe('29 March 2026, 03:00');
  });

  test('reads seconds and other zones, prints what is no moment as it is', () => {
    expect(text("{{ 1767610800 | date: '%H:%M' }}", {}, 'Europe/Berlin')).toBe('12:00');
    expect(text("{{ '2026-01-05T11:00:00Z' | date: '%H:%M', 'Asia/Tokyo' }}", {}, 'Europe/Berlin')).toBe('20:00');
    expect(text("{{ 'soon' | date: '%H:%M' }}{{ none | date: '%H' }}")).toBe('soon');
    expect(text("{{ 'now' | date: '%Y' }}")).toMatch(/^\d{4}$/);
    expect(text('{{ timestamp }}', { timestamp: 'yesterday' })).toBe('yesterday');
  });

  test('a zone that there is not is a mistake of the configuration', () => {
    expect(() => compileTemplates({}, 'Europe/Nowhere')).toThrow(/"Europe\/Nowhere" is not a time zone/);
  });
});

describe('a template beyond its limits', () => {
  test.each([
    ['runs for ever', '{% for i in (1..9000000) %}{% for j in (1..1000) %}{% endfor %}{% endfor %}'],
    ['makes a long list', '{% for i in (1..1000000000) %}x{% endfor %}'],
    ['writes much', `{% for i in (1..100000) %}${'x'.repeat(1000)}{% endfor %}`],
    ['prints much', `{% for i in (1..100000) %}{{ form.x }}{% endfor %}`],
    ['captures much', `{% capture c %}{% for i in (1..100000) %}${'x'.repeat(1000)}{% endfor %}{% endcapture %}`],
    ['doubles', "{% assign s = 'xxxx' %}{% for i in (1..100) %}{% assign s = s | append: s %}{% endfor %}"],
    [
      'escapes again and again',
      '{% assign s = form.x %}{% for i in (1..9999) %}{% capture s %}{{ s }}{{ s }}{% endcapture %}{% endfor %}',
    ],
    ['renders itself', "{% render 't' %}"],
    ['pads a date', "{{ 1 | date: '%999999999Y' }}"],
  ])('that %s fails', (_, body) => {
    const templates = { t: source({ html: body }) };
    const variables = { form: { x: '<'.repeat(1000) } };
    expect(() => compileTemplates(templates).render('t', variables)).toThrow(TemplateRenderError);
  });

  test('is found by the check', () => {
    expect(checkTemplates({ t: source({ text: `ok\n {% render 't' %}` }) })).toEqual([
      { template: 't', part: 'text', line: 2, column: 2, message: expect.stringMatching(/limit|call stack/) },
    ]);
  });

  test('is replaced by the built-in one, which has none and stays small enough to send', () => {
    const fields = Array.from({ length: 200 }, (_, i) => ({
      name: `f${i}`,
      label: `Field ${i}`,
      value: '<\n'.repeat(32_768),
    }));
    const variables = { fields: [{ name: 'x', label: 'Short', value: 'whole' }, ...fields], form_name: 'Contact' };
    for (const rendered of [compileTemplates({}).render('default', variables), builtinTemplates().form(variables)]) {
      expect(rendered.text).toContain('Short\n  whole\n');
      for (const { label } of fields) expect(rendered.text).toContain(`\n${label}\n  <\n`);
      expect(rendered.text).toContain('… [64,232 more characters]');
      expect(rendered.html).toContain('… [64,232 more characters]');
      expect((rendered.html ?? '').length).toBeLessThan(3_000_000);
    }
  });

  test('the built-in one shows four fields of the greatest length whole', () => {
    const value = 'x'.repeat(65_000);
    const fields = ['a', 'b', 'c', 'd'].map((label) => ({ name: label, label, value }));
    const { text: shown } = compileTemplates({}).render('default', { fields, form_name: 'Contact' });
    expect(shown.split(value)).toHaveLength(5);
  });
});

describe('mistakes', () => {
  const bad = {
    first: source({ subject: "{{ 'open", text: "a\nb {{ x | upcase || 'y' }}", html: '{{ x | shout }}' }),
    second: source({ text: "{% if x %}\n{% include 'gone' %}{% endif %}", html: '{% frobnicate %}' }),
    third: source({ text: '{{ a && b }}' }),
    fine: source({ text: 'x' }),
  };

  test('are all found at once, with their places', () => {
    expect(checkTemplates(bad)).toEqual([
      { template: 'first', part: 'subject', line: 1, column: 1, message: expect.stringContaining('not closed') },
      {
        template: 'first',
        part: 'text',
        line: 2,
        column: 18,
        message: "expected filter name: the fallback goes before the filters, as in {{ name || 'friend' | upcase }}",
      },
      { template: 'first', part: 'html', line: 1, column: 1, message: 'undefined filter: shout' },
      { template: 'second', part: 'text', line: 2, column: 1, message: 'there is no template "gone" with text' },
      { template: 'second', part: 'html', line: 1, column: 1, message: 'tag "frobnicate" not found' },
      { template: 'third', part: 'text', line: 1, column: 7, message: expect.stringContaining('write "and"') },
    ]);
    expect(checkTemplates({ fine: bad.fine })).toEqual([]);
  });

  test('stop a compilation, the first of them', () => {
    expect(() => compileTemplates(bad)).toThrow(TemplateError);
    expect(() => compileTemplates({ third: bad.third })).toThrow(/^template "third", text, line 1, column 7: /);
    try {
      compileTemplates({ first: source({ text: 'a\n{{' }) });
      expect.unreachable();
    } catch (error) {
      expect(error).toMatchObject({ fault: { template: 'first', part: 'text', line: 2, column: 1 } });
    }
  });

  test('a failure while rendering names its place and cause', () => {
    try {
      text('ok\n{% if true %}{{ x | url_decode }}{% endif %}', { x: '%' });
      expect.unreachable();
    } catch (error) {
      expect(error).toMatchObject({
        fault: { template: 't', part: 'text', line: 2, column: 14 },
        cause: expect.any(Error),
      });
    }
  });

  test('a template that is too long is refused', () => {
    expect(checkTemplates({ t: source({ text: 'x'.repeat((1 << 20) + 1) }) })).toHaveLength(1);
  });
});
