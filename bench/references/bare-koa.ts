/** A form endpoint that only parses: Koa, @koa/router and koa-body as their pages show them. It keeps nothing. */
import { Router } from '@koa/router';
import Koa from 'koa';
import { koaBody } from 'koa-body';

const app = new Koa();
const router = new Router();
router.post('/:domain/:form', koaBody({ multipart: true, json: false, text: false }), (ctx) => {
  ctx.body = { success: true, fields: Object.keys(ctx.request.body ?? {}).length };
});
app.use(router.routes());

const server = app.listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (address !== null && typeof address === 'object') console.log(JSON.stringify({ port: address.port }));
});
