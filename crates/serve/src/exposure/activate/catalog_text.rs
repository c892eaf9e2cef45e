//! The catalog in the description of `toolman_activate`, within the client's length limit.
//!
//! To fit, descriptions become shorter, then disappear, then inactive primitives of the largest
//! toolboxes are only counted, and at last active ones. At each step, as many primitives as possible
//! keep the form of the step before.

use crate::exposure::instructions::on_one_line;
use crate::exposure::truncation::{lengthen, names_that_fit};
use mcp_workbench_core::catalog::shorten;
use mcp_workbench_core::state::ActivePrimitives;
use mcp_workbench_core::toolbox::{NamespacedPrimitive, PrimitiveKind};

/// Maximum length of a primitive's description, in characters.
pub(crate) const MAX_DESCRIPTION: usize = 132;
/// Maximum lengths of the descriptions of active and inactive primitives, step by step; 0 means
/// names only.
const STEPS: [(usize, usize); 5] =
    [(MAX_DESCRIPTION, MAX_DESCRIPTION), (80, 80), (40, 40), (40, 0), (0, 0)];
const SHORTENED: &str = "This catalog is shortened. Call toolman_activate with {\"list\": \"*\"}, \
                         or another glob of names, for full entries.";
/// Maximum size of the names of missing servers, in bytes.
const MAX_ABSENT: usize = 300;

pub(crate) struct CatalogText<'a> {
    pub(crate) head: &'a str,
    /// Tools, resources and templates in order; other kinds are skipped.
    pub(crate) items: &'a [&'a NamespacedPrimitive],
    pub(crate) active: &'a ActivePrimitives,
    /// Names of the servers without a listing.
    pub(crate) missing: &'a [String],
}

pub(crate) struct RenderedCatalog {
    pub(crate) text: String,
    pub(crate) is_whole: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Tools,
    Resources,
}

impl Section {
    const BOTH: [Self; 2] = [Self::Tools, Self::Resources];

    fn title(self) -> &'static str {
        match self {
            Self::Tools => "TOOLS",
            Self::Resources => "RESOURCES",
        }
    }

    fn primitives(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
        }
    }

    fn has(self, item: &NamespacedPrimitive) -> bool {
        match self {
            Self::Tools => item.kind == PrimitiveKind::Tool,
            Self::Resources => {
                matches!(item.kind, PrimitiveKind::Resource | PrimitiveKind::ResourceTemplate)
            }
        }
    }
}

struct Group<'a> {
    section: Section,
    toolbox: &'a str,
    items: Vec<&'a NamespacedPrimitive>,
}

/// A group with some of its names.
struct NamedGroup<'a> {
    group: &'a Group<'a>,
    names: Vec<String>,
    is_shown: Vec<bool>,
    hidden: usize,
    hidden_active: usize,
}

impl<'a> NamedGroup<'a> {
    fn new(group: &'a Group<'a>, active: &ActivePrimitives) -> Self {
        let names = group.items.iter().map(|item| line(item, active.has(item), 0));
        let hidden = group.items.len();
        Self {
            group,
            names: names.collect(),
            is_shown: vec![false; hidden],
            hidden,
            hidden_active: group.items.iter().filter(|item| active.has(item)).count(),
        }
    }

    /// Shows a name if the total of `used` bytes stays within `capacity`. Returns the new total.
    fn show(&mut self, index: usize, is_active: bool, (used, capacity): (usize, usize)) -> usize {
        let count = |group: &Self| group.count().map_or(0, |count| count.len() + 1);
        let before = count(self);
        let active = usize::from(is_active);
        (self.hidden, self.hidden_active) = (self.hidden - 1, self.hidden_active - active);
        let with = used - before + count(self) + self.names[index].len() + 1;
        if with <= capacity {
            self.is_shown[index] = true;
            return with;
        }
        (self.hidden, self.hidden_active) = (self.hidden + 1, self.hidden_active + active);
        used
    }

    /// The line about the names that aren't shown.
    fn count(&self) -> Option<String> {
        let (toolbox, count) = (self.group.toolbox, self.hidden);
        let primitives = self.group.section.primitives();
        let active = self.hidden_active;
        match count {
            0 => None,
            all if all == self.names.len() => {
                Some(format!("  {toolbox}: {count} {primitives} ({active} active)"))
            }
            _ if active > 0 => {
                Some(format!("  {toolbox}: {count} more {primitives} ({active} active)"))
            }
            _ => Some(format!("  {toolbox}: {count} more {primitives}")),
        }
    }

    fn lines(&self) -> Vec<(Section, String)> {
        let names = self.names.iter().zip(&self.is_shown).filter(|(_, is_shown)| **is_shown);
        let names = names.map(|(name, _)| name.clone()).chain(self.count());
        names.map(|line| (self.group.section, line)).collect()
    }
}

