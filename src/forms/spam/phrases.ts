/**
 * What spam sells and how it addresses strangers, in the languages in which it comes most. A phrase alone is no proof: a
 * customer of a search agency asks for backlinks, a pharmacist writes of tramadol. Whole words count, each phrase once.
 */
import { undisguised } from './disguise.ts';
import type { Reason } from './reasons.ts';

const GOODS = phrases(
  'viagra|cialis|levitra|kamagra|tramadol|xanax|canadian pharmacy|online pharmacy|no prescription|cheap (?:meds|pills|viagra)|weight loss pills?|keto gummies',
  '(?:online|crypto) casinos?|casino bonus|free spins|no deposit bonus|slot gacor|situs slot|judi online|онлайн[ -]казино|казино онлайн|бездепозитный бонус|ставки на спорт',
  'payday loans?|loan offer|apply for (?:a|your) loan|loans? at [0-9]% (?:interest|rate)|offre de prêt|prêt entre particuliers|offerta di prestito|kredit ohne schufa|займ онлайн|микрозайм(?:ы|ов)?',
  'replica (?:watch(?:es)?|handbags?|rolex)|double your (?:money|bitcoins?)|you have won|lottery winner|claim your (?:prize|reward|bitcoins?)|next of kin|inheritance funds?|unclaimed (?:funds?|inheritance)',
  'adult dating|hookups?|porn|escorts|sex (?:chat|cam|dating)|nude (?:photos|pics)|hot (?:girls|women|singles)|секс знакомства|проститутки',
  'your (?:device|computer|website|site) (?:was|has been|is) (?:hacked|infected)|i have (?:full )?access to your|recorded you|bitcoin wallet|pay the ransom',
);

const GOODS_UNSPACED = /代开发票|在线赌场|百家乐|博彩|成人视频|刷单/g;

const PITCH = phrases(
  'backlinks?|dofollow|do-follow|guest post(?:s|ing)?|sponsored posts?|link (?:building|insertions?)|domain authority|seo (?:services?|packages?|experts?|agency|audit)|(?:website|web|organic|targeted) (?:traffic|visitors)',
  'web (?:design|development) (?:services?|company|agency)|website (?:redesign|development)|mobile app development|digital marketing (?:agency|services?|company)|explainer videos?|lead generation|(?:b2b|email|business) (?:leads?|lists?|databases?)|qualified leads',
  '(?:bitcoin|crypto|forex) (?:investments?|trading|signals?)|trading (?:bots?|signals?|platform)|investment opportunity|passive income|make money|extra income|work from home|financial freedom|merchant cash advance|business (?:loans?|funding)|working capital',
  '(?:instagram|tiktok|youtube|facebook) (?:followers|likes|views)|buy followers|google reviews?|negative reviews|wikipedia page|essay writing|virtual assistants?|dedicated developers?|white[ -]label',
  'posicionamiento (?:seo|web)|ganar dinero|référencement (?:naturel|web|google)|gagner de l.argent|suchmaschinenoptimierung|linkaufbau|geld verdienen|passives einkommen|guadagnare online|ganhar dinheiro|pozycjonowanie stron',
  'продвижение сайт(?:а|ов)|раскрутка сайт(?:а|ов)|обратны[ех] ссыл(?:ки|ок)|заработок (?:в интернете|без вложений|на дому)|пассивный доход|рассылк[аиу] по (?:формам|базе)|базы? данных (?:email|компаний)',
);

const PITCH_UNSPACED = /谷歌(?:排名|优化|推广)|外链|seo优化|加微信|点击链接|今すぐクリック|稼げる副業/gi;

