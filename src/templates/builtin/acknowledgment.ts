/** The answer to a visitor. It holds nothing that the visitor wrote: whoever enters a stranger's address can tell them nothing. */
import { escapeHtml, printable } from '../filters.ts';
import type { Builtin } from '../template.ts';
import { createPage, FONT, LINE, MUTED, TEXT } from './page.ts';

const SUBJECT = 'We have received your message';
const TITLE = `padding-bottom:10px;font-size:22px;line-height:30px;font-weight:600;${TEXT};${FONT}`;

export function acknowledgmentBuiltin(): Builtin {
  const page = createPage();
  return (variables) => {
    const domain = printable(variables['domain']);
    const text = `Thank you\n\n${arrived(domain)}\n\n----\n${reason(domain)}\n`;
    return { subject: SUBJECT, text, html: page(SUBJECT, rows(escapeHtml(domain))) };
  };
}

function arrived(domain: string): string {
  return `Your message to ${domain} has arrived. There is nothing else that you need to do.`;
}

function reason(domain: string): string {
  return `This is an automatic confirmation. You receive it because your address was entered in a form on ${domain}. If that was not you, please ignore it.`;
}

function rows(domain: string): string {
  return `<tr>
<td class="cell" style="padding:28px 28px 24px">
<div class="text" style="${TITLE}">Thank you</div>
<div class="text" style="font-size:16px;line-height:24px;${TEXT};${FONT}">${arrived(domain)}</div>
</td>
</tr>
<tr>
<td class="cell line" style="padding:16px 28px 22px;${LINE}">
<div class="muted" style="font-size:13px;line-height:20px;${MUTED};${FONT}">${reason(domain)}</div>
</td>
</tr>`;
}
