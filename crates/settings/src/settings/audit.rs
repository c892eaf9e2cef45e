//! How calls are recorded (`audit`), and where else they are reported (`telemetry`).

use std::path::PathBuf;

use url::Url;

/// Where and how calls are recorded (`audit`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditConfig {
    /// The file; absolute.
    pub file: PathBuf,
    /// How much of a call's arguments is kept.
    pub arguments: KeptArguments,
    /// The size, in bytes, at which the file is put aside and a new one begun.
    pub max_bytes: u64,
    /// How many files that were put aside are kept.
    pub keep: u32,
}

/// How much of a call's arguments is kept (`audit.arguments`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeptArguments {
    /// A keyed hash of them: equal ones have equal hashes.
    #[default]
    Hash,
    /// All of them, less secrets, and the hash.
    Whole,
    /// How many bytes they have.
    None,
}

impl KeptArguments {
    pub const ALL: [Self; 3] = [Self::Hash, Self::Whole, Self::None];

    /// Returns the word for it in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Whole => "whole",
            Self::None => "none",
        }
    }
}

/// Where calls are reported as they end (`telemetry`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TelemetryConfig {
    /// The address of a collector that takes OTLP over HTTP.
    pub otlp: Option<Url>,
}
