/** The usual form endpoint: Koa and koa-body take the post, nodemailer's pool sends it on, and only then comes the answer. */
import { Router } from '@koa/router';
import Koa from 'koa';
import { koaBody } from 'koa-body';
import { createTransport } from 'nodemailer';
import { z } from 'zod';
import { notification } from '../lib/notification.ts';

const settings = z.object({ smtpPort: z.number(), connections: z.number() }).parse(JSON.parse(process.argv[2] ?? '{}'));

const transport = createTransport({
  host: '127.0.0.1',
  port: settings.smtpPort,
  pool: true,
  maxConnections: settings.connections,
  maxMessages: 100,
  ignoreTLS: true,
});
const router = new Router();
router.post('/:domain/:form', koaBody({ json: false, text: false }), async (ctx) => {
  const fields = z.record(z.string(), z.string()).parse(ctx.request.body);
  await transport.sendMail(notification(fields));
  ctx.body = { success: true };
});

const app = new Koa();
app.use(router.routes());
const server = app.listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (address !== null && typeof address === 'object') console.log(JSON.stringify({ port: address.port }));
});
