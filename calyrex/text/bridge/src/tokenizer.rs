//! A tokenizer of the tokenizers crate, encoding with byte offsets and added tokens in chosen ranges alone.

use crate::added_tokens::{AddedTokens, Range};
use crate::failure::{Code, Failed};
use crate::sandbox::{self, Limits};
use ahash::AHashSet;
use std::time::Duration;
use tokenizers::models::bpe::BPE;
use tokenizers::{
    AddedToken, Model, ModelWrapper, OffsetType, PostProcessor, PreTokenizedString, PreTokenizer, Token, Tokenizer,
};

/// Building a tokenizer is bounded by its file, so only its time is.
const LOAD_LIMITS: Limits = Limits { bytes: i64::MAX, time: Duration::from_secs(300) };

pub struct LoadedTokenizer {
    tokenizer: Tokenizer,
    added: AddedTokens,
    special_ids: AHashSet<u32>,
}

/// Added tokens that a model's configuration names besides its tokenizer.json; transformers adds them when it loads.
#[derive(Default, serde::Deserialize)]
pub struct ExtraTokens {
    /// `added_tokens_decoder`: added where the tokenizer has no equal one.
    pub declared: Vec<AddedToken>,
    /// `bos_token` and the like: added where the tokenizer has none of that text.
    pub named: Vec<AddedToken>,
}

#[derive(Default)]
pub struct Encoded {
    pub ids: Vec<i32>,
    pub begin: Vec<i64>,
    pub end: Vec<i64>,
}

impl LoadedTokenizer {
    /// From the bytes of a tokenizer.json.
    pub fn from_json(json: Vec<u8>, extra: ExtraTokens) -> Result<LoadedTokenizer, Failed> {
        on_large_stack(move || {
            let tokenizer = Tokenizer::from_bytes(&json).map_err(Failed::corrupt)?;
            LoadedTokenizer::finish(tokenizer, extra)
        })
    }

    pub fn finish(mut tokenizer: Tokenizer, extra: ExtraTokens) -> Result<LoadedTokenizer, Failed> {
        let known = tokenizer.get_added_tokens_decoder();
        let same = |token: &AddedToken| known.values().any(|other| other == token);
        let mut missing: Vec<AddedToken> = extra.declared.into_iter().filter(|token| !same(token)).collect();
        for token in extra.named {
            if !known.values().chain(&missing).any(|other| other.content == token.content) {
                missing.push(token);
            }
        }
        if !missing.is_empty() {
            tokenizer.add_tokens(missing).map_err(Failed::corrupt)?;
        }
        tokenizer.with_truncation(None).map_err(Failed::corrupt)?;
        tokenizer.with_padding(None);
        let added = AddedTokens::new(&tokenizer).map_err(Failed::corrupt)?;
        let special_ids =
            tokenizer.get_added_tokens_decoder().iter().filter(|(_, token)| token.special).map(|(id, _)| *id).collect();
        Ok(LoadedTokenizer { tokenizer, added, special_ids })
    }

