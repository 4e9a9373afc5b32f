/** What the HTML mails look like: their frame, rows and text styles, in the reader's colours, language and direction. */
import type { Translation } from '../languages/languages.ts';
import { escapeHtml } from '../lib/html.ts';

const FONT = "font-family:-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif";
/** Text, muted text, links and hairlines. Classes repeat the colours, so that a dark scheme can replace them. */
const TEXT = 'color:#1c2127';
const MUTED = 'color:#5f6b77';
const LINK = 'color:#2456d6';
const LINE = 'border-top:1px solid #e4e7eb';
const BREAKS = 'word-break:break-word;overflow-wrap:anywhere';

const LABEL = `padding-bottom:3px;font-size:13px;line-height:18px;overflow-wrap:anywhere;${MUTED};${FONT}`;
const VALUE = `font-size:16px;line-height:24px;${BREAKS};${TEXT};${FONT}`;
const SMALL = `font-size:13px;line-height:20px;${BREAKS};${MUTED};${FONT}`;
const TITLE = `padding-bottom:4px;font-size:22px;line-height:30px;font-weight:600;word-break:break-word;${TEXT};${FONT}`;

// Each takes HTML.

export function titleText(content: string): string {
  return written('text', TITLE, content);
}

export function labelText(content: string): string {
  return `<div class="muted" style="${LABEL}">${content}</div>`;
}

/** What somebody wrote, in whatever direction that is read. */
export function valueText(content: string): string {
  return written('text', VALUE, content);
}

/** A line or so stands under its label; a text begins where its own language does. */
function written(classes: string, style: string, content: string): string {
  const LINE_LENGTH = 80;
  const isLine = !content.includes('<br') && content.replaceAll(/<[^>]*>/g, '').length <= LINE_LENGTH;
  return isLine
    ? `<div class="${classes}" style="${style}"><span dir="auto">${content}</span></div>`
    : `<div class="${classes}" dir="auto" style="${style}">${content}</div>`;
}

/** A paragraph in words of ours. */
export function bodyText(content: string): string {
  return `<div class="text" style="${VALUE}">${content}</div>`;
}

export function smallText(content: string): string {
  return `<div class="muted" style="${SMALL}">${content}</div>`;
}

/** Muted text within other text. */
export function muted(content: string): string {
  return `<span class="muted" style="font-size:13px;${MUTED}">${content}</span>`;
}

export function link(url: string, content: string): string {
  return `<a class="link" href="${escapeHtml(url)}" style="${LINK};text-decoration:underline">${content}</a>`;
}

/** A link that is the one thing to do. */
export function buttonLink(url: string, content: string): string {
  return `<div style="padding:20px 0 6px"><a href="${escapeHtml(url)}" style="display:inline-block;padding:12px 24px;border-radius:8px;background-color:#2456d6;color:#ffffff;font-size:16px;line-height:24px;font-weight:600;text-decoration:none;${FONT}">${content}</a></div>`;
}

/** Links beside one another, or below where there is no room: with a gap that leaves nothing at the end of a line. */
export function links(all: readonly string[]): string {
  return all.map((one) => `<span style="display:inline-block;padding:4px 0">${one}</span>`).join('&emsp; ');
}

/** The first row of a mail. */
export function firstRow(content: readonly string[]): string {
  return tableRow('cell', '26px 28px 20px', content);
}

/** A row under a line. */
export function row(content: readonly string[]): string {
  return tableRow('cell line', `14px 28px;${LINE}`, content);
}

/** The last row. */
export function lastRow(content: readonly string[]): string {
  return tableRow('cell line', `16px 28px 22px;${LINE}`, content);
}

function tableRow(classes: string, padding: string, content: readonly string[]): string {
  return `<tr>\n<td class="${classes}" style="padding:${padding}">\n${content.join('\n')}\n</td>\n</tr>`;
}

const DARK: readonly (readonly [name: string, rule: string])[] = [
  ['page', 'background-color:#14171a!important'],
  ['card', 'background-color:#1f2428!important;border-color:#363c43!important'],
  ['text', 'color:#e7eaee!important'],
  ['muted', 'color:#9fa9b4!important'],
  ['line', 'border-color:#363c43!important'],
  ['link', 'color:#86a8ff!important'],
];

/**
 * The frame of the HTML mails: tables and inline styles for Outlook, one column that shrinks on a phone, and dark colours
 * where the reader's program asks for them (Apple Mail; Outlook by the attributes that it sets, in a style of their own
 * because Gmail drops a whole style that it does not understand; Gmail darkens by itself).
 */
export function mailPage(title: string, rows: readonly string[], { language, direction }: Translation): string {
  const [start = '', head = '', body = '', table = '', end = ''] = FRAME;
  // On the table as well: Gmail drops what stands on html and body.
  const attributes = ` lang="${language}" dir="${direction}"`;
  return start + attributes + head + escapeHtml(title) + body + attributes + table + rows.join('\n') + end;
}

const GAP = '\0';
const FRAME = `<!DOCTYPE html>
<html${GAP}>
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width,initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <meta name="supported-color-schemes" content="light dark">
    <meta name="format-detection" content="telephone=no,date=no,address=no">
    <title>${GAP}</title>
    <style>
      :root{color-scheme:light dark;supported-color-schemes:light dark}
      @media (prefers-color-scheme:dark){
        ${DARK.map(([name, rule]) => `.${name}{${rule}}`).join('\n        ')}
      }
      @media (max-width:480px){
        .page{padding:0!important}
        .card{border-width:0!important;border-radius:0!important}
        .cell{padding-left:20px!important;padding-right:20px!important}
      }
    </style>
    <style>
      ${DARK.map(([name, rule]) => `[data-ogsc] .${name},[data-ogsb] .${name}{${rule}}`).join('\n      ')}
    </style>
  </head>
  <body class="page" style="margin:0;padding:0;background-color:#f3f5f7">
    <table class="page" role="presentation" width="100%" cellpadding="0" cellspacing="0" border="0" style="background-color:#f3f5f7">
      <tr>
        <td class="page" align="center" style="padding:24px 12px">
          <!--[if mso]><table role="presentation" width="600" cellpadding="0" cellspacing="0" border="0"><tr><td><![endif]-->
          <table class="card"${GAP} role="presentation" width="100%" cellpadding="0" cellspacing="0" border="0" style="max-width:600px;background-color:#ffffff;border:1px solid #e4e7eb;border-radius:8px;border-collapse:separate;table-layout:fixed;${FONT}">
${GAP}
          </table>
          <!--[if mso]></td></tr></table><![endif]-->
        </td>
      </tr>
    </table>
  </body>
</html>
`
  // What indents the lines here would be an eighth of each mail.
  .replaceAll(/\n +/g, '\n')
  .split(GAP);
