/** Mail that people really write to firms, clubs and shops, in many languages: all of it must pass level `normal`. */
type Sent = Readonly<Record<string, string>>;

const ana = { name: 'Ana García', email: 'ana@example.org' };

export const HONEST: readonly (readonly [what: string, fields: Sent])[] = [
  [
    'English',
    { ...ana, message: 'Hi, do you have a table for four on Saturday at eight? One of us is vegetarian. Thanks!' },
  ],
  [
    'German',
    {
      name: 'Jürgen Groß',
      email: 'j@example.de',
      message:
        'Sehr geehrte Damen und Herren, ich interessiere mich für eine Wärmepumpe und bitte um ein Angebot für unser Einfamilienhaus (Baujahr 1978, 140 m²). Mit freundlichen Grüßen',
    },
  ],
  [
    'German, all capitals',
    {
      name: 'KARL-HEINZ SCHMIDT',
      email: 'kh@example.de',
      message:
        'BITTE RUFEN SIE MICH DRINGEND ZURÜCK, DIE HEIZUNG IST SEIT GESTERN AUSGEFALLEN UND WIR HABEN ZWEI KLEINE KINDER IM HAUS. TELEFON 0151 23456789',
    },
  ],
  [
    'German, long compounds',
    {
      name: 'Rechtsanwältin Dr. Weiß',
      message:
        'Es geht um die Rindfleischetikettierungsüberwachungsaufgabenübertragung, die Grundstücksverkehrsgenehmigungszuständigkeit und die Donaudampfschifffahrtsgesellschaft.',
    },
  ],
  [
    'French',
    {
      name: 'Émilie Lefèvre',
      email: 'e@example.fr',
      message:
        "Bonjour, je souhaiterais savoir si votre gîte est disponible du 12 au 19 août pour cinq personnes. Acceptez-vous les chiens ? Merci d'avance, bien cordialement.",
    },
  ],
  [
    'Spanish',
    {
      name: 'José Núñez',
      message:
        '¡Buenos días! Quería preguntar si reparan lavadoras de la marca Bosch y cuánto cuesta el desplazamiento a Alcalá de Henares.',
    },
  ],
  [
    'Portuguese',
    {
      name: 'João Conceição',
      message:
        'Olá, gostaria de marcar uma consulta para a minha mãe. Ela tem 82 anos e não consegue subir escadas. O consultório tem elevador?',
    },
  ],
  [
    'Italian',
    {
      name: 'Giuseppe D’Angelo',
      message:
        'Buongiorno, vorrei un preventivo per 120 bomboniere per un matrimonio a settembre. È possibile personalizzarle? Grazie mille.',
    },
  ],
  [
    'Dutch',
    {
      name: 'Sjoerd van ’t Hoff',
      message:
        'Goedemiddag, ik heb gisteren een fiets bij jullie gekocht maar het slot ontbreekt. Kan ik dat zaterdag komen ophalen?',
    },
  ],
  [
    'Polish',
    {
      name: 'Grzegorz Brzęczyszczykiewicz',
      message:
        'Dzień dobry, proszę o wycenę remontu łazienki w Szczebrzeszynie. Powierzchnia 6 m², płytki już mam. Pozdrawiam serdecznie.',
    },
  ],
  [
    'Czech',
    {
      name: 'Jiří Zvěřina',
      message:
        'Dobrý den, chtěl bych si objednat zmrzlinový dort na čtvrtek. Strč prst skrz krk, prosím jako nápis. Děkuji.',
    },
  ],
  [
    'Hungarian',
    {
      name: 'Szűcs Örs',
      message:
        'Jó napot! Szeretnék időpontot kérni fogászati kezelésre, lehetőleg jövő hét csütörtökre. Köszönöm szépen.',
    },
  ],
  [
    'Turkish',
    {
      name: 'Çağrı Yıldız',
      message:
        'Merhaba, geçen hafta verdiğim siparişin ne zaman kargoya verileceğini öğrenebilir miyim? Sipariş numarası 48213. İyi günler.',
    },
  ],
  [
    'Vietnamese',
    {
      name: 'Nguyễn Thị Hương',
      message:
        'Xin chào, tôi muốn hỏi giá phòng cho hai người lớn và một trẻ em từ ngày 3 đến ngày 6 tháng 7. Cảm ơn nhiều.',
    },
  ],
  [
    'Finnish',
    {
      name: 'Väinö Hämäläinen',
      message:
        'Hei, onko teillä vapaita mökkejä juhannukseksi? Meitä olisi kuusi aikuista ja yksi koira. Ystävällisin terveisin',
    },
  ],
  [
    'Swedish',
    {
      name: 'Åsa Öberg',
      message: 'Hej! Jag undrar om ni kan laga en gammal Husqvarna-symaskin, den har stått på vinden sedan åttiotalet.',
    },
  ],
  [
    'Danish',
    {
      name: 'Søren Kjærgaard',
      message:
        'Goddag, vi er en skoleklasse på 24 elever og vil gerne besøge gården i uge 19. Er det muligt, og hvad koster det?',
    },
  ],
  [
    'Welsh',
    {
      name: 'Gwenllian',
      message:
        'Bore da, hoffwn ddod i Lanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogoch ddydd Sadwrn. Oes lle i barcio?',
    },
  ],
  [
    'Icelandic',
    {
      name: 'Þórdís',
      message: 'Góðan daginn, ég vil panta borð fyrir þrjá á föstudagskvöld. Getið þið tekið tillit til ofnæmis?',
    },
  ],
  [
    'Romanian',
    {
      name: 'Ștefan Țăranu',
      message: 'Bună ziua, aș dori să știu dacă livrați și în Cluj-Napoca și cât durează livrarea. Mulțumesc!',
    },
  ],
  [
    'Croatian',
    {
      name: 'Željko Vrh',
      message:
        'Poštovani, zanima me imate li slobodan apartman na Krku od 1. do 8. srpnja za četiri osobe. Lijep pozdrav.',
    },
  ],
  [
    'Indonesian',
    {
      name: 'Siti',
      message:
        'Selamat siang, apakah masih ada kamar kosong untuk tanggal 5? Kami berempat, dua dewasa dan dua anak. Terima kasih.',
    },
  ],
  [
    'Swahili',
    {
      name: 'Wanjiru',
      message: 'Habari, ningependa kujua bei ya safari ya siku tatu kwa watu wawili mwezi wa nane. Asante sana.',
    },
  ],
  [
    'Zulu',
    {
      name: 'Nqobile Mngqithi',
      message: 'Sawubona, ngicela ukwazi ukuthi nivula nini ngoMgqibelo. Ngiyabonga kakhulu.',
    },
  ],
  [
    'Russian',
    {
      name: 'Ольга Петрова',
      message:
        'Здравствуйте! Подскажите, пожалуйста, есть ли в наличии чайник модели ТК-200 и сколько стоит доставка в Казань?',
    },
  ],
  [
    'Russian with a link',
    {
      name: 'Ольга',
      message: 'Добрый день! Вот фотографии дефекта: https://photos.example/album/1 Когда сможет приехать мастер?',
    },
  ],
  [
    'Russian with Latin names',
    {
      name: 'Иван',
      message: 'Купил у вас iPhone и MacBook, не работает Wi-Fi. Прислать чек на e-mail или в WhatsApp?',
    },
  ],
  [
    'Russian with one slip of the keyboard',
    { name: 'Пётр', message: 'Cпасибо за быстрый ответ, заказ получил, всё отлично!' },
  ],
  [
    'Ukrainian',
    {
      name: 'Зоряна',
      message: 'Доброго дня! Чи можна записати дитину на заняття з плавання у вересні? Їй щойно виповнилося п’ять.',
    },
  ],
  [
    'Bulgarian',
    {
      name: 'Цветан',
      message: 'Здравейте, бих искал да попитам дали извършвате ремонт на покриви в София и какво струва огледът.',
    },
  ],
  [
    'Greek',
    {
      name: 'Γιώργος Παπαδόπουλος',
      message: 'Καλημέρα σας, θα ήθελα να μάθω αν υπάρχει διαθέσιμο δωμάτιο για το Σαββατοκύριακο. Ευχαριστώ πολύ.',
    },
  ],
  [
    'Greek letters in science',
    {
      name: 'Dr Chen',
      message:
        'We measured the TNFα, IFNγ and NFκB levels, with 5 μg/mL and λmax of 280 nm; the ΔG was computed by β-test. Can your lab do the same for TGFβ and PPARγ?',
    },
  ],
  [
    'Arabic',
    {
      name: 'محمد العلي',
      message: 'السلام عليكم، أود الاستفسار عن مواعيد الدورات المسائية ورسوم التسجيل. هل يوجد خصم للطلاب؟ وشكراً جزيلاً.',
    },
  ],
  [
    'Arabic with a link',
    {
      name: 'فاطمة',
      message: 'مرحباً، هذه سيرتي الذاتية https://cv.example/fatima وأرغب في التقدم للوظيفة المعلن عنها.',
    },
  ],
  [
    'Persian',
    {
      name: 'سارا',
      message: 'سلام، می‌خواهم بدانم آیا کتاب‌های شما را می‌توان از ایران سفارش داد و هزینه‌ی ارسال چقدر است؟',
    },
  ],
  [
    'Hebrew',
    {
      name: 'נועה כהן',
      message: 'שלום, רציתי לשאול אם ניתן להזמין סיור קבוצתי ליום שלישי הבא. אנחנו קבוצה של כעשרים איש. תודה רבה!',
    },
  ],
  [
    'Hindi',
    { name: 'अनिता शर्मा', message: 'नमस्ते, मुझे अपनी बेटी के लिए कथक कक्षाओं के बारे में जानकारी चाहिए। कृपया समय और शुल्क बताएँ।' },
  ],
  ['Bengali', { name: 'রহিম', message: 'নমস্কার, আমি আপনাদের দোকান থেকে একটি শাড়ি কিনতে চাই। ঢাকায় ডেলিভারি দেন কি?' }],
  ['Tamil', { name: 'கவிதா', message: 'வணக்கம், உங்கள் உணவகத்தில் ஞாயிற்றுக்கிழமை பத்து பேருக்கு இடம் கிடைக்குமா?' }],
  ['Thai', { name: 'สมชาย', message: 'สวัสดีครับ อยากสอบถามว่าห้องพักสำหรับวันที่ 12 ยังว่างอยู่ไหมครับ และราคารวมอาหารเช้าหรือเปล่า' }],
  [
    'Chinese',
    {
      name: '王小明',
      email: 'wang@example.cn',
      message: '您好，我想咨询一下贵公司的产品价格以及最小起订量，能否发一份目录给我？谢谢！',
    },
  ],
  [
    'Chinese, traditional',
    { name: '陳美玲', message: '請問週末的手作課程還有名額嗎？我和朋友兩個人想參加，另外想知道是否需要自備材料。' },
  ],
  [
    'Japanese',
    {
      name: '田中太郎',
      message:
        'お世話になっております。来月の工場見学の件で、参加人数の変更をお願いできますでしょうか。よろしくお願いいたします。',
    },
  ],
  [
    'Korean',
    {
      name: '김민수',
      message: '안녕하세요. 지난주에 주문한 상품이 아직 도착하지 않아서 문의드립니다. 주문 번호는 20391입니다.',
    },
  ],
  ['Georgian', { name: 'ნინო', message: 'გამარჯობა, მაინტერესებს გაქვთ თუ არა თავისუფალი ოთახი ივლისში. გმადლობთ.' }],
  ['Armenian', { name: 'Անի', message: 'Բարև Ձեզ, կցանկանայի իմանալ, թե երբ է սկսվում դասընթացը և որքան արժե։' }],
  ['Amharic', { name: 'ሰላም', message: 'ጤና ይስጥልኝ፣ ስለ ቡናው ዋጋ ማወቅ እፈልጋለሁ። አመሰግናለሁ።' }],
  [
    'two languages',
    {
      name: 'Yuki Tanaka 田中',
      message: 'Hello, I would like to order 抹茶 and 煎茶, two packs each. 英語でも日本語でも大丈夫です。',
    },
  ],
  ['hi', { message: 'hi' }],
  ['a single word', { name: 'Bo', message: 'Danke!!!' }],
  ['a test by the owner', { name: 'test', email: 'test@example.com', message: 'test test test' }],
  ['a test with both hands', { name: 'asdfasdf', email: 'asdf@example.com', message: 'asdfghjkl qwertzuiop' }],
  ['laughter', { ...ana, message: 'hahahahahahahahaha jajajajaja kkkkkkkkkkkk wkwkwkwkwk' }],
  ['emoji alone', { ...ana, message: '😀😀😀👍👍🎉🎉' }],
  [
    'JavaScript',
    {
      ...ana,
      message:
        'This fails:\nfunction init() {\n  document.getElementById("x").addEventListener("click", (e) => fetch(`/api/${e.target.id}`).then((r) => r.json()));\n}\nUncaught TypeError: cannot read properties of null',
    },
  ],
  [
    'HTML',
    {
      ...ana,
      message:
        'How do I embed it? I tried\n<form action="https://example.com/contact" method="POST">\n<input name="email"><a href="#">x</a>\n</form>',
    },
  ],
  [
    'SQL',
    {
      ...ana,
      message:
        "SELECT u.id, u.name FROM users u LEFT JOIN orders o ON o.uid = u.id WHERE u.created > '2024-01-01' GROUP BY 1 HAVING count(*) > 3;",
    },
  ],
  [
    'a shell session',
    {
      ...ana,
      message:
        '$ curl -sS https://api.example.com/v1/send -H "Authorization: Bearer $KEY"\ncurl: (60) SSL certificate problem: unable to get local issuer certificate\n$ uname -a\nLinux srv1 6.1.0-13-amd64 x86_64 GNU/Linux',
    },
  ],
  [
    'a key in Base64',
    {
      ...ana,
      message:
        'My public key is ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHVzZXJfa2V5X2V4YW1wbGVfZm9yX3Rlc3RzX29ubHk ana@laptop',
    },
  ],
  [
    'a hash and an id',
    {
      ...ana,
      message:
        'Commit 3f2a9bc1d4e5f60718293a4b5c6d7e8f90a1b2c3, request req_01kdvdna00dygrdbn7kp1hvk3p, UUID 9b2e4f2a-7c1d-4e0f-8a3b-5d6c7e8f9a0b',
    },
  ],
  [
    'product codes',
    {
      ...ana,
      message: 'Please send: XKJQ-2931-B (4), WZ/TRX/90 (2), ZXPQ9914 (1), and 10 of the BNC-SMA-F/M adapters.',
    },
  ],
  ['a serial number alone', { name: 'Ana', serial: 'XKQWVZJHTR', message: 'It does not start any more.' }],
  [
    'two licence keys',
    { licence: 'XKQWV-ZJHTR-PLMKQ-BXZQW', hardware: 'QZXJKVWPQ', name: 'Ana', message: 'activation fails' },
  ],
  [
    'legal text',
    {
      name: 'Kanzlei',
      message:
        'Hiermit zeige ich an, dass ich Herrn Muster anwaltlich vertrete. Gemäß § 433 Abs. 1 BGB i.V.m. § 280 Abs. 1, 2, § 286 BGB fordere ich Sie auf, bis zum 31.03. zu leisten. Andernfalls werde ich Klage erheben. Eine auf mich lautende Vollmacht füge ich bei (Anlage K1).',
    },
  ],
  [
    'a request by law',
    {
      ...ana,
      message:
        'Under Article 15 GDPR I request a copy of all personal data that you hold about me. If you do not reply within one month I shall complain to the supervisory authority.',
    },
  ],
  [
    'a long signature',
    {
      ...ana,
      message: `Please call me back.\n\n-- \nAna García\nHead of Purchasing\nAcme Industrial S.L.\nPolígono Industrial Sur, Nave 14, 28906 Getafe (Madrid)\nTel.: +34 910 000 000 | Fax: +34 910 000 001 | Mob.: +34 600 000 000\nwww.acme.example | ana.garcia@acme.example\n${'='.repeat(70)}\nThis message and its attachments are confidential. If you are not the intended recipient, please notify the sender and delete it.`,
    },
  ],
  [
    'phone numbers',
    {
      ...ana,
      phone: '+49 (0)30 / 123 456-78',
      message: '030 12345678, 0171-2345678, +1 (555) 010-9999, ٠١٢٣٤٥٦٧٨٩, 04 12 34 56 78',
    },
  ],
  [
    'an order with links',
    {
      ...ana,
      message:
        'I would like to order:\n1) https://shop.example/p/chair-oak?size=m (4 x)\n2) https://shop.example/p/table-oak (1 x)\n3) https://shop.example/p/lamp (2 x)\n4) https://shop.example/p/rug-blue (1 x)\nDelivery to Lyon, please. Can I pay by invoice?',
    },
  ],
  [
    'a job application',
    {
      ...ana,
      message:
        'I came across your website and would like to apply as a nurse. My CV is at https://ana.example/cv.pdf and my references at https://ana.example/refs. I am interested in part-time work.',
    },
  ],
  [
    'a journalist',
    {
      ...ana,
      message:
        'I write for a local paper about passive income and crypto scams. Could we quote you? If you are interested, call me by Friday.',
    },
  ],
  [
    'a pharmacist',
    {
      name: 'Dr. Singh',
      message:
        'Patient takes tramadol 50 mg and sildenafil; can it be combined with escitalopram, hydroxychloroquine and acetylsalicylic acid? Phenylketonuria is known.',
    },
  ],
  [
    'a doctor',
    {
      name: 'Klinik',
      message:
        'Überweisung zur Ösophagogastroduodenoskopie, V.a. Pneumonoultramicroscopicsilicovolcanoconiosis, Z.n. Cholezystektomie; Befund: Hypercholesterinämie, Sphinkterotomie.',
    },
  ],
  [
    'a customer of a search agency',
    {
      ...ana,
      company: 'Bakery',
      website: 'https://bakery.example',
      message: 'We need SEO services and maybe link building for our bakery. What do your packages cost?',
    },
  ],
  [
    'a customer of a web agency',
    {
      ...ana,
      message:
        'We are looking for a web design agency for a website redesign and digital marketing services. Our site is https://acme.example. Could you send us a quote?',
    },
  ],
  [
    'a customer of a web agency who knows the words',
    {
      ...ana,
      message:
        'I would like a free quote for a website redesign, SEO and Google Ads. Our site https://a.example is not on the first page of Google.',
    },
  ],
  [
    'a customer of a marketing agency',
    {
      ...ana,
      message:
        'Can you help us get more customers with Google Ads and Facebook Ads? Our website https://a.example needs more traffic.',
    },
  ],
  [
    'a manufacturer who buys',
    {
      ...ana,
      message:
        'We are a manufacturer of furniture in Portugal and need 500 m of your fabric. Please send us your price list. WhatsApp: +351 912 345 678, www.moveis.example',
    },
  ],
  [
    'a broken shop',
    {
      ...ana,
      message: 'The 20% discount code does not work and the button “Order now” is broken: https://shop.example/cart',
    },
  ],
  [
    'somebody who wants no more mail',
    {
      ...ana,
      message:
        'I want to unsubscribe from your newsletter, but https://shop.example/unsubscribe answers 404. A limited time offer every day is too much.',
    },
  ],
  [
    'a plumber',
    {
      ...ana,
      message:
        'Are you still looking for a plumber? I saw your ad and could start on Monday. Call or WhatsApp me at 0600 000 000.',
    },
  ],
  [
    'an investor’s taxes',
    {
      ...ana,
      message:
        'I made money with bitcoin and crypto trading last year and need a tax adviser. Is the first consultation free? My exchange is https://x.example.',
    },
  ],
  [
    'a customer of a bank',
    {
      ...ana,
      message:
        'I would like to apply for a loan to renovate my house, about 40,000 euros over ten years. What is your interest rate?',
    },
  ],
  [
    'a casino',
    {
      ...ana,
      company: 'Grand Casino',
      message:
        'Our casino in Lucerne needs 40 chairs for its restaurant. We also run an online casino, which needs none.',
    },
  ],
  [
    'a victim of spam',
    {
      ...ana,
      message:
        'I got a mail in your name that says I am a lottery winner and should send bitcoin. Is this from you? It came from win@prize.example.',
    },
  ],
  ['Telegram', { name: 'Олег', message: 'Напишите мне, пожалуйста, в Telegram: https://t.me/oleg_example' }],
  [
    'a forwarded thread',
    {
      ...ana,
      message:
        'See below.\n\n> On Mon, 3 Feb 2025 at 10:12, Bob <bob@example.org> wrote:\n>> From: sales@example.com\n>> To: Bob\n>> Subject: Re: Offer 1172\n>> Hi Bob, the price is 1,200.\n> Too much for us.',
    },
  ],
  [
    'a throw-away address',
    {
      name: 'Privacy Fan',
      email: 'me@yopmail.com',
      message: 'Do you ship to Norway? I would rather not give my real address yet.',
    },
  ],
  [
    'a list of names',
    { names: 'Krzysztof, Szczepan, Hjördís, Nguyễn, Mbappé, Ngqobile, Xochitl, Llywelyn, Vlk, Srđan, Smrčka' },
  ],
  [
    'an address',
    { street: 'Wrzeszcz, ul. Świętojańska 12/4', city: 'Llanrhaeadr-ym-Mochnant', message: 'Please deliver on Friday' },
  ],
  [
    'chess',
    {
      ...ana,
      message:
        '1. e4 e5 2. Nf3 Nc6 3. Bb5 a6 4. Ba4 Nf6 5. O-O Be7 6. Re1 b5 7. Bb3 d6 8. c3 O-O. Is h3 or d4 better here?',
    },
  ],
  [
    'chemistry',
    {
      ...ana,
      message:
        'We need 250 g of methylchloroisothiazolinone, 2-(4-isobutylphenyl)propanoic acid and C8H10N4O2, HPLC grade.',
    },
  ],
  [
    'camel case',
    {
      ...ana,
      message:
        'YouTube, LinkedIn, PayPal, iOS, macOS, GitHub, McDonald, DeLorean, FedEx and eBay are all names that we print.',
    },
  ],
  [
    'a poem',
    {
      name: 'Poet',
      message:
        'The rain, the rain, the rain again,\nit falls upon the window pane,\nthe rain, the rain, upon the plain,\nand I am waiting for the train.',
    },
  ],
  [
    'a house owner',
    {
      ...ana,
      message:
        'Hi, I found your website through a friend. Could you send me a quote for painting two rooms, about 40 m2? You can reach me on WhatsApp: +49 170 1234567.',
    },
  ],
  [
    'another manufacturer',
    {
      ...ana,
      message:
        'We are a manufacturer of cosmetics in Lyon and would like to sell your packaging. Our catalogue: https://cosmetics.example. Are you looking for distributors?',
    },
  ],
  [
    'a student who quotes an advertisement',
    {
      ...ana,
      message:
        'Do you have a limited-time offer for students? I saw 20% off on Instagram but the page https://shop.example/sale says sign up now and then nothing happens.',
    },
  ],
  [
    'a gift card that fails',
    {
      ...ana,
      message: 'I bought a gift card worth 50 euros and it does not work at checkout. Order 12345. Please help.',
    },
  ],
  [
    'a domain that expires',
    {
      ...ana,
      message:
        'My domain registration expires next week. How do I renew now with the new price? Customer 4711, https://panel.example',
    },
  ],
  [
    'a developer who applies',
    {
      ...ana,
      message:
        'I am a web developer from India, living in Munich, and would like to apply for the position on your site: https://jobs.example/1. Portfolio: https://dev.example',
    },
  ],
  [
    'a fundraiser',
    { ...ana, message: 'Our casino night fundraiser needs 10 tables. Free quote please! We would like to book today.' },
  ],
  [
    'a school',
    {
      ...ana,
      message: "I'm reaching out on behalf of our school to ask whether you would be open to a visit by 20 pupils.",
    },
  ],
  [
    'a French link that is broken',
    {
      ...ana,
      message:
        "Je souhaite m'inscrire au cours de yoga; votre site dit inscrivez-vous ici mais le lien https://yoga.example ne marche pas.",
    },
  ],
  [
    'a German host',
    {
      ...ana,
      message:
        'Wir bieten Ihnen gerne unsere Räume für Ihr Konzert an, 200 Plätze, kostenlos. Bilder: https://kirche.example',
    },
  ],
  [
    'a loan for a car',
    {
      ...ana,
      message: 'Can I get a loan for a used car with you? My bad credit is from 2015. What is the interest rate?',
    },
  ],
  [
    'an association',
    {
      ...ana,
      message:
        'Please put a link on your page to our association: https://verein.example. You promised this in the meeting.',
    },
  ],
  [
    'a page that is broken',
    {
      ...ana,
      message: 'Your website is not working on my phone. The order page has errors. I want to buy now but cannot pay.',
    },
  ],
  [
    'a Russian buyer',
    {
      ...ana,
      message: 'Здравствуйте, можно ли у вас купить недорогой ноутбук для учёбы? Пишите в whatsapp +7 900 000 00 00',
    },
  ],
  [
    'a Spanish buyer',
    {
      ...ana,
      message: 'Hola, ¿hacen envíos a Canarias? En la web pone haga clic aquí pero no funciona https://tienda.example',
    },
  ],
];
