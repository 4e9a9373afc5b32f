/** Aggregate reports as receivers send them, and the mails that carry them. */
import { crc32, deflateRawSync, gzipSync } from 'node:zlib';

export interface TestRecord {
  readonly source?: string;
  readonly count?: number | string;
  readonly disposition?: string;
  readonly dkim?: string;
  readonly spf?: string;
  readonly from?: string;
  readonly auth?: string;
}

export interface TestReport {
  readonly id?: string;
  readonly domain?: string;
  /** Seconds. */
  readonly begin?: number;
  readonly end?: number;
  readonly records?: readonly TestRecord[];
}

/** Passed for example.test by DKIM and SPF. */
export const AUTH = `<dkim><domain>example.test</domain><selector>s</selector><result>pass</result></dkim>
<spf><domain>bounces.example.test</domain><scope>mfrom</scope><result>pass</result></spf>`;

function recordXml({
  source = '192.0.2.1',
  count = 1,
  disposition = 'none',
  dkim = 'pass',
  spf = 'pass',
  from = 'example.test',
  auth = AUTH,
}: TestRecord): string {
  return `<record><row><source_ip>${source}</source_ip><count>${count}</count>
<policy_evaluated><disposition>${disposition}</disposition><dkim>${dkim}</dkim><spf>${spf}</spf></policy_evaluated></row>
<identifiers><envelope_from>bounces.${from}</envelope_from><header_from>${from}</header_from></identifiers>
<auth_results>${auth}</auth_results></record>`;
}

/** RFC 7489 appendix C. */
export function dmarcXml({
  id = 'r1',
  domain = 'example.test',
  begin = 0,
  end = 86_399,
  records = [{}],
}: TestReport): string {
  return `<?xml version="1.0" encoding="UTF-8" ?>
<feedback><version>1.0</version>
<report_metadata><org_name>Receiver &amp; Co</org_name><email>noreply@receiver.test</email><report_id>${id}</report_id>
<date_range><begin>${begin}</begin><end>${end}</end></date_range></report_metadata>
<policy_published><domain>${domain}</domain><adkim>r</adkim><aspf>r</aspf><p>none</p><pct>100</pct></policy_published>
${records.map(recordXml).join('\n')}
</feedback>`;
}

/** RFC 9990: a namespace, and the disposition `pass`. */
export const DMARC_2 = `<?xml version="1.0"?>
<d:feedback xmlns:d="urn:ietf:params:xml:ns:dmarc-2.0"><d:version>1.0</d:version>
<d:report_metadata><d:org_name>r</d:org_name><d:email>r@receiver.test</d:email><d:report_id>new@receiver.test</d:report_id>
<d:date_range><d:begin>0</d:begin><d:end>86399</d:end></d:date_range><d:generator>x 1.0</d:generator></d:report_metadata>
<d:policy_published><d:domain>example.test</d:domain><d:p>reject</d:p><d:np>reject</d:np><d:testing>n</d:testing>
<d:discovery_method>treewalk</d:discovery_method></d:policy_published>
<d:record><d:row><d:source_ip>2001:DB8::1</d:source_ip><d:count>3</d:count>
<d:policy_evaluated><d:disposition>pass</d:disposition><d:dkim>pass</d:dkim><d:spf>fail</d:spf></d:policy_evaluated></d:row>
<d:identifiers><d:header_from>news.example.test</d:header_from></d:identifiers>
<d:auth_results><d:dkim><d:domain>example.test</d:domain><d:selector>s</d:selector><d:result>pass</d:result></d:dkim>
<d:spf><d:domain>mailer.test</d:domain><d:result>pass</d:result></d:spf></d:auth_results></d:record></d:feedback>`;

/** RFC 8460 §4. */
export function tlsJson({ id = 't1', domain = 'example.test', begin = 0, end = 86_399 }: TestReport): string {
  const at = (seconds: number): string => new Date(seconds * 1000).toISOString().replace('.000Z', 'Z');
  return JSON.stringify({
    'organization-name': 'Receiver',
    'date-range': { 'start-datetime': at(begin), 'end-datetime': at(end) },
    'contact-info': 'x@receiver.test',
    'report-id': id,
    policies: [
      {
        policy: {
          'policy-type': 'sts',
          'policy-string': ['version: STSv1'],
          'policy-domain': domain,
          'mx-host': '*.x',
        },
        summary: { 'total-successful-session-count': 100, 'total-failure-session-count': 7 },
        'failure-details': [
          {
            'result-type': 'certificate-expired',
            'sending-mta-ip': '2001:db8::2',
            'receiving-mx-hostname': 'mail.postern.test',
            'failed-session-count': 5,
          },
        ],
      },
    ],
  });
}

/** A mail with this attachment, with CRLF. */
export function reportMail(
  content: Uint8Array | string,
  {
    type = 'application/gzip',
    from = 'noreply@receiver.test',
  }: { readonly type?: string; readonly from?: string } = {},
): string {
  const encoded = Buffer.from(content).toString('base64').replaceAll(/.{76}/g, '$&\r\n');
  return [
    `From: Receiver <${from}>`,
    'To: reports@mail.postern.test',
    'Subject: Report domain: example.test',
    'MIME-Version: 1.0',
    'Content-Type: multipart/mixed; boundary="b1"',
    '',
    '--b1',
    'Content-Type: text/plain',
    '',
    'This is an aggregate report.',
    '--b1',
    `Content-Type: ${type}; name="report"`,
    'Content-Transfer-Encoding: base64',
    'Content-Disposition: attachment; filename="report"',
    '',
    encoded,
    '--b1--',
    '',
  ].join('\r\n');
}

/** The mail of a gzipped report. */
export function gzipMail(text: string, from?: string): string {
  return reportMail(gzipSync(text), from === undefined ? {} : { from });
}

/** A ZIP archive (APPNOTE 6.3) of these files. */
export function zipOf(files: Readonly<Record<string, string | Buffer>>): Buffer {
  const bodies: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const [name, content] of Object.entries(files)) {
    const data = Buffer.from(content);
    const packed = deflateRawSync(data);
    const common = Buffer.alloc(26);
    common.writeUInt16LE(20, 0);
    common.writeUInt16LE(8, 4);
    common.writeUInt32LE(crc32(data), 10);
    common.writeUInt32LE(packed.length, 14);
    common.writeUInt32LE(data.length, 18);
    common.writeUInt16LE(name.length, 22);
    bodies.push(Buffer.from('PK\x03\x04'), common, Buffer.from(name), packed);
    const rest = Buffer.alloc(14);
    rest.writeUInt32LE(offset, 10);
    directory.push(Buffer.from('PK\x01\x02'), Buffer.from([20, 0]), common, rest, Buffer.from(name));
    offset += 30 + name.length + packed.length;
  }
  const entries = Buffer.concat(directory);
  const end = Buffer.alloc(18);
  end.writeUInt16LE(Object.keys(files).length, 4);
  end.writeUInt16LE(Object.keys(files).length, 6);
  end.writeUInt32LE(entries.length, 8);
  end.writeUInt32LE(offset, 12);
  return Buffer.concat([...bodies, entries, Buffer.from('PK\x05\x06'), end]);
}
