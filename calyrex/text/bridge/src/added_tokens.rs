//! Added tokens, recognised only where they may be. The tokenizers crate finds them anywhere in a text; here each
//! match must lie in ranges that allow it, so that what a user typed stays plain text while the text around it is
//! still tokenised in one piece.

use tokenizers::normalizer::Range as Coordinates;
use tokenizers::{AddedToken, NormalizedString, Normalizer, NormalizerWrapper, Token, Tokenizer};

/// What a range of a text may hold (CalyrexRange.added). What no range covers holds no added token.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum Allowed {
    NonSpecial,
    All,
}

#[derive(Clone, Copy, Debug)]
pub struct Range {
    pub begin: usize,
    pub end: usize,
    pub allowed: Allowed,
}

/// Whether every byte of [begin, end) lies in a range that allows the token. `ranges` are sorted and disjoint.
fn may_hold(ranges: &[Range], begin: usize, end: usize, special: bool) -> bool {
    let wanted = if special { Allowed::All } else { Allowed::NonSpecial };
    let mut at = begin;
    let first = ranges.partition_point(|range| range.end <= begin);
    for range in &ranges[first..] {
        if range.begin > at || range.allowed < wanted {
            return false;
        }
        at = range.end;
        if at >= end {
            return true;
        }
    }
    false
}

struct Pattern {
    text: String,
    id: u32,
    token: AddedToken,
}

/// The added tokens of one kind (matched before or after normalisation), by their first byte, longest first.
struct Patterns {
    by_first_byte: Vec<Vec<Pattern>>,
    empty: bool,
}

struct Match<'a> {
    begin: usize,
    end: usize,
    pattern: &'a Pattern,
}

impl Patterns {
    fn new(patterns: Vec<Pattern>) -> Patterns {
        let mut by_first_byte: Vec<Vec<Pattern>> = (0..256).map(|_| Vec::new()).collect();
        let empty = patterns.is_empty();
        for pattern in patterns {
            if let Some(first) = pattern.text.bytes().next() {
                by_first_byte[first as usize].push(pattern);
            }
        }
        for list in &mut by_first_byte {
            list.sort_by_key(|pattern| std::cmp::Reverse(pattern.text.len()));
        }
        Patterns { by_first_byte, empty }
    }

    /// Leftmost, longest matches that `may_hold` accepts, with the crate's rules for single words and for the white
    /// space that a token swallows (`AddedVocabulary::find_matches`).
    fn find(&self, text: &str, may_hold: impl Fn(usize, usize, bool) -> bool) -> Vec<Match<'_>> {
        let mut found: Vec<Match> = Vec::new();
        let bytes = text.as_bytes();
        let (mut at, mut taken) = (0, 0);
        while at < bytes.len() {
            let candidates = &self.by_first_byte[bytes[at] as usize];
            let hit = candidates.iter().find(|pattern| {
                bytes[at..].starts_with(pattern.text.as_bytes())
                    && may_hold(at, at + pattern.text.len(), pattern.token.special)
            });
            let Some(pattern) = hit else {
                at += 1;
                continue;
            };
            let (mut begin, mut end) = (at, at + pattern.text.len());
            at = end;
            let token = &pattern.token;
            if token.single_word && (ends_with_word(&text[..begin]) || starts_with_word(&text[end..])) {
                continue;
            }
            if token.lstrip {
                begin = text[..begin].trim_end().len().max(taken);
            }
            if token.rstrip {
                end = text.len() - text[end..].trim_start().len();
            }
            (at, taken) = (end, end);
            found.push(Match { begin, end, pattern });
        }
        found
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn ends_with_word(text: &str) -> bool {
    text.chars().next_back().is_some_and(is_word)
}

fn starts_with_word(text: &str) -> bool {
    text.chars().next().is_some_and(is_word)
}

pub struct AddedTokens {
    raw: Patterns,
    normalized: Patterns,
}

impl AddedTokens {
    pub fn new(tokenizer: &Tokenizer) -> Result<AddedTokens, tokenizers::Error> {
        let (mut raw, mut normalized) = (Vec::new(), Vec::new());
        for (id, token) in tokenizer.get_added_tokens_decoder() {
            let mut text = NormalizedString::from(token.content.as_str());
            if !token.normalized {
                raw.push(Pattern { text: token.content.clone(), id, token });
                continue;
            }
            if let Some(normalizer) = tokenizer.get_normalizer() {
                normalizer.normalize(&mut text)?;
            }
            normalized.push(Pattern { text: text.get().to_string(), id, token });
        }
        Ok(AddedTokens { raw: Patterns::new(raw), normalized: Patterns::new(normalized) })
    }

    /// Splits off the tokens that match the text as it is.
    pub fn split_raw(&self, text: NormalizedString, ranges: &[Range]) -> Vec<(NormalizedString, Option<Vec<Token>>)> {
        if self.raw.empty || ranges.is_empty() {
            return vec![(text, None)];
        }
        let shift = text.offsets_original().0;
        let found =
            self.raw.find(text.get(), |begin, end, special| may_hold(ranges, shift + begin, shift + end, special));
        cut(&text, &found)
    }

    /// Normalises a piece and splits off the tokens that match then.
    pub fn split_normalized(
        &self,
        mut text: NormalizedString,
        normalizer: Option<&NormalizerWrapper>,
        ranges: &[Range],
    ) -> Result<Vec<(NormalizedString, Option<Vec<Token>>)>, tokenizers::Error> {
        if let Some(normalizer) = normalizer {
            normalizer.normalize(&mut text)?;
        }
        if self.normalized.empty || ranges.is_empty() {
            return Ok(vec![(text, None)]);
        }
        let shift = text.offsets_original().0;
        let found = self.normalized.find(text.get(), |begin, end, special| {
            text.convert_offsets(Coordinates::Normalized(begin..end))
                .is_some_and(|original| may_hold(ranges, shift + original.start, shift + original.end, special))
        });
        Ok(cut(&text, &found))
    }
}

fn cut(text: &NormalizedString, found: &[Match]) -> Vec<(NormalizedString, Option<Vec<Token>>)> {
    let slice = |begin, end| text.slice(Coordinates::Normalized(begin..end)).expect("matches end between characters");
    let mut pieces = Vec::with_capacity(2 * found.len() + 1);
    let mut at = 0;
    for hit in found {
        if at < hit.begin {
            pieces.push((slice(at, hit.begin), None));
        }
        let piece = slice(hit.begin, hit.end);
        let token = Token::new(hit.pattern.id, piece.get().to_string(), (0, piece.get().len()));
        pieces.push((piece, Some(vec![token])));
        at = hit.end;
    }
    if at < text.get().len() {
        pieces.push((slice(at, text.get().len()), None));
    }
    pieces
}