const APPROACH = phrases(
  'i (?:just )?(?:came across|found|visited|checked|was (?:on|looking at|browsing)|reviewed) your (?:website|web ?site|site)|while (?:browsing|visiting|checking|searching|reviewing) (?:through )?your (?:website|site)|(?:errors|issues|problems) (?:on|with|in) your (?:website|site)',
  '(?:first|top|1st) (?:page|position|rank) (?:of|on|in) google|page (?:1|one) (?:of|on) google|top of google|rank(?:ing)? (?:#1|higher)(?: (?:on|in) google)?|(?:rank|ranking|redesign|improve|promote|optimi[sz]e|grow) your (?:website|web ?site|site|business|online)|your (?:website|site|web ?site).{0,20}(?:rank(?:s|ing)?|not (?:ranking|visible|appearing))',
  '(?:increase|boost|grow|improve|double) (?:your )?(?:web ?site |online )?(?:traffic|sales|rankings?|revenue|visibility|leads)|more (?:traffic|customers|leads) (?:to|for) your|(?:send|share|email) you (?:a |an |our |the |some )?(?:free )?(?:quote|proposal|audit|price ?list|pricing|packages|details|samples|report)',
  'free (?:quote|audit|proposal|consultation|analysis|mockup)|to (?:opt[ -]out|unsubscribe)|opt[ -]out|reply (?:with )?(?:stop|remove|unsubscribe|no)|(?:not )?interested\\? (?:just )?reply|if you (?:are|re) interested|act now|limited[ -]time offer|100% guaranteed|guaranteed (?:results?|returns?|profits?|income)|risk[ -]free|money[ -]back guarantee|no obligations?',
  'millions of (?:contact|web) ?forms?|contact ?forms? (?:marketing|blast|submissions?|messages)|your (?:message|ad|offer) (?:just like this|to (?:millions|thousands))|message like this one|earn (?:up to )?[$€£]? ?[0-9][0-9.,]*(?: ?[$€£])? (?:per|a|every|each) (?:day|week|month|hour)|whatsapp (?:me|us)|click (?:here|the link|below)|sign up (?:now|today)',
  'primera página de google|première page de google|prima pagina di google|primeira página do google|(?:seite|platz) 1 (?:bei|auf) google|klicken sie hier|haga clic aquí|cliquez ici|вывести (?:ваш )?сайт в топ|в топ (?:10 )?(?:яндекса|гугл|google|яндекс)|переходите по ссылке|жми(?:те)? сюда',
);

/** A long text shows at its beginning or its end what it is about. */
const END = 32 * 1024;

/** What the words of a submission say. */
export function phraseReasons(text: string, hasLinks: boolean): Reason[] {
  const ends = text.length <= 2 * END ? text : `${text.slice(0, END)}\n${text.slice(-END)}`;
  const plain = undisguised(ends);
  const goods = [...found(plain, GOODS), ...found(plain, GOODS_UNSPACED)];
  const pitch = [...found(plain, PITCH), ...found(plain, PITCH_UNSPACED)];
  const approach = found(plain, APPROACH);
  const reasons: Reason[] = [];
  if (goods.length > 0) reasons.push({ name: 'goods', score: Math.min(10, goods.length * 5), detail: listed(goods) });
  if (pitch.length > 0) reasons.push({ name: 'pitch', score: Math.min(8, pitch.length * 2), detail: listed(pitch) });
  if (approach.length > 0) {
    reasons.push({ name: 'approach', score: Math.min(12, approach.length * 3), detail: listed(approach) });
  }
  if (goods.length + pitch.length + approach.length >= 2 && hasLinks) {
    reasons.push({ name: 'offer', score: 3, detail: 'such words and a link' });
  }
  return reasons;
}

/** Whole words: no letter or digit beside them. Scripts that put no space between words have lists of their own. */
function phrases(...alternatives: readonly string[]): RegExp {
  return new RegExp(`(?<![\\p{L}\\p{N}])(?:${alternatives.join('|')})(?![\\p{L}\\p{N}])`, 'giu');
}

function found(text: string, pattern: RegExp): string[] {
  const matches = text.match(pattern);
  return matches === null ? [] : [...new Set(matches.map((phrase) => phrase.toLowerCase()))];
}

function listed(words: readonly string[]): string {
  return words
    .slice(0, 5)
    .map((word) => word.slice(0, 60))
    .join(', ');
}
