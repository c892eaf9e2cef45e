//! Queries in other languages for tools described in English: German, French, Spanish, Italian,
//! Portuguese, Chinese and Japanese.
//!
//! `languages/words.txt` lists common task words in all of these languages, one meaning a line. A
//! query counts as foreign if it has more words of that language than of English. Its listed words
//! then count as their English translations, at a lower weight, and particles such as `der` and
//! `les` are dropped. A word that the tools themselves use always counts as written. English
//! queries therefore stay unchanged, and a German catalog can be searched in German.
//!
//! `languages/products.txt` lists names of products in several scripts. A name that no tool uses
//! counts as the product's other names.

mod forms;

use std::borrow::Cow;
use std::sync::LazyLock;

use foldhash::{HashMap, HashSet};

use crate::catalog::rank::languages::forms::{WordForms, is_latin};
use crate::catalog::rank::tokenizer::{identifiers, is_unspaced, stem};

static WORDS: &str = include_str!("languages/words.txt");
static SYNONYMS: &str = include_str!("languages/synonyms.txt");
static PRODUCTS: &str = include_str!("languages/products.txt");

/// Maximum number of translated words per query.
const MAX_LOOKUPS: usize = 48;
/// Maximum number of translations of a word in the text for the embedding.
const MAX_MEANINGS: usize = 2;
/// The longest Chinese or Japanese word in the lists, in characters.
const LONGEST: usize = 10;
/// The most characters of a particle that Korean appends to a name.
const MAX_SUFFIX: usize = 3;

/// A language that separates words with spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    German,
    French,
    Spanish,
    Italian,
    Portuguese,
}

impl Language {
    const ALL: [Self; 5] =
        [Self::German, Self::French, Self::Spanish, Self::Italian, Self::Portuguese];

    fn particles(self) -> &'static str {
        match self {
            Self::German => {
                "aber alle allen aller alles als am an ans auch auf aus bei beim bis bitte da das dass \
                 dein deine deinem deinen deiner dem den denn der des dessen dich die diese diesem \
                 diesen dieser dieses dir doch dort du durch ein eine einem einen einer eines er es \
                 etwas euch für gegen gib gibt habe haben hat hatte hier ich ihm ihn ihnen ihr ihre \
                 ihrem ihren im in ins ist ja jede jeden jeder jedes kann kannst können könntest lass \
                 mach mache machen mal mehr mein meine meinem meinen meiner mich mir mit muss nach \
                 nicht nichts noch nur ob oder ohne schon sehr sein seine seinen seit sie sind sollen \
                 soll sollte und uns unser unsere unserem unseren unter über um viel viele vom von vor \
                 wann war waren warum was weil welche welchem welchen welcher welches wem wen wenn wer \
                 werden wie wieder will wir wird wo woher wohin wollen wurde wurden während zu zum zur \
                 zwischen"
            }
            Self::French => {
                "ai ainsi as au aucun aussi aux avec avoir ce ces cet cette chez combien comment d dans \
                 de des donc dont du elle elles en encore entre es est et eu eux faire fais fait faut il \
                 ils j je l la le les leur leurs lui m ma mais me mes moi moins mon n ne nos notre nous \
                 on ont ou où par pas pendant peut peux plus pour pourquoi puis qu quand que quel \
                 quelle quelles quels qui quoi s sa sans se sera ses si son sont sous sur t ta te tes \
                 toi ton tous tout toute toutes tu très un une va veux vers veuillez vos votre voudrais \
                 vous y à ça été être"
            }
            Self::Spanish => {
                "a al algo algún alguna algunos aquel como con cuál cuáles cuándo cuánto cuánta cuántas \
                 cuántos cómo de debe debo del desde donde dónde e el ella ellos en entre era es esa \
                 ese eso esta estar estas este esto estos está están favor fue ha hace hacer hacia han \
                 hasta hay haz he la las le les lo los me mi mis muy más nada ni no nos nosotros nuestra \
                 nuestro o para pero podría por porque puede puedes puedo que quiere quiero quién qué se \
                 ser será si sin sobre son soy su sus también tengo tiene tienen toda todas todo todos \
                 tu tus tú u un una unas uno unos y ya yo él"
            }
            Self::Italian => {
                "a ad ai al alla alle allo agli anche avere che chi ci col come con cosa cui da dal dalla \
                 dalle dallo dagli dai degli dei del dell della delle dello di dove e ed era essere è fa \
                 fai fare favore fra gli ha hai hanno ho i il in io l la le lei li lo loro lui ma mi mia \
                 mie miei mio molto ne negli nei nel nell nella nelle nello no noi non nostra nostro o per \
                 perché però più può puoi qualche quali quando quanto quel quella quelle quelli quello \
                 questa queste questi questo qui se sei si sia sono su sua sue sugli sui sul sulla sulle \
                 suo suoi tra tu tua tue tuo tuoi tutta tutte tutti tutto un una uno vi voglio vorrei"
            }
            Self::Portuguese => {
                "a ao aos as às à até com como da das de dela dele deles depois do dos e ela elas ele eles \
                 em entre era essa esse esta está estão este eu favor fazer faça foi há isso isto já lhe \
                 mais mas me meu meus minha minhas muito na não nas nem no nos nossa nosso num numa o os \
                 ou para pela pelas pelo pelos pode podes posso por porque porquê qual quais quando que \
                 quem quero se seja sem ser será seu seus sobre sua suas são só também te tem tenho teu \
                 tu tua um uma umas uns você vocês"
            }
        }
    }
}

