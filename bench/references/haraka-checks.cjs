/**
 * A plugin of Haraka for what npm has none: DMARC with the results of its plugins for SPF and DKIM, SRS, and one next hop. Everybody may
 * relay once that is checked. Its settings are in checks.json: the domain of SRS, and the port of the next hop.
 */
const { createHmac } = require('node:crypto');
const { resolveTxt } = require('node:dns/promises');

const SECRET = 'secret';
const DAY_MS = 86_400_000;
const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

exports.register = function () {
  this.settings = this.config.get('checks.json');
};

/** The bench comes from loopback, which the plugin for SPF would leave alone. */
exports.hook_connect = (next, connection) => {
  connection.remote.is_private = false;
  next();
};

exports.hook_rcpt = (next) => next(OK);

exports.hook_data_post = async function (next, connection) {
  const { transaction } = connection;
  const from = /@([^>\s]+)>?\s*$/.exec(transaction.header.get('From'))?.[1]?.toLowerCase() ?? '';
  const isAligned =
    transaction.notes.dkim_results?.some(({ result, domain }) => result === 'pass' && domain === from) ||
    (transaction.notes.spf_mail_result === 'Pass' && transaction.mail_from.host === from);
  const policy = await policyOf(from);
  if (policy !== undefined) connection.auth_results(`dmarc=${isAligned ? 'pass' : 'fail'} header.from=${from}`);
  if (policy?.includes('p=reject') && !isAligned) return next(DENY, 'DMARC of the author refuses this');
  connection.relaying = true;
  if (this.settings.srsDomain) rewrite(transaction.mail_from, this.settings.srsDomain);
  next();
};

async function policyOf(domain) {
  try {
    const records = await resolveTxt(`_dmarc.${domain}`);
    return records.map((parts) => parts.join('')).find((text) => text.startsWith('v=DMARC1'));
  } catch {
    // There is none.
    return undefined;
  }
}

/** SRS0=hash=timestamp=domain=user (Mail::SRS). */
function rewrite(sender, domain) {
  const days = Math.floor(Date.now() / DAY_MS) % 1024;
  const stamp = `${BASE32[days >> 5]}${BASE32[days & 31]}`;
  const hash = createHmac('sha1', SECRET).update(`${stamp}${sender.host}${sender.user}`.toLowerCase()).digest('base64');
  sender.user = `SRS0=${hash.slice(0, 4)}=${stamp}=${sender.host}=${sender.user}`;
  sender.original_host = sender.host = domain;
  sender.original = `<${sender.user}@${domain}>`;
}

exports.hook_get_mx = function (next) {
  next(OK, [{ priority: 0, exchange: '127.0.0.1', port: this.settings.port }]);
};
