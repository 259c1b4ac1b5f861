//! The C interface of `calyrex_bridge.h`, which documents each function.

mod added_tokens;
mod date;
mod failure;
mod gguf;
mod python;
mod sandbox;
mod template;
mod tokenizer;

use added_tokens::{Allowed, Range};
use failure::{Code, Failed};
use gguf::GgufVocabulary;
use serde_json::json;
use std::mem::ManuallyDrop;
use std::panic::{catch_unwind, AssertUnwindSafe};
use template::Template;
use tokenizer::{Encoded, ExtraTokens, LoadedTokenizer};

#[global_allocator]
static ALLOCATOR: sandbox::MeteredAllocator = sandbox::MeteredAllocator;

#[repr(C)]
pub struct Bytes {
    data: *mut u8,
    size: usize,
    capacity: usize,
}

impl Bytes {
    fn new(bytes: Vec<u8>) -> Bytes {
        let mut bytes = ManuallyDrop::new(bytes);
        Bytes { data: bytes.as_mut_ptr(), size: bytes.len(), capacity: bytes.capacity() }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct View {
    data: *const u8,
    size: usize,
}

impl View {
    /// # Safety
    /// `data` must point to `size` bytes that live as long as the result is used.
    unsafe fn bytes<'a>(&self) -> &'a [u8] {
        unsafe { slice(self.data, self.size) }
    }

    unsafe fn text<'a>(&self) -> Result<&'a str, Failed> {
        std::str::from_utf8(unsafe { self.bytes() }).map_err(|error| Failed::invalid(format!("not UTF-8: {error}")))
    }
}

#[repr(C)]
pub struct Gguf {
    model: View,
    pre: View,
    tokens: *const View,
    num_tokens: usize,
    scores: *const f32,
    num_scores: usize,
    types: *const i32,
    num_types: usize,
    merges: *const View,
    num_merges: usize,
    unknown_id: i64,
    space_prefix: i32,
}

#[repr(C)]
pub struct CRange {
    begin: usize,
    end: usize,
    added: i32,
}

#[repr(C)]
pub struct Encoding {
    ids: *mut i32,
    begin: *mut i64,
    end: *mut i64,
    size: usize,
}

/// # Safety
/// `data` must point to `size` values, or be null with size 0.
unsafe fn slice<'a, T>(data: *const T, size: usize) -> &'a [T] {
    if size == 0 {
        &[]
    } else {
        unsafe { std::slice::from_raw_parts(data, size) }
    }
}

/// Runs the body of a call; its failure or panic becomes a status and a message.
fn guarded<T>(error: *mut Bytes, out: *mut T, body: impl FnOnce() -> Result<T, Failed>) -> i32 {
    sandbox::silence_panics();
    let failed = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => {
            // SAFETY: the caller gave a place for the result.
            unsafe { out.write(value) };
            return 0;
        }
        Ok(Err(failed)) => failed,
        Err(payload) => Failed::new(Code::Internal, sandbox::panic_text(payload.as_ref())),
    };
    // SAFETY: the caller gave a place for the message.
    unsafe { error.write(Bytes::new(failed.message.into_bytes())) };
    failed.code as i32
}

#[no_mangle]
pub unsafe extern "C" fn calyrex_bytes_free(bytes: Bytes) {
    if !bytes.data.is_null() {
        drop(unsafe { Vec::from_raw_parts(bytes.data, bytes.size, bytes.capacity) });
    }
}

fn into_raw<T>(values: Vec<T>) -> *mut T {
    Box::into_raw(values.into_boxed_slice()) as *mut T
}

unsafe fn free_raw<T>(values: *mut T, size: usize) {
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(values, size)) });
}

#[no_mangle]
pub unsafe extern "C" fn calyrex_encoding_free(encoding: Encoding) {
    if !encoding.ids.is_null() {
        unsafe {
            free_raw(encoding.ids, encoding.size);
            free_raw(encoding.begin, encoding.size);
            free_raw(encoding.end, encoding.size);
        }
    }
}

#[no_mangle]
pub unsafe extern "C" fn calyrex_tokenizer_from_json(
    json: View,
    extra: View,
    tokenizer: *mut *mut LoadedTokenizer,
    error: *mut Bytes,
) -> i32 {
    guarded(error, tokenizer, || {
        let (json, extra) = unsafe { (json.bytes().to_vec(), extra.bytes()) };
        let extra: ExtraTokens = match extra {
            [] => ExtraTokens::default(),
            bytes => serde_json::from_slice(bytes).map_err(Failed::corrupt)?,
        };
        Ok(Box::into_raw(Box::new(LoadedTokenizer::from_json(json, extra)?)))
    })
}

unsafe fn strings(views: *const View, count: usize) -> Result<Vec<String>, Failed> {
    let views = unsafe { slice(views, count) };
    views
        .iter()
        .map(|view| Ok(unsafe { view.text() }.map_err(|failed| Failed::corrupt(failed.message))?.to_string()))
        .collect()
}

