/**
 * Writes the types that openapi-typescript makes of a document, read from standard input, to standard output. It builds them
 * with TypeScript 5, which stands here beside the version that checks the types of this project.
 */
import { registerHooks } from 'node:module';
import { json } from 'node:stream/consumers';

registerHooks({
  resolve: (specifier, context, next) => next(specifier === 'typescript' ? 'typescript5' : specifier, context),
});
const { default: openapiTS, astToString } = await import('openapi-typescript');
const document = await json(process.stdin);
process.stdout.write(astToString(await openapiTS(JSON.stringify(document))));
