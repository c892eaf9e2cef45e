//! Configuration values that are stored elsewhere: in a file, in the output of a command, or in the
//! keyring.

use std::fmt;
use std::path::PathBuf;

/// The location of a configuration value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SecretRef {
    /// An absolute path.
    File(PathBuf),
    /// The standard output of a command.
    Command {
        /// The program and its arguments.
        words: Vec<String>,
        /// The working directory. Absolute.
        folder: PathBuf,
    },
    /// An entry of the system's keyring.
    Keyring { service: String, account: String },
}

impl SecretRef {
    /// Returns the kind, and the parts that identify the value within that kind.
    pub fn parts(&self) -> (&'static str, Vec<&[u8]>) {
        match self {
            Self::File(path) => ("file", vec![path.as_os_str().as_encoded_bytes()]),
            Self::Command { words, folder } => {
                let words = words.iter().map(String::as_bytes);
                ("command", words.chain([folder.as_os_str().as_encoded_bytes()]).collect())
            }
            Self::Keyring { service, account } => {
                ("keyring", vec![service.as_bytes(), account.as_bytes()])
            }
        }
    }
}

/// Shows only the program of a command, because arguments can contain secrets.
impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "the file `{}`", path.display()),
            Self::Command { words, .. } => {
                write!(f, "the command `{}`", words.first().map_or("", String::as_str))
            }
            Self::Keyring { service, account } => write!(f, "`{service}/{account}` in the keyring"),
        }
    }
}

impl fmt::Debug for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_a_command_are_not_shown() {
        let words = ["/bin/vault", "--token", "s3cret"].map(str::to_owned).to_vec();
        let reference = SecretRef::Command { words, folder: "/x".into() };
        for shown in [reference.to_string(), format!("{reference:?}")] {
            assert_eq!(shown, "the command `/bin/vault`");
        }
    }
}
