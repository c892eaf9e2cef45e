//! Reading configurations: from a loose file to a checked [`Config`](crate::settings::Config), with
//! every problem in one go.
//!
//! Pure but for [`load`], which reads the file, and [`env`], which reads the environment.
//!
//! The way of a file: `document` makes a located tree of its text, `dialect` finds out which program
//! it is written for, `raw`, `foreign`, `toolman` and `toolman_server` take the keys they know out of
//! it with a `reader`, and `check`, `category`, `server` and `policy` make checked types of that.

pub use dialect::Dialect;
pub use keys::audit::otlp_address;
pub use keys::auth::is_token;
pub use keys::schema::{schema, schema_text};
pub use load::catalog::{check_catalog_tools, is_yaml, read_catalog_tool};
pub use load::check::as_written;
pub use load::file::{
    ChosenBy, LoadError, Location, UnusableLock, find, load, load_lock, load_unlocked, locate,
    locate_cache, parse, parse_with, user_file,
};
pub use load::loaded::Loaded;
pub use load::lock::{BadLock, lock_file, read_lock, write_lock};
pub use load::secrets::{read_secrets, secrets_file, write_secrets};
pub use syntax::expand::{expand, variables, without_variables};
pub use syntax::finding::{Finding, Report, Severity};
pub use syntax::lookup::{Key, find_key};

pub mod dialect;
pub mod env;
pub mod keys;
pub mod load;
pub mod syntax;
#[cfg(test)]
mod tests;
pub mod values;
