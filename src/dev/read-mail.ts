/** A mail as a person reads it. What cannot be parsed is still a mail: its bytes are shown and the reason said. */
import { type Attachment, type EmailAddress, type ParsedMail, simpleParser } from 'mailparser';
import { messageOf } from '../lib/errors.ts';

export interface ReadMail {
  /** Every header line in order, unfolded, not decoded. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly from: string;
  readonly to: string;
  readonly cc: string;
  readonly replyTo: string;
  readonly subject: string;
  readonly date: string;
  readonly text: string | undefined;
  readonly html: string | undefined;
  readonly attachments: readonly Attachment[];
  /** Why there is nothing but the bytes. */
  readonly problem?: string;
}

/** Attachments are buffered: hand in no more than memory may hold. */
export async function readMail(source: Buffer): Promise<ReadMail> {
  try {
    return described(
      await simpleParser(source, {
        // Each of these turns one body into another, at the mercy of what a stranger nested in it; nobody needs it here.
        skipHtmlToText: true,
        skipTextToHtml: true,
        skipTextLinks: true,
        skipImageLinks: true,
        keepCidLinks: true,
        checksumAlgo: false,
      }),
    );
  } catch (error) {
    return { ...EMPTY, problem: messageOf(error) };
  }
}

const EMPTY: ReadMail = {
  headers: [],
  from: '',
  to: '',
  cc: '',
  replyTo: '',
  subject: '',
  date: '',
  text: undefined,
  html: undefined,
  attachments: [],
};

function described(mail: ParsedMail): ReadMail {
  const headers = mail.headerLines.map(({ line }) => {
    const colon = line.indexOf(':');
    const value = line.slice(colon + 1).replaceAll(/\r?\n(?=[ \t])/g, '');
    return [line.slice(0, colon), value.trim()] as const;
  });
  return {
    headers,
    from: addresses(mail.from),
    to: addresses(mail.to),
    cc: addresses(mail.cc),
    replyTo: addresses(mail.replyTo),
    subject: mail.subject ?? '',
    date: headers.find(([name]) => name.toLowerCase() === 'date')?.[1] ?? '',
    text: mail.text,
    html: mail.html === false ? undefined : mail.html,
    attachments: mail.attachments,
  };
}

function addresses(header: ParsedMail['to']): string {
  return [header ?? []]
    .flat()
    .flatMap(({ value }) => value)
    .map(mailbox)
    .join(', ');
}

/** `Name <address>`; a name that could be taken for an address or a list is in quotation marks. */
function mailbox({ name, address, group }: EmailAddress): string {
  const shown = /[<>@",;:\\]/.test(name) ? JSON.stringify(name) : name;
  if (group !== undefined) return `${shown}: ${group.map(mailbox).join(', ')};`;
  if (address === undefined) return shown;
  return shown === '' ? address : `${shown} <${address}>`;
}