const ENGLISH: &str = "a about all an and any are as at be been by can could did do does for from had \
                       has have he her him his how i if in into is it its me more my no not of on one \
                       or our out over she should so some than that the their them then there these \
                       they this those to up us was we were what when where which who why will with \
                       would you your";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TranslatedWord {
    /// The word in lowercase, if tools use it.
    pub(super) own: Option<String>,
    pub(super) english: &'static [&'static str],
}

/// A query, with its foreign words translated.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ParsedQuery<'q> {
    pub(super) runs: Vec<&'q str>,
    pub(super) meant: Vec<TranslatedWord>,
    /// The query in English, as far as it could be translated.
    pub(super) text: Cow<'q, str>,
}

/// Parses a query. `is_known` returns `true` for a lowercase word that tools use.
pub(super) fn parse_query<'q>(query: &'q str, is_known: impl Fn(&str) -> bool) -> ParsedQuery<'q> {
    let runs: Vec<&str> = identifiers(query).collect();
    let unspaced = unspaced_words(query);
    let words: Vec<Word<'q>> = runs.iter().map(|run| Word::of(run, &is_known)).collect();
    let language = language(&words);
    let product = |word: &Word<'_>| {
        (!word.is_unspaced && !word.is_known).then(|| TABLE.product(&word.lower)).flatten()
    };
    let has_product = words.iter().any(|word| product(word).is_some());
    if language.is_none() && unspaced.is_empty() && !has_product {
        return ParsedQuery { runs, meant: Vec::new(), text: Cow::Borrowed(query) };
    }
    let mut reading = ParsedQuery { runs: Vec::new(), meant: Vec::new(), text: Cow::Borrowed("") };
    let mut text: Vec<Cow<'q, str>> = Vec::new();
    let mut lookups = MAX_LOOKUPS;
    for word in words {
        if let Some(english) = product(&word) {
            text.extend(english.iter().take(MAX_MEANINGS).copied().map(Cow::Borrowed));
            reading.meant.push(TranslatedWord { own: None, english });
            continue;
        }
        let foreign = language.filter(|_| !word.is_unspaced).and_then(|(language, is_sure)| {
            lookups = lookups.checked_sub(1)?;
            (is_sure || !word.is_known).then(|| TABLE.translate(language, &word.lower)).flatten()
        });
        if let Some(parts) = foreign {
            for english in parts {
                let own = word.is_known.then(|| word.lower.clone());
                text.extend(own.iter().cloned().map(Cow::Owned));
                text.extend(english.iter().take(MAX_MEANINGS).copied().map(Cow::Borrowed));
                reading.meant.push(TranslatedWord { own, english });
            }
            continue;
        }
        let is_particle =
            language.is_some_and(|(language, _)| TABLE.has_particle(language, &word.lower));
        // The characters between known words carry little meaning, unless tools use them.
        let is_rest = word.is_unspaced && !unspaced.is_empty() && !word.is_known;
        if !is_particle && !is_rest {
            reading.runs.push(word.run);
            text.push(Cow::Borrowed(word.run));
        }
    }
    for english in unspaced {
        text.extend(english.iter().take(MAX_MEANINGS).copied().map(Cow::Borrowed));
        reading.meant.push(TranslatedWord { own: None, english });
    }
    reading.text = Cow::Owned(text.join(" "));
    reading
}

struct Word<'q> {
    run: &'q str,
    lower: String,
    is_unspaced: bool,
    is_known: bool,
}

impl<'q> Word<'q> {
    fn of(run: &'q str, is_known: impl Fn(&str) -> bool) -> Self {
        let lower = run.to_lowercase();
        let is_unspaced = run.chars().next().is_some_and(is_unspaced);
        let is_known = is_known(&lower);
        Self { run, lower, is_unspaced, is_known }
    }
}

