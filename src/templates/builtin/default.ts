/** The notification for forms without a template of their own: each field with its label, the files, where it came from. */
import type { TemplateSource } from '../template.ts';
import { FONT, LINE, MUTED, page, TEXT } from './page.ts';

const LABEL = `padding-bottom:3px;font-size:13px;line-height:18px;overflow-wrap:anywhere;${MUTED};${FONT}`;
const VALUE = `font-size:16px;line-height:24px;word-break:break-word;overflow-wrap:anywhere;${TEXT};${FONT}`;
const SMALL = `font-size:13px;line-height:20px;word-break:break-word;overflow-wrap:anywhere;${MUTED};${FONT}`;

function row(label: string, value: string): string {
  return `            <tr>
              <td class="cell line" style="padding:14px 28px;${LINE}">
                <div class="muted" style="${LABEL}">${label}</div>
                <div class="text" dir="auto" style="${VALUE}">${value}</div>
              </td>
            </tr>`;
}

/** Without a subject: the form's, or the visitor's, or the one made from the form's name stands. */
export function defaultTemplate(): TemplateSource {
  return {
    type: 'form',
    variables: {},
    text: `{{ form_name | squish }}: new submission

{% for field in fields %}{{ field.label | squish }}
{{ field.value || '—' | indent }}

{% endfor %}{% if files.size > 0 %}Files
{% for file in files %}  {{ file.filename | squish }} ({{ file.size | filesize }})
{% endfor %}
{% endif %}----
{{ domain }}, {{ timestamp }}
{% if ip %}IP address {{ ip }}
{% endif %}{% if referer %}Page {{ referer | squish }}
{% endif %}`,
    html: page(
      '{{ form_name }}',
      `            <tr>
              <td class="cell" style="padding:26px 28px 20px">
                <div class="muted" style="${LABEL}">New submission</div>
                <div class="text" style="font-size:22px;line-height:30px;font-weight:600;word-break:break-word;${TEXT};${FONT}">{{ form_name }}</div>
              </td>
            </tr>
{%- for field in fields %}
${row('{{ field.label }}', "{{ field.value || '—' | nl2br }}")}
{%- endfor %}
{%- if files.size > 0 %}
${row('Files', '{% for file in files %}{{ file.filename }} <span class="muted" style="font-size:13px;color:#5f6b77">({{ file.size | filesize }})</span>{% unless forloop.last %}<br>{% endunless %}{% endfor %}')}
{%- endif %}
            <tr>
              <td class="cell line" style="padding:16px 28px 22px;${LINE}">
                <div class="muted" style="${SMALL}">{{ form_name }} on {{ domain }}, {{ timestamp }}{% if ip %}<br>IP address {{ ip }}{% endif %}{% if referer %}<br>Page {{ referer }}{% endif %}</div>
              </td>
            </tr>`,
    ),
  };
}
