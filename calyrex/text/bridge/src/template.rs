//! Chat templates, rendered as Hugging Face transformers renders them: Jinja with trim_blocks, lstrip_blocks and loop
//! controls, `tojson`, `raise_exception`, `strftime_now`, and the `{% generation %}` tags.

use crate::date::Moment;
use crate::failure::{Code, Failed};
use crate::python;
use crate::sandbox::{self, Failure, Limits};
use minijinja::value::merge_maps;
use minijinja::{Environment, Error, ErrorKind, State, Value};
use serde_json::Value as Json;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

const MAX_TEMPLATE_BYTES: usize = 256 << 10;
/// Instructions of one rendering.
const FUEL: u64 = 5_000_000;
const MAX_TIME: Duration = Duration::from_secs(5);
/// A rendering may write this much, and this much more for each byte of its messages.
const OUTPUT_BYTES: usize = 4 << 20;
const OUTPUT_BYTES_PER_BYTE: usize = 8;
/// The same for all memory it holds at one time.
const MEMORY_BYTES: i64 = 64 << 20;
const MEMORY_BYTES_PER_BYTE: i64 = 64;
const NAME: &str = "chat template";

pub struct Template {
    environment: Arc<Environment<'static>>,
    /// Set when a rendering had to be left behind; nothing more is rendered then.
    stopped: AtomicBool,
}

/// What a template said through `raise_exception`.
#[derive(Debug)]
struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

impl Template {
    pub fn compile(source: &[u8]) -> Result<Template, Failed> {
        if source.len() > MAX_TEMPLATE_BYTES {
            let size = source.len();
            return Err(Failed::invalid(format!("it has {size} bytes, more than {MAX_TEMPLATE_BYTES}")));
        }
        let source =
            std::str::from_utf8(source).map_err(|error| Failed::invalid(format!("it is not UTF-8: {error}")))?;
        let source = rewrite_generation_tags(source);
        let limits = Limits { bytes: MEMORY_BYTES, time: MAX_TIME };
        let outcome = sandbox::run(limits, move || {
            let mut environment = new_environment();
            environment.add_template_owned(NAME, source)?;
            Ok::<_, Error>(environment)
        });
        let environment = outcome.map_err(|failure| stop_reason(&failure))?.map_err(|error| explain(&error))?;
        Ok(Template { environment: Arc::new(environment), stopped: AtomicBool::new(false) })
    }

    /// Renders every variant a request asks for (see `calyrex_template_render`); a variant that fails gives its error.
    pub fn render(&self, request: &[u8]) -> Result<Vec<Result<String, Failed>>, Failed> {
        if self.stopped.load(Ordering::Relaxed) {
            return Err(Failed::new(Code::Resource, "it was stopped before for what it used and is not run again"));
        }
        let size = request.len();
        let request: Json = serde_json::from_slice(request)
            .map_err(|error| Failed::invalid(format!("the messages cannot be passed on: {error}")))?;
        let environment = self.environment.clone();
        let limits = Limits { bytes: MEMORY_BYTES + MEMORY_BYTES_PER_BYTE * size as i64, time: MAX_TIME };
        let max_output = OUTPUT_BYTES + OUTPUT_BYTES_PER_BYTE * size;
        match sandbox::run(limits, move || render_variants(&environment, request, max_output)) {
            Ok(outcome) => outcome,
            Err(failure) => {
                if matches!(failure, Failure::Memory | Failure::Time) {
                    self.stopped.store(true, Ordering::Relaxed);
                }
                Err(stop_reason(&failure))
            }
        }
    }
}

fn stop_reason(failure: &Failure) -> Failed {
    match failure {
        Failure::Memory => Failed::new(Code::Resource, "it was stopped: it uses too much memory"),
        Failure::Time => Failed::new(Code::Resource, "it was stopped: it takes too long"),
        Failure::Panic(text) => Failed::new(Code::Internal, format!("the template engine failed: {text}")),
        Failure::Unavailable(text) => Failed::new(Code::Resource, format!("no thread to run it on: {text}")),
    }
}

fn new_environment() -> Environment<'static> {
    let mut environment = Environment::new();
    minijinja_contrib::add_to_environment(&mut environment);
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_fuel(Some(FUEL));
    environment.set_unknown_method_callback(python::method);
    environment.set_formatter(|output, _state, value| {
        let mut text = String::new();
        python::write_str(&mut text, value)?;
        output.write_str(&text).map_err(Error::from)
    });
    environment.add_filter("tojson", python::tojson);
    environment.add_filter("string", python::string);
    environment.add_filter("join", python::join);
    environment.add_filter("trim", python::trim);
    environment.add_test("iterable", python::is_iterable);
    environment.add_test("sequence", python::is_sequence);
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Refusal(message)))
    });
    environment.add_function("strftime_now", |state: &State, format: String| -> Result<String, Error> {
        let now = state.lookup("__now").and_then(|value| value.as_str().and_then(Moment::parse));
        let now = now.ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "no valid date was given"))?;
        now.format(&format).map_err(|error| Error::new(ErrorKind::InvalidOperation, format!("strftime_now: {error}")))
    });
    environment
}

