//! Purposes: what servers are for, by what their tools do, and servers of like purposes put
//! together.
//!
//! What a server is called and what its tools say is compared with a table of purposes, by words
//! that tell and by meaning. Servers of one purpose make a group; one that has too little joins a
//! group that is near, and one that has too much is divided. The same servers give the same groups,
//! in whatever order they come.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::catalog::ToolDefinition;
use crate::catalog::rank::text::{parts, runs};
use crate::catalog::rank::vectors::{Direction, Reader};
use crate::catalog::rank::{MAX_DESCRIPTION, start_of};

mod table;

pub use table::Purpose;
use table::{NEAR, PURPOSES};

#[cfg(test)]
mod tests;

/// A server that is to be grouped.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    /// Its name.
    pub name: &'a str,
    /// The words that start it, or its address.
    pub words: &'a [String],
    /// Its purpose in somebody's words, if there are any.
    pub about: &'a str,
    /// Its tools, as far as they are known.
    pub tools: Vec<&'a ToolDefinition>,
}

/// Servers that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// A name for them, which no other group has.
    pub name: String,
    /// The purpose of its members, in a few words.
    pub title: String,
    /// Their places among the members, in order of their names.
    pub members: Vec<usize>,
}

/// The most servers of a group.
const MAX_SERVERS: usize = 6;
/// The most tools of a group that has more than one server.
const MAX_TOOLS: usize = 60;
/// A server with fewer tools does not stand alone if it need not.
const FEW_TOOLS: usize = 12;
/// The most tools of a server that are looked at.
const READ_TOOLS: usize = 60;
/// The weight of a telling word beside the same meaning.
const TELLING: f32 = 0.5;
/// The weight of such a word among the names of tools, if all of them have one.
const IN_TOOLS: f32 = 0.25;
/// The weight of such a word in the description of a server.
const IN_WORDS: f32 = 0.15;

/// Groups servers by what they are for.
pub fn cluster(members: &[Member<'_>]) -> Vec<Cluster> {
    let mut reader = Reader::default();
    let purposes: Vec<Vec<Direction>> = PURPOSES
        .iter()
        .map(|purpose| purpose.like.iter().map(|text| reader.direction(&[text])).collect())
        .collect();
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|place| (members[*place].name, members[*place].words));
    let mut groups: Vec<Group> = PURPOSES.iter().enumerate().map(|(p, _)| Group::of(p)).collect();
    let mut directions = Vec::new();
    directions.resize_with(members.len(), || None);
    for place in order {
        let member = &members[place];
        let purpose = purpose_of(member, &purposes, &mut reader);
        groups[purpose].add(place, member.tools.len());
        directions[place] = Some(whole(member, &mut reader));
    }
    groups.retain(|group| !group.members.is_empty());
    join(&mut groups);
    let near = |a: usize, b: usize| match (&directions[a], &directions[b]) {
        (Some(a), Some(b)) => a.cosine(b),
        _ => 0.0,
    };
    let divided = groups.into_iter().flat_map(|group| divide(group, members, near));
    named(divided.collect(), members)
}

