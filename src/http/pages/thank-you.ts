/** The page after a submission, for forms without a `redirect`. */

import type { Form } from '../../config/forms.ts';
import { html } from '../../lib/html.ts';
import { layout, mark, type Page } from './layout.ts';

export interface ThankYou {
  readonly form: Form;
  /** Where "back" leads; undefined where nobody knows. */
  readonly back: string | undefined;
  readonly ancestors: readonly string[];
}

export function thankYouPage({ form, back, ancestors }: ThankYou): Page {
  const words = form.config.thank_you ?? 'Your message has been sent.';
  return layout({
    title: 'Thank you',
    ancestors,
    content: html`${mark('good')}
<h1>Thank you</h1>
<div role="status">${words.split(/\n+/).map((line) => html`<p>${line}</p>`)}</div>
${back !== undefined && html`<p class="actions"><a class="button" href="${back}">Back to ${form.audience.domain ?? new URL(back).host}</a></p>`}`,
  });
}
