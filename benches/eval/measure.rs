//! Search quality: queries over the tools of many servers, with the tools that serve each query.
//!
//! recall@k is the share of the needed tools among the first k results. MRR is the reciprocal rank
//! of the first useful tool. nDCG@10 is the gain of the first ten results relative to the best
//! order. Queries that no tool serves are left out of these figures. A pick of the navigator is
//! right if it is one of the needed tools.
//!
//! The report also has the length of answers, how often search correctly returns nothing, and the
//! navigator's results.

mod picking;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use mcp_workbench_core::catalog::rank::{RankingMethod, SearchIndex, ToolDocument};
use mcp_workbench_core::catalog::{Definition, ToolDefinition};
use mcp_workbench_serve::exposure::SearchHit;
use mcp_workbench_settings::Strategy;
use mcp_workbench_wire::json::RawJson;
use serde::Deserialize;
use serde_json::json;

use picking::{EvalTree, Leaf};

/// The number of results that are ranked per query.
const DEPTH: usize = 50;
/// The number of tools that `search_tools` returns.
const ANSWERED: usize = 5;
/// The report has the precision of the first result above each of these scores.
const SCORES: [f32; 5] = [0.2, 0.3, 0.4, 0.5, 0.6];
/// The number of servers in a part of the catalog.
const PART: usize = 10;

pub(crate) struct Data {
    tools: Vec<Tool>,
    queries: Vec<Case>,
}

struct Tool {
    id: String,
    server: usize,
    category: String,
    theme: String,
    title: String,
    about: String,
    definition: Arc<ToolDefinition>,
}

#[derive(Deserialize)]
struct Case {
    id: String,
    source: String,
    kind: String,
    query: String,
    /// The needed tools; any tool of an inner list will do. Empty if no tool serves the query.
    gold: Vec<Vec<String>>,
    /// The indexes of the `gold` tools.
    #[serde(skip)]
    right: Vec<usize>,
}

#[derive(Deserialize)]
struct Catalog {
    #[serde(default)]
    categories: BTreeMap<String, String>,
    servers: Vec<Server>,
}

#[derive(Deserialize)]
struct Server {
    id: String,
    title: String,
    description: String,
    #[serde(default)]
    category: String,
    tools: Vec<RawJson>,
}

impl Data {
    pub(crate) fn read(folder: &Path) -> Self {
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        let Catalog { categories, servers } =
            serde_json::from_str(&read("catalog.json")).expect("a catalog");
        let servers = servers.into_iter().enumerate();
        let tools = servers.flat_map(|(number, server)| server.into_tools(number, &categories));
        let tools: Vec<Tool> = tools.collect();
        let places: BTreeMap<&str, usize> =
            tools.iter().enumerate().map(|(index, tool)| (tool.id.as_str(), index)).collect();
        let queries = read("queries.jsonl");
        let queries = queries.lines().filter(|line| !line.trim().is_empty()).map(|line| {
            let mut case: Case = serde_json::from_str(line).expect("a query");
            let place = |id: &String| *places.get(id.as_str()).expect("a tool of the catalog");
            case.right = case.gold.iter().flatten().map(place).collect();
            case
        });
        let queries = queries.collect();
        Self { tools, queries }
    }

    /// Returns an index of the tools of the `wanted` servers, and the position of each of them in
    /// `tools`.
    fn index(
        &self,
        method: RankingMethod,
        wanted: impl Fn(usize) -> bool,
    ) -> (SearchIndex, Vec<usize>) {
        let places: Vec<usize> =
            (0..self.tools.len()).filter(|place| wanted(self.tools[*place].server)).collect();
        let entries = places.iter().map(|place| self.tools[*place].entry());
        (SearchIndex::new(entries, method), places)
    }

    /// Scores a pick by tool, by server and by category; each score is 0 or 1.
    fn is_right(&self, case: &Case, picked: Option<usize>) -> [f64; 3] {
        let Some(picked) = picked.map(|index| &self.tools[index]) else { return [0.0; 3] };
        let any = |same: &dyn Fn(&Tool) -> bool| {
            let is_right = case.right.iter().any(|place| same(&self.tools[*place]));
            if is_right { 1.0 } else { 0.0 }
        };
        [
            any(&|tool| tool.id == picked.id),
            any(&|tool| tool.server == picked.server),
            any(&|tool| tool.category == picked.category),
        ]
    }

