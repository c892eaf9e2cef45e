//! Groups servers by purpose.
//!
//! The names and descriptions of a server and its tools are compared with a table of purposes, by
//! keywords and by meaning. Servers of one purpose form a group. A group that is too small joins a
//! related one, and a group that is too large is split. The result doesn't depend on the order of
//! the servers.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::catalog::ToolDefinition;
use crate::catalog::rank::tokenizer::{identifiers, parts};
use crate::catalog::rank::vectors::{Embedder, TextEmbedding};
use crate::catalog::rank::{MAX_DESCRIPTION, start_of};

mod ambiguous;
mod table;

use ambiguous::AMBIGUOUS;
pub use table::Purpose;
use table::{NEAR, PURPOSES};

#[cfg(test)]
mod tests;

/// A server to be grouped.
#[derive(Clone, Debug)]
pub struct ServerProfile<'a> {
    pub name: &'a str,
    /// The command line that starts the server, or its URL.
    pub words: &'a [String],
    /// A description of the server; may be empty.
    pub about: &'a str,
    /// Its tools; empty if they are unknown.
    pub tools: Vec<&'a ToolDefinition>,
}

/// Servers with related purposes, proposed as one toolbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerCluster {
    /// Unique among the groups.
    pub name: String,
    /// The purposes of its members, as a phrase.
    pub title: String,
    /// The positions of its members in the input, sorted by server name.
    pub members: Vec<usize>,
}

const MAX_SERVERS: usize = 6;
/// Maximum number of tools in a group of more than one server.
const MAX_TOOLS: usize = 60;
/// A smaller server joins another group if possible.
const SMALL_SERVER_TOOLS: usize = 12;
/// Maximum number of tools considered per server.
const MAX_TOOLS_READ: usize = 60;
/// The score of a keyword in the server's name. Similarity in meaning adds up to 1.
const NAME_SCORE: f32 = 0.5;
/// The score of an ambiguous keyword in the server's name.
const AMBIGUOUS_NAME_SCORE: f32 = 0.15;
/// The score of keywords in tool names, if every tool has one.
const TOOLS_SCORE: f32 = 0.25;
/// The score of a keyword in the command line or the description.
const TEXT_SCORE: f32 = 0.15;

/// Groups servers by purpose, within limits on the size of a group.
pub fn cluster_servers(members: &[ServerProfile<'_>]) -> Vec<ServerCluster> {
    let mut reader = Embedder::default();
    let purposes: Vec<Vec<TextEmbedding>> = PURPOSES
        .iter()
        .map(|purpose| purpose.examples.iter().map(|text| reader.embed(&[text])).collect())
        .collect();
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|place| (members[*place].name, members[*place].words));
    let mut groups: Vec<Group> = PURPOSES.iter().enumerate().map(|(p, _)| Group::of(p)).collect();
    let mut directions = Vec::new();
    directions.resize_with(members.len(), || None);
    for index in order {
        let member = &members[index];
        let purpose = purpose_of(member, &purposes, &mut reader);
        groups[purpose].add(index, member.tools.len());
        directions[index] = Some(whole(member, &mut reader));
    }
    groups.retain(|group| !group.members.is_empty());
    join(&mut groups);
    let near = |a: usize, b: usize| match (&directions[a], &directions[b]) {
        (Some(a), Some(b)) => a.cosine(b),
        _ => 0.0,
    };
    let divided = groups.into_iter().flat_map(|group| divide(group, members, near));
    name_clusters(divided.collect(), members)
}

