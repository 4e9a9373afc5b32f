/** The entry of the console. */
import { App } from './app.ts';
import { html, render } from './lib.ts';
import { followLinks } from './router.ts';

const root = document.getElementById('app');
if (root === null) throw new Error('the page has no element #app');
followLinks();
root.replaceChildren();
render(html`<${App} />`, root);
