/**
 * What a file is, by its first bytes, and whether that and its name are what a form takes. What a browser says of the type
 * is a guess by the name: it decides only where the bytes cannot. A table of our own, because libraries for this know some
 * hundred formats and none of the rules that tell honest names from disguises.
 */

/* oxlint-disable no-control-regex -- they are bytes, one per character */

/** How many of a file's first bytes are looked at: the names of the parts of an office document are within them. */
export const HEAD_BYTES = 8 * 1024;

/** What the first bytes show. Some are shared by several formats. */
export type Signature =
  | 'pdf'
  | 'jpeg'
  | 'png'
  | 'gif'
  | 'webp'
  | 'heif'
  | 'avif'
  | 'svg'
  | 'tiff'
  | 'bmp'
  | 'zip'
  | 'ooxml'
  | 'word'
  | 'excel'
  | 'powerpoint'
  | 'opendocument'
  | 'ole'
  | 'rtf'
  | 'gzip'
  | '7z'
  | 'rar'
  | 'mp3'
  | 'mp4'
  | 'quicktime'
  | 'wav'
  | 'ogg'
  | 'flac'
  | 'webm'
  | 'text'
  | 'executable';

interface Format {
  readonly signature: Signature;
  /** The usual media type first. */
  readonly types: readonly string[];
  readonly extensions: readonly string[];
}

const OOXML = 'application/vnd.openxmlformats-officedocument';
const ODF = 'application/vnd.oasis.opendocument';

const FORMATS: readonly Format[] = [
  format('pdf', 'application/pdf', 'pdf'),
  format('jpeg', 'image/jpeg image/jpg image/pjpeg', 'jpg jpeg jpe jfif'),
  format('png', 'image/png', 'png'),
  format('gif', 'image/gif', 'gif'),
  format('webp', 'image/webp', 'webp'),
  format('heif', 'image/heic image/heif image/heic-sequence image/heif-sequence', 'heic heif hif'),
  format('avif', 'image/avif', 'avif'),
  format('svg', 'image/svg+xml', 'svg'),
  format('tiff', 'image/tiff', 'tif tiff'),
  format('bmp', 'image/bmp image/x-ms-bmp', 'bmp'),
  format('zip', 'application/zip application/x-zip-compressed application/x-zip', 'zip'),
  format('word', `${OOXML}.wordprocessingml.document`, 'docx'),
  format('excel', `${OOXML}.spreadsheetml.sheet`, 'xlsx'),
  format('powerpoint', `${OOXML}.presentationml.presentation`, 'pptx'),
  format('opendocument', `${ODF}.text`, 'odt'),
  format('opendocument', `${ODF}.spreadsheet`, 'ods'),
  format('opendocument', `${ODF}.presentation`, 'odp'),
  format('ole', 'application/msword', 'doc dot'),
  format('ole', 'application/vnd.ms-excel', 'xls xlt'),
  format('ole', 'application/vnd.ms-powerpoint', 'ppt pps'),
  format('ole', 'application/vnd.ms-outlook', 'msg'),
  format('rtf', 'application/rtf text/rtf', 'rtf'),
  format('gzip', 'application/gzip application/x-gzip', 'gz tgz'),
  format('7z', 'application/x-7z-compressed', '7z'),
  format('rar', 'application/vnd.rar application/x-rar-compressed', 'rar'),
  format('mp3', 'audio/mpeg audio/mp3', 'mp3'),
  format('mp4', 'video/mp4 audio/mp4 audio/x-m4a video/3gpp', 'mp4 m4v m4a 3gp'),
  format('quicktime', 'video/quicktime', 'mov qt'),
  format('wav', 'audio/wav audio/x-wav audio/wave', 'wav'),
  format('ogg', 'audio/ogg video/ogg application/ogg', 'ogg oga ogv opus'),
  format('flac', 'audio/flac audio/x-flac', 'flac'),
  format('webm', 'video/webm audio/webm video/x-matroska', 'webm mkv'),
  format('text', 'text/plain', 'txt text log md'),
  format('text', 'text/csv', 'csv'),
  format('text', 'text/calendar', 'ics'),
  format('text', 'text/vcard', 'vcf'),
  format('text', 'text/html', 'html htm'),
  format('text', 'application/json text/json', 'json'),
  format('text', 'application/xml text/xml', 'xml'),
  // Scripts among them are text by their bytes: the name alone has them run.
  format(
    'executable',
    'application/x-msdownload',
    'exe dll scr com msi cpl pif lnk bat cmd ps1 vbs vbe js jse wsf hta',
  ),
  format('executable', 'application/x-executable', 'sh elf so dylib app apk jar'),
];

