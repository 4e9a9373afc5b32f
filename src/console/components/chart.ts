/**
 * Figures over time: lines on a canvas, what is under the pointer in words, and a table behind it for those who cannot see it. A span
 * that is drawn with the pointer is zoomed into. Lines differ by their dashes too, not by color alone.
 */
import uPlot from 'uplot';
import { html, type ComponentChildren, useEffect, useLayoutEffect, useRef, useState } from '../lib.ts';
import { number } from './basics.ts';

export interface Series {
  readonly name: string;
  readonly tone: 'accent' | 'good' | 'warn' | 'bad' | 'soft';
  readonly values: readonly number[];
}

interface ChartProps {
  /** What is drawn: `Submissions over time`. */
  readonly label: string;
  /** The starts of the buckets, ISO 8601. */
  readonly at: readonly string[];
  readonly interval: 'second' | 'hour' | 'day' | 'month';
  readonly series: readonly Series[];
  /** Called with the span that was drawn, ms. */
  readonly zoom?: ((from: number, to: number) => void) | undefined;
  readonly height?: number;
  /** What stands beside the name of a line while nothing is pointed at: the sum, or its last value. */
  readonly total?: 'sum' | 'last';
}

const DASHES: readonly (readonly number[])[] = [[], [6, 3], [2, 3], [10, 3, 2, 3]];
const FULL = {
  second: { timeStyle: 'medium' },
  hour: { dateStyle: 'medium', timeStyle: 'short' },
  day: { dateStyle: 'medium' },
  month: { month: 'long', year: 'numeric' },
} as const;

function isLocal(interval: ChartProps['interval']): boolean {
  return interval === 'second' || interval === 'hour';
}

const HEADINGS = { second: 'Time', hour: 'Hour', day: 'Day (UTC)', month: 'Month (UTC)' } as const;

/** Days and months are those of UTC, hours are local. */
function timeFormat(interval: ChartProps['interval']): Intl.DateTimeFormat {
  return new Intl.DateTimeFormat(undefined, { ...FULL[interval], ...(isLocal(interval) ? {} : { timeZone: 'UTC' }) });
}

export function Chart({
  label,
  at,
  interval,
  series,
  zoom,
  height = 220,
  total = 'sum',
}: ChartProps): ComponentChildren {
  const place = useRef<HTMLDivElement>(null);
  const [pointed, setPointed] = useState<number>();
  const isDark = useDark();
  const key = JSON.stringify([at, series]);
  const zooming = useRef(zoom);
  zooming.current = zoom;
  // Before the page is painted: what is below does not move.
  useLayoutEffect(() => {
    const { current } = place;
    if (current === null) return undefined;
    const plot = draw(
      current,
      { at, interval, series, height },
      { point: setPointed, zoom: (from, to) => zooming.current?.(from, to) },
    );
    const watch = new ResizeObserver(() => plot.setSize({ width: current.clientWidth, height }));
    watch.observe(current);
    return () => {
      watch.disconnect();
      plot.destroy();
    };
  }, [key, isDark, height]);
  const format = timeFormat(interval);
  const start = pointed === undefined ? undefined : at[pointed];
  return html`<figure class="chart">
    <ul class="legend" aria-hidden="true">
      ${series.map(
        ({ name, tone, values }, i) =>
          html`<li key=${name} class=${tone}><svg viewBox="0 0 20 4" width="20" height="4"><line x1="0" y1="2" x2="20" y2="2" stroke="currentColor" stroke-width="2.5" stroke-dasharray=${(DASHES[i % DASHES.length] ?? []).join(' ')} /></svg>${name} <strong>${number(shownOf(values, pointed, total))}</strong></li>`,
      )}
      <li class="when">${start === undefined ? '' : format.format(new Date(start))}</li>
    </ul>
    <div class="plot" ref=${place} role="img" aria-label="${label}: ${series.map(({ name, values }) => `${number(shownOf(values, undefined, total))} ${name.toLowerCase()}`).join(', ')}"></div>
    <details>
      <summary>Show as a table</summary>
      <div class="scroll" tabindex="0" role="region" aria-label=${label}>
        <table>
          <thead><tr><th scope="col">${HEADINGS[interval]}</th>${series.map(({ name }) => html`<th scope="col" class="number" key=${name}>${name}</th>`)}</tr></thead>
          <tbody>
            ${at
              .map(
                (time, i) =>
                  html`<tr key=${time}><th scope="row">${format.format(new Date(time))}</th>${series.map(({ name, values }) => html`<td class="number" key=${name}>${number(values[i] ?? 0)}</td>`)}</tr>`,
              )
              .toReversed()}
          </tbody>
        </table>
      </div>
    </details>
  </figure>`;
}

