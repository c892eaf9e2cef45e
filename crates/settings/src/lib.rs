//! Settings: the checked types that a configuration becomes, for everybody who does not read files.

pub mod settings;

// The crate below, by the path that its module has everywhere.
use mcp_workbench_names::name;
