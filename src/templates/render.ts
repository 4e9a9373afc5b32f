/** Renderings that belong together: those of a request, or of a mail. They share one budget of time. */
import { TemplateSet, type TemplateSources } from './engine.ts';
import { type TemplateFault, TemplateRenderError, type Rendered, type Variables } from './template.ts';
import type { TimeLeft } from './liquid.ts';
import { htmlToText } from './plain-text.ts';

/** The templates of a project. */
export interface ProjectTemplates {
  /** Of what they are a part: the same revision has the same templates. */
  readonly revision: string;
  readonly templates: TemplateSources;
  readonly timezone: string;
}

export type RenderPart =
  | {
      readonly kind: 'template';
      readonly project: ProjectTemplates;
      readonly name: string;
      readonly variables: Variables;
    }
  /** A subject or a name that may hold expressions. */
  | { readonly kind: 'line'; readonly source: string; readonly timezone: string; readonly variables: Variables }
  /** The text of an HTML mail that comes without. */
  | { readonly kind: 'html'; readonly html: string };

export type RenderedPart =
  /** A line, and the text of HTML, are `text`. */
  { readonly ok: Rendered } | { readonly fault: TemplateFault };

/** Renders what tenants wrote, apart from the thread of whoever asks. */
export interface Renderer {
  /** All of them within one budget, in their order. Those that fail say why. */
  render(tenant: string, parts: readonly RenderPart[]): Promise<readonly RenderedPart[]>;
}

/** Opens the templates of a project; whoever keeps them saves the parsing. */
export type OpenTemplates = (project: ProjectTemplates) => TemplateSet;

/** Renders them here and now. */
export function renderParts(
  parts: readonly RenderPart[],
  timeLeft: TimeLeft,
  open: OpenTemplates = ({ templates, timezone }) => new TemplateSet(templates, timezone),
): RenderedPart[] {
  return parts.map((part) => {
    try {
      return { ok: renderPart(part, timeLeft, open) };
    } catch (error) {
      if (error instanceof TemplateRenderError) return { fault: error.fault };
      throw error;
    }
  });
}

/** Renders at once, in the thread of whoever asks. */
export function rendererHere(): Renderer {
  return { render: async (_, parts) => renderParts(parts, () => Number.POSITIVE_INFINITY) };
}

function renderPart(part: RenderPart, timeLeft: TimeLeft, open: OpenTemplates): Rendered {
  switch (part.kind) {
    case 'template':
      return open(part.project).render(part.name, part.variables, timeLeft);
    case 'line': {
      const set = open({ revision: '', templates: {}, timezone: part.timezone });
      return { text: set.line(part.source, part.variables, timeLeft) };
    }
    case 'html':
      return { text: htmlToText(part.html) };
  }
}

/** What takes the place of every part where rendering had to be ended. */
export function endedPart(part: RenderPart, message: string): RenderedPart {
  const template = part.kind === 'template' ? part.name : '';
  return { fault: { template, part: 'text', line: 1, column: 1, message } };
}
