//! `setup`, `import` and `demo`, and what they share.

pub(crate) mod demo;
pub(crate) mod import;
pub(crate) mod prompt;
pub(crate) mod proposal_report;
pub(crate) mod setup;
pub(crate) mod toolbox_proposal;
