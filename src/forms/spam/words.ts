/** Signs of spam in words: known phrases, disguised text (which language it is in is no sign), and random letters. */
import type { Reason, Value } from './reasons.ts';

const GOODS_WORDS = [
  'viagra|cialis|levitra|kamagra|tramadol|xanax|canadian pharmacy|online pharmacy|no prescription|cheap (?:meds|pills|viagra)|(?:weight loss|enhancement|diet) pills?|keto gummies|erectile dysfunction',
  '(?:online|crypto) casinos?|casino (?:bonus|en ligne|online)|bonus (?:de|von|di) [0-9]+ ?€|free spins|no deposit bonus|slot gacor|situs slot|judi online|онлайн[ -]казино|казино онлайн|бездепозитный бонус|ставки на спорт',
  'payday loans?|bad credit ok|loan offer|(?:get|apply for) your (?:business |personal )?loan|loan approved|loans? at [0-9]% (?:interest|rate)|no credit check|at [0-9]% interest|we fund projects|i am (?:the |a )?(?:manager|director|auditor) (?:of|at|with) (?:a |the )?(?:[a-z]+ ){0,2}bank|offre de prêt|prêt entre particuliers|offerta di prestito|kredit ohne schufa|займ онлайн|микрозайм(?:ы|ов)?',
  'replica (?:watch(?:es)?|handbags?|rolex)|double your (?:money|bitcoins?)|you have won|lottery winner|claim your (?:prize|reward|bitcoins?)|have been selected to|click here to claim|\\$?[0-9]+ [a-z]+ gift card|nulled [a-z]+|next of kin|inheritance funds?|unclaimed (?:funds?|inheritance)|(?:worth|sum of|fund of|amount of) (?:usd |us\\$|\\$|€|£)?[0-9][0-9.,]* ?million|купить диплом(?:ы)?',
  'adult dating|hookups?|porn|escorts|sex (?:chat|cam|dating)|looking for sex|nude (?:photos|pics)|(?:hot|beautiful) (?:girls|women|singles)|секс знакомства|проститутки',
  'your (?:device|computer|website|site) (?:was|has been|is) (?:hacked|infected)|i have (?:full )?access to your|recorded you|bitcoin wallet|pay the ransom|прогон(?:ы)? (?:хрумером|по базе)|(?:cheap )?ray-?ban sunglasses|girls want to|meet you tonight',
  '(?:millions|thousands) of (?:contact|web|feedback) ?forms?|through (?:contact|feedback) ?forms|[0-9]+ million (?:websites|sites|forms)|(?:contact|feedback) ?forms? (?:marketing|blast|mailing)|(?:requests|proposals|offers|messages) legally|such (?:requests|proposals) are sent|your (?:message|ad|offer) (?:just like this|to (?:millions|thousands))|message like this one|(?:place|put) (?:a|our) link on your|how much do you charge for (?:a )?(?:guest|sponsored|link)|(?:developer|designer|expert) from india',
];
const GOODS = phrases(GOODS_WORDS);

const GOODS_UNSPACED = /代开发票|在线赌场|百家乐|博彩|成人视频|刷单/g;

