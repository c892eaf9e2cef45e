//! Integration tests in a single binary, because each additional binary would link the whole
//! program again.
#![allow(
    clippy::expect_used,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "the whole crate is a test"
)]
#![allow(
    clippy::needless_pass_by_value,
    reason = "a JSON literal as an argument reads best without `&`"
)]

mod approvals;
mod apps;
mod arguments;
mod audit;
#[cfg(target_os = "linux")]
mod budgets;
mod caching;
mod caller_identity;
mod catalog;
mod catalog_navigate;
mod chaos;
mod cli_add;
mod cli_call;
mod cli_check;
mod cli_complete;
mod cli_demo;
mod cli_everyday;
mod cli_explain;
mod cli_help;
mod cli_import;
mod cli_list;
mod cli_policy;
mod cli_ps;
mod cli_running;
mod cli_search;
mod cli_tailor;
mod cli_task;
mod cli_terminal;
mod cli_token;
mod cli_top;
mod client_credentials;
mod collisions;
mod confirmations;
mod conformance_server;
mod connect;
mod containers;
mod cross_agent_isolation;
mod deploy;
#[cfg(target_os = "linux")]
mod direct_starts;
mod eager;
mod embeddings;
mod everything_server;
mod examples;
mod expose;
mod extensions;
mod fair_shares;
mod fakes;
mod fidelity;
mod handshakes;
mod hostile_llm;
mod http_auth;
mod http_drain;
mod http_limits;
mod http_load;
mod http_retry_and_resume;
mod imperfect_servers;
mod isolation;
mod limits;
mod listing_store;
mod lock;
mod log_fields;
mod long_results;
mod macros;
mod malformed_entries;
mod modular_original;
mod name_hijacking;
mod navigate_llm;
mod navigate_starts;
mod old_sse;
mod one_policy;
mod overrides;
mod pairings;
mod planted_files;
mod policy_changes;
mod process_sharing;
mod projects;
mod questions;
mod ranking;
mod real;
mod real_servers;
mod rehearsal;
mod reload;
mod reload_starts;
mod remote_live;
mod remote_servers;
mod replicas;
mod replicas_sign_in;
mod resource_rules;
mod sandbox;
mod sdk_clients;
mod secrets;
mod select;
mod serve_activate;
mod serve_auto;
mod serve_direct;
mod serve_dynamic;
mod serve_failures;
mod serve_http;
mod serve_modular;
mod serve_navigate;
mod serve_policy;
mod serve_proxy;
mod serve_search;
mod serve_stdio;
mod setup;
mod setup_again;
mod setup_rules;
mod setup_service;
mod shutdown;
mod sign_in;
mod sign_in_fastmcp;
mod sign_in_keyring;
mod sign_in_secrets;
mod start_on_call;
mod stdio;
mod stored_data;
mod support;
mod text_injection;
#[cfg(target_os = "linux")]
mod threads;
mod tidy;
mod tls;
mod tls_clients;
mod tls_files;
mod traces;
mod unreadable_names;
mod values;
