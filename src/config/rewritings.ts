/** What a value may have been meant to be that is written in another way. The schema decides which of it would have been right. */

/** Units of other notations, in those of durations (`s`, `m`, `h`, `d`). */
const TIMES: Readonly<Record<string, readonly [number, string]>> = {
  s: [1, 's'],
  sec: [1, 's'],
  second: [1, 's'],
  min: [1, 'm'],
  m: [1, 'm'],
  minute: [1, 'm'],
  h: [1, 'h'],
  hour: [1, 'h'],
  d: [1, 'd'],
  day: [1, 'd'],
  w: [7, 'd'],
  week: [7, 'd'],
  month: [30, 'd'],
  y: [365, 'd'],
  year: [365, 'd'],
};
/** Keys that a map is about, for a value that stands in the place of the map. */
const MAIN_KEYS = ['enabled', 'mode', 'url', 'to', 'type', 'host'];
const MIB = 1024 ** 2;

/** The likeliest first. */
export function rewritings(written: unknown): readonly unknown[] {
  const whole = MAIN_KEYS.map((key) => ({ [key]: written }));
  if (typeof written === 'number') return [`${written / MIB}MiB`, `${written / 1024}KiB`, ...whole];
  if (typeof written !== 'string') return whole;
  const text = written.trim().replaceAll(/^[“”„‘’"']+|[“”„‘’"']+$/g, '');
  const bare = text.replace(/^[a-z][a-z0-9+.-]*:\/\/([^/?#]*).*$/i, '$1').replace(/\/$/, '');
  const place = bare.slice(bare.lastIndexOf('@') + 1);
  const [, host = '', port = ''] = /^(.*):(\d+)$/.exec(place) ?? [];
  const name = (host === '' ? place : host).replaceAll(/^\[|\]$/g, '');
  return [
    ...whole,
    port === '' ? { host: name } : { host: name, port: Number(port) },
    text,
    text.replace(/^mailto:/i, ''),
    place,
    name,
    ...(/^[\w-]+\.[\w./-]+$/.test(text) ? [`https://${text}`] : []),
    ...(port === '' && isRemote(name) ? [`${place}:25`] : []),
    `[${/^[*:]?$/.test(name) ? '::' : name}]:${port}`,
    ...(text.startsWith('/') ? [`unix:${text}`, `sqlite:${text}`] : []),
    ...sizes(text),
    ...durations(text),
  ];
}

/** Whether it may be the name of another machine, which a place to listen on is not. */
function isRemote(name: string): boolean {
  return /[a-z].*\.[a-z]/i.test(name);
}

function sizes(text: string): string[] {
  const [, number, unit = ''] = /^(\d+)\s*([kmg])i?b?$/i.exec(text) ?? [];
  return number === undefined ? [] : [`${number}${unit.toUpperCase()}iB`];
}

function durations(text: string): string[] {
  if (/^(never|always|infinite|unlimited)$/i.test(text)) return ['forever'];
  const [, hours, minutes] = /^(\d+)h\s*(\d+)m$/.exec(text) ?? [];
  if (hours !== undefined) return [`${Number(hours) * 60 + Number(minutes)}m`];
  const [, number, unit = ''] = /^(\d+)\s*([a-z]+?)s?$/i.exec(text) ?? [];
  const [factor, letter] = TIMES[unit.toLowerCase()] ?? TIMES[`${unit}s`.toLowerCase()] ?? [];
  return number === undefined || factor === undefined ? [] : [`${Number(number) * factor}${letter}`];
}

/** The value in one line of YAML. */
export function yamlText(value: unknown): string {
  if (typeof value !== 'object' || value === null)
    return typeof value === 'string' && !/^[\w@./+-]+$/.test(value) ? JSON.stringify(value) : String(value);
  return `{ ${Object.entries(value)
    .map(([key, each]) => `${key}: ${yamlText(each)}`)
    .join(', ')} }`;
}
