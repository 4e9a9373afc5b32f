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
  [
    'a chat widget',
    {
      ...kevin,
      message:
        "Hello, my name is Eric and unlike a lot of emails you might get, I wanted to instead provide you with a word of encouragement – Congratulations. Talk With Web Visitor is a software widget that works on your site. CLICK HERE https://talkwithwebvisitors.example to try it. If you'd like to unsubscribe click here https://talk.example/unsub.aspx?d=x",
    },
  ],
  [
    'a directory',
    {
      ...kevin,
      message:
        'Hi there, we noticed your domain is not listed in our directory. Submit your site to 1,000+ search engines and get traffic today: https://listing.example',
    },
  ],
  [
    'a link asked for',
    {
      ...kevin,
      message:
        'Good day. I would like to know if it is possible to place a link on your site to ours. How much do you charge for a guest article with a do-follow link?',
    },
  ],
  [
    'a banker',
    {
      ...kevin,
      message:
        'I have a proposal worth 25 Million USD. I am the manager of a bank in Burkina Faso. Contact me at mr.john@mail.example for details.',
    },
  ],
  [
    'leads again',
    {
      ...kevin,
      message:
        'Hey, are you still looking for quality leads? We provide verified email data of decision makers in your industry. Let me know your target and I will send counts and pricing.',
    },
  ],
  [
    'advertising',
    {
      ...kevin,
      message:
        'Your website could be making more money. I help businesses like yours get more customers with Facebook Ads. Can we hop on a 10 min call? https://calendly.example/x',
    },
  ],
  [
    'hosting',
    {
      ...kevin,
      message: 'Cheap hosting and VPS servers with 80% off only today! order here https://host.example/promo',
    },
  ],
  [
    'a trading robot',
    {
      ...kevin,
      message: 'Earn $5000 weekly trading Bitcoin with our AI robot. Register free https://tinyurl.com/abcd',
    },
  ],
  [
    'a Russian pitch',
    {
      ...kevin,
      message: 'Привет! Предлагаю услуги по продвижению сайта в Яндексе и Google. Пишите в телеграм @seoguru',
    },
  ],
  [
    'a Russian pitch to forums',
    { ...kevin, message: 'Раскрутка и продвижение сайтов, прогон Хрумером по 300 000 сайтов https://t.me/hrumer' },
  ],
  ['diplomas', { ...kevin, message: 'Купить диплом о высшем образовании недорого https://diplom.example' }],
  [
    'messages to forms',
    {
      ...kevin,
      message:
        'Hello! Do you know it is possible to send requests legally? When such requests are sent, no personal data is used and messages are sent to forms specifically designed to receive messages. Contact us. Telegram - @FeedbackFormEU WhatsApp +375259112693',
    },
  ],
  [
    'a factory',
    {
      ...kevin,
      message:
        'Dear owner, We are manufacturer of LED lights from Shenzhen China with competitive price. Please see our catalog www.ledlights.example',
    },
  ],
  [
    'a German crypto system',
    {
      ...kevin,
      message: 'Ich bin Millionär geworden mit diesem Bitcoin-System! Melden Sie sich hier an: https://geld.example',
    },
  ],
  ['dating again', { ...kevin, message: 'Sex dating in your city, beautiful women looking for sex https://is.gd/xyz' }],
  [
    'a false complaint',
    {
      ...kevin,
      message:
        'Your site has been reported for copyright infringement. Download the evidence: https://drive.example/file/evidence.zip',
    },
  ],
  [
    'followers again',
    {
      ...kevin,
      message: 'We can supply you with 10,000 real Instagram followers and likes. Order at https://smm.example',
    },
  ],
  [
    'a loan again',
    {
      ...kevin,
      message: 'Get your business loan approved today. No credit check, low interest. Apply at https://loan.example',
    },
  ],
  ['pills again', { ...kevin, message: 'Male enhancement pills, buy now 70% discount http://pharma.example' }],
  [
    'investors',
    {
      ...kevin,
      message: 'LOOKING FOR INVESTORS. We fund projects from $1M to $5B at 3% interest. Contact: fund@example.com',
    },
  ],
  [
    'a chatbot',
    {
      ...kevin,
      message:
        "Hi, I'm reaching out because I believe your business can benefit from our AI chatbot. It increases conversions by 40%. Would you be open to a quick demo? https://bot.example/demo",
    },
  ],
  [
    'a cheap designer',
    {
      ...kevin,
      message:
        'Greetings, I saw your website and I think we can improve its design and SEO. We charge $99 per month. Interested? Regards, Priya, Business Development Manager',
    },
  ],
  [
    'backlinks at a price',
    {
      ...kevin,
      message:
        'Get 5000 high quality backlinks for just $49. Boost your Google rankings fast! Order: https://cutt.ly/abc',
    },
  ],
  [
    'a pharmacy',
    { ...kevin, message: 'Best online pharmacy, no prescription needed, fast delivery. http://meds.example' },
  ],
  [
    'cash',
    {
      ...kevin,
      message: 'Need cash fast? Payday loans approved in minutes, bad credit ok. Apply now: https://loan.example/x',
    },
  ],
  [
    'a gift card',
    {
      ...kevin,
      message:
        'Congratulations! You have been selected to receive a $1000 Walmart gift card. Click here to claim https://gift.example',
    },
  ],
  [
    'Russian databases',
    { ...kevin, message: 'Мы предлагаем базы данных компаний по всей России и рассылку. WhatsApp +7 900 000 00 00' },
  ],
  [
    'Russian crypto income',
    { ...kevin, message: 'Ищете заработок? Инвестиции в криптовалюту с доходом 30% в месяц https://invest.example' },
  ],
  [
    'a French casino',
    { ...kevin, message: 'Casino en ligne : bonus de 200€ offert, inscrivez-vous ici https://casino.example' },
  ],
  [
    'a German designer',
    {
      ...kevin,
      message:
        'Hallo, wir bieten Ihnen günstige Webseitenerstellung und SEO. Kostenlose Erstberatung unter https://agentur.example',
    },
  ],
  [
    'a domain that expires',
    {
      ...kevin,
      message:
        'We are writing to inform you that your domain registration expires. Renew now to avoid losing your domain: https://renew.example',
    },
  ],
  [
    'an Indian designer',
    {
      ...kevin,
      message:
        'I am a professional web developer from India. We can redesign your website at affordable price. Please share your number.',
    },
  ],
  [
    'stolen themes',
    {
      ...kevin,
      message:
        'Download nulled wordpress themes and plugins free https://nulled.example https://nulled.example/2 https://nulled.example/3',
    },
  ],
  [
    'sunglasses',
    { ...kevin, message: 'Hot deals on Ray-Ban sunglasses, 90% off today only! http://rb.example http://rb2.example' },
  ],
  ['girls', { ...kevin, message: 'Girls want to meet you tonight: https://bit.ly/xx' }],
  [
    'messages through forms',
    {
      ...kevin,
      message:
        'Your message could be here. We deliver messages through contact forms to over 10 million websites. Skype: formblast',
    },
  ],
];
