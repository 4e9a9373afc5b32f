/** What would happen to mail, step by step. */
import { z } from 'zod';
import { json } from '../answer.ts';
import { refuse } from '../errors.ts';
import { defineRoute, type Route } from './route.ts';

const step = z.object({
  step: z.string().describe('A stable name: `domain`, `rule`, `recipients`, `route`, …'),
  about: z.string().optional().describe('Which address it is about, where there are several.'),
  verdict: z
    .enum(['ok', 'warning', 'stop'])
    .describe('`stop`: mail gets no further, or waits. `warning`: it may fare worse than its owner thinks.'),
  found: z.string(),
  because: z.string(),
});
const explanation = z.object({
  what: z.string(),
  kind: z.enum(['inbound', 'outbound', 'form']),
  steps: z.array(step),
});

export interface AdminExplainParts {
  /** Undefined for what is neither an address nor a form. */
  readonly explain: (what: string) => Promise<Explained | undefined>;
}

type Explained = Readonly<Pick<z.output<typeof explanation>, 'what' | 'kind'>> & {
  readonly steps: readonly Readonly<z.output<typeof step>>[];
};

/** `/admin/explain` */
export function adminExplainRoutes({ explain }: AdminExplainParts): Route[] {
  return [
    defineRoute({
      permission: 'admin',
      domains: 'refuse',
      tag: 'Administration',
      method: 'GET',
      path: '/admin/explain',
      summary: 'Says what would happen to mail for an address, or to a post to a form, and why.',
      description:
        'Nothing is sent. An address of a domain of this server is explained as mail that comes in for it, any other as mail that goes to it; DNS is asked at once.',
      query: z.strictObject({
        what: z
          .string()
          .min(1)
          .max(400)
          .describe('An address, or a form: `example.com/contact`, `c/team/join`, `frm_…`.'),
      }),
      answer: explanation,
      async handle({ query: { what } }) {
        const explained = await explain(what.trim());
        return explained === undefined
          ? refuse('NOT_FOUND', {
              message: `${what} is neither an address nor a form of this server. Forms are named as \`GET /forms\` has them: example.com/contact, c/team/join, frm_….`,
            })
          : json({ ...explained, steps: [...explained.steps] });
      },
    }),
  ];
}