/// Returns the purpose of a single server.
pub fn purpose(member: &ServerProfile<'_>) -> &'static Purpose {
    let mut reader = Embedder::default();
    let purposes: Vec<Vec<TextEmbedding>> = PURPOSES
        .iter()
        .map(|purpose| purpose.examples.iter().map(|text| reader.embed(&[text])).collect())
        .collect();
    &PURPOSES[purpose_of(member, &purposes, &mut reader)]
}

#[derive(Debug)]
struct Group {
    /// The purposes as positions in the table, each with its number of tools.
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
        self.members.len() == 1 && self.tools() < SMALL_SERVER_TOOLS
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

/// Returns the position of the best purpose, or of the last one if none scores.
fn purpose_of(
    member: &ServerProfile<'_>,
    purposes: &[Vec<TextEmbedding>],
    reader: &mut Embedder,
) -> usize {
    let of_name = words(member.name);
    let of_words: BTreeSet<String> =
        started(member).flat_map(words).chain(words(member.about)).collect();
    // Without tools, the command line is the best evidence.
    let is_alone = member.tools.is_empty();
    let in_words = if is_alone { NAME_SCORE } else { TEXT_SCORE };
    let of_tools: Vec<BTreeSet<String>> =
        member.tools.iter().take(MAX_TOOLS_READ).map(|tool| words(&tool.name)).collect();
    let directions: Vec<TextEmbedding> = if member.tools.is_empty() {
        let started: Vec<&str> = started(member).collect();
        vec![reader.embed(&[&[member.name, member.about][..], &started].concat())]
    } else {
        let tools = member.tools.iter().take(MAX_TOOLS_READ);
        tools.map(|tool| reader.embed(&[member.name, &tool.name, description(tool)])).collect()
    };
    let mut best = (PURPOSES.len() - 1, 0.0);
    for (index, (purpose, near)) in PURPOSES.iter().zip(purposes).enumerate() {
        let keywords = |words: &BTreeSet<String>| {
            let has = |word: &&&str| words.contains(**word);
            let mut found = purpose.words.iter().filter(has).peekable();
            let is_any = found.peek().is_some();
            (is_any, found.any(|word| is_alone || !AMBIGUOUS.contains(word)))
        };
        let tells = |words: &BTreeSet<String>| keywords(words).1;
        let mut score: f32 = directions
            .iter()
            .map(|tool| near.iter().map(|like| tool.cosine(like)).fold(0.0, f32::max))
            .sum::<f32>()
            / count(directions.len());
        score += match keywords(&of_name) {
            (_, true) => NAME_SCORE,
            (true, false) => AMBIGUOUS_NAME_SCORE,
            (false, false) => 0.0,
        };
        score += if tells(&of_words) { in_words } else { 0.0 };
        let telling = of_tools.iter().filter(|words| keywords(words).0).count();
        score += TOOLS_SCORE * count(telling) / count(of_tools.len());
        if score > best.1 {
            best = (index, score);
        }
    }
    best.0
}

/// Returns the words of the command line without launchers, with paths reduced to the last
/// component.
fn started<'a>(member: &'a ServerProfile<'_>) -> impl Iterator<Item = &'a str> {
    let last = |word: &'a String| {
        let is_path = word.starts_with(['/', '~', '.']) || word.contains('\\');
        if is_path { word.rsplit(['/', '\\']).next().unwrap_or_default() } else { word.as_str() }
    };
    member.words.iter().map(last).filter(|word| !LAUNCHERS.contains(word))
}

/// Programs that launch servers, and their subcommands.
const LAUNCHERS: [&str; 17] = [
    "npx", "npm", "uvx", "uv", "node", "deno", "bun", "bunx", "python", "python3", "docker",
    "podman", "sh", "bash", "cmd", "run", "exec",
];

/// Returns a small number as a divisor of at least 1.
fn count(number: usize) -> f32 {
    f32::from(u16::try_from(number.max(1)).unwrap_or(u16::MAX))
}

/// Returns the words of a text, with their parts and the singulars of plurals.
fn words(text: &str) -> BTreeSet<String> {
    let whole = |run: &str| run.to_lowercase();
    let text = start_of(text, MAX_DESCRIPTION);
    let all = identifiers(text).flat_map(|run| parts(run).map(Cow::into_owned).chain([whole(run)]));
    let singular = |word: &String| word.strip_suffix('s').map(str::to_owned);
    all.flat_map(|word| [singular(&word), Some(word)]).flatten().collect()
}

fn description(tool: &ToolDefinition) -> &str {
    start_of(tool.description.as_deref().unwrap_or_default(), MAX_DESCRIPTION)
}

fn whole(member: &ServerProfile<'_>, reader: &mut Embedder) -> TextEmbedding {
    let tools = member.tools.iter().take(MAX_TOOLS_READ).map(|tool| tool.name.as_str());
    let texts: Vec<&str> = [member.name, member.about].into_iter().chain(tools).collect();
    reader.embed(&texts)
}

/// Merges small groups into a related group, or else into each other.
fn join(groups: &mut Vec<Group>) {
    loop {
        let smalls: Vec<usize> =
            (0..groups.len()).filter(|place| groups[*place].is_small()).collect();
        let joined = smalls.iter().find_map(|small| {
            let own = groups[*small].purposes[0].0;
            let near = NEAR[own].iter().find_map(|purpose| {
                let is_near = |group: &Group| group.purposes.iter().any(|(p, _)| p == purpose);
                groups.iter().enumerate().position(|(index, group)| {
                    index != *small && is_near(group) && group.has_room_for(&groups[*small])
                })
            });
            near.map(|near| (near, *small))
        });
        // Small groups that are related to no other group are better together than single.
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

fn divide(
    group: Group,
    members: &[ServerProfile<'_>],
    near: impl Fn(usize, usize) -> f32,
) -> Vec<Group> {
    let is_too_much = group.members.len() > MAX_SERVERS || group.tools() > MAX_TOOLS;
    if !is_too_much || group.members.len() == 1 {
        return vec![group];
    }
    let Group { purposes, members: mut own } = group;
    own.sort_by_key(|(place, tools)| (Reverse(*tools), members[*place].name));
    let mut bins: Vec<Group> = Vec::new();
    for (index, tools) in own {
        let alone = Group { purposes: purposes.clone(), members: vec![(index, tools)] };
        let nearness = |bin: &Group| {
            let sum: f32 = bin.members.iter().map(|(other, _)| near(index, *other)).sum();
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

fn name_clusters(groups: Vec<Group>, members: &[ServerProfile<'_>]) -> Vec<ServerCluster> {
    let mut clusters: Vec<ServerCluster> = Vec::new();
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
        let is_taken = |clusters: &[ServerCluster], name: &str| {
            clusters.iter().any(|other| other.name == name)
        };
        if is_taken(&clusters, &name) {
            // Groups of the same purpose are distinguished by their largest server.
            let largest = own.iter().max_by_key(|(place, tools)| (*tools, Reverse(*place)));
            let largest = largest.map_or("", |(place, _)| members[*place].name);
            let largest: Vec<String> = identifiers(largest).map(str::to_lowercase).collect();
            name = format!("{name}-{}", largest.join("-"));
        }
        let mut number = 2;
        let wanted = name.clone();
        while is_taken(&clusters, &name) {
            name = format!("{wanted}-{number}");
            number += 1;
        }
        clusters.push(ServerCluster { name, title: title(&table), members: own_places });
    }
    clusters
}

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
