/** The mail that the references send for a post: text and HTML, of the size that our built-in template makes of it. */
export interface Notification {
  readonly from: string;
  readonly to: string;
  readonly replyTo: string;
  readonly subject: string;
  readonly text: string;
  readonly html: string;
}

export function notification(fields: Readonly<Record<string, string>>): Notification {
  const entries = Object.entries(fields);
  return {
    from: 'Contact <forms@forms.test>',
    to: 'office@owner.test',
    replyTo: fields['email'] ?? '',
    subject: 'New message: Contact',
    text: entries.map(([name, value]) => `${name}:\n${value}\n`).join('\n'),
    html: page(entries.map(([name, value]) => row(name, value)).join('\n')),
  };
}

function row(name: string, value: string): string {
  return `<tr><td style="padding:12px 0;border-bottom:1px solid #e5e7eb"><div style="font-size:13px;color:#6b7280">${escape(name)}</div><div style="font-size:15px;line-height:1.5;color:#111827">${escape(value).replaceAll('\n', '<br>\n')}</div></td></tr>`;
}

function page(rows: string): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="color-scheme" content="light dark"><title>New message</title></head>
<body style="margin:0;padding:0;background:#f3f4f6;font-family:-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif">
<table role="presentation" width="100%" cellpadding="0" cellspacing="0"><tr><td align="center" style="padding:24px 12px">
<table role="presentation" width="600" cellpadding="0" cellspacing="0" style="max-width:600px;background:#ffffff;border-radius:8px">
<tr><td style="padding:24px"><h1 style="margin:0;font-size:20px;color:#111827">New message</h1>
<table role="presentation" width="100%" cellpadding="0" cellspacing="0">${rows}</table></td></tr></table>
<p style="font-size:12px;color:#6b7280">Sent by the form Contact on forms.test</p></td></tr></table></body></html>
`;
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