const PITCH_WORDS = [
  'seo|backlinks?|dofollow|do-follow|guest (?:posts?|posting|articles?)|sponsored posts?|link (?:building|insertions?)|domain authority|search engine optimi[sz]ation|search engines|(?:website|web|organic|targeted|more|get) (?:traffic|visitors)',
  'web (?:design|development) (?:services?|company|agency)|website (?:redesign|development)|(?:mobile )?app development|digital marketing|explainer videos?|(?:facebook|google) ads|lead generation|(?:b2b|email|business|contact|verified) (?:leads?|lists?|data(?:bases?)?)|(?:quality|qualified|verified) leads|decision[ -]makers',
  'инвестиции в криптовалюту|доход(?:ом|ность)? (?:от )?[0-9]+ ?%|ищете (?:заработок|подработку)|bitcoin(?:-system)?|(?:bitcoin|crypto|forex) (?:investments?|trading|signals?)|trading (?:bots?|signals?|platform|robots?)|investment opportunity|passive income|make money|making more money|extra income|work from home|financial freedom|merchant cash advance|business (?:loans?|funding)|working capital|looking for investors',
  '(?:instagram|tiktok|youtube|facebook|real) (?:followers|likes|views|subscribers|instagram followers)|buy followers|google reviews?|negative reviews|wikipedia page|essay writing|virtual assistants?|dedicated developers?|white[ -]label|(?:cheap|vps) (?:hosting|servers?)',
  'posicionamiento (?:seo|web)|ganar dinero|référencement (?:naturel|web|google)|gagner de l.argent|suchmaschinenoptimierung|linkaufbau|geld verdienen|passives einkommen|guadagnare online|ganhar dinheiro|pozycjonowanie stron',
  'продвижени[ею] (?:вашего )?сайт(?:а|ов)|раскрутк[аиу](?: и продвижение)? сайт(?:а|ов)|обратны[ех] ссыл(?:ки|ок)|заработок (?:в интернете|без вложений|на дому)|пассивный доход|рассылк[аиу] по (?:формам|базе)|базы? данных (?:email|компаний)',
];
const PITCH = phrases(PITCH_WORDS);

const PITCH_UNSPACED = /谷歌(?:排名|优化|推广)|外链|seo优化|加微信|点击链接|今すぐクリック|稼げる副業/g;

const APPROACH_WORDS = [
  '(?:i|we) (?:just )?(?:came across|found|saw|visited|noticed|checked|was (?:on|looking at|browsing)|reviewed) your (?:website|web ?site|site|domain)|while (?:browsing|visiting|checking|searching|reviewing) (?:through )?your (?:website|site)|(?:errors|issues|problems) (?:on|with|in) your (?:website|site)|(?:website|business|businesses|companies|sites?) like yours?',
  'your (?:website|web ?site|site|domain|business) (?:could|is not|isn.t|has been reported|may|might be|needs|deserves|was not)|submit your (?:site|website)|(?:first|top|1st) (?:page|position|rank) (?:of|on|in) google|page (?:1|one) (?:of|on) google|top of google|rank(?:ing)? (?:#1|higher)(?: (?:on|in) google)?|(?:rank|ranking|redesign|improve|promote|optimi[sz]e|grow) your (?:website|web ?site|site|business|online)',
  '(?:increase|boost|grow|improve|double) (?:your )?(?:web ?site |online )?(?:traffic|sales|rankings?|revenue|visibility|leads)|more (?:traffic|customers|leads|clients|sales) (?:to|for) your|get you more (?:customers|clients|leads|sales)|(?:send|share|email) (?:you )?(?:a |an |our |the |some )?(?:free )?(?:quote|proposal|audit|price ?list|pricing|packages|samples|report|counts)(?: and pricing)?|see our catalog(?:ue)?|competitive prices?',
  '(?:10|15|20|30|quick|short)[ -]?(?:min|minutes?)? call|hop on a|would you be open to|(?:works|installed) on your (?:site|website)|your (?:business|company) can benefit|i.m reaching out|please share your (?:number|phone|contact)|business development (?:manager|executive)|affordable prices?|are you (?:still )?(?:looking for|struggling|tired of)|free (?:audit|proposal|analysis|mockup|demo|quote|consultation)|to (?:opt[ -]out|unsubscribe)|opt[ -]out|(?:like|want|wish) to unsubscribe|unsubscribe (?:here|click|at)|reply (?:with )?(?:stop|remove|unsubscribe|no)|(?:not )?interested\\? (?:just )?reply|if you (?:are|re) interested|let me know your target',
  'act now|renew now|domain (?:name )?(?:registration )?expires|limited[ -]time|for (?:just|only) [$€£][0-9]+|boost your|only today|today only|[1-9]0 ?% (?:off|discount)|(?:order|buy|register|apply|join|sign up|subscribe|start|invest) (?:now|today|here|free|at https?)|get [a-z ]{0,30}today|100% guaranteed|guaranteed (?:results?|returns?|profits?|income)|risk[ -]free|money[ -]back guarantee|no obligations?|we (?:can )?(?:supply|provide|offer|help|deliver) (?:you|your|verified|quality|businesses)|we are (?:a |the )?(?:leading |professional )?(?:manufacturer|factory|supplier|exporter)s? (?:of|from|in)',
  '(?:earn|make) (?:up to )?[$€£]? ?[0-9][0-9.,]*k?(?: ?[$€£])? (?:per |a |every |each )?(?:day|week|month|hour|daily|weekly|monthly)|(?:telegram|whatsapp|skype|wechat) ?[-–—:] ?(?!http)@?\\+?[a-z0-9_]{4,}|whatsapp (?:me|us)|click (?:here|the link|below)|sign up (?:now|today)|dear (?:webmaster|site owner|website owner|business owner|owner|beneficiary)|kindly (?:revert|contact me)',
  'primera página de google|première page de google|prima pagina di google|primeira página do google|(?:seite|platz) 1 (?:bei|auf) google|(?:klicken|melden) sie (?:sich )?hier|wir bieten ihnen|kostenlose (?:erst)?beratung|inscrivez-vous ici|jetzt (?:anmelden|registrieren|kaufen|sichern)|millionär geworden|haga clic aquí|cliquez ici|taux (?:de )?[0-9],?[0-9]? ?%',
  'вывести (?:ваш )?сайт в топ|в топ (?:10 )?(?:яндекса|гугл|google|яндекс)|переходите по ссылке|жми(?:те)? сюда|предлага(?:ю|ем) (?:свои |наши )?(?:услуги|базы)|пишите в (?:телеграм+|telegram|тг|личку|whatsapp|ватсап)|в (?:яндексе|гугле) и (?:google|яндексе|гугле)',
];
const APPROACH = phrases(APPROACH_WORDS);

