/** What the generators send: the form of a small firm's contact page. */
export interface Post {
  readonly contentType: string;
  readonly body: Buffer;
  /** More headers, such as that of a key. */
  readonly headers?: Readonly<Record<string, string>>;
}

const FIELDS = {
  name: 'Ágnes Kovács',
  email: 'agnes.kovacs@customer.test',
  phone: '+36 1 555 0100',
  subject: 'A question about your opening hours',
  message:
    'Good morning,\n\nwe would like to visit on Friday with about ten people. Are you open at nine, and is there ' +
    'somewhere to leave our bicycles? We would also need a room for an hour.\n\nKind regards\nÁgnes Kovács\n',
};

/** Five fields, urlencoded. */
export function urlencodedPost(): Post {
  return {
    contentType: 'application/x-www-form-urlencoded',
    body: Buffer.from(new URLSearchParams(FIELDS).toString()),
  };
}

/** A mail for the API to send. */
export function emailPost(headers: Readonly<Record<string, string>>, to = FIELDS.email): Post {
  const { name, message } = FIELDS;
  const mail = {
    from: 'Office <office@forms.test>',
    to: `${name} <${to}>`,
    subject: 'Your reservation',
    text: message,
    html: `<p>${message.replaceAll('\n', '<br>')}</p>`,
  };
  return { contentType: 'application/json', body: Buffer.from(JSON.stringify(mail)), headers };
}

/** The same five fields and a file of 20 KiB. */
export function multipartPost(): Post {
  const boundary = '----bench7MA4YWxkTrZu0gW';
  const parts = Object.entries(FIELDS).map(
    ([name, value]) => `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
  );
  const file =
    `--${boundary}\r\nContent-Disposition: form-data; name="plan"; filename="plan.pdf"\r\n` +
    'Content-Type: application/pdf\r\n\r\n';
  const bytes = Buffer.from('%PDF-1.4\n'.padEnd(20 * 1024, 'stream of a small drawing '));
  return {
    contentType: `multipart/form-data; boundary=${boundary}`,
    body: Buffer.concat([Buffer.from(parts.join('') + file), bytes, Buffer.from(`\r\n--${boundary}--\r\n`)]),
  };
}
