/** The API about itself: its OpenAPI document, and the same as a page. Made once, when somebody first asks. */
import { json, page, type Answer } from '../answer.ts';
import type { Route } from '../api/route.ts';
import { openApi } from '../openapi/document.ts';
import { referencePage } from '../pages/reference.ts';

const KEPT = { 'Cache-Control': 'public, max-age=300' };

export interface Reference {
  /** `/openapi.json` */
  document(): Answer;
  /** `/docs` */
  page(): Answer;
}

export function createReference(routes: readonly Route[], version: string): Reference {
  let made: { document: Answer; page: Answer } | undefined;
  function both(): { document: Answer; page: Answer } {
    if (made !== undefined) return made;
    const document = openApi(routes, version);
    // Anybody's page or tool may read it: there is nothing in it that is not published.
    made = {
      document: json(document, 200, { ...KEPT, 'Access-Control-Allow-Origin': '*' }),
      page: page(referencePage(document), 200, KEPT),
    };
    return made;
  }
  return { document: () => both().document, page: () => both().page };
}
