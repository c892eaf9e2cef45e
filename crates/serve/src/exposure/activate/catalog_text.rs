//! The catalog in the description of `toolman_activate`, within the client's length limit.
//!
//! To fit, descriptions become shorter, then disappear, then the largest toolboxes are reduced to a
//! count. At each step, as many primitives as possible keep the form of the step before.

use crate::catalog::shorten;
use crate::exposure::instructions::on_one_line;
use crate::exposure::truncation::names_that_fit;
use crate::state::ActivePrimitives;
use crate::toolbox::{NamespacedPrimitive, PrimitiveKind};

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
                matches!(item.kind, PrimitiveKind::Resource | PrimitiveKind::Template)
            }
        }
    }
}

struct Group<'a> {
    section: Section,
    toolbox: &'a str,
    items: Vec<&'a NamespacedPrimitive>,
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
            self.named(&groups, names, capacity)
        };
        let text = lines.map_or_else(|| self.counted(), |lines| self.text(&lines));
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
        let (mut lines, mut next) = (names, STEPS.len() - 1);
        while next > 0 {
            let longer = self.lines(groups, STEPS[next - 1]);
            next -= 1;
            let mut length = self.length(&lines);
            let mut all_fit = true;
            for (line, longer) in lines.iter_mut().zip(longer) {
                let with = length - line.1.len() + longer.1.len();
                if with <= capacity {
                    (length, *line) = (with, longer);
                } else {
                    all_fit = false;
                }
            }
            if !all_fit {
                break;
            }
        }
        lines
    }

    /// Names of as many toolboxes as fit, smallest first, and counts of the others. `None` if even
    /// the counts don't fit.
    fn named(
        &self,
        groups: &[Group<'_>],
        names: Vec<(Section, String)>,
        capacity: usize,
    ) -> Option<Vec<(Section, String)>> {
        let mut names = names.into_iter();
        let named: Vec<Vec<_>> =
            groups.iter().map(|group| names.by_ref().take(group.items.len()).collect()).collect();
        let counted = groups.iter().map(|group| vec![(group.section, self.count(group))]);
        let mut shown: Vec<_> = counted.collect();
        let length = |lines: &[(Section, String)]| -> usize {
            lines.iter().map(|(_, line)| line.len() + 1).sum()
        };
        let all: Vec<_> = shown.iter().flatten().cloned().collect();
        let mut used = self.length(&all);
        if used > capacity {
            return None;
        }
        let mut order: Vec<_> = (0..groups.len()).collect();
        order.sort_by_key(|index| length(&named[*index]));
        for index in order {
            let with = used - length(&shown[index]) + length(&named[index]);
            if with <= capacity {
                used = with;
                shown[index].clone_from(&named[index]);
            }
        }
        Some(shown.concat())
    }

    fn count(&self, group: &Group<'_>) -> String {
        let active = group.items.iter().filter(|item| self.active.has(item)).count();
        let (count, primitives) = (group.items.len(), group.section.primitives());
        format!("  {}: {count} {primitives} ({active} active)", group.toolbox)
    }

    /// The shortest form: only the totals.
    fn counted(&self) -> String {
        let sections = Section::BOTH.map(|section| {
            let items = || self.items.iter().filter(|item| section.has(item));
            let active = items().filter(|item| self.active.has(item)).count();
            format!("{} {} ({active} active)", items().count(), section.primitives())
        });
        format!("{}\n\ntotal: {}", self.head, sections.join(", "))
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
