/** Type, spacing and colors of everything that a person sees in a browser: hosted pages, reference, console and dev world. Light and dark. */
export const TOKENS = `
:root{color-scheme:light dark;accent-color:var(--accent);
--font:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;--mono:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;
--text-xs:.75rem;--text-s:.8125rem;--text-m:.9375rem;--text-l:1.0625rem;--text-xl:1.375rem;
--s1:.25rem;--s2:.5rem;--s3:.75rem;--s4:1rem;--s5:1.5rem;--s6:2rem;
--round-s:6px;--round:8px;--round-l:14px;
--page:#f4f5f7;--card:#fff;--text:#1b1f27;--soft:#5a6271;--line:#d5d9e0;--edge:#878f9c;--field:#fff;--accent:#2456d6;--accent-page:#e9effd;--button:#2456d6;--button-text:#fff;--bad:#b3261e;--bad-page:#fdf1f0;--good:#1a7f4b;--good-page:#e9f6ef;--warn:#8a5a00;--warn-page:#fdf4e0;--code:#f1f3f6}
@media (prefers-color-scheme:dark){:root{--page:#12151b;--card:#1b2028;--text:#e8eaef;--soft:#a0a8b6;--line:#363d4a;--edge:#6e7889;--field:#12151b;--accent:#86a8ff;--accent-page:#222c47;--button:#86a8ff;--button-text:#0d1428;--bad:#ff9a92;--bad-page:#331c1d;--good:#5fd39a;--good-page:#16301f;--warn:#f0bd62;--warn-page:#33290f;--code:#242a34}}
`.trim();