/** Whoever asks for something offers nothing, whichever words of offers are quoted. */
const ASKS =
  /(?<![\p{L}])(?:(?:i|we) (?:need|would like|want to)|(?:i am|i.m|we are|we.re) (?:looking for|interested in)|(?:can|could) you|can (?:i|we) (?:get|have|buy|pay|order|book|still)|do you (?:offer|have|sell|make)|how do i|please help)(?![\p{L}])/u;

/** A long text shows at its beginning or its end what it is about. */
const END = 32 * 1024;

/** What the words of a submission say. */
export function phraseReasons(text: string, hasLinks: boolean): Reason[] {
  const ends = text.length <= 2 * END ? text : `${text.slice(0, END)}\n${text.slice(-END)}`;
  // Patterns that need not mind the case are half as long on their way.
  const plain = undisguised(ends).toLowerCase();
  const goods = [...found(plain, GOODS), ...found(plain, GOODS_UNSPACED)];
  const asks = ASKS.test(plain);
  const pitch = asks ? [] : [...found(plain, PITCH), ...found(plain, PITCH_UNSPACED)];
  const approach = found(plain, APPROACH);
  const reasons: Reason[] = [];
  if (goods.length > 0) reasons.push({ name: 'goods', score: Math.min(10, goods.length * 5), detail: listed(goods) });
  if (pitch.length > 0) reasons.push({ name: 'pitch', score: Math.min(8, pitch.length * 2), detail: listed(pitch) });
  if (approach.length > 0) {
    reasons.push({ name: 'approach', score: Math.min(asks ? 6 : 12, approach.length * 3), detail: listed(approach) });
  }
  if (goods.length + pitch.length + approach.length >= 2 && hasLinks && !asks) {
    reasons.push({ name: 'offer', score: 3, detail: 'such words and a link' });
  }
  return reasons;
}

/** Whole words: no letter or digit beside them. Scripts that put no space between words have lists of their own. */
function phrases(alternatives: readonly string[]): RegExp {
  return new RegExp(`(?<![\\p{L}\\p{N}])(?:${alternatives.join('|')})(?![\\p{L}\\p{N}])`, 'gu');
}

function found(text: string, pattern: RegExp): string[] {
  const matches = text.match(pattern);
  return matches === null ? [] : [...new Set(matches)];
}

function listed(words: readonly string[]): string {
  return words
    .slice(0, 5)
    .map((word) => word.slice(0, 60))
    .join(', ');
}