impl CatalogText<'_> {
    /// Renders the catalog in at most `max` bytes, or in its shortest form if that is longer.
    pub(crate) fn write(&self, max: usize) -> RenderedCatalog {
        let groups = self.groups();
        let names = self.lines(&groups, STEPS[STEPS.len() - 1]);
        if self.length(&names) <= max {
            let whole = self.lines(&groups, STEPS[0]);
            if self.length(&whole) <= max {
                return RenderedCatalog { text: self.text(&whole), is_whole: true };
            }
        }
        let capacity = max.saturating_sub(SHORTENED.len() + 2);
        let lines = if self.length(&names) <= capacity {
            Some(self.described(&groups, names, capacity))
        } else {
            self.named(&groups, capacity)
        };
        let text = lines.map_or_else(|| self.counted(capacity), |lines| self.text(&lines));
        RenderedCatalog { text: format!("{text}\n\n{SHORTENED}"), is_whole: false }
    }

    fn groups(&self) -> Vec<Group<'_>> {
        let mut groups: Vec<Group<'_>> = Vec::new();
        for section in Section::BOTH {
            let first = groups.len();
            for item in self.items.iter().filter(|item| section.has(item)) {
                let toolbox = item.at.toolbox.as_str();
                match groups[first..].iter_mut().find(|group| group.toolbox == toolbox) {
                    Some(group) => group.items.push(item),
                    None => groups.push(Group { section, toolbox, items: vec![item] }),
                }
            }
        }
        groups
    }

    fn lines(&self, groups: &[Group<'_>], step: (usize, usize)) -> Vec<(Section, String)> {
        let items = groups.iter().flat_map(|group| {
            group.items.iter().map(move |item| (group.section, self.line(item, step)))
        });
        items.collect()
    }

    fn line(&self, item: &NamespacedPrimitive, (active, inactive): (usize, usize)) -> String {
        let is_active = self.active.has(item);
        line(item, is_active, if is_active { active } else { inactive })
    }

    /// Uses the longest descriptions that fit for all primitives, and the next step for as many as
    /// fit, from the first one on.
    fn described(
        &self,
        groups: &[Group<'_>],
        names: Vec<(Section, String)>,
        capacity: usize,
    ) -> Vec<(Section, String)> {
        let used = self.length(&names);
        let steps = STEPS.iter().rev().skip(1).map(|step| self.lines(groups, *step));
        lengthen(names, steps, |line| &line.1, (used, capacity))
    }

    /// As many names as fit, and counts of the others: names of active primitives first, then those
    /// of the smallest toolboxes. `None` if even the counts don't fit.
    fn named(&self, groups: &[Group<'_>], capacity: usize) -> Option<Vec<(Section, String)>> {
        let mut shown: Vec<_> =
            groups.iter().map(|group| NamedGroup::new(group, self.active)).collect();
        let counts: Vec<_> = shown.iter().flat_map(NamedGroup::lines).collect();
        let mut used = self.length(&counts);
        if used > capacity {
            return None;
        }
        shown.sort_by_key(|group| group.names.iter().map(String::len).sum::<usize>());
        for wanted in [true, false] {
            for group in &mut shown {
                for index in 0..group.names.len() {
                    let is_active = self.active.has(group.group.items[index]);
                    if is_active == wanted {
                        used = group.show(index, is_active, (used, capacity));
                    }
                }
            }
        }
        let in_order = |of: &&Group<'_>| {
            shown.iter().find(|shown| std::ptr::eq(shown.group, *of)).map(NamedGroup::lines)
        };
        Some(groups.iter().filter_map(|group| in_order(&group)).flatten().collect())
    }

    /// The shortest form: only the totals, and names of active primitives as far as they fit.
    fn counted(&self, capacity: usize) -> String {
        let sections = Section::BOTH.map(|section| {
            let items = || self.items.iter().filter(|item| section.has(item));
            let active = items().filter(|item| self.active.has(item)).count();
            format!("{} {} ({active} active)", items().count(), section.primitives())
        });
        let mut text = format!("{}\n\ntotal: {}", self.head, sections.join(", "));
        let active = self.items.iter().filter(|item| self.active.has(item));
        for item in active.filter(|item| Section::BOTH.iter().any(|section| section.has(item))) {
            let line = line(item, true, 0);
            if text.len() + 1 + line.len() <= capacity {
                text.extend(["\n", line.as_str()]);
            }
        }
        text
    }

    fn text(&self, lines: &[(Section, String)]) -> String {
        let mut text = self.head.to_owned();
        for section in Section::BOTH {
            let mut lines = lines.iter().filter(|(of, _)| *of == section).peekable();
            if lines.peek().is_some() {
                text.extend(["\n\n", section.title(), ":"]);
            }
            for (_, line) in lines {
                text.extend(["\n", line]);
            }
        }
        text.push_str(&self.absent());
        text
    }

    /// The length of [`Self::text`] without building it.
    fn length(&self, lines: &[(Section, String)]) -> usize {
        let titles =
            Section::BOTH.iter().filter(|section| lines.iter().any(|(of, _)| of == *section));
        let titles: usize = titles.map(|section| section.title().len() + "\n\n:".len()).sum();
        let lines: usize = lines.iter().map(|(_, line)| line.len() + 1).sum();
        self.head.len() + titles + lines + self.absent().len()
    }

    fn absent(&self) -> String {
        let mut missing: Vec<&str> = Vec::new();
        for name in self.missing {
            if !missing.contains(&name.as_str()) {
                missing.push(name);
            }
        }
        let names = match names_that_fit(MAX_ABSENT, missing) {
            (names, 0) if names.is_empty() => return String::new(),
            (names, 0) => names,
            (names, more) => format!("{names} and {more} more"),
        };
        format!(
            "\n\nNot available now: {names}. Calling or activating one of their tools restarts \
             them."
        )
    }
}

/// One catalog line: a mark (`* ` if active), the name and the description.
pub(crate) fn line(item: &NamespacedPrimitive, is_active: bool, max: usize) -> String {
    let mark = if is_active { "* " } else { "  " };
    match short_description(item, max) {
        Some(text) => format!("{mark}{}: {text}", item.name),
        None => format!("{mark}{}", item.name),
    }
}

pub(crate) fn short_description(item: &NamespacedPrimitive, max: usize) -> Option<String> {
    let text = shorten(&on_one_line(item.description.as_deref()?), max);
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
