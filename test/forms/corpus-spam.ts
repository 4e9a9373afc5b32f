/** What robots and bulk senders put into forms, by kind. */
type Sent = Readonly<Record<string, string>>;

const kevin = { name: 'Kevin', email: 'kevin@example.net' };

export const INJECTIONS: readonly (readonly [what: string, fields: Sent])[] = [
  ['Bcc in the name', { name: 'x\r\nBcc: a@example.org,b@example.org', message: 'hi' }],
  ['Cc in the name, a bare line feed', { name: 'x\nCc: a@example.org', message: 'hi' }],
  ['To in the subject', { ...kevin, subject: 'Hello\r\nTo: victim@example.org', message: 'hi' }],
  ['From in the phone', { ...kevin, phone: '1\r\nFrom: ceo@example.org', message: 'hi' }],
  ['Content-Type in _subject', { ...kevin, _subject: 'x\nContent-Type: text/html', message: 'hi' }],
  ['a second subject', { name: 'x\r\n  Subject : You won', message: 'hi' }],
  ['Reply-To in the company', { ...kevin, company: 'Acme\rReply-To: a@example.org', message: 'hi' }],
  ['MIME in the surname', { last_name: 'x\r\n\r\nMIME-Version: 1.0', message: 'hi' }],
  [
    'a whole mail in the message',
    {
      ...kevin,
      message: 'hello\nMIME-Version: 1.0\nContent-Type: text/html\nBcc: a@example.org, b@example.org\n\n<b>Buy</b>',
    },
  ],
];