/** Within words of Latin, Greek or Cyrillic letters; elsewhere joiners are spelling. */
const HIDDEN = /[A-Za-z\u0370-\u04ff][\u200b\u2060\ufeff\u00ad][A-Za-z\u0370-\u04ff]/;
const OVERRIDE = /[\u202d\u202e]/;
const SAMPLE = 4096;
/** So much of a text is read letter by letter. */
const READ = 32 * 1024;
/** So many words that mix scripts are looked for. */
const MAX_MIXED_WORDS = 3;

/** Cyrillic and Greek letters that look like these Latin ones. Alpha, mu, kappa and the like are left out: science uses them. */
const LOOK_ALIKES = new Map(
  'аa вb сc еe һh іi јj кk мm нh оo рp ѕs тt хx уy ԁd ԛq ԝw οo ρp νv ιi τt χx υu εe'
    .split(' ')
    .map(([letter = '', latin = '']) => [letter, latin]),
);
const MIXED = /(?:[a-z][\u0370-\u052f]|[\u0370-\u052f][a-z])/i;
const WORD = /[a-z\u0370-\u052f]+/gi;
const STYLED = /[\u{1d400}-\u{1d7ff}\uff21-\uff5a]/u;
const SCRIPTS = ['Latin', 'Cyrillic', 'Greek', 'Arabic', 'Hebrew', 'Devanagari', 'Thai', 'Hangul', 'Han'] as const;
const LETTERS = SCRIPTS.map((script) => [script, new RegExp(`\\p{Script=${script}}`, 'gu')] as const);

/** The text with look-alike and styled letters as the Latin ones that they stand for, for whoever looks for words. */
function undisguised(text: string): string {
  if (!STYLED.test(text) && !MIXED.test(text)) return text;
  const start = text.slice(0, READ).normalize('NFKC');
  return start.replace(WORD, (word) => (MIXED.test(word) ? latinOf(word) : word)) + text.slice(READ);
}

/** What the writing itself says; `own` gives the texts of the form. */
export function disguiseReasons(text: string, own: () => string, hasLinks: boolean): Reason[] {
  const reasons: Reason[] = [];
  if (text.split(HIDDEN, 4).length === 4 || OVERRIDE.test(text)) {
    reasons.push({ name: 'hidden_characters', score: 4, detail: 'characters that cannot be seen' });
  }
  if (isShouting(text.slice(0, SAMPLE))) {
    reasons.push({ name: 'shouting', score: 2, detail: 'capital letters nearly alone' });
  }
  const mixed = mixedWords(text);
  const foreign = hasLinks ? foreignScript(text, own()) : undefined;
  const details = [
    mixed.length === 0 ? [] : `letters of two scripts in ${mixed.join(', ')}`,
    foreign === undefined ? [] : `a link in ${foreign} text, which the form never uses`,
  ].flat();
  if (details.length > 0) {
    const score = (mixed.length === 0 ? 0 : mixed.length < MAX_MIXED_WORDS ? 2 : 6) + (foreign === undefined ? 0 : 2);
    reasons.push({ name: 'script_mismatch', score, detail: details.join('; ') });
  }
  return reasons;
}

function isShouting(sample: string): boolean {
  const capitals = sample.match(/\p{Lu}/gu)?.length ?? 0;
  return capitals >= 40 && capitals > (sample.match(/\p{Ll}/gu)?.length ?? 0) * 5;
}

/** Different words that are Latin but for look-alikes, or the other way round; at most MAX_MIXED_WORDS. */
function mixedWords(text: string): string[] {
  if (!MIXED.test(text)) return [];
  const found = new Set<string>();
  for (const [word] of text.slice(0, READ).matchAll(WORD)) {
    if (word.length < 4 || !MIXED.test(word) || !/^[a-z]+$/i.test(latinOf(word))) continue;
    found.add(word.slice(0, 30));
    if (found.size === MAX_MIXED_WORDS) break;
  }
  return [...found];
}

function latinOf(word: string): string {
  let latin = '';
  for (const letter of word) latin += LOOK_ALIKES.get(letter.toLowerCase()) ?? letter;
  return latin;
}