/// The purpose of one server alone.
pub fn purpose(member: &Member<'_>) -> &'static Purpose {
    let mut reader = Reader::default();
    let purposes: Vec<Vec<Direction>> = PURPOSES
        .iter()
        .map(|purpose| purpose.like.iter().map(|text| reader.direction(&[text])).collect())
        .collect();
    &PURPOSES[purpose_of(member, &purposes, &mut reader)]
}

/// Servers of one purpose, or of several that are near.
#[derive(Debug)]
struct Group {
    /// Its purposes by their places in the table, each with its number of tools.
    purposes: Vec<(usize, usize)>,
    members: Vec<(usize, usize)>,
}

impl Group {
    fn of(purpose: usize) -> Self {
        Self { purposes: vec![(purpose, 0)], members: Vec::new() }
    }

    fn add(&mut self, member: usize, tools: usize) {
        self.members.push((member, tools));
        for (_, sum) in &mut self.purposes {
            *sum += tools;
        }
    }

    fn tools(&self) -> usize {
        self.members.iter().map(|(_, tools)| tools).sum()
    }

    fn is_small(&self) -> bool {
        self.members.len() == 1 && self.tools() < FEW_TOOLS
    }

    fn has_room_for(&self, other: &Self) -> bool {
        self.members.len() + other.members.len() <= MAX_SERVERS
            && self.tools() + other.tools() <= MAX_TOOLS
    }

    fn join(&mut self, other: Self) {
        self.purposes.extend(other.purposes);
        self.members.extend(other.members);
    }
}

/// The place in the table of what a server is for.
fn purpose_of(member: &Member<'_>, purposes: &[Vec<Direction>], reader: &mut Reader) -> usize {
    let of_name = words(member.name);
    let of_words: BTreeSet<String> =
        started(member).flat_map(words).chain(words(member.about)).collect();
    // Without tools, the words that start a server say what it is.
    let in_words = if member.tools.is_empty() { TELLING } else { IN_WORDS };
    let of_tools: Vec<BTreeSet<String>> =
        member.tools.iter().take(READ_TOOLS).map(|tool| words(&tool.name)).collect();
    let directions: Vec<Direction> = if member.tools.is_empty() {
        let started: Vec<&str> = started(member).collect();
        vec![reader.direction(&[&[member.name, member.about][..], &started].concat())]
    } else {
        let tools = member.tools.iter().take(READ_TOOLS);
        tools.map(|tool| reader.direction(&[member.name, &tool.name, description(tool)])).collect()
    };
    let mut best = (PURPOSES.len() - 1, 0.0);
    for (place, (purpose, near)) in PURPOSES.iter().zip(purposes).enumerate() {
        let tells =
            |words: &BTreeSet<String>| purpose.words.iter().any(|word| words.contains(*word));
        let mut score: f32 = directions
            .iter()
            .map(|tool| near.iter().map(|like| tool.cosine(like)).fold(0.0, f32::max))
            .sum::<f32>()
            / count(directions.len());
        score += if tells(&of_name) { TELLING } else { 0.0 };
        score += if tells(&of_words) { in_words } else { 0.0 };
        let telling = of_tools.iter().filter(|words| tells(words)).count();
        score += IN_TOOLS * count(telling) / count(of_tools.len());
        if score > best.1 {
            best = (place, score);
        }
    }
    best.0
}

/// The words that start a server, without the program that starts many and without the folders that
/// paths lead through.
fn started<'a>(member: &'a Member<'_>) -> impl Iterator<Item = &'a str> {
    let last = |word: &'a String| {
        let is_path = word.starts_with(['/', '~', '.']) || word.contains('\\');
        if is_path { word.rsplit(['/', '\\']).next().unwrap_or_default() } else { word.as_str() }
    };
    member.words.iter().map(last).filter(|word| !LAUNCHERS.contains(word))
}

/// Programs that start others, and what they are told to do.
const LAUNCHERS: [&str; 17] = [
    "npx", "npm", "uvx", "uv", "node", "deno", "bun", "bunx", "python", "python3", "docker",
    "podman", "sh", "bash", "cmd", "run", "exec",
];

/// A small number as one to divide by; none counts as one.
fn count(number: usize) -> f32 {
    f32::from(u16::try_from(number.max(1)).unwrap_or(u16::MAX))
}

/// The words of a name or text, in lower case.
fn words(text: &str) -> BTreeSet<String> {
    let whole = |run: &str| run.to_lowercase();
    let text = start_of(text, MAX_DESCRIPTION);
    runs(text).flat_map(|run| parts(run).map(Cow::into_owned).chain([whole(run)])).collect()
}

fn description(tool: &ToolDefinition) -> &str {
    start_of(tool.description.as_deref().unwrap_or_default(), MAX_DESCRIPTION)
}

/// Where a server points as a whole.
fn whole(member: &Member<'_>, reader: &mut Reader) -> Direction {
    let tools = member.tools.iter().take(READ_TOOLS).map(|tool| tool.name.as_str());
    let texts: Vec<&str> = [member.name, member.about].into_iter().chain(tools).collect();
    reader.direction(&texts)
}

/// Lets groups that have too little join those that are near, or else each other.
fn join(groups: &mut Vec<Group>) {
    loop {
        let smalls: Vec<usize> =
            (0..groups.len()).filter(|place| groups[*place].is_small()).collect();
        let joined = smalls.iter().find_map(|small| {
            let own = groups[*small].purposes[0].0;
            let near = NEAR[own].iter().find_map(|purpose| {
                let is_near = |group: &Group| group.purposes.iter().any(|(p, _)| p == purpose);
                groups.iter().enumerate().position(|(place, group)| {
                    place != *small && is_near(group) && group.has_room_for(&groups[*small])
                })
            });
            near.map(|near| (near, *small))
        });
        // What is near nothing else is better together than alone.
        let joined = joined.or_else(|| {
            let first = *smalls.first()?;
            let rest = smalls.iter().skip(1);
            let mut rest = rest.filter(|other| groups[first].has_room_for(&groups[**other]));
            Some((first, *rest.next()?))
        });
        let Some((into, from)) = joined else { return };
        let from_group = groups.remove(from);
        let into = if from < into { into - 1 } else { into };
        groups[into].join(from_group);
    }
}

