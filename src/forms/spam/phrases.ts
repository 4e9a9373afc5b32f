/**
 * Phrases of the usual kinds of spam, in many languages. A phrase is a row of words, of which the first six letters count,
 * so that endings do not matter; `0` is any number. They add to what the model knows, and never make spam of a text alone.
 */
import type { Reason } from './reasons.ts';

type Kind = keyof typeof PHRASES;

/** By kind; separated by `|`. Of scripts without spaces each character is a word. */
const PHRASES = {
  medicines: [
    'viagra|cialis|levitra|kamagra|tramadol online|buy xanax|online pharmacy|canadian pharmacy|without prescription|no prescription|weight loss pills|diet pills|male enhancement|keto gummies|cbd gummies|rezeptfrei kaufen|ohne rezept|potenzmittel|sans ordonnance|perdre du poids rapidement|sin receta|senza ricetta|sem receita|bez recepty|без рецепта|таблетки для потенции|reçetesiz|伟哥|壮阳',
  ],
  casino: [
    'online casino|crypto casino|casino bonus|free spins|no deposit bonus|slot gacor|situs slot|judi online|betting tips|sports betting|bahis sitesi|deneme bonusu|canlı bahis|casino en ligne|tours gratuits|bonus sans dépôt|casino online|giros gratis|tiradas gratis|bonus senza deposito|giri gratis|online casino bonus|freispiele|kasyno online|darmowe spiny|kasino online|онлайн казино|казино онлайн|бездепозитный бонус|фриспины|ставки на спорт|букмекер|كازينو|رهان|קזינו|在线赌场|线上赌场|百家乐|博彩|老虎机|オンラインカジノ|バカラ|카지노|토토사이트|바카라|netticasino|ilmaiskierrokset|nätcasino|gratissnurr|gratis spins|casino på nett|rodadas grátis|free bet',
  ],
  crypto: [
    'crypto trading|crypto investment|bitcoin investment|bitcoin trading|trading bot|trading signals|forex signals|forex trading|guaranteed returns|guaranteed profit|double your bitcoin|double your money|usdt|airdrop|passive income|financial freedom|recover your crypto|recovery of lost|lost bitcoin|binary options|automated trading|krypto handel|bitcoin investieren|passives einkommen|finanzielle freiheit|revenus passifs|investir dans les cryptomonnaies|trading automatique|liberté financière|ingresos pasivos|libertad financiera|invertir en criptomonedas|reddito passivo|guadagni garantiti|renda passiva|renda extra|dochód pasywny|inwestycje w kryptowaluty|инвестиции в криптовалюту|пассивный доход|торговый бот|гарантированный доход|заработок на криптовалюте|пасивний дохід|kripto yatırım|pasif gelir|passiivinen tulo|passiv inkomst|passiv indkomst|passief inkomen|pasivní příjem|الدخل السلبي|تداول العملات|הכנסה פסיבית|比特币投资|虚拟货币|稳赚|加密货币投资|仮想通貨投資|不労所得|自動売買|비트코인 투자|코인 투자|수익 보장|리딩방',
  ],
  'lost wallets': [
    'seed phrase|recovery phrase|wallet recovery|connect your wallet|validate your wallet|wallet synchronization|secret phrase|private key of|trust wallet support|metamask support|wiederherstellungsphrase|phrase de récupération|frase semilla|frase di recupero|frase de recuperação|сид фраза|секретная фраза|助记词|シードフレーズ|시드 구문',
  ],
  loans: [
    'payday loan|business loan|personal loan offer|loan offer|loan at 0|loans at 0|bad credit ok|no credit check|merchant cash advance|business funding|working capital|we fund projects|kredit ohne schufa|sofortkredit|kreditangebot|darlehen ohne|prêt entre particuliers|offre de prêt|prêt sans|crédit rapide|préstamo rápido|oferta de préstamo|préstamos sin|offerta di prestito|prestito veloce|prestito tra privati|empréstimo rápido|oferta de empréstimo|pożyczka bez|szybka pożyczka|oferta pożyczki|půjčka bez|rychlá půjčka|snel geld lenen|lening aanbieding|lån uden sikkerhed|snabblån|lån utan|pikalaina|займ онлайн|микрозайм|кредит без справок|деньги в долг|кредит онлайн|позика онлайн|hızlı kredi|kredi teklifi|قرض سريع|عرض قرض|هل تحتاج الى قرض|הלוואה מהירה|贷款|低息贷款|即日融資|융자|대출 상담',
  ],
  inheritance: [
    'next of kin|inheritance fund|unclaimed fund|unclaimed inheritance|beneficiary of|sum of 0|diplomatic agent|lottery winner|you have won|claim your prize|donation to you|donate to you|late client|business proposal for you|compensation fund|atm card|erbschaft von|ihr gewinn|sie haben gewonnen|un don de|faire un don|héritage de|vous avez gagné|herencia de|ha ganado|usted ha sido|donación de|donazione di|ha vinto|herança de|você ganhou|doação de|spadek po|wygrałeś|наследство|вы выиграли|благотворительный дар|dziedzictwo|kazandınız|miras fonu|الميراث|لقد فزت|遗产|中奖|遺産|当選',
  ],
  'search engines': [
    'seo service|seo services|seo package|seo expert|seo audit|seo agency|seo company|backlink|dofollow|do follow|guest post|guest posting|sponsored post|link insertion|link building|link exchange|domain authority|domain rating|page of google|page 0 of google|page one of google|top of google|rank on google|ranking on google|rank higher|rank your website|search engine optimization|search engine optimisation|organic traffic|website traffic|targeted traffic|increase your traffic|boost your traffic|google ranking|seite 0 bei google|platz 0 bei google|erste seite bei google|seite eins bei google|google ranking|suchmaschinenoptimierung|linkaufbau|mehr besucher|page de google|référencement naturel|première page|netlinking|trafic organique|página de google|posicionamiento web|posicionamiento seo|tráfico orgánico|enlaces de calidad|pagina di google|posizionamento sui motori|traffico organico|página do google|otimização para motores|tráfego orgânico|pozycjonowanie stron|pierwszą stronę google|pozycje w google|eerste pagina van google|zoekmachine optimalisatie|første side på google|første side af google|første side i google|första sidan på google|sökmotoroptimering|søgemaskineoptimering|hakukoneoptimointi|googlen ensimmäi|první stránce google|optimalizace pro vyhledávače|продвижение сайта|продвижение сайтов|раскрутка сайта|вывести сайт в топ|вывод сайта в топ|топ 0 яндекса|топ яндекса|обратные ссылки|вечные ссылки|трафик на сайт|просування сайтів|просування сайту|топ google|google ilk sayfa|google da ilk|arama motoru optimizasyonu|hacklink|الصفحة الاولى في|تحسين محركات البحث|العمود الاول في جوجل|روابط خلفية|קידום אתרים|בעמוד הראשון בגוגל|קישורים|谷歌排名|谷歌优化|seo优化|百度排名|网站优化|外链|被リンク|上位表示|seo対策|検索順位|상위노출|백링크|검색 최적화',
  ],
  'web design': [
    'website redesign|redesign your website|redesign your site|web design services|web design company|web development company|website development|app development company|mobile app development|wordpress developer|dedicated developers|offshore development|explainer video|logo design services|ihre website modernisieren|neue website für|refonte de votre site|création de site|rediseño de su|diseño web económico|rifacimento del sito|realizzazione siti|redesenho do seu|criação de sites|nowa strona internetowa dla|nieuwe website voor|создание сайтов|разработка сайтов|разработка сайта|створення сайтів|web tasarım hizmeti|تصميم مواقع|בניית אתרים|网站建设|ホームページ制作|홈페이지 제작',
  ],
  lists: [
    'email list|email database|b0b leads|b0b database|business database|verified leads|verified email|contact database|decision makers|mailing list|attendee list|attendees list|list of attendees|qualified leads|lead generation|targeted leads|appointment setting|cold email|adressliste|firmenadressen|email adressen kaufen|base de données|bases de données|fichier prospects|base de datos de|listas de correo|elenco contatti|database aziende|lista de emails|banco de dados de|baza firm|baza danych firm|baza email|база данных|базы данных|база компаний|база email|база клиентов|veritabanı|قاعدة بيانات|客户名单|数据库|营销名单|顧客リスト|営業リスト|데이터베이스 판매',
  ],
  'form mailing': [
    'contact form|contact forms|feedback forms|contact page of|website forms|submit your message to|message to 0 million|millions of websites|millions of sites|message like this|your ad to|through contact form|contact form marketing|formular marketing|kontaktformulare|formulaires de contact|formularios de contacto|formulari di contatto|formulários de contato|formularze kontaktowe|рассылка по формам|рассылка по|формы обратной связи|рассылки писем|розсилка|iletişim formlarına|お問い合わせフォーム営業|フォーム営業',
  ],
  approach: [
    'came across your website|came across your site|came across your business|found your website|found your site|visited your website|visiting your website|looking at your website|was on your website|browsing your website|noticed that your website|noticed your website|your website and noticed|checked your website|reviewed your website|businesses like yours|companies like yours|website like yours|business owners like|i am reaching out|i m reaching out|reaching out to|quick call|0 minute call|hop on a|free audit|free quote|free consultation|free proposal|free analysis|free demo|free mockup|no obligation|may i send|can i send you|shall i send|should i send|send you a quote|send you the|send you a proposal|send you our|price list|are you interested|if interested|if you are interested|would you be interested|would you be open|opt out|unsubscribe|to be removed|dear webmaster|dear website owner|dear site owner|dear business owner|hello website owner|business development manager|business development executive|bei der durchsicht ihrer|auf ihre website gestoßen|auf ihre webseite gestoßen|auf ihre website aufmerksam|unverbindliches angebot|kostenlose analyse|kostenlose erstberatung|kostenloses erstgespräch|0 minütiges gespräch|kurzes gespräch|unternehmen wie ihres|unternehmen wie ihrem|abmelden|j ai visité votre site|en visitant votre site|j ai découvert votre|je suis tombé sur votre|audit gratuit|devis gratuit|sans engagement|me désinscrire|se désinscrire|vous désabonner|visité su sitio|visitando su sitio|encontré su sitio|auditoría gratuita|presupuesto sin compromiso|sin compromiso|darse de baja|empresas como la suya|ho visitato il vostro|visitando il vostro sito|ho trovato il vostro|analisi gratuita|senza impegno|aziende come la vostra|cancellarti|visitei seu site|visitei o seu site|encontrei seu site|análise gratuita|sem compromisso|empresas como a sua|descadastrar|odwiedziłem państwa stronę|trafiłem na państwa stronę|bezpłatny audyt|darmowy audyt|bezpłatna wycena|niezobowiązujący|na uw website|op uw website|vrijblijvend|gratis analyse|besökte er hemsida|besøgte jeres hjemmeside|gratis analys|uforpligtende|kostnadsfri analys|sivustoonne|ilmainen kartoitus|navštívil vaše stránky|nezávazn nabídka|bezplatný audit|зашел на ваш сайт|зашли на ваш сайт|посетил ваш сайт|нашли ваш сайт|увидел ваш сайт|бесплатный аудит|бесплатная консультация|коммерческое предложение|отписаться|відвідав ваш сайт|безкоштовний аудит|комерційна пропозиція|web sitenizi inceledim|sitenizi ziyaret|ücretsiz analiz|زرت موقعكم|تصفحت موقعكم|استشارة مجانية|ביקרתי באתר|ניתוח חינם|ייעוץ חינם|免费咨询|免费试用|免费测试|贵公司网站|加微信|貴社のホームページ|貴社サイト|御社のホームページ|無料診断|無料相談|無料トライアル|무료 상담|무료 진단|귀사의 홈페이지',
  ],
  urgency: [
    'act now|renew now|limited time offer|limited time|today only|click here|click the link|click below|sign up now|order now|buy now|risk free|money back guarantee|0 off|jetzt klicken|jetzt sichern|hier klicken|jetzt anmelden|nur heute|cliquez ici|inscrivez vous|offre limitée|haga clic|haz clic|oferta limitada|solo hoy|clicca qui|offerta limitata|solo oggi|clique aqui|apenas hoje|kliknij tutaj|tylko dzisiaj|oferta ograniczona|klik hier|klicka här|klik her|klikkaa tästä|klikněte zde|переходите по ссылке|перейдите по ссылке|жмите сюда|только сегодня|пишите в телеграм|пишите в telegram|переходьте за посиланням|тільки сьогодні|hemen tıkla|buraya tıklayın|اضغط هنا|انقر هنا|اضغط على الرابط|לחץ כאן|לחצו כאן|点击链接|立即点击|点击这里|今すぐクリック|こちらをクリック|지금 클릭|여기를 클릭|클릭하세요',
  ],
  'copyright claims': [
    'my images without|my photos without|my pictures without|used my images|using my images|your website is using my|copyright infringement|copyrighted images|legal action against|download the evidence|check out this document|dmca|illegal use of|meine bilder ohne|meine fotos ohne|urheberrechtsverletzung auf|beweise herunterladen|mes photos sans|mes images sans|violation du droit|mis fotos sin|mis imágenes sin|infracción de derechos|le mie foto senza|le mie immagini senza|violazione del copyright|minhas fotos sem|minhas imagens sem|moje zdjęcia bez|naruszenie praw autorskich|mijn foto s zonder|мои фотографии без|мои изображения|нарушение авторских|fotoğraflarımı|telif hakkı ihlali|盗用了我的图片|侵犯版权|著作権侵害|저작권 침해',
  ],
  'domain notices': [
    'domain registration expire|domain expire|domain will expire|domain name expire|domain expiration|domain renewal|renew your domain|final notice|expiration notice|search engine registration|search engine submission|google search index|your domain has been|trademark registration|domain service notice|ihre domain läuft|domain läuft ab|letzte mahnung|votre domaine expire|votre nom de domaine|su dominio vence|su dominio caduca|il vostro dominio scade|il suo dominio sta|seu domínio expira|seu domínio vence|domena wygasa|ważność domeny|uw domein verloopt|ваш домен истекает|срок регистрации домена|домен заканчивается|alan adınız|域名到期|域名争议|ドメインの有効期限|도메인 만료',
  ],
  'account warnings': [
    'your page will be|page has been scheduled|scheduled for deletion|permanently deleted|permanently disabled|violates our community|violated our community|community standards|page deletion|account suspended|account will be suspended|verify your account|confirm your identity|facebook business|meta business support|mailbox is full|mailbox storage|ihre seite wird|seite wird gelöscht|konto wird gesperrt|gegen unsere gemeinschaftsstandards|votre page sera|page a été signalée|sera supprimée définitivement|su página será|será eliminada|normas comunitarias|la vostra pagina sarà|verrà eliminata|standard della community|sua página será|será excluída|padrões da comunidade|państwa strona zostanie|zostanie usunięta|wordt permanent verwijderd|ваша страница будет|будет удалена|нарушение правил сообщества|sayfanız kalıcı|topluluk standartları|سيتم حذف صفحتك|معايير المجتمع|הדף שלך יימחק|您的主页|您的账户|アカウントが停止|귀하의 페이지',
  ],
  extortion: [
    'recorded you|full access to your|hacked your|your device was|your system was hacked|database has been|site has been hacked|website has been hacked|pay the ransom|send 0 bitcoin|bitcoin wallet|leak your|ich habe ihre website gehackt|ihre datenbank|votre site a été piraté|base de données piratée|hemos hackeado|abbiamo hackerato|hackeamos|zhakowaliśmy|мы взломали|ваш сайт взломан|sitenizi hackledik',
  ],
  dating: [
    'adult dating|sex dating|sex chat|sex cam|nude photos|hot girls|beautiful girls|hot singles|single women|lonely women|meet tonight|meet you tonight|escort|porn|onlyfans|sexpartner|einsame frauen|heiße frauen|sextreffen|femmes seules|rencontre coquine|plan cul|mujeres solteras|chicas calientes|sexo sin|donne sole|incontri di sesso|mulheres solteiras|garotas de programa|samotne kobiety|sex randki|eenzame vrouwen|ensomme kvinder|ensamma kvinnor|девушки ждут|секс знакомства|интим знакомства|проститутки|azgın kadın|escort bayan|نساء عازبات|تعارف جنسي|היכרויות דיסקרטיות|成人视频|约炮|同城交友|出会い系|セフレ|조건만남|성인 만남',
  ],
  'easy money': [
    'make money online|make money from home|earn money|earn up to|earn $0|0 per day|0 a day|per week from home|work from home|extra income|home based business|online job|part time job|geld verdienen|von zu hause verdienen|nebenverdienst|heimarbeit|gagner de l argent|gagnez de l argent|travail à domicile|revenus complémentaires|ganar dinero|gana dinero|trabajo desde casa|trabaja desde casa|guadagnare online|guadagna da casa|lavoro da casa|ganhar dinheiro|ganhe dinheiro|trabalhe em casa|zarabiaj|zarabianie w internecie|praca zdalna bez|geld verdienen|thuis geld|tjäna pengar|tjen penge|ansaitse rahaa|vydělávejte|vydělávat z domova|заработок в интернете|заработок без вложений|заработать деньги|ищете подработку|заробіток в інтернеті|evden para kazan|para kazanmak|اربح المال|العمل من المنزل|הרוויחו כסף|להרוויח מהבית|刷单|兼职|日赚|在家赚钱|稼げる副業|副業で稼|簡単に稼|재택부업|고수익 알바|월수입',
  ],
  followers: [
    'instagram followers|buy followers|real followers|tiktok followers|youtube subscribers|youtube views|google reviews|positive reviews|negative reviews|remove negative|wikipedia page|verified badge|blue badge|follower kaufen|google bewertungen|acheter des abonnés|avis google|comprar seguidores|reseñas de google|comprare follower|recensioni google|avaliações do google|kup obserwujących|opinie google|накрутка подписчиков|накрутка отзывов|takipçi satın|شراء متابعين|купить отзывы|刷粉|フォロワー購入|팔로워 구매',
  ],
  goods: [
    'replica watch|replica handbags|rolex replica|ray ban sunglasses|gift card|cheap luxury|leading manufacturer|professional manufacturer|we are a manufacturer|we are manufacturer|factory in china|supplier from china|factory direct|competitive price|our catalog|our catalogue|wholesale price|custom packaging|oem odm|купить диплом|диплом без|купить права|fake documents|buy documents|driver license online|replika uhren|réplique de montre|réplicas de relojes|repliche orologi|podróbki zegarków|代开发票|办证|厂家直销|ブランドコピー|スーパーコピー|명품 레플리카',
  ],
} as const;