function foreignScript(text: string, own: string): string | undefined {
  const known = new Set(scriptsOf(own).map(([script]) => script));
  const [main] = scriptsOf(text.replaceAll(/(?:https?:\/\/|www\.)\S+/g, ' ').slice(0, SAMPLE));
  return known.size === 0 || main === undefined || main[0] === 'Latin' || known.has(main[0]) ? undefined : main[0];
}

/** The scripts of a text and how many letters each has, the most used first. */
function scriptsOf(text: string): [script: (typeof SCRIPTS)[number], count: number][] {
  return LETTERS.map(([script, letters]): [typeof script, number] => [script, text.match(letters)?.length ?? 0])
    .filter(([, count]) => count > 0)
    .sort((a, b) => b[1] - a[1]);
}

/**
 * First letters, and behind each those that follow it in fewer than two of a thousand words of every one of 45 languages that are
 * written with Latin letters: word lists of American English, Croatian, Czech, Danish, Dutch, French, German, Hungarian,
 * Italian, Polish, Portuguese, Romanian, Spanish, Swedish and Turkish, and the names of languages, countries and currencies
 * in CLDR for the others. Of their words of eight letters at most one in ten thousand counts as random.
 */
const RARE =
  'bcdkmpqvx cbdfgpwx dqx fckmnpqwx gcfpqx hcdfhpqx jbhjqwxy kdfqxz lqx mqvwxz nx pdmqwxz qbcdfghjklmnpqstwxyz rx sx tq vbdfghmpqwx wbdfgjmqtvwx xbdfgjklmnqrsuvwxyz yqxy zqx';
/** Such a pair, of which the first letter is consumed. */
const RARE_PAIR = new RegExp(RARE.replaceAll(/(\w)(\w+) ?/g, '$1(?=[$2])|').slice(0, -1), 'gi');
const MIN_WORD_LENGTH = 8;
const GIBBERISH_SAMPLE = 4096;
const TOKEN = /[^\s,;:!?()"“”]+/g;
const LONG_WORD = /[A-Za-z]{8,}/g;
const LETTERS_ONLY = /^[A-Za-z]+\.?$/;
const ROMAN = /^[ivxlcdm]+$/i;
/** Looks like data of its own kind, whose letters say nothing. */
const NO_TEXT = /[@\d]|:\/\//;

/** What random letters say. */
export function gibberishReasons(values: readonly Value[]): Reason[] {
  if (!values.some(({ text }) => text.slice(0, GIBBERISH_SAMPLE).match(LONG_WORD)?.some(isRandom))) return [];
  let letters = 0;
  let random = 0;
  let example = '';
  for (const { text } of values) {
    for (const [token] of text.slice(0, GIBBERISH_SAMPLE).matchAll(TOKEN)) {
      if (NO_TEXT.test(token)) continue;
      letters += token.length;
      if (!LETTERS_ONLY.test(token) || !isRandom(token)) continue;
      random += token.length;
      example ||= token.slice(0, 30);
    }
  }
  if (random === 0 || random < letters / 2) return [];
  const score = isNothingElse(values) ? 10 : 4;
  return [{ name: 'gibberish', score, detail: `random letters: ${example}` }];
}

/** Whether letters were drawn by lot. */
function isRandom(word: string): boolean {
  if (word.length < MIN_WORD_LENGTH || ROMAN.test(word)) return false;
  const rare = count(word, RARE_PAIR);
  return (rare >= 2 && rare >= (word.length - 1) / 5) || count(word, INNER_CAPITAL) >= Math.max(3, word.length / 4.2);
}

/** `camelCase` has one. */
const INNER_CAPITAL = /[a-z](?=[A-Z])/g;

function count(word: string, pattern: RegExp): number {
  return word.match(pattern)?.length ?? 0;
}

/** Whether all that was written are words with inner capitals, different ones in two fields or more. */
function isNothingElse(values: readonly Value[]): boolean {
  const texts = new Set(
    values.map(({ text }) => text.trim()).filter((text) => !NO_TEXT.test(text) && /\p{L}/u.test(text)),
  );
  return (
    texts.size >= 2 &&
    [...texts].every(
      (text) => text.length >= MIN_WORD_LENGTH && LETTERS_ONLY.test(text) && count(text, INNER_CAPITAL) > 0,
    )
  );
}
