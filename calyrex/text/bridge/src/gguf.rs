//! Tokenizers from GGUF metadata, built to be equal to the tokenizer.json that the file was made from.

use crate::failure::{Code, Failed};
use crate::tokenizer::{on_large_stack, ExtraTokens, LoadedTokenizer};
use ahash::AHashMap;
use serde::de::DeserializeOwned;
use serde_json::{json, Value as Json};
use tokenizers::models::bpe::BPE;
use tokenizers::{AddedToken, DecoderWrapper, NormalizerWrapper, PreTokenizerWrapper, Tokenizer};

/// tokenizer.ggml.* as arrays; see CalyrexGguf in calyrex_bridge.h.
pub struct GgufVocabulary {
    pub model: String,
    pub pre: String,
    pub tokens: Vec<String>,
    pub scores: Vec<f32>,
    pub types: Vec<i32>,
    pub merges: Vec<String>,
    pub unknown_id: Option<usize>,
    pub space_prefix: bool,
}

const TYPE_UNKNOWN: i32 = 2;
const TYPE_CONTROL: i32 = 3;
const TYPE_USER_DEFINED: i32 = 4;

/// The byte-level split of GPT-2, as regular expression.
const GPT2: &str = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA3: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const QWEN2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// How a `tokenizer.ggml.pre` splits text before the merges.
struct PreTokenization {
    /// Applied in turn, each to the pieces of the one before.
    splits: &'static [&'static str],
    /// A word that is in the vocabulary is taken whole.
    ignore_merges: bool,
    /// Unicode NFC first.
    nfc: bool,
}

fn pre_tokenization(name: &str) -> Option<PreTokenization> {
    let (splits, ignore_merges, nfc): (&'static [&'static str], bool, bool) = match name {
        "gpt-2" => (&[GPT2], false, false),
        "smollm" => (&[r"\p{N}", GPT2], false, false),
        "qwen2" => (&[QWEN2], false, true),
        "llama-bpe" => (&[LLAMA3], true, false),
        "default" => (&[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"], false, false),
        _ => return None,
    };
    Some(PreTokenization { splits, ignore_merges, nfc })
}

pub fn build(vocabulary: GgufVocabulary) -> Result<LoadedTokenizer, Failed> {
    on_large_stack(move || {
        let tokenizer = match vocabulary.model.as_str() {
            "gpt2" => byte_level(&vocabulary)?,
            "llama" => sentence_piece(&vocabulary)?,
            other => {
                let message = format!("tokenizer.ggml.model \"{other}\" is not supported (gpt2 and llama are)");
                return Err(Failed::new(Code::Unsupported, message));
            }
        };
        LoadedTokenizer::finish(tokenizer, ExtraTokens { declared: added_tokens(&vocabulary), named: Vec::new() })
    })
}

fn part<T: DeserializeOwned>(description: Json) -> Result<T, Failed> {
    serde_json::from_value(description).map_err(|error| Failed::new(Code::Internal, error.to_string()))
}

fn ids_by_token(vocabulary: &GgufVocabulary) -> Result<AHashMap<String, u32>, Failed> {
    let mut ids = AHashMap::with_capacity(vocabulary.tokens.len());
    for (id, token) in vocabulary.tokens.iter().enumerate() {
        if let Some(other) = ids.insert(token.clone(), id as u32) {
            return Err(Failed::corrupt(format!("tokens {other} and {id} are both {token:?}")));
        }
    }
    Ok(ids)
}

fn added_tokens(vocabulary: &GgufVocabulary) -> Vec<AddedToken> {
    let kinds = vocabulary.tokens.iter().zip(&vocabulary.types);
    kinds
        .filter(|(token, _)| !token.is_empty())
        .filter_map(|(token, kind)| match *kind {
            TYPE_CONTROL | TYPE_UNKNOWN => Some(AddedToken::from(token.clone(), true)),
            TYPE_USER_DEFINED => Some(AddedToken::from(token.clone(), false).normalized(false)),
            _ => None,
        })
        .collect()
}

fn byte_level(vocabulary: &GgufVocabulary) -> Result<Tokenizer, Failed> {
    let Some(pre) = pre_tokenization(&vocabulary.pre) else {
        let message = format!(
            "tokenizer.ggml.pre \"{}\" is not supported (smollm, qwen2, llama-bpe, gpt-2 and default are)",
            vocabulary.pre
        );
        return Err(Failed::new(Code::Unsupported, message));
    };
    let mut merges = Vec::with_capacity(vocabulary.merges.len());
    for merge in &vocabulary.merges {
        let (left, right) =
            merge.split_once(' ').ok_or_else(|| Failed::corrupt(format!("merge {merge:?} has no space")))?;
        merges.push((left.to_string(), right.to_string()));
    }
    let model = BPE::builder()
        .vocab_and_merges(ids_by_token(vocabulary)?, merges)
        .ignore_merges(pre.ignore_merges)
        .build()
        .map_err(Failed::corrupt)?;
    let mut tokenizer = Tokenizer::new(model);
    if pre.nfc {
        let normalizer: NormalizerWrapper = part(json!({"type": "NFC"}))?;
        tokenizer.with_normalizer(Some(normalizer)).map_err(Failed::corrupt)?;
    }
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false});
    let mut steps: Vec<Json> = pre
        .splits
        .iter()
        .map(|regex| json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false}))
        .collect();
    steps.push(bytes.clone());
    let pre_tokenizer: PreTokenizerWrapper = part(json!({"type": "Sequence", "pretokenizers": steps}))?;
    tokenizer.with_pre_tokenizer(Some(pre_tokenizer));
    tokenizer.with_decoder(Some(part::<DecoderWrapper>(bytes)?));
    Ok(tokenizer)
}