function format(signature: Signature, types: string, extensions: string): Format {
  return { signature, types: types.split(' '), extensions: extensions.split(' ') };
}

/** A signature that is a special case of another one. */
const GENERAL: Partial<Record<Signature, Signature>> = {
  ooxml: 'zip',
  word: 'zip',
  excel: 'zip',
  powerpoint: 'zip',
  opendocument: 'zip',
  svg: 'text',
  rtf: 'text',
};
/** An office document whose kind is not within the first bytes. */
const OOXML_PARTS: ReadonlySet<Signature> = new Set(['word', 'excel', 'powerpoint']);
/** What other formats are made of: the bytes do not show which. */
const CONTAINERS: ReadonlySet<Signature | undefined> = new Set([undefined, 'zip', 'ole', 'text', 'tiff']);

const UNKNOWN_TYPE = 'application/octet-stream';

export interface TypedFile {
  readonly filename: string;
  /** What the sender says. */
  readonly contentType: string;
  readonly signature: Signature | undefined;
}

/** Whether the file is of one of these types: `image/*`, `application/pdf`, `.pdf` or `pdf`, without case. */
export function isOfTypes(file: TypedFile, types: readonly string[]): boolean {
  return types.some((type) => isOfType(file, type.toLowerCase()));
}

function isOfType(file: TypedFile, wanted: string): boolean {
  const extension = extensionOf(file.filename);
  if (!wanted.includes('/')) {
    const ending = wanted.startsWith('.') ? wanted.slice(1) : wanted;
    if (!file.filename.toLowerCase().endsWith(`.${ending}`)) return false;
    const known = FORMATS.filter(({ extensions }) => extensions.includes(ending));
    if (known.length === 0) return file.signature !== 'executable';
    return known.some((one) => fits(one, file.signature) || isScript(one, file.signature));
  }
  const named = FORMATS.filter(({ extensions }) => extensions.includes(extension));
  const fitting = FORMATS.filter((one) => fits(one, file.signature));
  function isWanted({ types }: Format): boolean {
    return types.some((type) => matches(type, wanted));
  }
  const both = fitting.filter((one) => named.includes(one));
  if (both.length > 0) return both.some(isWanted);
  // A picture under the name of another kind of picture is a picture; a program under the name of one is none.
  if (fitting.length > 0 && named.length > 0) return fitting.some(isWanted) && named.some(isWanted);
  const declared = declaredOf(file);
  const isKnown = FORMATS.some(({ types }) => types.includes(declared));
  if (fitting.some(isWanted) && named.length === 0)
    return !isKnown || !CONTAINERS.has(file.signature) || matches(declared, wanted);
  // A format that the table does not know: the sender's word is all there is.
  return named.length === 0 && !isKnown && CONTAINERS.has(file.signature) && matches(declared, wanted);
}

/** Whether bytes that show this can be a file of the format. */
function fits(one: Format, signature: Signature | undefined): boolean {
  if (signature === undefined) return false;
  if (one.signature === signature || one.signature === GENERAL[signature]) return true;
  return signature === 'ooxml' && OOXML_PARTS.has(one.signature);
}

/** A form that asks for scripts by name gets text. */
function isScript(one: Format, signature: Signature | undefined): boolean {
  return one.signature === 'executable' && signature === 'text';
}

function matches(type: string, wanted: string): boolean {
  return wanted.endsWith('/*') ? type.startsWith(wanted.slice(0, -1)) : type === wanted;
}

function declaredOf({ contentType }: Pick<TypedFile, 'contentType'>): string {
  return contentType.toLowerCase().split(';')[0]?.trim() ?? '';
}

function extensionOf(filename: string): string {
  return /\.([^.]+)$/.exec(filename)?.[1]?.toLowerCase() ?? '';
}

/** The media type of a file: what its bytes and name show, or else what its sender says. */
export function mediaTypeOf(file: TypedFile): string {
  const declared = declaredOf(file);
  const fitting = FORMATS.filter((one) => fits(one, file.signature));
  if (fitting.length === 0 || fitting.some(({ types }) => types.includes(declared))) return file.contentType;
  const extension = extensionOf(file.filename);
  const named = fitting.find(({ extensions }) => extensions.includes(extension));
  const isKnown = declared === UNKNOWN_TYPE || FORMATS.some(({ types }) => types.includes(declared));
  // Of text and archives there are more formats than the table has.
  if (named === undefined && (!isKnown || declared === UNKNOWN_TYPE) && CONTAINERS.has(file.signature)) {
    return file.contentType;
  }
  return (named ?? fitting[0])?.types[0] ?? file.contentType;
}