/// Returns the language that has more words in the query than English has, and `true` if a particle
/// confirms it.
fn language(words: &[Word<'_>]) -> Option<(Language, bool)> {
    let spaced = || words.iter().filter(|word| !word.is_unspaced).take(MAX_LOOKUPS);
    if spaced().all(|word| word.is_known && !TABLE.is_foreign_particle(&word.lower)) {
        return None;
    }
    let count = |is: &dyn Fn(&str) -> bool| spaced().filter(|word| is(&word.lower)).count();
    let mut best: Option<(usize, usize, Language)> = None;
    for language in Language::ALL {
        let is_particle = |word: &str| TABLE.has_particle(language, word);
        let is_english = |word: &str| TABLE.english.contains(word);
        let particles = count(&|word| is_particle(word) && !is_english(word));
        let english = count(&|word| is_english(word) && !is_particle(word));
        if particles == 0 && english > 0 {
            continue;
        }
        let mut unknown = spaced().filter(|word| !word.is_known && !is_particle(&word.lower));
        let found =
            unknown.by_ref().filter(|word| TABLE.translate(language, &word.lower).is_some());
        let all = particles + found.count();
        // Some particles are English words, too, and say nothing.
        let others = count(&|word| !is_particle(word));
        let is_enough = particles > 0 || 2 * all >= others;
        let is_better = best.is_none_or(|(most, sure, _)| (all, particles) > (most, sure));
        if all > english && is_enough && is_better {
            best = Some((all, particles, language));
        }
    }
    best.map(|(_, particles, language)| (language, particles > 0))
}

/// Translates the Chinese or Japanese words of a query, longest match first.
fn unspaced_words(query: &str) -> Vec<&'static [&'static str]> {
    if !query.contains(is_unspaced) {
        return Vec::new();
    }
    // Japanese shares many of the characters, but not the words.
    let is_japanese = query.contains(|c: char| ('\u{3040}'..='\u{30ff}').contains(&c));
    let lists = if is_japanese {
        [&TABLE.japanese, &TABLE.japanese]
    } else {
        [&TABLE.chinese, &TABLE.japanese]
    };
    let simple = |c: char| {
        let simple = TABLE.simple.get(&c).filter(|_| !is_japanese);
        simple.copied().unwrap_or(c).to_ascii_lowercase()
    };
    let chars: Vec<char> = query.chars().map(simple).collect();
    let (mut at, mut found) = (0, Vec::new());
    while at < chars.len() && found.len() < MAX_LOOKUPS {
        let longest = (1..=LONGEST.min(chars.len() - at)).rev().find_map(|length| {
            let word: String = chars[at..at + length].iter().collect();
            Some((length, lists.iter().find_map(|list| list.get(&*word))?))
        });
        match longest {
            Some((length, english)) => {
                found.push(english.as_slice());
                at += length;
            }
            None => at += 1,
        }
    }
    found
}

