//! What Python writes: `str()`, `repr()` and `json.dumps()` of template values, and the filters and tests of Jinja
//! whose results minijinja's own differ in.

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};
use std::fmt::Write;

/// Deeper values are refused: printing them recurses.
const MAX_DEPTH: usize = 256;

fn too_deep() -> Error {
    Error::new(ErrorKind::InvalidOperation, "a value is nested too deeply to be written")
}

/// `str(value)`.
pub fn write_str(out: &mut String, value: &Value) -> Result<(), Error> {
    match value.as_str() {
        Some(text) => out.push_str(text),
        None if value.is_undefined() => {}
        None => write_repr(out, value, 0)?,
    }
    Ok(())
}

pub fn to_str(value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    write_str(&mut out, value)?;
    Ok(out)
}

fn write_repr(out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    match value.kind() {
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => write_number(out, value),
        ValueKind::String => write_quoted(out, value.as_str().unwrap_or_default()),
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            for (index, item) in value.try_iter()?.enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write_repr(out, &item, depth + 1)?;
            }
            out.push(']');
        }
        ValueKind::Map => {
            out.push('{');
            for (index, key) in value.try_iter()?.enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write_repr(out, &key, depth + 1)?;
                out.push_str(": ");
                write_repr(out, &value.get_item(&key)?, depth + 1)?;
            }
            out.push('}');
        }
        _ => write!(out, "{value}").map_err(Error::from)?,
    }
    Ok(())
}

/// `repr` of a string: single quotes unless the text holds one and no double quote.
fn write_quoted(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if c == quote => {
                out.push('\\');
                out.push(c);
            }
            '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{a0}' | '\u{ad}' => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}' | '\u{205f}'..='\u{206f}' | '\u{3000}' | '\u{feff}' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            _ => out.push(c),
        }
    }
    out.push(quote);
}

fn write_number(out: &mut String, value: &Value) {
    if value.is_integer() {
        let _ = write!(out, "{value}");
    } else if let Ok(number) = f64::try_from(value.clone()) {
        write_float(out, number);
    }
}

/// `repr(float)`: the shortest digits, positional between 1e-4 and 1e16.
fn write_float(out: &mut String, number: f64) {
    if !number.is_finite() {
        out.push_str(if number.is_nan() {
            "nan"
        } else if number > 0.0 {
            "inf"
        } else {
            "-inf"
        });
        return;
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) || number == 0.0 {
        let _ = write!(out, "{number:?}");
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "{digits}e{sign}{:02}", exponent.abs());
    }
}

/// How `json.dumps` lays a document out.
struct JsonStyle {
    ascii: bool,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
}

/// The `tojson` of chat templates: `json.dumps(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
pub fn tojson(value: &Value, positional: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let argument = |index: usize, name: &str| -> Result<Option<Value>, Error> {
        let named: Option<Value> = kwargs.get(name)?;
        Ok(named.or_else(|| positional.get(index).cloned()).filter(|value| !value.is_none() && !value.is_undefined()))
    };
    let indent = match argument(1, "indent")? {
        None => None,
        Some(value) => Some(match value.as_str() {
            Some(text) => text.to_string(),
            None => " ".repeat(usize::try_from(value)?.min(1 << 10)),
        }),
    };
    let separators = match argument(2, "separators")? {
        None => None,
        Some(value) => Some((to_str(&value.get_item_by_index(0)?)?, to_str(&value.get_item_by_index(1)?)?)),
    };
    let (item_separator, key_separator) =
        separators.unwrap_or_else(|| (if indent.is_some() { "," } else { ", " }.into(), ": ".into()));
    let style = JsonStyle {
        ascii: argument(0, "ensure_ascii")?.is_some_and(|value| value.is_true()),
        indent,
        item_separator,
        key_separator,
        sort_keys: argument(3, "sort_keys")?.is_some_and(|value| value.is_true()),
    };
    kwargs.assert_all_used()?;
    let mut out = String::new();
    write_json(&mut out, value, &style, 0)?;
    Ok(Value::from(out))
}