/// SentencePiece BPE with byte fallback. A space is put before the text's first piece alone, as the tokenizer.json of
/// models that separate their control tokens has it (`"prepend_scheme": "first"`).
fn sentence_piece(vocabulary: &GgufVocabulary) -> Result<Tokenizer, Failed> {
    let ids = ids_by_token(vocabulary)?;
    let merges = merges_by_score(vocabulary, &ids)?;
    let mut builder = BPE::builder().vocab_and_merges(ids, merges).fuse_unk(true).byte_fallback(true);
    if let Some(token) = vocabulary.unknown_id.and_then(|id| vocabulary.tokens.get(id)) {
        builder = builder.unk_token(token.clone());
    }
    let mut tokenizer = Tokenizer::new(builder.build().map_err(Failed::corrupt)?);
    let scheme = if vocabulary.space_prefix { "first" } else { "never" };
    let pre_tokenizer: PreTokenizerWrapper =
        part(json!({"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": scheme, "split": false}))?;
    tokenizer.with_pre_tokenizer(Some(pre_tokenizer));
    let mut steps = vec![
        json!({"type": "Replace", "pattern": {"String": "\u{2581}"}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if vocabulary.space_prefix {
        steps.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    tokenizer.with_decoder(Some(part::<DecoderWrapper>(json!({"type": "Sequence", "decoders": steps}))?));
    Ok(tokenizer)
}

/// The merges that a SentencePiece vocabulary implies: every way to cut a piece in two pieces, best score first
/// (transformers' generate_merges orders them so).
fn merges_by_score(vocabulary: &GgufVocabulary, ids: &AHashMap<String, u32>) -> Result<Vec<(String, String)>, Failed> {
    if vocabulary.scores.len() != vocabulary.tokens.len() {
        let (scores, tokens) = (vocabulary.scores.len(), vocabulary.tokens.len());
        return Err(Failed::corrupt(format!("{scores} scores for {tokens} tokens")));
    }
    let mut cuts = Vec::new();
    for (token, score) in vocabulary.tokens.iter().zip(&vocabulary.scores) {
        if !score.is_finite() {
            return Err(Failed::corrupt(format!("the score of token {token:?} is not a number")));
        }
        let mut own = Vec::new();
        for (middle, _) in token.char_indices().skip(1) {
            let (left, right) = token.split_at(middle);
            if let (Some(left_id), Some(right_id)) = (ids.get(left), ids.get(right)) {
                own.push((*left_id, *right_id, left, right));
            }
        }
        own.sort_by_key(|(left_id, right_id, _, _)| (*left_id, *right_id));
        cuts.extend(own.into_iter().map(|(_, _, left, right)| (*score, left, right)));
    }
    let length = |text: &str| text.chars().count();
    let mut keyed: Vec<_> =
        cuts.into_iter().map(|(score, left, right)| (score, length(left), length(right), left, right)).collect();
    keyed.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)).then(b.2.cmp(&a.2)));
    Ok(keyed.into_iter().map(|(_, _, _, left, right)| (left.to_string(), right.to_string())).collect())
}
