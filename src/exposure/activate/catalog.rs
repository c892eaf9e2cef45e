//! The catalog in the description of `toolman_activate`, as long as a client lets it be.

use std::collections::BTreeMap;

use crate::catalog::shorten;
use crate::exposure::activate::Active;
use crate::exposure::budget::first_that_fits;
use crate::exposure::guidance::fold;
use crate::toolbox::{Item, Kind};

/// How long the description of one thing may be, in characters.
pub(crate) const MAX_DESCRIPTION: usize = 132;
/// How long the descriptions of active things and those of the others are, step by step; with
/// none, names stand alone.
const STEPS: [(usize, usize); 5] =
    [(MAX_DESCRIPTION, MAX_DESCRIPTION), (80, 80), (40, 40), (40, 0), (0, 0)];
/// What is said where something was left out.
const SHORTENED: &str = "This catalog is shortened. Call toolman_activate with {\"list\": \"*\"}, or \
                         another glob over names, for whole entries.";

/// What a catalog has to say.
pub(crate) struct Catalog<'a> {
    /// What the tool does.
    pub(crate) head: &'a str,
    /// Tools, resources and templates, in their order; whatever else is passed over.
    pub(crate) items: &'a [&'a Item],
    /// Which of them are active.
    pub(crate) active: &'a Active,
    /// The servers of which nothing is known.
    pub(crate) missing: &'a [String],
}

/// A text, and whether everything is in it.
pub(crate) struct Written {
    pub(crate) text: String,
    pub(crate) is_whole: bool,
}

impl Catalog<'_> {
    /// The catalog in at most `max` bytes, if it can be that short at all.
    pub(crate) fn write(&self, max: usize) -> Written {
        let whole = self.with_descriptions(STEPS[0]);
        if whole.len() <= max {
            return Written { text: whole, is_whole: true };
        }
        let shorter = STEPS[1..].iter().map(|step| {
            let text = self.with_descriptions(*step);
            format!("{text}\n\n{SHORTENED}")
        });
        let counts = [true, false].map(|by_server| self.counts(by_server));
        let text = first_that_fits(max, shorter.chain(counts));
        Written { text, is_whole: false }
    }

    fn with_descriptions(&self, (active, inactive): (usize, usize)) -> String {
        let section = |title: &str, is_in: &dyn Fn(Kind) -> bool| {
            let lines = self.items.iter().filter(|item| is_in(item.kind)).map(|item| {
                let max = if self.active.has(item) { active } else { inactive };
                format!("\n{}", line(item, self.active.has(item), max))
            });
            let lines: String = lines.collect();
            if lines.is_empty() { lines } else { format!("\n\n{title}:{lines}") }
        };
        let tools = section("TOOLS", &|kind| kind == Kind::Tool);
        let resources =
            section("RESOURCES", &|kind| matches!(kind, Kind::Resource | Kind::Template));
        format!("{}{tools}{resources}{}", self.head, self.absent())
    }

    /// How many there are, of each server or in all.
    fn counts(&self, by_server: bool) -> String {
        let mut order = Vec::new();
        let mut counts: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
        for item in self.items {
            let server = if by_server { item.at.toolbox.as_str() } else { "in all" };
            if !counts.contains_key(server) {
                order.push(server);
            }
            let count = counts.entry(server).or_default();
            let at = if item.kind == Kind::Tool { 0 } else { 2 };
            count[at] += 1;
            count[at + 1] += usize::from(self.active.has(item));
        }
        let lines = order.into_iter().map(|server| {
            let [tools, active, resources, active_resources] = counts[server];
            format!(
                "\n{server}: {tools} tools ({active} active), {resources} resources \
                 ({active_resources} active)"
            )
        });
        let lines: String = lines.collect();
        let absent = if by_server { self.absent() } else { String::new() };
        format!("{}\n{lines}{absent}\n\n{SHORTENED}", self.head)
    }

    fn absent(&self) -> String {
        if self.missing.is_empty() {
            return String::new();
        }
        format!(
            "\n\nNot available now: {}. Whoever calls or activates one of their tools starts them \
             again.",
            self.missing.join(", ")
        )
    }
}

/// One thing on its line: `* ` before what is active, its name, and what it is.
pub(crate) fn line(item: &Item, is_active: bool, max: usize) -> String {
    let mark = if is_active { "* " } else { "  " };
    match brief(item, max) {
        Some(text) => format!("{mark}{}: {text}", item.name),
        None => format!("{mark}{}", item.name),
    }
}

/// A description on one line, in at most `max` characters.
pub(crate) fn brief(item: &Item, max: usize) -> Option<String> {
    let text = shorten(&fold(item.description.as_deref()?), max);
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