    pub(crate) fn rankings(&self, method: RankingMethod) -> String {
        let (index, _) = self.index(method, |_| true);
        let lines = self.queries.iter().map(|case| {
            let hits = index.search(&case.query, DEPTH, |_| true);
            let ranked: Vec<&str> =
                hits.iter().map(|hit| self.tools[hit.index].id.as_str()).collect();
            format!("{}\n", json!({"id": case.id, "ranked": ranked}))
        });
        lines.collect()
    }
}

impl Server {
    fn into_tools(
        self,
        number: usize,
        categories: &BTreeMap<String, String>,
    ) -> impl Iterator<Item = Tool> + use<> {
        let Self { id, title, description, category, tools } = self;
        let theme = categories.get(&category).cloned().unwrap_or_default();
        // Servers without a category share one.
        let category = if category.is_empty() { "Other".to_owned() } else { category };
        let (definitions, bad) = ToolDefinition::read_all(tools);
        assert_eq!(bad, [], "tools of `{id}`");
        definitions.into_iter().map(move |definition| Tool {
            id: format!("{id}::{}", definition.name),
            server: number,
            category: category.clone(),
            theme: theme.clone(),
            title: title.clone(),
            about: description.clone(),
            definition,
        })
    }
}

impl Tool {
    fn entry(&self) -> ToolDocument<'_> {
        ToolDocument { server: &self.title, about: &self.about, tool: &self.definition }
    }

    fn leaf(&self) -> Leaf<'_> {
        Leaf {
            category: &self.category,
            theme: &self.theme,
            service: &self.title,
            about: &self.about,
            tool: &self.definition,
        }
    }

    /// The length of the tool's line in a `search_tools` answer, with the newline.
    fn answered(&self, score: f32) -> usize {
        let finding = SearchHit {
            toolbox: &self.category,
            server: &self.title,
            name: &self.definition.name,
            in_your_list: None,
            score,
        };
        finding.line(&self.definition).len() + 1
    }
}

type Measured<'a, const N: usize> = (&'a Case, [f64; N]);

const SEARCH: [&str; 5] = ["R@1", "R@5", "R@10", "MRR", "nDCG@10"];
const PICKED: [&str; 3] = ["tool", "service", "category"];

pub(crate) fn report(data: &Data) -> String {
    let all: usize = data.tools.iter().map(|tool| tool.definition.raw.len()).sum();
    let of = |title: &str, method| {
        let (index, _) = data.index(method, |_| true);
        search(title, data, &index) + &nothing(data, method, &index) + &scores(data, &index)
    };
    [
        of("lexical search", RankingMethod::Lexical),
        of("hybrid search", RankingMethod::Hybrid),
        navigator(data),
        single_servers(data),
        absent(data),
        format!("all {} tool definitions: {all} bytes\n", data.tools.len()),
    ]
    .concat()
}

fn search(title: &str, data: &Data, index: &SearchIndex) -> String {
    let (mut measured, mut bytes) = (Vec::new(), Vec::new());
    for case in &data.queries {
        let hits = index.search(&case.query, DEPTH, |_| true);
        let answered = hits.iter().take(ANSWERED);
        bytes.push(answered.map(|hit| data.tools[hit.index].answered(hit.score)).sum());
        if !case.gold.is_empty() {
            let ranked: Vec<_> = hits.iter().map(|hit| data.tools[hit.index].id.as_str()).collect();
            measured.push((case, figures(case, &ranked)));
        }
    }
    bytes.sort_unstable();
    let mean = ratio(bytes.iter().sum(), bytes.len());
    let most = bytes[(bytes.len() * 95).div_ceil(100) - 1];
    table(title, SEARCH, &measured)
        + &format!("response with {ANSWERED} results: mean {mean:.0} bytes, p95 {most} bytes\n")
}

