/**
 * The images that a project brings: bounded, of a type that browsers show, and checked to be that. They are kept as data:
 * URLs, because what belongs to a project is text, and because pages then show them without another request. An SVG is only
 * ever shown as an image, in which nothing runs and nothing is fetched.
 */

/** Bytes of one image. */
export const MAX_IMAGE_BYTES = 64 * 1024;

const TYPES: Readonly<Record<string, string>> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  webp: 'image/webp',
  svg: 'image/svg+xml',
};

const DATA_URL = /^data:(image\/[a-z+]+);base64,([A-Za-z0-9+/]+={0,2})$/;

/** The media type that the name of a file says; undefined for what is no image. */
export function imageTypeOf(name: string): string | undefined {
  const ending = /\.([a-z]+)$/i.exec(name)?.[1]?.toLowerCase() ?? '';
  return Object.hasOwn(TYPES, ending) ? TYPES[ending] : undefined;
}

export function isDataUrl(text: string): boolean {
  return text.startsWith('data:');
}

/** The image as a data: URL. */
export function dataUrlOf(type: string, bytes: Buffer): string {
  return `data:${type};base64,${bytes.toString('base64')}`;
}

/** What is wrong with the image in a data: URL, in words for whoever wrote it. */
export function imageProblem(url: string): string | undefined {
  const [, type = '', base64 = ''] = DATA_URL.exec(url) ?? [];
  const isImage = IMAGES.get(type);
  if (isImage === undefined) return 'expected data:image/png;base64,… (or jpeg, webp, svg+xml)';
  const bytes = Buffer.from(base64, 'base64');
  if (bytes.length > MAX_IMAGE_BYTES)
    return `the image has ${bytes.length} bytes; at most ${MAX_IMAGE_BYTES} are allowed`;
  return isImage(bytes) ? undefined : `the image is not of type ${type}`;
}

const IMAGES: ReadonlyMap<string, (bytes: Buffer) => boolean> = new Map([
  ['image/png', (bytes) => bytes.subarray(0, 8).equals(Buffer.from('89504e470d0a1a0a', 'hex'))],
  ['image/jpeg', (bytes) => bytes.subarray(0, 3).equals(Buffer.from('ffd8ff', 'hex'))],
  ['image/webp', (bytes) => bytes.toString('latin1', 0, 4) === 'RIFF' && bytes.toString('latin1', 8, 12) === 'WEBP'],
  [
    'image/svg+xml',
    (bytes) => /^\ufeff?\s*(?:<\?xml|<!--|<!DOCTYPE svg|<svg)[\s\S]*<\/svg>\s*$/.test(bytes.toString()),
  ],
]);