    /// The steps of `Tokenizer::encode` without its post-processor (it trims offsets and adds BOS), with added tokens
    /// looked for in `ranges` alone.
    pub fn encode(&self, text: &str, ranges: &[Range]) -> Result<Encoded, Failed> {
        let failed = |error: tokenizers::Error| Failed::invalid(format!("the text cannot be tokenised: {error}"));
        let mut pieces = PreTokenizedString::from(text);
        pieces.split(|_, piece| Ok(self.added.split_raw(piece, ranges))).map_err(failed)?;
        let normalizer = self.tokenizer.get_normalizer();
        pieces.split(|_, piece| self.added.split_normalized(piece, normalizer, ranges)).map_err(failed)?;
        if let Some(pre_tokenizer) = self.tokenizer.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut pieces).map_err(failed)?;
        }
        pieces.tokenize(|piece| self.tokenize_plain(piece.get())).map_err(failed)?;
        let encoding = pieces.into_encoding(None, 0, OffsetType::Byte).map_err(failed)?;
        let offsets = encoding.get_offsets();
        Ok(Encoded {
            ids: encoding.get_ids().iter().map(|id| *id as i32).collect(),
            begin: offsets.iter().map(|offset| offset.0 as i64).collect(),
            end: offsets.iter().map(|offset| offset.1 as i64).collect(),
        })
    }

    /// A vocabulary may hold a special token's text as an ordinary entry that merges can reach. Plain text must not
    /// become that token: it is cut after its first character.
    fn tokenize_plain(&self, text: &str) -> tokenizers::Result<Vec<Token>> {
        let model = self.tokenizer.get_model();
        let tokens = model.tokenize(text)?;
        if !tokens.iter().any(|token| self.spells_special(token)) {
            return Ok(tokens);
        }
        let mut out = Vec::with_capacity(tokens.len() + 1);
        for token in tokens {
            if !self.spells_special(&token) {
                out.push(token);
                continue;
            }
            let (begin, end) = token.offsets;
            let first = text[begin..].chars().next().map_or(1, char::len_utf8);
            for (from, to) in [(begin, begin + first), (begin + first, end)] {
                out.extend(model.tokenize(&text[from..to])?.into_iter().map(|mut part| {
                    part.offsets = (part.offsets.0 + from, part.offsets.1 + from);
                    part
                }));
            }
        }
        Ok(out)
    }

    fn spells_special(&self, token: &Token) -> bool {
        self.special_ids.contains(&token.id)
            && token.value.chars().nth(1).is_some()
            && self.tokenizer.get_added_vocabulary().get_vocab().contains_key(&token.value)
            && !self.is_unknown_token(&token.value)
    }

    /// The token of what the vocabulary lacks is special and legitimately written for plain text.
    fn is_unknown_token(&self, value: &str) -> bool {
        match self.tokenizer.get_model() {
            ModelWrapper::BPE(BPE { unk_token, .. }) => unk_token.as_deref() == Some(value),
            ModelWrapper::WordPiece(model) => model.unk_token == value,
            ModelWrapper::WordLevel(model) => model.unk_token == value,
            ModelWrapper::Unigram(_) => true,
        }
    }

    pub fn decode(&self, ids: &[i32], skip_special: bool) -> Result<String, Failed> {
        let ids: Vec<u32> = ids.iter().map(|id| *id as u32).collect();
        self.tokenizer.decode(&ids, skip_special).map_err(|error| Failed::new(Code::Internal, error.to_string()))
    }

    pub fn vocab_size(&self) -> usize {
        self.tokenizer.get_vocab_size(true)
    }

    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.tokenizer.token_to_id(token)
    }

    pub fn id_to_token(&self, id: u32) -> Option<String> {
        self.tokenizer.id_to_token(id)
    }

    /// As a tokenizer.json.
    pub fn to_json(&self) -> Result<String, Failed> {
        self.tokenizer.to_string(false).map_err(|error| Failed::new(Code::Internal, error.to_string()))
    }

    /// Added tokens as (id, content, special).
    pub fn added_tokens(&self) -> Vec<(u32, String, bool)> {
        let mut tokens: Vec<_> = self
            .tokenizer
            .get_added_tokens_decoder()
            .into_iter()
            .map(|(id, token)| (id, token.content, token.special))
            .collect();
        tokens.sort();
        tokens
    }

    /// The id that the tokenizer's own post-processor puts before a text, if it puts one.
    pub fn leading_id(&self) -> Option<u32> {
        let processor = self.tokenizer.get_post_processor()?;
        if processor.added_tokens(false) == 0 {
            return None;
        }
        let probe = self.tokenizer.encode("a", true).ok()?;
        let is_added = *probe.get_special_tokens_mask().first()? == 1;
        is_added.then(|| probe.get_ids()[0])
    }
}

/// Files come from outside: their parsers may recurse deeply or panic.
pub fn on_large_stack<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failed> + Send + 'static,
) -> Result<T, Failed> {
    sandbox::run(LOAD_LIMITS, work).map_err(|failure| Failed::corrupt(format!("{failure:?}")))?
}
