/** The answer to a visitor. It holds nothing that the visitor wrote: whoever enters a stranger's address can tell them nothing. */
import type { TemplateSource } from '../template.ts';
import { FONT, LINE, MUTED, page, TEXT } from './page.ts';

const REASON = `This is an automatic confirmation. You receive it because your address was entered in a form on {{ domain }}. If that was not you, please ignore it.`;

export function acknowledgmentTemplate(): TemplateSource {
  return {
    type: 'acknowledgment',
    variables: {},
    subject: 'We have received your message',
    text: `Thank you

Your message to {{ domain }} has arrived. There is nothing else that you need to do.

----
${REASON}
`,
    html: page(
      'We have received your message',
      `            <tr>
              <td class="cell" style="padding:28px 28px 24px">
                <div class="text" style="padding-bottom:10px;font-size:22px;line-height:30px;font-weight:600;${TEXT};${FONT}">Thank you</div>
                <div class="text" style="font-size:16px;line-height:24px;${TEXT};${FONT}">Your message to {{ domain }} has arrived. There is nothing else that you need to do.</div>
              </td>
            </tr>
            <tr>
              <td class="cell line" style="padding:16px 28px 22px;${LINE}">
                <div class="muted" style="font-size:13px;line-height:20px;${MUTED};${FONT}">${REASON}</div>
              </td>
            </tr>`,
    ),
  };
}