/// Divides a group that has too much into such as have not, like with like.
fn divide(group: Group, members: &[Member<'_>], near: impl Fn(usize, usize) -> f32) -> Vec<Group> {
    let is_too_much = group.members.len() > MAX_SERVERS || group.tools() > MAX_TOOLS;
    if !is_too_much || group.members.len() == 1 {
        return vec![group];
    }
    let Group { purposes, members: mut own } = group;
    own.sort_by_key(|(place, tools)| (Reverse(*tools), members[*place].name));
    let mut bins: Vec<Group> = Vec::new();
    for (place, tools) in own {
        let alone = Group { purposes: purposes.clone(), members: vec![(place, tools)] };
        let nearness = |bin: &Group| {
            let sum: f32 = bin.members.iter().map(|(other, _)| near(place, *other)).sum();
            sum / count(bin.members.len())
        };
        let rooms = bins.iter_mut().filter(|bin| bin.has_room_for(&alone));
        let best = rooms.max_by(|a, b| nearness(a).total_cmp(&nearness(b)));
        match best {
            Some(bin) => bin.members.extend(alone.members),
            None => bins.push(alone),
        }
    }
    bins
}

/// Gives every group a name and a title, and its members their order.
fn named(groups: Vec<Group>, members: &[Member<'_>]) -> Vec<Cluster> {
    let mut clusters: Vec<Cluster> = Vec::new();
    for group in groups {
        let Group { mut purposes, members: own } = group;
        let mut own_places: Vec<usize> = own.iter().map(|(place, _)| *place).collect();
        own_places.sort_by_key(|place| members[*place].name);
        // The purpose with the most tools comes first.
        purposes.sort_by_key(|(purpose, tools)| (Reverse(*tools), *purpose));
        let table: Vec<&Purpose> =
            purposes.iter().map(|(purpose, _)| &PURPOSES[*purpose]).collect();
        let mut name = match table.as_slice() {
            [only] => only.name.to_owned(),
            [first, second] => format!("{}-and-{}", first.name, second.name),
            [first, ..] => format!("{}-and-more", first.name),
            [] => "tools".to_owned(),
        };
        let is_taken =
            |clusters: &[Cluster], name: &str| clusters.iter().any(|other| other.name == name);
        if is_taken(&clusters, &name) {
            // The largest of them tells it from others of the same purpose.
            let largest = own.iter().max_by_key(|(place, tools)| (*tools, Reverse(*place)));
            let largest = largest.map_or("", |(place, _)| members[*place].name);
            let largest: Vec<String> = runs(largest).map(str::to_lowercase).collect();
            name = format!("{name}-{}", largest.join("-"));
        }
        let mut number = 2;
        let wanted = name.clone();
        while is_taken(&clusters, &name) {
            name = format!("{wanted}-{number}");
            number += 1;
        }
        clusters.push(Cluster { name, title: title(&table), members: own_places });
    }
    clusters
}

/// Puts several purposes into one phrase.
fn title(purposes: &[&Purpose]) -> String {
    let titles: Vec<&str> = purposes.iter().take(3).map(|purpose| purpose.title).collect();
    let joined = match titles.as_slice() {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [most @ .., last] => format!("{}; {last}", most.join("; ")),
    };
    let mut chars = joined.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => joined,
    }
}

/// The tools of a server that say best what it does, the first the best, as words: no more than
/// `most`, and none that says what another of them says.
pub fn telling_tools(member: &Member<'_>, most: usize) -> Vec<String> {
    const LONGEST: usize = 32;
    let mut reader = Reader::default();
    let centre = whole(member, &mut reader);
    let tools = member.tools.iter().take(READ_TOOLS);
    let mut left: Vec<(String, Direction)> = tools
        .map(|tool| {
            (spoken(&tool.name, member), reader.direction(&[&tool.name, description(tool)]))
        })
        .filter(|(words, _)| !words.is_empty() && words.len() <= LONGEST)
        .collect();
    let mut told: Vec<(String, Direction)> = Vec::new();
    while told.len() < most && !left.is_empty() {
        let worth = |(_, direction): &(String, Direction)| {
            let said = told.iter().map(|(_, other)| direction.cosine(other)).fold(0.0, f32::max);
            0.6 * direction.cosine(&centre) - 0.4 * said
        };
        let best =
            (0..left.len()).rev().max_by(|a, b| worth(&left[*a]).total_cmp(&worth(&left[*b])));
        let Some(best) = best else { break };
        let tool = left.remove(best);
        if told.iter().all(|(other, _)| *other != tool.0) {
            told.push(tool);
        }
    }
    told.into_iter().map(|(words, _)| words).collect()
}

/// A tool's name as words, without those that its server's name or all of its tools have.
fn spoken(name: &str, member: &Member<'_>) -> String {
    let split = |name: &str| -> Vec<String> {
        runs(name).flat_map(|run| parts(run).map(Cow::into_owned)).collect()
    };
    let own = split(name);
    let others: Vec<Vec<String>> = member.tools.iter().map(|tool| split(&tool.name)).collect();
    let is_common =
        |at: usize| others.len() > 1 && others.iter().all(|words| words.get(at) == own.get(at));
    let common = (0..own.len()).take_while(|at| is_common(*at)).count();
    own.get(common..).unwrap_or_default().join(" ")
}
