//! Values that a configuration refers to and that stand elsewhere: in a file, in what a command
//! prints, in the keyring.

use std::fmt;
use std::path::PathBuf;

/// The place of a value that the configuration refers to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reference {
    /// A file; absolute.
    File(PathBuf),
    /// The standard output of a command.
    Command {
        /// The program and its arguments.
        words: Vec<String>,
        /// The folder that it runs in; absolute.
        folder: PathBuf,
    },
    /// An entry of the system's keyring.
    Keyring {
        /// The service that the entry is for.
        service: String,
        /// The account at that service.
        account: String,
    },
}

impl Reference {
    /// Its kind, and the texts that say which of that kind it is.
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

/// Shows of a command its program alone, for its arguments may be secret.
impl fmt::Display for Reference {
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

impl fmt::Debug for Reference {
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
        let reference = Reference::Command { words, folder: "/x".into() };
        for shown in [reference.to_string(), format!("{reference:?}")] {
            assert_eq!(shown, "the command `/bin/vault`");
        }
    }
}
