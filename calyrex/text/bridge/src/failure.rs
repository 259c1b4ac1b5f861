//! Why a call of the bridge failed.

/// Mirrors CalyrexStatus in calyrex_bridge.h.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(i32)]
pub enum Code {
    /// The caller's text, template or messages.
    Invalid = 1,
    /// A damaged tokenizer.
    Corrupt = 2,
    Unsupported = 3,
    /// A limit of memory, time or output.
    Resource = 4,
    Internal = 5,
    /// The template's own words (raise_exception).
    Refused = 6,
}

#[derive(Debug)]
pub struct Failed {
    pub code: Code,
    pub message: String,
}

impl Failed {
    pub fn new(code: Code, message: impl Into<String>) -> Failed {
        Failed { code, message: message.into() }
    }

    pub fn invalid(message: impl Into<String>) -> Failed {
        Failed::new(Code::Invalid, message)
    }

    pub fn corrupt(message: impl std::fmt::Display) -> Failed {
        Failed::new(Code::Corrupt, message.to_string())
    }
}
