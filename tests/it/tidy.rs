//! Tests of the house rules.
//!
//! Each rule is a function over source text. Its test first runs it on an example that breaks the
//! rule, then on the repository. The allowed edges between modules come from `ARCHITECTURE.md`, so
//! the document and the code can't diverge.

mod architecture;
mod commands;
mod cycles;
mod documents;
mod edges;
mod names;
mod platforms;
mod reference;
mod rules;
mod text;