struct Dictionary {
    /// For each language, the English translations of a stem.
    words: [HashMap<String, Vec<&'static str>>; 5],
    chinese: HashMap<&'static str, Vec<&'static str>>,
    japanese: HashMap<&'static str, Vec<&'static str>>,
    /// For each name of a product in lowercase, all its Latin names.
    products: HashMap<&'static str, Vec<&'static str>>,
    particles: [HashSet<&'static str>; 5],
    english: HashSet<&'static str>,
    /// The other English words of each word's lines, by stem.
    synonyms: HashMap<String, Vec<&'static str>>,
    /// Simplified characters by their traditional forms.
    simple: HashMap<char, char>,
}

static TABLE: LazyLock<Dictionary> = LazyLock::new(Dictionary::read);

/// Traditional characters, each followed by its simplified form.
const TRADITIONAL: &str = "創创刪删檔档資资夾夹郵邮訊讯發发開开關关閉闭記记錄录圖图檢检尋寻會会議议預预訂订譯译網网頁页\
電电腦脑計计畫画時时間间氣气溫温價价錢钱貨货幣币匯汇報报買买賣卖單单據据庫库數数類类執执動动啟启終终進进線线設设備备門门\
燈灯鎖锁樂乐視视頻频語语聲声編编輯辑寫写讀读詢询連连結结標标簽签題题問问錯错誤误組组員员織织體体導导轉转換换儲储傳传載载\
屬属態态歷历歸归壓压縮缩顯显現现當当後后來来為为車车機机場场館馆購购帳账賬账戶户號号碼码權权異异務务應应項项倉仓說说話话\
將将變变舊旧區区處处點点調调從从兩两無无邊边過过還还運运達达選选適适釋释鐘钟鏈链陣阵際际隨随雙双雲云靜静響响顧顾飛飞館馆麼么\
書书寶宝釘钉亞亚馬马遜逊蘋苹軟软臉脸領领維维騰腾紅红業业裡里";

impl Dictionary {
    fn read() -> Self {
        let mut table = Self {
            words: Language::ALL.map(|_| HashMap::default()),
            chinese: HashMap::default(),
            japanese: HashMap::default(),
            products: HashMap::default(),
            particles: Language::ALL
                .map(|language| language.particles().split_whitespace().collect()),
            english: ENGLISH.split_whitespace().collect(),
            simple: HashMap::default(),
            synonyms: HashMap::default(),
        };
        let mut pairs = TRADITIONAL.chars();
        while let (Some(traditional), Some(simple)) = (pairs.next(), pairs.next()) {
            table.simple.insert(traditional, simple);
        }
        for line in WORDS.lines().filter(|line| !line.starts_with('#')) {
            let mut columns = line.split('|').map(str::split_whitespace);
            let Some(english) = columns.next() else { continue };
            let english: Vec<&'static str> = english.collect();
            table.add_synonyms(&english);
            for (language, column) in Language::ALL.into_iter().zip(columns.by_ref()) {
                let forms = WordForms::of(language);
                for word in column {
                    let known = &mut table.words[language as usize];
                    add(known.entry(forms.stem(&word.to_lowercase())).or_default(), &english);
                }
            }
            for (list, column) in [&mut table.chinese, &mut table.japanese].into_iter().zip(columns)
            {
                for word in column {
                    add(list.entry(word).or_default(), &english);
                }
            }
        }
        for line in SYNONYMS.lines().filter(|line| !line.starts_with('#')) {
            let english: Vec<&'static str> = line.split_whitespace().collect();
            table.add_synonyms(&english);
        }
        for line in PRODUCTS.lines().filter(|line| !line.starts_with('#')) {
            let Some((latin, others)) = line.split_once('|') else { continue };
            let latin: Vec<&'static str> = latin.split_whitespace().collect();
            for name in latin.iter().copied().filter(|_| latin.len() > 1) {
                add(table.products.entry(name).or_default(), &latin);
            }
            for name in others.split_whitespace() {
                if name.contains(is_unspaced) {
                    table.chinese.insert(name, latin.clone());
                    table.japanese.insert(name, latin.clone());
                } else {
                    table.products.insert(name, latin.clone());
                }
            }
        }
        table
    }

    fn add_synonyms(&mut self, words: &[&'static str]) {
        for word in words {
            let Some(term) = stem(word) else { continue };
            let others: Vec<_> = words.iter().copied().filter(|other| other != word).collect();
            add(self.synonyms.entry(term.into_owned()).or_default(), &others);
        }
    }

    /// Returns the Latin names of the product with this lowercase name in Latin, Cyrillic or Korean
    /// script. Korean particles may follow.
    fn product(&'static self, name: &str) -> Option<&'static [&'static str]> {
        let is_korean = name.starts_with(|c: char| ('\u{ac00}'..='\u{d7a3}').contains(&c));
        let suffix = if is_korean { MAX_SUFFIX } else { 0 };
        let starts = name.char_indices().rev().map(|(at, _)| at).take(suffix);
        let mut starts = std::iter::once(name.len()).chain(starts);
        starts.find_map(|end| self.products.get(&name[..end])).map(Vec::as_slice)
    }

    fn has_particle(&self, language: Language, word: &str) -> bool {
        self.particles[language as usize].contains(word)
    }

    /// Returns `true` for a particle of another language that isn't an English one.
    fn is_foreign_particle(&self, word: &str) -> bool {
        !self.english.contains(word)
            && self.particles.iter().any(|particles| particles.contains(word))
    }

    /// Returns the translations of a word; a German compound has one entry per known part.
    fn translate(
        &'static self,
        language: Language,
        word: &str,
    ) -> Option<Vec<&'static [&'static str]>> {
        if !is_latin(word) {
            return None;
        }
        let forms = WordForms::of(language);
        let of = |word: &str| {
            let words = &self.words[language as usize];
            forms.all(word).find_map(|form| words.get(&form)).map(Vec::as_slice)
        };
        if let Some(found) = of(word) {
            return Some(vec![found]);
        }
        // Only German writes compounds as one word.
        if language == Language::German { forms::compound(word, of) } else { None }
    }
}

/// Returns English words of about the same meaning as a stem.
pub(super) fn synonyms(stem: &str) -> &'static [&'static str] {
    TABLE.synonyms.get(stem).map_or(&[], Vec::as_slice)
}

fn add(known: &mut Vec<&'static str>, words: &[&'static str]) {
    for word in words {
        if !known.contains(word) {
            known.push(word);
        }
    }
}

#[cfg(test)]
mod tests;