function shownOf(values: readonly number[], pointed: number | undefined, total: 'sum' | 'last'): number {
  if (pointed !== undefined) return values[pointed] ?? 0;
  return total === 'last' ? (values.at(-1) ?? 0) : values.reduce((sum, one) => sum + one, 0);
}

interface Hands {
  readonly point: (index: number | undefined) => void;
  readonly zoom: (from: number, to: number) => void;
}

function draw(
  place: HTMLElement,
  { at, interval, series, height }: Pick<ChartProps, 'at' | 'interval' | 'series'> & { readonly height: number },
  { point, zoom }: Hands,
): uPlot {
  const style = getComputedStyle(document.documentElement);
  function color(name: string): string {
    return style.getPropertyValue(`--${name}`).trim();
  }
  const font = `12px ${color('font')}`;
  const axis = {
    stroke: color('soft'),
    font,
    grid: { stroke: color('line'), width: 1 },
    ticks: { stroke: color('line'), width: 1 },
  };
  const options: uPlot.Options = {
    width: place.clientWidth,
    height,
    legend: { show: false },
    cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 7 } },
    // Counts begin at nothing, and an empty day is no line in the middle.
    scales: { y: { range: (_, __, max) => [0, Math.max(max * 1.1, 4)] } },
    axes: [
      {
        ...axis,
        size: 34,
        values: (_, ticks) => ticks.map((tick) => tickText(tick, (ticks[1] ?? tick) - (ticks[0] ?? 0), interval)),
      },
      { ...axis, size: 48, values: (_, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? number(tick) : '')) },
    ],
    series: [
      {},
      ...series.map(({ name, tone }, i) => ({
        label: name,
        stroke: color(tone),
        width: 2,
        dash: [...(DASHES[i % DASHES.length] ?? [])],
        points: { show: at.length <= 2, size: 6 },
        ...(i === 0 ? { fill: `${color(tone)}1f` } : {}),
      })),
    ],
    hooks: {
      setCursor: [(plot) => point(plot.cursor.idx ?? undefined)],
      setSelect: [
        (plot) => {
          const { left, width } = plot.select;
          if (width < MIN_DRAWN) return;
          zoom(plot.posToVal(left, 'x') * 1000, plot.posToVal(left + width, 'x') * 1000);
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
    },
    ...(isLocal(interval) ? {} : { tzDate: (seconds: number) => uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC') }),
  };
  const data: uPlot.AlignedData = [
    at.map((time) => Date.parse(time) / 1000),
    ...series.map(({ values }) => [...values]),
  ];
  return new uPlot(options, data, place);
}

const DAY_S = 86_400;

/** A time at the axis: as much of it as differs from tick to tick. */
function tickText(seconds: number, step: number, interval: ChartProps['interval']): string {
  const date = new Date(seconds * 1000);
  const zone = isLocal(interval) ? {} : { timeZone: 'UTC' };
  if (step < DAY_S) {
    const second = step < 60 ? ({ second: '2-digit' } as const) : {};
    return date.toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit', ...second, ...zone });
  }
  const parts: Intl.DateTimeFormatOptions =
    step < 28 * DAY_S ? { day: 'numeric', month: 'short' } : { month: 'short', year: '2-digit' };
  return date.toLocaleDateString(undefined, { ...parts, ...zone });
}

/** A click is no span, pixels. */
const MIN_DRAWN = 8;

/** Whether the visitor prefers dark pages: what is on a canvas does not follow by itself. */
function useDark(): boolean {
  const [query] = useState(() => matchMedia('(prefers-color-scheme: dark)'));
  const [isDark, setDark] = useState(query.matches);
  useEffect(() => {
    function follow(): void {
      setDark(query.matches);
    }
    query.addEventListener('change', follow);
    return () => query.removeEventListener('change', follow);
  }, []);
  return isDark;
}
