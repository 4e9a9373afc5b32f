/**
 * The frame of the built-in HTML mails: tables and inline styles for Outlook, one column that shrinks on a phone, and dark
 * colours where the reader asks for them (Apple Mail; Outlook by the attributes that it sets, in a style of their own because
 * Gmail drops a whole style that it does not understand; Gmail darkens by itself and keeps these contrasts).
 */

export const FONT = "font-family:-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif";
/** Text, muted text and hairlines. Classes repeat the colours, so that a dark scheme can replace them. */
export const TEXT = 'color:#1c2127';
export const MUTED = 'color:#5f6b77';
export const LINE = 'border-top:1px solid #e4e7eb';

const DARK: readonly (readonly [name: string, rule: string])[] = [
  ['page', 'background-color:#14171a!important'],
  ['card', 'background-color:#1f2428!important;border-color:#363c43!important'],
  ['text', 'color:#e7eaee!important'],
  ['muted', 'color:#9fa9b4!important'],
  ['line', 'border-color:#363c43!important'],
];

/** What makes a document, whose card holds `rows`, table rows; both are HTML. Made once, because most of each mail is this. */
export function createPage(): (title: string, rows: string) => string {
  // Without what indents the lines here, an eighth of each mail.
  const [start = '', middle = '', end = ''] = FRAME.replaceAll(/\n +/g, '\n').split(GAP);
  return (title, rows) => start + title + middle + rows + end;
}

const GAP = '\0';
const FRAME = `<!DOCTYPE html>
<html lang="en">
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
          <table class="card" role="presentation" width="100%" cellpadding="0" cellspacing="0" border="0" style="max-width:600px;background-color:#ffffff;border:1px solid #e4e7eb;border-radius:8px;border-collapse:separate;table-layout:fixed;${FONT}">
${GAP}
          </table>
          <!--[if mso]></td></tr></table><![endif]-->
        </td>
      </tr>
    </table>
  </body>
</html>
`;