fn write_json(out: &mut String, value: &Value, style: &JsonStyle, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => {
            let mut number = String::new();
            write_number(&mut number, value);
            out.push_str(match number.as_str() {
                "nan" => "NaN",
                "inf" => "Infinity",
                "-inf" => "-Infinity",
                other => other,
            });
        }
        ValueKind::String => write_json_string(out, value.as_str().unwrap_or_default(), style),
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = value.try_iter()?.collect();
            write_json_items(out, ('[', ']'), items.len(), style, depth, |out, index| {
                write_json(out, &items[index], style, depth + 1)
            })?;
        }
        ValueKind::Map => {
            let mut keys: Vec<Value> = value.try_iter()?.collect();
            if style.sort_keys {
                keys.sort();
            }
            write_json_items(out, ('{', '}'), keys.len(), style, depth, |out, index| {
                let key = &keys[index];
                let name = match key.kind() {
                    ValueKind::String => key.as_str().unwrap_or_default().to_string(),
                    _ => {
                        let mut name = String::new();
                        write_json(&mut name, key, style, depth + 1)?;
                        name
                    }
                };
                write_json_string(out, &name, style);
                out.push_str(&style.key_separator);
                write_json(out, &value.get_item(key)?, style, depth + 1)
            })?;
        }
        kind => {
            let message = format!("an {kind} value cannot be written as JSON");
            return Err(Error::new(ErrorKind::BadSerialization, message));
        }
    }
    Ok(())
}

fn write_json_items(
    out: &mut String,
    (open, close): (char, char),
    count: usize,
    style: &JsonStyle,
    depth: usize,
    mut item: impl FnMut(&mut String, usize) -> Result<(), Error>,
) -> Result<(), Error> {
    out.push(open);
    for index in 0..count {
        if index > 0 {
            out.push_str(&style.item_separator);
        }
        write_line_start(out, style, depth + 1);
        item(out, index)?;
    }
    if count > 0 {
        write_line_start(out, style, depth);
    }
    out.push(close);
    Ok(())
}

fn write_line_start(out: &mut String, style: &JsonStyle, depth: usize) {
    if let Some(indent) = &style.indent {
        out.push('\n');
        (0..depth).for_each(|_| out.push_str(indent));
    }
}

fn write_json_string(out: &mut String, text: &str, style: &JsonStyle) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\u{0}'..='\u{1f}' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            _ if style.ascii && !c.is_ascii() => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}

/// The filter `string`.
pub fn string(value: &Value) -> Result<Value, Error> {
    match value.as_str() {
        Some(_) => Ok(value.clone()),
        None => Ok(Value::from(to_str(value)?)),
    }
}

/// The filter `join(d="", attribute=None)`.
pub fn join(value: &Value, separator: Option<String>, kwargs: Kwargs) -> Result<Value, Error> {
    let separator = match separator {
        Some(text) => text,
        None => kwargs.get::<Option<String>>("d")?.unwrap_or_default(),
    };
    let attribute: Option<String> = kwargs.get("attribute")?;
    kwargs.assert_all_used()?;
    let mut out = String::new();
    if value.is_undefined() {
        return Ok(Value::from(out));
    }
    for (index, item) in value.try_iter()?.enumerate() {
        if index > 0 {
            out.push_str(&separator);
        }
        match &attribute {
            None => write_str(&mut out, &item)?,
            Some(path) => {
                let mut current = item;
                for name in path.split('.') {
                    current = current.get_attr(name)?;
                }
                write_str(&mut out, &current)?;
            }
        }
    }
    Ok(Value::from(out))
}

/// The filter `trim(chars=None)`.
pub fn trim(value: &Value, chars: Option<String>, kwargs: Kwargs) -> Result<Value, Error> {
    let chars = match chars {
        Some(text) => Some(text),
        None => kwargs.get::<Option<String>>("chars")?,
    };
    kwargs.assert_all_used()?;
    let text = to_str(value)?;
    Ok(Value::from(match chars {
        None => text.trim_matches(is_space),
        Some(chars) => text.trim_matches(|c| chars.contains(c)),
    }))
}

/// `str.isspace` of one character: Unicode white space and the four ASCII separators.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// The test `iterable`: strings are, and so is what is undefined.
pub fn is_iterable(value: &Value) -> bool {
    value.is_undefined() || matches!(value.kind(), ValueKind::String) || value.try_iter().is_ok() && !value.is_none()
}

/// The test `sequence`: what has a length and takes an index.
pub fn is_sequence(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Map | ValueKind::Undefined)
}

/// Python's methods of strings, lists and dicts.
pub fn method(state: &State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    if let (Some(text), true) = (value.as_str(), args.is_empty() || args[0].is_none()) {
        match name {
            "strip" => return Ok(Value::from(text.trim_matches(is_space))),
            "lstrip" => return Ok(Value::from(text.trim_start_matches(is_space))),
            "rstrip" => return Ok(Value::from(text.trim_end_matches(is_space))),
            _ => {}
        }
    }
    if let (Some(text), Some(affix)) = (value.as_str(), args.first().and_then(|value| value.as_str())) {
        match name {
            "removeprefix" => return Ok(Value::from(text.strip_prefix(affix).unwrap_or(text))),
            "removesuffix" => return Ok(Value::from(text.strip_suffix(affix).unwrap_or(text))),
            _ => {}
        }
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args)
}
