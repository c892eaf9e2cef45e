//! Names of tools, servers, toolboxes and agents, and how agents see them.

pub mod name;
