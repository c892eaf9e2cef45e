//! The catalog in the description of `toolman_activate`, as long as a client lets it be.
//!
//! Where not everything has room, descriptions become shorter, then names stand alone, then the
//! toolboxes that have most are counted; at each step as many primitives as have room keep the step before.

use crate::catalog::shorten;
use crate::exposure::budget::names_that_fit;
use crate::exposure::guidance::on_one_line;
use crate::state::Active;
use crate::toolbox::{Item, Kind};

/// How long the description of one primitive may be, in characters.
pub(crate) const MAX_DESCRIPTION: usize = 132;
/// How long the descriptions of active primitives and those of the others are, step by step; with
/// none, names stand alone.
const STEPS: [(usize, usize); 5] =
    [(MAX_DESCRIPTION, MAX_DESCRIPTION), (80, 80), (40, 40), (40, 0), (0, 0)];
/// The remark that something was left out.
const SHORTENED: &str = "This catalog is shortened. Call toolman_activate with {\"list\": \"*\"}, or \
                         another glob over names, for whole entries.";
/// The most bytes of the names of servers that are not there.
const MAX_ABSENT: usize = 300;

/// The content of a catalog.
pub(crate) struct Catalog<'a> {
    /// The work of the tool, in words.
    pub(crate) head: &'a str,
    /// Tools, resources and templates, in their order; whatever else is passed over.
    pub(crate) items: &'a [&'a Item],
    /// Which of them are active.
    pub(crate) active: &'a Active,
    /// The servers of which nothing is known, by what they are called here.
    pub(crate) missing: &'a [String],
}

/// A text, and whether everything is in it.
pub(crate) struct Written {
    pub(crate) text: String,
    pub(crate) is_whole: bool,
}

/// A part of the catalog.
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

    /// The word for its primitives when they are counted.
    fn primitives(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
        }
    }

    fn has(self, item: &Item) -> bool {
        match self {
            Self::Tools => item.kind == Kind::Tool,
            Self::Resources => matches!(item.kind, Kind::Resource | Kind::Template),
        }
    }
}

/// The primitives of one toolbox in a section.
struct Group<'a> {
    section: Section,
    toolbox: &'a str,
    items: Vec<&'a Item>,
}

impl Catalog<'_> {
    /// Returns the catalog in at most `max` bytes, if it can be that short at all.
    pub(crate) fn write(&self, max: usize) -> Written {
        let groups = self.groups();
        let names = self.lines(&groups, STEPS[STEPS.len() - 1]);
        if self.length(&names) <= max {
            let whole = self.lines(&groups, STEPS[0]);
            if self.length(&whole) <= max {
                return Written { text: self.text(&whole), is_whole: true };
            }
        }
        let room = max.saturating_sub(SHORTENED.len() + 2);
        let lines = if self.length(&names) <= room {
            Some(self.described(&groups, names, room))
        } else {
            self.named(&groups, names, room)
        };
        let text = lines.map_or_else(|| self.counted(), |lines| self.text(&lines));
        Written { text: format!("{text}\n\n{SHORTENED}"), is_whole: false }
    }

    /// Returns what there is of each toolbox, tools first.
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

    /// Returns a line for each primitive, with descriptions of these lengths.
    fn lines(&self, groups: &[Group<'_>], step: (usize, usize)) -> Vec<(Section, String)> {
        let items = groups.iter().flat_map(|group| {
            group.items.iter().map(move |item| (group.section, self.line(item, step)))
        });
        items.collect()
    }

    fn line(&self, item: &Item, (active, inactive): (usize, usize)) -> String {
        let is_active = self.active.has(item);
        line(item, is_active, if is_active { active } else { inactive })
    }

    /// Returns the lines with descriptions that fit: all of one length, and as many as have room of
    /// the next one, from the first primitive on.
    fn described(
        &self,
        groups: &[Group<'_>],
        names: Vec<(Section, String)>,
        room: usize,
    ) -> Vec<(Section, String)> {
        let (mut lines, mut next) = (names, STEPS.len() - 1);
        while next > 0 {
            let longer = self.lines(groups, STEPS[next - 1]);
            next -= 1;
            let mut length = self.length(&lines);
            let mut all_fit = true;
            for (line, longer) in lines.iter_mut().zip(longer) {
                let with = length - line.1.len() + longer.1.len();
                if with <= room {
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

    /// Returns the names of as many toolboxes as have room, of those that have least first, and counts
    /// of the others; nothing if there is no room for counts.
    fn named(
        &self,
        groups: &[Group<'_>],
        names: Vec<(Section, String)>,
        room: usize,
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
        if used > room {
            return None;
        }
        let mut order: Vec<_> = (0..groups.len()).collect();
        order.sort_by_key(|index| length(&named[*index]));
        for index in order {
            let with = used - length(&shown[index]) + length(&named[index]);
            if with <= room {
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

    /// Returns how many there are in all.
    fn counted(&self) -> String {
        let sections = Section::BOTH.map(|section| {
            let items = || self.items.iter().filter(|item| section.has(item));
            let active = items().filter(|item| self.active.has(item)).count();
            format!("{} {} ({active} active)", items().count(), section.primitives())
        });
        format!("{}\n\nin all: {}", self.head, sections.join(", "))
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

    /// Returns how long [`Self::text`] is.
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
            "\n\nNot available now: {names}. Whoever calls or activates one of their tools starts \
             them again."
        )
    }
}

/// One primitive on its line: `* ` before what is active, its name, and what it is.
pub(crate) fn line(item: &Item, is_active: bool, max: usize) -> String {
    let mark = if is_active { "* " } else { "  " };
    match brief(item, max) {
        Some(text) => format!("{mark}{}: {text}", item.name),
        None => format!("{mark}{}", item.name),
    }
}

/// A description on one line, in at most `max` characters.
pub(crate) fn brief(item: &Item, max: usize) -> Option<String> {
    let text = shorten(&on_one_line(item.description.as_deref()?), max);
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