/** What the first bytes of a file show; undefined where that is nothing known. */
export function signatureOf(head: Uint8Array): Signature | undefined {
  const bytes = Buffer.from(head.buffer, head.byteOffset, Math.min(head.length, HEAD_BYTES));
  const text = bytes.toString('latin1');
  return startOf(text) ?? isoMediaOf(text) ?? zipOf(text) ?? textOf(bytes);
}

/** Formats that begin with bytes of their own. */
const STARTS: readonly (readonly [Signature, RegExp])[] = [
  [
    'executable',
    /^(?:MZ|\x7fELF|\xca\xfe\xba\xbe|[\xce\xcf]\xfa\xed\xfe|\xfe\xed\xfa[\xce\xcf]|L\0\0\0\x01\x14\x02\0)/,
  ],
  ['jpeg', /^\xff\xd8\xff/],
  ['png', /^\x89PNG\r\n\x1a\n/],
  ['gif', /^GIF8[79]a/],
  ['webp', /^RIFF[^]{4}WEBP/],
  ['wav', /^RIFF[^]{4}WAVE/],
  ['tiff', /^(?:II\*\0|MM\0\*)/],
  ['bmp', /^BM[^]{4}\0\0\0\0/],
  ['ole', /^\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1/],
  ['rtf', /^\{\\rtf/],
  ['gzip', /^\x1f\x8b\x08/],
  ['7z', /^7z\xbc\xaf\x27\x1c/],
  ['rar', /^Rar!\x1a\x07/],
  ['ogg', /^OggS/],
  ['flac', /^fLaC/],
  ['webm', /^\x1aE\xdf\xa3/],
  // An ID3 tag, or the first frame of layer III.
  ['mp3', /^(?:ID3|\xff[\xe2\xe3\xf2\xf3\xfa\xfb])/],
  // Readers forgive some bytes before it (ISO 32000, annex H.3.4.1).
  ['pdf', /^[^]{0,1019}%PDF-/],
];

function startOf(text: string): Signature | undefined {
  return STARTS.find(([, pattern]) => pattern.test(text))?.[0];
}

/** ISO/IEC 14496-12: a first box `ftyp` with the brands of the file, or an old QuickTime file without one. */
function isoMediaOf(text: string): Signature | undefined {
  const kind = text.slice(4, 8);
  if (kind !== 'ftyp') return /^(?:moov|mdat|wide|pnot)$/.test(kind) ? 'quicktime' : undefined;
  const length = Buffer.from(text.slice(0, 4), 'latin1').readUInt32BE();
  const brands = text.slice(8, Math.min(length, 256));
  if (/avi[fs]/.test(brands)) return 'avif';
  if (/hei[cmsx]|hev[cmsx]|mif1|msf1/.test(brands)) return 'heif';
  return brands.startsWith('qt  ') ? 'quicktime' : 'mp4';
}

/** Archives, and documents that are archives: the names of their parts tell. */
function zipOf(text: string): Signature | undefined {
  if (!/^PK(?:\x03\x04|\x05\x06)/.test(text)) return undefined;
  if (text.startsWith('mimetypeapplication/vnd.oasis.opendocument', 30)) return 'opendocument';
  if (!/\[Content_Types\]\.xml|_rels\/\.rels/.test(text)) return 'zip';
  if (text.includes('word/')) return 'word';
  if (text.includes('xl/')) return 'excel';
  return text.includes('ppt/') ? 'powerpoint' : 'ooxml';
}

/** Text of any charset that has no control characters but line ends, tabs and form feeds. An empty file is an empty text. */
function textOf(bytes: Buffer): Signature | undefined {
  const isWide = bytes.length > 1 && /^(?:\xff\xfe|\xfe\xff)/.test(bytes.toString('latin1', 0, 2));
  if (!isWide && bytes.some((byte) => byte < 0x20 && !TEXT_CONTROLS.has(byte))) return undefined;
  const start = bytes.toString('latin1', 0, 4096).replace(/^\xef\xbb\xbf/, '');
  return SVG.test(start) ? 'svg' : 'text';
}

/** Tab, line feed, form feed, carriage return, and the escape of ISO-2022-JP. */
const TEXT_CONTROLS: ReadonlySet<number> = new Set([0x09, 0x0a, 0x0c, 0x0d, 0x1b]);
/** The root element, after what may come before it. */
const SVG =
  /^\s*(?:<\?xml[^>]*>\s*)?(?:(?:<!--(?:[^-]|-(?!->))*-->|<!DOCTYPE svg[^>[]*(?:\[[^\]]*\]\s*)?>)\s*)*<(?:\w{1,20}:)?svg[\s>]/i;
