//! Tables without rules, fitted to the terminal's width.

use comfy_table::{CellAlignment, ContentArrangement, Row, presets};

use crate::cli::output::escape::escape_controls;
use crate::cli::output::print::Paint;
use crate::cli::output::redaction::redact;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

pub(crate) struct Table {
    inner: comfy_table::Table,
    paint: Paint,
}

impl Table {
    /// A table without numbers.
    pub(crate) fn left<const N: usize>(columns: [&str; N]) -> Self {
        Self::new(columns.map(|name| (name, Align::Left)))
    }

    pub(crate) fn new<const N: usize>(columns: [(&str, Align); N]) -> Self {
        let mut inner = comfy_table::Table::new();
        inner
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_header(columns.map(|(name, _)| name));
        for (column, (index, (_, align))) in
            inner.column_iter_mut().zip(columns.into_iter().enumerate())
        {
            // The first column is flush with the text around the table.
            column.set_padding((u16::from(index > 0), 1));
            column.set_cell_alignment(match align {
                Align::Left => CellAlignment::Left,
                Align::Right => CellAlignment::Right,
            });
        }
        Self { inner, paint: Paint::new() }
    }

    /// Adds a row with redacted and escaped cells.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.inner
            .add_row(Row::from(cells.map(|cell| escape_controls(&redact(&cell)).into_owned())));
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, line) in self.inner.lines().enumerate() {
            match index {
                0 => write!(f, "{}", self.paint.heading(line.trim_end()))?,
                _ => write!(f, "\n{}", line.trim_end())?,
            }
        }
        Ok(())
    }
}
