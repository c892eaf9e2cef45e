//! The audit log (`audit`) and the export of traces (`telemetry`).

use std::path::PathBuf;

use url::Url;

/// Settings of the audit log (`audit`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AuditConfig {
    /// Absolute path of the log file.
    pub file: PathBuf,
    pub arguments: ArgumentCapture,
    /// File size in bytes that triggers a rotation.
    pub max_bytes: u64,
    /// Number of rotated files to retain.
    pub keep: u32,
}

/// How call arguments are logged (`audit.arguments`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ArgumentCapture {
    /// A keyed hash: equal arguments have equal hashes.
    #[default]
    Hash,
    /// The arguments with secrets redacted, and the hash.
    Whole,
    /// Only the length in bytes.
    None,
}

impl ArgumentCapture {
    pub const ALL: [Self; 3] = [Self::Hash, Self::Whole, Self::None];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Whole => "whole",
            Self::None => "none",
        }
    }
}

/// The export of traces (`telemetry`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TelemetryConfig {
    /// URL of a collector that accepts OTLP over HTTP.
    pub otlp: Option<Url>,
}
