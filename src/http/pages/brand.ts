/** Whose page a visitor sees: what a form's `theme` makes of it. Colors are computed so that every text on a page can be read. */
import type { Form } from '../../config/snapshot.ts';

/** Whose page it is. */
export interface Brand {
  /** The business or the site. */
  readonly name?: string | undefined;
  /** For the foot of each page, line by line. */
  readonly message?: string | undefined;
  /** `#rrggbb` */
  readonly color?: string | undefined;
  /** A data: URL. */
  readonly logo?: string | undefined;
}

/** The theme of the form, with the name of its site. */
export function brandOf({ config: { theme }, audience }: Form): Brand {
  return { name: theme?.title ?? audience.domain, message: theme?.message, color: theme?.color, logo: theme?.logo };
}

type Color = readonly [red: number, green: number, blue: number];

const WHITE: Color = [255, 255, 255];
const BLACK: Color = [0, 0, 0];
/** What links and outlines stand on: the page and the card of each scheme, as in the stylesheet of the pages. */
const LIGHT: readonly Color[] = [parse('#f4f5f7'), WHITE];
const DARK: readonly Color[] = [parse('#12151b'), parse('#1b2028')];

/** WCAG 2.2, 1.4.3: contrast of text. */
const MIN_CONTRAST = 4.5;

/** The rules that give a page this color: buttons have it, and links as much of it as can be read. */
export function colorRules(color: string): string {
  const own = parse(color);
  const text = contrast(own, WHITE) >= contrast(own, BLACK) ? WHITE : BLACK;
  const light = hex(readable(own, { on: LIGHT, towards: BLACK }));
  const dark = hex(readable(own, { on: DARK, towards: WHITE }));
  return `
:root{--accent:${light};--button:${hex(own)};--button-text:${hex(text)}}
@media (prefers-color-scheme:dark){:root{--accent:${dark}}}
main{border-top:4px solid var(--button)}`;
}

/** The color, or the nearest on its way to black or white that can be read. */
function readable(color: Color, { on, towards }: { on: readonly Color[]; towards: Color }): Color {
  const STEPS = 20;
  for (let step = 0; step < STEPS; step++) {
    const mixed = mix(color, towards, step / STEPS);
    if (on.every((background) => contrast(mixed, background) >= MIN_CONTRAST)) return mixed;
  }
  return towards;
}

/** WCAG 2.2: from 1 (the same) to 21. */
function contrast(a: Color, b: Color): number {
  const [dark = 0, light = 0] = [luminance(a), luminance(b)].toSorted((x, y) => x - y);
  return (light + 0.05) / (dark + 0.05);
}

function luminance([red, green, blue]: Color): number {
  return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
}

function linear(value: number): number {
  const part = value / 255;
  return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
}

function mix([red, green, blue]: Color, [r, g, b]: Color, share: number): Color {
  return [between(red, r, share), between(green, g, share), between(blue, b, share)];
}

function between(from: number, to: number, share: number): number {
  return Math.round(from + (to - from) * share);
}

function parse(color: string): Color {
  const value = Number.parseInt(color.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

function hex(color: Color): string {
  return `#${color.map((part) => part.toString(16).padStart(2, '0')).join('')}`;
}
