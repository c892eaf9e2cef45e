//! The house rules, each as a test that fails when it is broken.
//!
//! Every rule is a function over text, and is first shown a text that breaks it. Which module may
//! use which is read out of `ARCHITECTURE.md`, so that the document and the code cannot drift.

mod architecture;
mod circles;
mod commands;
mod documents;
mod edges;
mod platforms;
mod reference;
mod rules;
mod text;
