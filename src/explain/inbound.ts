/** What becomes of mail that comes in for an address: the domain, the rule that matches, what is done to it, and where it goes. */
import { ruleFor } from '../config/forwarding.ts';
import { parseAddress } from '../lib/addresses.ts';
import { forwardedFrom } from '../mail/forward.ts';
import { decideServed, type Accepted, type Decision } from '../smtp/recipients.ts';
import { dkimStep, domainStep, mxStep } from './domain.ts';
import { outboundSteps } from './outbound.ts';
import { type ExplainParts, passes, stops, warns, type Step } from './steps.ts';

/** The steps of mail for an address of ours. */
export async function inboundSteps(text: string, parts: ExplainParts): Promise<Step[]> {
  // The null sender may bounce to what we made, and nobody else may; of all other addresses it decides nothing.
  const decision = await decideServed({ address: text, sender: '' }, await parts.directory(), parts.store);
  return [
    ...(await placeSteps(text, parts)),
    decisionStep(decision),
    ...(decision.kind === 'forward' ? await forwardSteps(decision, parts) : []),
    ...(decision.kind === 'srs' ? await outboundSteps(decision.sender, undefined, parts) : []),
  ];
}

/** The domain that the address is at, and what is in its map. */
async function placeSteps(text: string, parts: ExplainParts): Promise<Step[]> {
  const { domains, server } = parts.snapshot();
  const { local = '', domain: name = '' } = parseAddress(text) ?? {};
  const domain = domains.get(name);
  if (domain === undefined) {
    return name === server.server.hostname ? [passes('domain', `${name} is this server`, 'server.hostname')] : [];
  }
  const { forwarding } = domain.config;
  const key = ruleFor(forwarding, name, local);
  const route = key === undefined ? undefined : forwarding[key];
  const rule =
    key === undefined || route === undefined
      ? passes(
          'rule',
          'no rule of forwarding matches',
          `neither ${local}@${name}, nor that without its tag, nor *@${name} is there`,
        )
      : passes('rule', `${key}: ${typeof route === 'string' ? route : route.join(', ')}`, whyRule(key, local, name));
  const { tenant } = domain.project;
  return [await domainStep(name, tenant, parts), await mxStep(name, tenant, parts), rule];
}

function whyRule(key: string, local: string, domain: string): string {
  if (key === `*@${domain}`) return 'the catch-all: the address itself has no rule';
  return key === `${local.toLowerCase()}@${domain}` ? 'the address itself' : 'the address without its tag';
}

function decisionStep(decision: Decision): Step {
  switch (decision.kind) {
    case 'forward':
      return passes(
        'decision',
        `goes on to ${decision.targets.join(', ')}`,
        'where forwarding ends, through domains of ours on the way',
      );
    case 'discard':
      return warns('decision', 'taken with 250, and forgotten', 'the rule says discard');
    case 'bounce':
      return passes(
        'decision',
        `read as a report about ${decision.message}`,
        'it is the return path of a message of ours',
      );
    case 'srs':
      return passes(
        'decision',
        `a bounce goes back to ${decision.sender}`,
        'it is an SRS address of ours, of mail that was forwarded',
      );
    case 'reply':
      return passes(
        'decision',
        `an answer, passed on to the ${decision.ticket.to} of ${decision.ticket.message}`,
        'it is an address that hides whose it is',
      );
    case 'report':
      return passes(
        'decision',
        'read as an aggregate report on DMARC or TLS; other mail is refused',
        'it is the address for reports at the host name',
      );
    case 'refuse':
      return stops('decision', `refused: ${decision.reply}`, decision.reason);
  }
}

type Forwarded = Extract<Accepted, { kind: 'forward' }>;

async function forwardSteps({ domain, tenant, targets }: Forwarded, parts: ExplainParts): Promise<Step[]> {
  const { inbound, server } = parts.snapshot().server;
  const host = server.hostname;
  const before: Step[] = [
    inbound.dmarc === 'enforce'
      ? passes('dmarc', 'mail that fails DMARC under p=reject is refused', 'inbound.dmarc: enforce')
      : passes('dmarc', 'DMARC is noted, and refuses nothing', 'inbound.dmarc: record'),
    inbound.from_rewrite === 'auto'
      ? passes(
          'from',
          `stays as it is; where DMARC would refuse it at the next server it becomes "… via ${domain}" <${forwardedFrom(domain)}>`,
          'inbound.from_rewrite: auto',
        )
      : warns(
          'from',
          'stays as it is, also where the next server will refuse it for that',
          'inbound.from_rewrite: never',
        ),
    passes(
      'srs',
      `the envelope sender becomes SRS0=…@${host} where SPF or DKIM vouched for it, else b+…@${host}; the null sender stays null`,
      'SPF passes at the next server, and bounces come back here',
    ),
    await arcStep(host, parts),
  ];
  // Under its author's name it keeps the author's signature, and gets none of ours.
  const dkim = await dkimStep(domain, tenant, parts);
  const signed =
    inbound.from_rewrite === 'auto' ? [{ ...dkim, found: `where the From is rewritten, ${dkim.found}` }] : [];
  const onward = await Promise.all(
    targets.map((address) => outboundSteps(address, { tenant, kind: 'forward' }, parts)),
  );
  return [...before, ...signed, ...onward.flat()];
}

async function arcStep(hostname: string, { snapshot, keysOf }: ExplainParts): Promise<Step> {
  if (!snapshot().server.inbound.arc.seal) return passes('arc', 'not sealed', 'inbound.arc.seal: false');
  const keys = await keysOf(hostname, '');
  const key = keys.find(({ algorithm }) => algorithm === 'rsa');
  return key === undefined
    ? warns('arc', 'not sealed', `${hostname} has no RSA key`)
    : passes(
        'arc',
        `sealed with ${key.selector}._domainkey.${hostname}`,
        'what was found when it came is told to the next server',
      );
}
