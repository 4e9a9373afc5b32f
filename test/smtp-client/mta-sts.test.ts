/** Why a policy could not be had, as the report to its domain says it (RFC 8460 §4.3.2.2). */
import { expect, test } from 'vitest';
import { systemClock } from '../../src/lib/clock.ts';
import { silentLog } from '../../src/lib/log.ts';
import { MtaSts, type PolicyFailure } from '../../src/smtp-client/route.ts';
import { policy, startPolicyServer, type PolicyServer } from '../harness/policy-server.ts';
import { openTestStore } from '../harness/store.ts';

test.each<[string, string, PolicyServer['answer'], PolicyFailure['result']]>([
  [
    'a certificate for another name',
    'mta-sts.other.test',
    { text: policy('enforce', ['mx.example.test']) },
    'sts-webpki-invalid',
  ],
  ['an answer that is no policy', 'mta-sts.example.test', { text: 'Welcome' }, 'sts-policy-invalid'],
  ['no such page', 'mta-sts.example.test', { status: 404, text: '' }, 'sts-policy-fetch-error'],
  ['nothing', 'mta-sts.example.test', null, 'sts-policy-fetch-error'],
])('%s', async (_, name, answer, result) => {
  const server = await startPolicyServer(name);
  server.answer = answer;
  const failures: PolicyFailure[] = [];
  const sts = new MtaSts({
    store: await openTestStore(),
    clock: systemClock,
    log: silentLog,
    resolver: { txt: () => Promise.resolve({ kind: 'found', records: ['v=STSv1; id=a1;'], ttl: 60 }) },
    fetchPolicy: server.fetchPolicy,
    onFailure: (failure) => failures.push(failure),
  });
  expect(await sts.policyOf('example.test')).toBeUndefined();
  expect(failures).toMatchObject([{ domain: 'example.test', result }]);
});
