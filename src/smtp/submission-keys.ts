/** Keys of clients that submit mail: who may send, and in words why not. */
import type { AuthFault, Authenticator } from '../access/authenticate.ts';
import { decide } from '../access/decide.ts';
import type { Principal } from '../access/principal.ts';
import type { Refusal } from './header-check.ts';

/** Whose key this is, if it may send from there; looked up each time anew, so that a key can be revoked. */
export type Admission = (key: string, ip: string) => Promise<Principal | Refusal>;

export function createAdmission(authenticator: Pick<Authenticator, 'byKey'>): Admission {
  return async (key, ip) => {
    const known = await authenticator.byKey(key, ip);
    if (typeof known === 'string') return refuseKey(known);
    const denial = decide(known, { permission: 'email.send', domain: 'narrowed', ip });
    switch (denial) {
      case undefined:
        return known;
      case 'AUTH_IP_NOT_ALLOWED':
        return { reply: '535 5.7.8 this API key may not be used from your address', reason: 'auth_ip_not_allowed' };
      case 'AUTH_FORBIDDEN':
      case 'AUTH_TEST_KEY':
      case 'AUTH_DOMAIN_NOT_ALLOWED':
        return { reply: '535 5.7.8 this API key lacks the permission email.send', reason: 'auth_forbidden' };
    }
  };
}

function refuseKey(fault: AuthFault): Refusal {
  switch (fault) {
    case 'AUTH_INVALID_KEY':
      return { reply: '535 5.7.8 this is no API key of this server', reason: 'auth_invalid' };
    case 'AUTH_EXPIRED_KEY':
      return { reply: '535 5.7.8 this API key has expired', reason: 'auth_expired' };
    case 'AUTH_REVOKED_KEY':
      return { reply: '535 5.7.8 this API key was revoked', reason: 'auth_revoked' };
    case 'TENANT_SUSPENDED':
      return { reply: '535 5.7.8 the account of this API key is suspended', reason: 'tenant_suspended' };
    case 'TENANT_UNCONFIRMED':
      return { reply: '535 5.7.8 the account of this API key is not confirmed yet', reason: 'tenant_unconfirmed' };
  }
}