/** What one phrase of a kind says, and the first of another. An approach by itself is what many honest firms do as well. */
const POINTS: Readonly<Partial<Record<Kind, number>>> = { approach: 4, urgency: 4, goods: 4, 'web design': 4 };
const USUAL_POINTS = 5;
const MAX_POINTS = 20;
const MAX_LISTED = 5;

export interface Words {
  /** Hashes of the first letters of each word, in order. */
  readonly words: readonly number[];
}

/** Finds phrases among the words of a text. */
export type FindPhrases = (submission: Words) => Reason[];

interface Phrase {
  readonly kind: Kind;
  readonly text: string;
}

/** The finder; `wordsOf` gives the hashes of the words of a phrase. */
export function createFindPhrases(wordsOf: (text: string) => readonly number[]): FindPhrases {
  const phrases = new Map<number, Phrase>();
  /** How phrases begin: elsewhere none is looked for. */
  const beginnings = new Set<number>();
  for (const kind of Object.keys(PHRASES) as Kind[]) {
    for (const text of PHRASES[kind].flatMap((list) => list.split('|'))) {
      let key = START;
      for (const word of wordsOf(text)) {
        key = next(key, word);
        beginnings.add(key);
      }
      phrases.set(key, { kind, text });
    }
  }
  return ({ words }) => {
    const found = new Set<Phrase>();
    for (let at = 0; at < words.length; at++) {
      let key = START;
      for (let end = at; end < words.length; end++) {
        key = next(key, words[end] ?? 0);
        if (!beginnings.has(key)) break;
        const phrase = phrases.get(key);
        if (phrase !== undefined) found.add(phrase);
      }
    }
    return found.size === 0 ? [] : reasonOf([...found]);
  };
}

const START = 0x2545f491;

function next(key: number, word: number): number {
  return Math.imul(key ^ word, 0x01000193) ^ (word >>> 13);
}

function reasonOf(found: readonly Phrase[]): Reason[] {
  const points = found.reduce((sum, { kind }) => sum + (POINTS[kind] ?? USUAL_POINTS), 0);
  const kinds = [...new Set(found.map(({ kind }) => kind))].join(', ');
  const listed = found.slice(0, MAX_LISTED).map(({ text }) => text);
  return [{ name: 'phrases', score: Math.min(MAX_POINTS, points), detail: `${kinds}: ${listed.join(', ')}` }];
}
