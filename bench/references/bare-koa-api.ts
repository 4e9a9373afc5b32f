/** An API that knows nobody and keeps nothing: Koa, @koa/router and koa-body as their pages show them. */
import { Router } from '@koa/router';
import Koa from 'koa';
import { koaBody } from 'koa-body';

const app = new Koa();
const router = new Router();
router.get('/auth/status', (ctx) => {
  ctx.body = { key: null, tenant: { id: 'ten_1', name: 'Bench', plan: 'free' } };
});
router.post('/email/send', koaBody(), (ctx) => {
  ctx.body = { id: 'msg_1', status: 'queued', fields: Object.keys(ctx.request.body ?? {}).length };
});
app.use(router.routes());

const server = app.listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (address !== null && typeof address === 'object') console.log(JSON.stringify({ port: address.port }));
});