fn figures(case: &Case, ranked: &[&str]) -> [f64; 5] {
    let first =
        |group: &Vec<String>| ranked.iter().position(|id| group.iter().any(|one| one == id));
    let mut ranks: Vec<usize> = case.gold.iter().filter_map(first).map(|index| index + 1).collect();
    ranks.sort_unstable();
    let needed = case.gold.len();
    let within = |k: usize| ratio(ranks.iter().filter(|rank| **rank <= k).count(), needed);
    let gain = |rank: usize| (ratio(rank, 1) + 1.0).log2().recip();
    let gained: f64 = ranks.iter().filter(|rank| **rank <= 10).map(|rank| gain(*rank)).sum();
    let best: f64 = (1..=needed.min(10)).map(gain).sum();
    let first = ranks.first().map_or(0.0, |rank| ratio(1, *rank));
    [within(1), within(5), within(10), first, (gained / best).min(1.0)]
}

/// Measures how often search correctly returns nothing, and how many right tools its cutoff loses:
/// for all queries and for each half.
fn nothing(data: &Data, method: RankingMethod, index: &SearchIndex) -> String {
    // `lost`: whether the cutoff dropped a right tool. `none` and `apart`: whether a query that no
    // tool serves finds nothing, among all tools and among parts without a right tool.
    let (mut lost, mut none, mut apart) = (Vec::new(), Vec::new(), Vec::new());
    let mut judge = |number: usize, case: &Case, index: &SearchIndex, places: &[usize]| {
        let found = index.search(&case.query, ANSWERED, |_| true);
        let is_right = |place: usize| case.right.contains(&places[place]);
        let near = index.search_nearest(&case.query, ANSWERED, |_| true);
        match near.iter().find(|hit| is_right(hit.index)) {
            Some(right) => lost.push((number, !found.iter().any(|hit| hit.index == right.index))),
            None if case.gold.is_empty() && places.len() == data.tools.len() => {
                none.push((number, found.is_empty()));
            }
            None if !places.iter().any(|place| case.right.contains(place)) => {
                apart.push((number, found.is_empty()));
            }
            None => {}
        }
    };
    let all: Vec<usize> = (0..data.tools.len()).collect();
    for (number, case) in data.queries.iter().enumerate() {
        judge(number, case, index, &all);
    }
    let last = data.tools.iter().map(|tool| tool.server).max().unwrap_or_default();
    let parts = last / PART + 1;
    for part in 0..parts {
        let (index, places) = data.index(method, |server| server % parts == part);
        for (number, case) in data.queries.iter().enumerate() {
            judge(number, case, &index, &places);
        }
    }
    let line = |what: &str, judged: &[(usize, bool)]| {
        let share = |wanted: &dyn Fn(usize) -> bool| {
            let judged: Vec<bool> =
                judged.iter().filter(|(number, _)| wanted(*number)).map(|(_, is)| *is).collect();
            ratio(judged.iter().filter(|is| **is).count(), judged.len())
        };
        format!(
            "{what:<52}{:>6}{:>8.3}{:>8.3}{:>8.3}\n",
            judged.len(),
            share(&|_| true),
            share(&|number| number % 2 == 0),
            share(&|number| number % 2 == 1),
        )
    };
    format!("{:<52}{:>6}{:>8}{:>8}{:>8}\n", "", "n", "share", "even", "odd")
        + &line("no result for queries without a right tool", &none)
        + &line(&format!("the same, among about {PART} unrelated servers"), &apart)
        + &line(&format!("right tools among the first {ANSWERED} lost to the cutoff"), &lost)
}

fn scores(data: &Data, index: &SearchIndex) -> String {
    let firsts = data.queries.iter().filter_map(|case| {
        let hit = *index.search(&case.query, 1, |_| true).first()?;
        Some((hit.score, case.right.contains(&hit.index)))
    });
    let firsts: Vec<_> = firsts.collect();
    let line = |from: f32| {
        let sure: Vec<bool> =
            firsts.iter().filter(|(score, _)| *score >= from).map(|(_, is)| *is).collect();
        let right = ratio(sure.iter().filter(|is| **is).count(), sure.len());
        format!(
            "{:<52}{:>6}{right:>8.3}\n",
            format!("first tool is right, score at least {from:.1}"),
            sure.len()
        )
    };
    SCORES.map(line).concat() + "\n"
}

/// How often the navigator calls a tool, and how often that tool is wrong.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Acts {
    pub(crate) all: usize,
    pub(crate) wrong: usize,
}