/// `{% generation %}` marks the assistant's text and opens a scope: `{% with %}` does the same. Lengths are kept, so
/// that errors name the right place. Comments and raw blocks are left alone.
fn rewrite_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = if rest.starts_with("{#") {
            rest.find("#}").map_or(rest.len(), |end| end + 2)
        } else if rest.starts_with("{{") {
            expression_length(rest)
        } else if rest.starts_with("{%") {
            let end = rest.find("%}").map_or(rest.len(), |end| end + 2);
            let name = rest[2..end].trim_end_matches("%}").trim_matches(['-', '+']).trim();
            match name {
                "generation" | "endgeneration" => {
                    let with = if name == "generation" { "with      " } else { "endwith      " };
                    out.push_str(&rest[..end].replacen(name, with, 1));
                    rest = &rest[end..];
                    continue;
                }
                "raw" => end + rest[end..].find("endraw").unwrap_or(rest.len() - end),
                _ => end,
            }
        } else {
            1
        };
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    out + rest
}

/// Bytes of the `{{ ... }}` that a text starts with; braces in its strings do not count.
fn expression_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut quote = None;
    let mut at = 2;
    while at < bytes.len() {
        match (quote, bytes[at]) {
            (Some(_), b'\\') => at += 1,
            (Some(open), byte) if byte == open => quote = None,
            (None, b'"' | b'\'') => quote = Some(bytes[at]),
            (None, b'}') if text[at..].starts_with("}}") => return at + 2,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// A writer that refuses to grow beyond its limit.
struct BoundedOutput {
    bytes: Vec<u8>,
    limit: usize,
}

impl std::io::Write for BoundedOutput {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.limit {
            return Err(std::io::Error::other(format!("it writes more than {} bytes", self.limit)));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn render_variants(
    environment: &Environment<'static>,
    mut request: Json,
    max_output: usize,
) -> Result<Vec<Result<String, Failed>>, Failed> {
    let malformed = || Failed::new(Code::Internal, "a malformed request");
    let template = environment.get_template(NAME).map_err(|error| explain(&error))?;
    let mut chats = Vec::new();
    for chat in request["chats"].as_array_mut().ok_or_else(malformed)?.iter_mut() {
        let context = Value::from_serialize(chat["context"].take());
        let messages: Vec<Value> = chat["messages"]
            .as_array_mut()
            .ok_or_else(malformed)?
            .iter_mut()
            .map(|m| Value::from_serialize(m.take()))
            .collect();
        chats.push((context, messages));
    }
    let mut outputs = Vec::new();
    for variant in request["variants"].as_array().ok_or_else(malformed)? {
        let number = |name: &str| variant[name].as_u64().map(|value| value as usize);
        let (context, messages) = number("chat").and_then(|index| chats.get(index)).ok_or_else(malformed)?;
        let count = number("count").filter(|count| *count <= messages.len()).ok_or_else(malformed)?;
        let own = Value::from_iter([
            ("messages", Value::from(messages[..count].to_vec())),
            ("add_generation_prompt", Value::from(variant["add_generation_prompt"].as_bool().unwrap_or(false))),
        ]);
        let mut output = BoundedOutput { bytes: Vec::new(), limit: max_output };
        let outcome = template.render_captured_to(merge_maps([own, context.clone()]), &mut output).map(|_| ());
        outputs.push(match outcome {
            Ok(()) => String::from_utf8(output.bytes).map_err(|_| malformed()),
            Err(error) => Err(explain(&error)),
        });
    }
    Ok(outputs)
}

/// One line: the template's own words if it refused, else the engine's with the line.
fn explain(error: &Error) -> Failed {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let mut reasons = Vec::new();
    while let Some(current) = source {
        if let Some(refusal) = current.downcast_ref::<Refusal>() {
            return Failed::new(Code::Refused, refusal.0.clone());
        }
        if let Some(io) = current.downcast_ref::<std::io::Error>() {
            return Failed::new(Code::Resource, io.to_string());
        }
        if current.downcast_ref::<Error>().is_some_and(|error| error.kind() == ErrorKind::OutOfFuel) {
            return Failed::new(Code::Resource, "it was stopped: it runs too many instructions");
        }
        reasons.push(current.to_string().replace('\n', " "));
        source = current.source();
    }
    reasons.dedup();
    Failed::invalid(reasons.join(": "))
}
