//! Configuration loading: from a file, folder or client configuration to a checked
//! [`Config`](mcp_workbench_settings::Config), with all findings collected in one pass.
//!
//! Only [`load`], which reads files, and [`env`](mod@env), which reads the environment, do I/O.
//!
//! `document` parses the text into a tree with source locations, and `dialect_detection` finds out
//! which program the file is written for. The `Raw…` types in `sections`, and `client_keys`,
//! `toolman` and `toolman_server`, read the known keys with a `ConfigReader`. `validation` and the
//! sections' `into_checked` turn these into settings types.

pub use dialect::Dialect;
pub use loader::catalog::{check_catalog_tools, is_yaml, read_catalog_tool};
pub use loader::file::{
    ConfigLocation, ConfigOrigin, LoadError, LockfileError, discover, load, load_lockfile,
    load_without_lockfile, locate, locate_cache, parse, parse_with, user_file,
};
pub use loader::input_problem::InputProblem;
pub use loader::loaded_config::{LoadedConfig, ProjectState, ProjectStatus};
pub use loader::lockfile::{lockfile_path, parse_lockfile, render_lockfile};
pub use loader::project::{ProjectFile, parse_project};
pub use loader::secrets_env::{parse_secrets_env, render_secrets_env, secrets_env_path};
pub use loader::validation::unexpanded_config;
pub use sections::audit::otlp_traces_url;
pub use sections::auth::is_valid_token;
pub use sections::project::{ProjectConfig, TakenNames};
pub use sections::schema::{project_schema_text, schema, schema_text};
pub use syntax::finding::{ConfigReport, Finding, Severity};
pub use syntax::lookup::{KeyLocation, locate_key};
pub use syntax::variables::{expand_variables, replace_with_defaults, variable_names};

pub mod dialect;
pub mod env;
pub mod loader;
pub mod secret_values;
pub mod sections;
pub mod syntax;
#[cfg(test)]
mod tests;
