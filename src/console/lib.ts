/** The libraries of the console, in one place: Preact and its templates. */
import { type ComponentChildren, h } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import htm from 'htm';

export { render, type ComponentChildren } from 'preact';
export { useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';

/** A piece of a page: html`<p class="soft">${text}</p>`. What is inserted is text, never markup. */
export const html: (strings: TemplateStringsArray, ...values: unknown[]) => ComponentChildren = htm.bind(h);

/** Draws the component that uses it again. */
export function useRedraw(): () => void {
  const [, set] = useState({});
  return () => set({});
}

/** A state outside of components: `use` draws a component again at each `notify`. */
export interface Change {
  readonly use: () => void;
  readonly notify: () => void;
}

/** Connects a state to the components that show it. */
export function createChange(): Change {
  const listeners = new Set<() => void>();
  return {
    use() {
      const redraw = useRedraw();
      useEffect(() => {
        listeners.add(redraw);
        return () => void listeners.delete(redraw);
      }, []);
    },
    notify() {
      for (const listener of listeners) listener();
    },
  };
}