impl Acts {
    fn count<'a>(picked: impl Iterator<Item = &'a Pick<'a>>) -> Self {
        let mut acts = Self::default();
        for (index, pick) in picked.filter_map(|pick| Some((pick.place?, pick))) {
            acts.all += 1;
            acts.wrong += usize::from(!pick.case.right.contains(&index));
        }
        acts
    }
}

/// The tool that the navigator picked for a task, or the tools it proposed instead.
struct Pick<'a> {
    number: usize,
    case: &'a Case,
    place: Option<usize>,
    proposed: Vec<String>,
}

impl Data {
    #[allow(dead_code, reason = "used only by tests")]
    pub(crate) fn acts(&self) -> Acts {
        Acts::count(self.picks(Strategy::Retrieve).iter())
    }

    fn picks(&self, strategy: Strategy) -> Vec<Pick<'_>> {
        let (index, _) = self.index(RankingMethod::Hybrid, |_| true);
        let leaves: Vec<Leaf<'_>> = self.tools.iter().map(Tool::leaf).collect();
        let tree = EvalTree::new(&leaves, &index);
        let pick = |(number, case): (usize, &'_ Case)| {
            let (place, proposed) = match tree.pick(&case.query, strategy) {
                Ok(place) => (Some(place), Vec::new()),
                Err(proposed) => (None, proposed),
            };
            (number, place, proposed)
        };
        let picks: Vec<_> = self.queries.iter().enumerate().map(pick).collect();
        let cases = self.queries.iter().zip(picks);
        cases
            .map(|(case, (number, place, proposed))| Pick { number, case, place, proposed })
            .collect()
    }
}

fn navigator(data: &Data) -> String {
    let ways = [("retrieve", Strategy::Retrieve), ("hierarchy", Strategy::Hierarchy)];
    let one = |(name, strategy): (&str, Strategy)| {
        let picks = data.picks(strategy);
        let served = || picks.iter().filter(|pick| !pick.case.gold.is_empty());
        let measured: Vec<_> =
            served().map(|pick| (pick.case, data.is_right(pick.case, pick.place))).collect();
        let said = |name: &str, acts: Acts| {
            let Acts { all, wrong } = acts;
            format!("{name}: {all} actions, {} right, {wrong} wrong", all - wrong)
        };
        let half = |odd: usize| Acts::count(picks.iter().filter(|pick| pick.number % 2 == odd));
        let is_called_at_once = |pick: &&Pick<'_>| {
            let tool = pick.place.map(|index| &data.tools[index].definition);
            tool.is_some_and(|tool| tool.parameters().iter().all(|one| !one.is_required))
        };
        let asked: Vec<_> = served().filter(|pick| pick.place.is_none()).collect();
        let proposes = |pick: &&&Pick<'_>| {
            let mut right = pick.case.right.iter().map(|place| &data.tools[*place]);
            right.any(|tool| pick.proposed.iter().any(|name| name.ends_with(&tool.leaf().word())))
        };
        let proposed = asked.iter().filter(proposes).count();
        let lines = [
            said(&format!("of {} tasks", picks.len()), Acts::count(picks.iter())),
            said("even", half(0)),
            said("odd", half(1)),
            said(
                "tools without required arguments",
                Acts::count(picks.iter().filter(is_called_at_once)),
            ),
            format!(
                "of {} other tasks with a right tool, {proposed} have it suggested",
                asked.len()
            ),
        ];
        table(&format!("task mode with the ranker, {name}"), PICKED, &measured)
            + &lines.join("\n")
            + "\n\n"
    };
    ways.map(one).concat()
}

