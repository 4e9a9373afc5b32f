/** What the visitor's mail address says, and whether it can be answered at all. */
import type { Reason } from './reasons.ts';

/** Whether the domain certainly takes no mail. What DNS cannot say is no. */
export type RefusesMail = (domain: string) => Promise<boolean>;

/** What the domain of the address says by itself. */
export function addressReasons(domain: string | undefined): Reason[] {
  if (domain === undefined || !isDisposable(domain)) return [];
  return [{ name: 'disposable_address', score: 4, detail: domain }];
}

/** The reason that a domain without mail gives. */
export function noMx(domain: string): Reason {
  return { name: 'no_mx', score: NO_MX, detail: `${domain} takes no mail` };
}

export const NO_MX = 4;

/** Such services have names below their own as well. */
function isDisposable(domain: string): boolean {
  for (let name = domain; name.includes('.'); name = name.slice(name.indexOf('.') + 1)) {
    if (DISPOSABLE.has(name)) return true;
  }
  return false;
}

/**
 * Domains of services that give away mail addresses for minutes: the well-known ones, and no provider at which people stay
 * (forwarding aliases such as SimpleLogin, addy.io or Apple's are addresses like any other). A form's blocklist takes more.
 */
const DISPOSABLE: ReadonlySet<string> = new Set(
  (
    '0-mail.com 10mail.org 10minutemail.com 10minutemail.net 10minutemail.co.za 10minutesmail.com 1secmail.com 1secmail.net ' +
    '1secmail.org 20minutemail.com 20minutemail.it 33mail.org 5mail.cf 6paq.com anonbox.net anonymbox.com armyspy.com binkmail.com ' +
    'bobmail.info bouncr.com brefmail.com bugmenot.com burnermail.io burnthespam.info byom.de chammy.info cock.lu ' +
    'crazymailing.com cuvox.de dayrep.com deadaddress.com despam.it devnullmail.com discard.email discardmail.com discardmail.de ' +
    'disposableaddress.com disposable-email.ml disposablemail.com dispostable.com dodgit.com dropmail.me dropjar.com dumpmail.de ' +
    'einrot.com email-fake.com emailfake.com emailondeck.com emailsensei.com emailtemporanea.com emailtemporario.com.br ' +
    'emailwarden.com emltmp.com ephemail.net etranquil.com explodemail.com fakeinbox.com fakemail.fr fakemailgenerator.com ' +
    'fastacura.com filzmail.com fivemail.de fleckens.hu freundin.ru generator.email getairmail.com getnada.com ' +
    'ghosttexter.de grr.la guerrillamail.biz guerrillamail.com guerrillamail.de guerrillamail.info guerrillamail.net ' +
    'guerrillamail.org guerrillamailblock.com gustr.com haltospam.com harakirimail.com hidemail.de hmamail.com hulapla.de ' +
    'inboxalias.com inboxbear.com inboxkitten.com incognitomail.com instant-mail.de jetable.org jourrapide.com kasmail.com ' +
    'killmail.com kurzepost.de linshiyouxiang.net mail-temp.com mail-temporaire.fr mail.tm mail7.io mailcatch.com maildrop.cc ' +
    'maildu.de maileater.com mailexpire.com mailforspam.com mailfreeonline.com mailinator.com mailinator.net mailinator2.com ' +
    'mailmetrash.com mailmoat.com mailnesia.com mailnull.com mailpoof.com mailsac.com mailshell.com mailslurp.com mailtemp.info ' +
    'mailtothis.com meltmail.com minuteinbox.com mintemail.com mohmal.com moakt.com mt2015.com mvrht.com mytemp.email mytrashmail.com ' +
    'nada.email noclickemail.com nomail.xl.cx nospam.ze.tc nowmymail.com objectmail.com oneoffemail.com owlymail.com ' +
    'pokemail.net proxymail.eu rcpt.at receivemail.org rhyta.com sharklasers.com shieldemail.com sneakemail.com ' +
    'sofort-mail.de spam4.me spamavert.com spambog.com spambog.de spambox.us spamcero.com spamday.com spamdecoy.net spamex.com ' +
    'spamfree24.org spamgourmet.com spamherelots.com spamhole.com spaml.com spammotel.com spamspot.com superrito.com suremail.info ' +
    'teleworm.us temp-mail.io temp-mail.org temp-mail.ru tempail.com tempemail.net tempinbox.com tempmail.de tempmail.dev ' +
    'tempmail.net tempmail.plus tempmailaddress.com tempmailo.com tempomail.fr temporaryemail.net temporaryinbox.com ' +
    'tempr.email thankyou2010.com throwam.com throwawaymail.com tmail.ws tmailor.com tmpmail.net tmpmail.org trash-mail.at ' +
    'trash-mail.com trash-mail.de trashinbox.com trashmail.at trashmail.com trashmail.de trashmail.me trashmail.net trashmail.org ' +
    'trashymail.com trbvm.com tyldd.com uggsrock.com veryrealemail.com wegwerfadresse.de wegwerfemail.de wegwerfmail.de ' +
    'wegwerfmail.net wegwerfmail.org wh4f.org yopmail.com yopmail.fr yopmail.net zehnminutenmail.de zoemail.org'
  ).split(' '),
);