export const SPAM: readonly (readonly [what: string, fields: Sent])[] = [
  [
    'BBCode links',
    {
      ...kevin,
      message: 'Great post! [url=http://pills.example]cheap pills[/url] [url=http://a.example]x[/url] http://b.example',
    },
  ],
  [
    'HTML links',
    {
      ...kevin,
      message:
        'Nice <a href="http://a.example">a</a> <a href="http://b.example">b</a> <a href=http://c.example>c</a> http://d.example',
    },
  ],
  ['a link farm', { ...kevin, message: Array.from({ length: 12 }, (_, i) => `http://spam${i}.example/buy`).join(' ') }],
  [
    'a link in the name',
    {
      name: 'Win $1000 https://a.example/x',
      email: 'k@example.net',
      message: 'https://a.example/x https://a.example/y',
    },
  ],
  [
    'one link everywhere',
    { name: 'https://spam.example/a', company: 'https://spam.example/a', message: 'https://spam.example/a' },
  ],
  ['random letters', { name: 'RfTbsYnKpWqz', email: 'dj.ru.ke@example.net', message: 'hQvXrLmWzKpT' }],
  [
    'random letters, longer',
    { name: 'qVbZcYpLoWkXnTr', company: 'TzLkWpQrVnXb', email: 'a@example.net', message: 'wXzQpLkVbNmTrYsGh' },
  ],
  [
    'random letters, three fields',
    { first_name: 'IuvBqTzWnLxk', last_name: 'HtXpzRqMvKsd', message: 'pZxVqNwLtKrB', phone: '5551234567' },
  ],
  ['pills', { ...kevin, message: 'Buy Viagra and Cialis without prescription, best price: https://pills.example' }],
  ['pills in disguise', { ...kevin, message: 'Buy Vіаgrа and Сіаlіs from оnlіnе рhаrmасу today' }],
  ['pills in styled letters', { ...kevin, message: '𝐁𝐮𝐲 𝐂𝐢𝐚𝐥𝐢𝐬 𝐚𝐧𝐝 𝐕𝐢𝐚𝐠𝐫𝐚 now' }],
  ['a casino', { ...kevin, message: 'Best online casino bonus with 100 free spins, click https://a.example now' }],
  [
    'a Russian casino',
    { name: 'Иван', message: 'Лучшее онлайн казино, бездепозитный бонус новым игрокам: https://kazino.example' },
  ],
  [
    'an Indonesian casino',
    { ...kevin, message: 'Situs slot gacor terpercaya, judi online deposit pulsa https://slot.example' },
  ],
  [
    'a search pitch',
    {
      ...kevin,
      message:
        'I was on your website and noticed that it is not ranking on the first page of Google. We offer SEO services and can increase your traffic. Reply for a free quote.',
    },
  ],
  [
    'a search pitch without a link',
    {
      ...kevin,
      message:
        'Hi, I can rank your website on page 1 of Google with our SEO packages and quality backlinks. If you are interested, I will send you our price list.',
    },
  ],
  [
    'a pitch for guest posts',
    {
      ...kevin,
      message:
        'We have 5000 websites with high domain authority for guest posting and dofollow backlinks. Shall I send you the list? https://posts.example',
    },
  ],
  [
    'a web designer',
    {
      ...kevin,
      message:
        'While checking your website I found some errors on your site. We are a web design company and can redesign your website. Can I send you a proposal?',
    },
  ],
  [
    'mobile apps',
    {
      ...kevin,
      message:
        'We are a leading mobile app development company with dedicated developers at $15/hour. Reply for a free consultation and we will share our pricing. No obligation.',
    },
  ],
  [
    'contact form marketing',
    {
      ...kevin,
      message:
        'Want to reach millions of contact forms? This message like this one can be sent for you: your ad to millions. Reply stop to opt out.',
    },
  ],
  [
    'explainer videos',
    {
      ...kevin,
      message:
        'We make explainer videos that boost your sales. I came across your website and think a video would bring more customers to your business. Sign up now https://video.example',
    },
  ],
  [
    'followers',
    {
      ...kevin,
      message: 'Buy followers! Instagram followers, TikTok likes and YouTube views, 100% guaranteed, instant delivery.',
    },
  ],
  [
    'crypto trading',
    {
      ...kevin,
      message:
        'Double your bitcoin in 24 hours with our crypto trading bot. Guaranteed profit, risk-free. Join: https://bot.example',
    },
  ],
  [
    'forex',
    {
      ...kevin,
      message:
        'Passive income with forex trading signals. Earn $500 per day and reach financial freedom, see http://forex.example',
    },
  ],
  [
    'work from home',
    {
      ...kevin,
      message:
        'Work from home and make money! Earn up to $2,000 per week, no experience. Click here: https://bit.ly/3xyz',
    },
  ],
  [
    'Russian income',
    {
      name: 'Алексей',
      message:
        'Заработок в интернете без вложений, пассивный доход от 5000 в день! Переходите по ссылке https://money.example',
    },
  ],
  [
    'Russian search pitch',
    {
      name: 'Менеджер',
      message:
        'Продвижение сайтов и обратные ссылки. Можем вывести ваш сайт в топ 10 Яндекса, пишите https://t.me/seo_example',
    },
  ],
  [
    'Russian mailing to forms',
    {
      name: 'Рассылка',
      message:
        'Делаем рассылку по формам обратной связи и продаём базы данных email, дешево https://clck.ru/abc https://t.me/x',
    },
  ],
  [
    'a German pitch',
    {
      name: 'Max',
      message:
        'Mit unserer Suchmaschinenoptimierung und Linkaufbau bringen wir Sie auf Seite 1 bei Google. Klicken Sie hier: https://seo.example',
    },
  ],
  [
    'a French loan',
    {
      name: 'Mme Dupont',
      message:
        'Offre de prêt entre particuliers sérieux, taux 2 %, réponse en 24 h. offre de prêt honnête, cliquez ici',
    },
  ],
  [
    'a Spanish pitch',
    {
      name: 'Luis',
      message:
        'Posicionamiento SEO: su empresa en la primera página de Google y ganar dinero en internet. Haga clic aquí https://seo.example',
    },
  ],
  [
    'a loan',
    {
      ...kevin,
      message:
        'Do you need a business loan? We give loans at 3% interest rate with no credit check. Apply for your loan now, loan offer valid this week.',
    },
  ],
  [
    'an inheritance',
    {
      name: 'Barrister James',
      message:
        'I am contacting you as next of kin to my late client regarding his inheritance fund of 15.5 million dollars. Reply to share.',
    },
  ],
  [
    'a lottery',
    {
      ...kevin,
      message: 'Congratulations, you have won! You are our lottery winner. Claim your prize at https://win.example',
    },
  ],
  [
    'extortion',
    {
      ...kevin,
      message:
        'Your website is hacked. I have access to your data and will publish it unless you send 0.3 BTC to this bitcoin wallet: bc1qexample',
    },
  ],
  [
    'dating',
    { ...kevin, message: 'Hot singles near you! Adult dating and sex chat, no registration https://date.example' },
  ],
  [
    'replicas',
    { ...kevin, message: 'Replica watches, replica handbags, replica Rolex at the lowest price, worldwide shipping' },
  ],
  ['Chinese invoices', { name: '张', message: '代开发票，真实可查，加微信 fp123456' }],
  ['Chinese gambling', { name: '客服', message: '在线赌场 百家乐 注册送彩金 https://bet.example' }],
  [
    'reviews',
    {
      ...kevin,
      message:
        'We remove negative reviews and add Google reviews for your business. Limited time offer, money back guarantee, WhatsApp me.',
    },
  ],
  [
    'a Wikipedia page',
    {
      ...kevin,
      message:
        'Do you want a Wikipedia page for your company? Our digital marketing agency improves your online visibility. Free consultation, act now.',
    },
  ],
  [
    'leads',
    {
      ...kevin,
      message:
        'We sell B2B leads and business email lists for your industry. Qualified leads guaranteed results. Shall we send you samples? Reply unsubscribe to opt out.',
    },
  ],
  [
    'words over and over, and links',
    {
      ...kevin,
      message: `${'buy now cheap shoes '.repeat(60)} http://a.example http://b.example http://c.example http://d.example http://e.example http://f.example`,
    },
  ],
  [
    'hidden characters',
    {
      ...kevin,
      message:
        'We offer back\u200blinks, c\u200ba\u200bs\u200bi\u200bno traffic and guest posts; increase your traffic, click here https://bit.ly/x',
    },
  ],
  [
    'an essay mill',
    {
      ...kevin,
      message:
        'Essay writing service, best writers, 100% guaranteed, money back guarantee. Order at https://essay.example',
    },
  ],
  [
    'a polite pitch that names nothing',
    {
      ...kevin,
      message:
        'Hello, I am reaching out to learn who is responsible for partnerships at your company. Looking forward to hearing from you.',
    },
  ],
];