#[no_mangle]
pub unsafe extern "C" fn calyrex_tokenizer_from_gguf(
    gguf: *const Gguf,
    tokenizer: *mut *mut LoadedTokenizer,
    error: *mut Bytes,
) -> i32 {
    guarded(error, tokenizer, || {
        let vocabulary = unsafe {
            let gguf = &*gguf;
            GgufVocabulary {
                model: gguf.model.text()?.to_string(),
                pre: gguf.pre.text()?.to_string(),
                tokens: strings(gguf.tokens, gguf.num_tokens)?,
                scores: slice(gguf.scores, gguf.num_scores).to_vec(),
                types: slice(gguf.types, gguf.num_types).to_vec(),
                merges: strings(gguf.merges, gguf.num_merges)?,
                unknown_id: usize::try_from(gguf.unknown_id).ok(),
                space_prefix: gguf.space_prefix != 0,
            }
        };
        Ok(Box::into_raw(Box::new(gguf::build(vocabulary)?)))
    })
}

#[no_mangle]
pub unsafe extern "C" fn calyrex_tokenizer_free(tokenizer: *mut LoadedTokenizer) {
    if !tokenizer.is_null() {
        drop(unsafe { Box::from_raw(tokenizer) });
    }
}

#[no_mangle]
pub unsafe extern "C" fn calyrex_tokenizer_encode(
    tokenizer: *const LoadedTokenizer,
    text: View,
    ranges: *const CRange,
    num_ranges: usize,
    encoding: *mut Encoding,
    error: *mut Bytes,
) -> i32 {
    guarded(error, encoding, || {
        let (tokenizer, text, ranges) = unsafe { (&*tokenizer, text.text()?, slice(ranges, num_ranges)) };
        let ranges: Vec<Range> = ranges
            .iter()
            .map(|range| Range {
                begin: range.begin,
                end: range.end,
                allowed: if range.added == 2 { Allowed::All } else { Allowed::NonSpecial },
            })
            .collect();
        let Encoded { ids, begin, end } = tokenizer.encode(text, &ranges)?;
        let size = ids.len();
        Ok(Encoding { ids: into_raw(ids), begin: into_raw(begin), end: into_raw(end), size })
    })
}

#[no_mangle]
pub unsafe extern "C" fn calyrex_tokenizer_decode(
    tokenizer: *const LoadedTokenizer,
    ids: *const i32,
    num_ids: usize,
    skip_special: i32,
    text: *mut Bytes,
    error: *mut Bytes,
) -> i32 {
    guarded(error, text, || {
        let (tokenizer, ids) = unsafe { (&*tokenizer, slice(ids, num_ids)) };
        Ok(Bytes::new(tokenizer.decode(ids, skip_special != 0)?.into_bytes()))
    })
}

#[no_mangle]
pub unsafe extern "C" fn calyrex_tokenizer_describe(
    tokenizer: *const LoadedTokenizer,
    json: *mut Bytes,
    error: *mut Bytes,
) -> i32 {
    guarded(error, json, || {
        let tokenizer = unsafe { &*tokenizer };
        let description = json!({
            "vocab_size": tokenizer.vocab_size(),
            "leading_id": tokenizer.leading_id(),
            "added_tokens": tokenizer.added_tokens(),
        });
        Ok(Bytes::new(description.to_string().into_bytes()))
    })
}

#[no_mangle]
pub unsafe extern "C" fn calyrex_tokenizer_to_json(
    tokenizer: *const LoadedTokenizer,
    json: *mut Bytes,
    error: *mut Bytes,
) -> i32 {
    guarded(error, json, || Ok(Bytes::new(unsafe { &*tokenizer }.to_json()?.into_bytes())))
}

#[no_mangle]
pub unsafe extern "C" fn calyrex_tokenizer_token_to_id(tokenizer: *const LoadedTokenizer, token: View) -> i64 {
    catch_unwind(AssertUnwindSafe(|| unsafe {
        token.text().ok().and_then(|text| (*tokenizer).token_to_id(text)).map_or(-1, i64::from)
    }))
    .unwrap_or(-1)
}

#[no_mangle]
pub unsafe extern "C" fn calyrex_tokenizer_id_to_token(tokenizer: *const LoadedTokenizer, id: i32) -> Bytes {
    let token = catch_unwind(AssertUnwindSafe(|| unsafe { (*tokenizer).id_to_token(id as u32) }));
    Bytes::new(token.ok().flatten().unwrap_or_default().into_bytes())
}

#[no_mangle]
pub unsafe extern "C" fn calyrex_template_compile(
    source: View,
    chat_template: *mut *mut Template,
    error: *mut Bytes,
) -> i32 {
    guarded(error, chat_template, || Ok(Box::into_raw(Box::new(Template::compile(unsafe { source.bytes() })?))))
}

#[no_mangle]
pub unsafe extern "C" fn calyrex_template_free(chat_template: *mut Template) {
    if !chat_template.is_null() {
        drop(unsafe { Box::from_raw(chat_template) });
    }
}

#[no_mangle]
pub unsafe extern "C" fn calyrex_template_render(
    chat_template: *const Template,
    request: View,
    response: *mut Bytes,
    error: *mut Bytes,
) -> i32 {
    guarded(error, response, || {
        let rendered = unsafe { (*chat_template).render(request.bytes())? };
        let rendered: Vec<_> = rendered
            .into_iter()
            .map(|outcome| match outcome {
                Ok(text) => json!({"text": text}),
                Err(failed) => json!({"status": failed.code as i32, "error": failed.message}),
            })
            .collect();
        Ok(Bytes::new(serde_json::to_vec(&rendered).map_err(|error| Failed::new(Code::Internal, error.to_string()))?))
    })
}