/// Counts the actions if only one server is configured: one with a right tool, and another one.
fn single_servers(data: &Data) -> String {
    let last = data.tools.iter().map(|tool| tool.server).max().unwrap_or_default();
    let act = |case: &Case, wanted: usize| {
        let (index, places) = data.index(RankingMethod::Hybrid, |server| server == wanted);
        let leaves: Vec<Leaf<'_>> = places.iter().map(|at| data.tools[*at].leaf()).collect();
        let picked = EvalTree::new(&leaves, &index).pick(&case.query, Strategy::Retrieve).ok()?;
        Some(case.right.contains(&places[picked]))
    };
    let mut lines = String::new();
    for (name, is_served) in [("a right tool", true), ("no right tool", false)] {
        let mut acts = Acts::default();
        let mut tasks = 0;
        for (number, case) in data.queries.iter().enumerate() {
            let servers: Vec<_> = case.right.iter().map(|at| data.tools[*at].server).collect();
            let other = (0..=last).map(|step| (number * 7 + step) % (last + 1));
            let server = if is_served {
                servers.first().copied()
            } else {
                other.into_iter().find(|server| !servers.contains(server))
            };
            let Some(server) = server else { continue };
            tasks += 1;
            let picked = act(case, server);
            acts.all += usize::from(picked.is_some());
            acts.wrong += usize::from(picked == Some(false));
        }
        let Acts { all, wrong } = acts;
        let right = all - wrong;
        // Writing to a `String` can't fail.
        let _ = writeln!(
            lines,
            "only a server with {name}: {tasks} tasks, {all} actions, {right} right, {wrong} wrong"
        );
    }
    lines + "\n"
}

/// Counts the queries that report a missing service although a tool serves them.
fn absent(data: &Data) -> String {
    let (index, _) = data.index(RankingMethod::Hybrid, |_| true);
    let served = data.queries.iter().filter(|case| !case.gold.is_empty());
    let told: Vec<_> = served.map(|case| !index.absent_services(&case.query).is_empty()).collect();
    let wrongly = told.iter().filter(|is| **is).count();
    format!("a service is wrongly reported as missing for {wrongly} of {} queries\n\n", told.len())
}

fn table<const N: usize>(title: &str, names: [&str; N], measured: &[Measured<'_, N>]) -> String {
    let mut halves = [Vec::new(), Vec::new()];
    for part in by(measured, |case| case.source.clone()).into_values() {
        for (index, one) in part.into_iter().enumerate() {
            halves[index % 2].push(one);
        }
    }
    let head = names.map(|name| format!("{name:>9}")).concat();
    let mut lines = vec![format!("{title:<40}{:>6}{head}\n", "n")];
    let mut line = |name: &str, count: usize, figures: [f64; N]| {
        let figures = figures.map(|figure| format!("{figure:>9.3}")).concat();
        lines.push(format!("{name:<40}{count:>6}{figures}\n"));
    };
    line("mean of sources", measured.len(), macro_mean(measured));
    line("first half", halves[0].len(), macro_mean(&halves[0]));
    line("second half", halves[1].len(), macro_mean(&halves[1]));
    line("all queries", measured.len(), mean(measured));
    for (name, part) in by(measured, |case| format!("source {}", case.source)) {
        line(&name, part.len(), mean(&part));
    }
    for (name, part) in by(measured, |case| format!("kind {}", case.kind)) {
        line(&name, part.len(), mean(&part));
    }
    lines.concat()
}

fn by<'a, const N: usize>(
    measured: &[Measured<'a, N>],
    key: impl Fn(&Case) -> String,
) -> BTreeMap<String, Vec<Measured<'a, N>>> {
    let mut parts: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (case, figures) in measured {
        parts.entry(key(case)).or_default().push((*case, *figures));
    }
    parts
}

/// The mean of the per-source means, so that a source with many easy queries doesn't dominate.
fn macro_mean<const N: usize>(measured: &[Measured<'_, N>]) -> [f64; N] {
    let sources = by(measured, |case| case.source.clone()).into_values();
    let means: Vec<_> = sources.map(|part| mean(&part)).collect();
    mean_of(means.iter())
}

fn mean<const N: usize>(measured: &[Measured<'_, N>]) -> [f64; N] {
    mean_of(measured.iter().map(|(_, figures)| figures))
}

fn mean_of<'a, const N: usize>(all: impl ExactSizeIterator<Item = &'a [f64; N]>) -> [f64; N] {
    let part = ratio(1, all.len());
    let mut sums = [0.0; N];
    for figures in all {
        for (sum, figure) in sums.iter_mut().zip(figures) {
            *sum += figure;
        }
    }
    sums.map(|sum| sum * part)
}

/// Returns 0 if `all` is 0.
#[allow(clippy::cast_precision_loss, reason = "counts of queries and bytes")]
fn ratio(some: usize, all: usize) -> f64 {
    some as f64 / all.max(1) as f64
}
