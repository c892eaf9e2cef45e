//! From a task to its tool: by the hierarchy, or among what the ranker finds.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::catalog::rank::{FLOOR, Fit, deletes_unasked};
use crate::navigator::asking::Asker;
use crate::navigator::failure::{Candidate, Doubt};
use crate::navigator::tree::{Category, Service, Tool, Tree};
use crate::navigator::{Choice, Failure, Hear, Level, Step, ranker};
use crate::settings::Strategy;

/// How many tools are offered among what the ranker finds, and how many if none of them fits.
const OFFERED: [usize; 2] = [20, 50];
/// How many tools are proposed where none is clear enough to be called.
const CANDIDATES: usize = 3;
/// How many other tools are named when one has failed, and how long they may take to be found.
const OTHERS: usize = 3;
const SUGGESTING: Duration = Duration::from_secs(1);

/// The marks by which a chooser tells tools apart: the service, the name, the definition.
type Identity = (String, String, Vec<u8>);

/// One way through a tree.
pub(crate) struct Walk<'a, T> {
    tree: &'a T,
    asker: &'a Asker<'a>,
    heard: &'a Hear<'a>,
}

impl<'a, T: Tree> Walk<'a, T> {
    pub(crate) fn new(tree: &'a T, asker: &'a Asker<'a>, heard: &'a Hear<'a>) -> Self {
        Self { tree, asker, heard }
    }

    /// The tool for the task.
    pub(crate) async fn find(&self, strategy: Strategy) -> Result<Tool, Failure> {
        if strategy == Strategy::Hierarchy {
            let tool = self.descend(&HashSet::new()).await?;
            return self.confirmed(tool).await;
        }
        let mut rejected = HashSet::new();
        if let Some(tool) = self.retrieve(&mut rejected).await? {
            return Ok(tool);
        }
        let last = self.descend(&rejected).await?;
        if self.asker.is_helped_by_others() {
            return Ok(last);
        }
        // That it is the last one says nothing of how well it fits; but its server may have been
        // listed only now.
        match self.retrieve(&mut rejected).await? {
            Some(found) => Ok(found),
            None => Err(self.unsure(&[last], Doubt::NothingFits)),
        }
    }

    /// The tool that the agent names: `<service>.<tool>`, with the category before it where several
    /// have such a service, or its name alone where it is one tool's.
    pub(crate) async fn named(&self, name: &str) -> Result<Tool, Failure> {
        let name = name.trim();
        let categories = self.tree.categories();
        let services = || categories.iter().flat_map(|category| &category.services);
        for service in services() {
            for tool in spellings(name, service) {
                let tools = self.timed(self.tree.tools(service, self.asker.budget())).await?;
                if let Some(found) = tools.into_iter().find(|known| known.name == tool) {
                    (self.heard)(&Step::Named { tool: &found.word() });
                    return Ok(found);
                }
            }
        }
        let mut only = services().filter(|service| service.tools.iter().any(|tool| tool == name));
        if let (Some(service), None) = (only.next(), only.next()) {
            let tools = self.timed(self.tree.tools(service, self.asker.budget())).await?;
            if let Some(found) = tools.into_iter().find(|known| known.name == name) {
                (self.heard)(&Step::Named { tool: &found.word() });
                return Ok(found);
            }
        }
        let ranked = self.timed(self.tree.ranked(self.asker.task(), OFFERED[0])).await?;
        let near: Vec<_> = first_of_each(ranked).into_iter().map(|(tool, _)| tool).collect();
        Err(self.unsure(&near, Doubt::NoSuchTool(name)))
    }

    /// A tool that was chosen step by step. The ranker's steps say little of how well it fits, so its
    /// tool has to be clearly ahead of all tools that are known.
    async fn confirmed(&self, tool: Tool) -> Result<Tool, Failure> {
        if self.asker.is_helped_by_others() {
            return Ok(tool);
        }
        let mut ranked = self.timed(self.tree.ranked(self.asker.task(), OFFERED[0])).await?;
        ranked.retain(|(_, fit)| fit.score >= FLOOR);
        let ranked = first_of_each(ranked);
        let fits: Vec<_> = ranked.iter().map(|(_, fit)| *fit).collect();
        let is_first = ranked.first().is_some_and(|(first, _)| identity(first) == identity(&tool));
        let is_clear = fits.first().is_some_and(|first| first.is_clear(fits.get(1).copied()));
        if is_first && is_clear {
            return self.harmless(tool, &ranked).await;
        }
        (self.heard)(&Step::Unclear { tool: &tool.word(), fits: &fits });
        let nearest: Vec<_> = ranked.into_iter().map(|(tool, _)| tool).collect();
        Err(self.unsure(&nearest, doubt(&fits)))
    }

    /// The tool that is clearly ahead, unless the task means one of a service that is not here, or
    /// the tool deletes something and the task does not speak of that.
    async fn harmless(&self, tool: Tool, ranked: &[(Tool, Fit)]) -> Result<Tool, Failure> {
        let task = self.asker.task();
        let absent = self.timed(self.tree.absent(task)).await;
        let doubt = if !absent.is_empty() {
            Doubt::Absent(&absent)
        } else if deletes_unasked(&tool.name, task) {
            Doubt::Deletes
        } else {
            return Ok(tool);
        };
        let nearest: Vec<_> = ranked.iter().map(|(tool, _)| tool.clone()).collect();
        Err(self.unsure(&nearest, doubt))
    }

    /// That none of these tools is clear enough to be called.
    fn unsure(&self, nearest: &[Tool], doubt: Doubt<'_>) -> Failure {
        let categories = self.tree.categories();
        let candidates = nearest.iter().take(CANDIDATES).map(|tool| {
            let places = categories.iter().flat_map(|category| &category.services);
            let name = match places.filter(|service| service.name == tool.service).count() {
                0 | 1 => tool.word(),
                _ => format!("{}.{}", tool.category, tool.word()),
            };
            Candidate::new(&name, &tool.definition)
        });
        Failure::unsure(doubt, candidates.collect())
    }

    /// Among the tools that the ranker finds. If none of them fits, they are `rejected`.
    async fn retrieve(&self, rejected: &mut HashSet<Identity>) -> Result<Option<Tool>, Failure> {
        let [_, most] = OFFERED;
        let ranking = async {
            self.tree.survey().await;
            self.tree.ranked(self.asker.task(), most).await
        };
        let mut ranked = self.timed(ranking).await?;
        if !self.asker.is_helped_by_others() {
            // Only who understands the task can make anything of what hardly fits.
            ranked.retain(|(_, fit)| fit.score >= FLOOR);
        }
        rejected.extend(ranked.iter().map(|(tool, _)| identity(tool)));
        let options = distinct(&mut ranked);
        let mut seen = 0;
        for offered in OFFERED {
            let options = &options[..options.len().min(offered)];
            if options.len() <= seen {
                break;
            }
            seen = options.len();
            if let Some(place) = self.asker.choose(Level::Tool, &[], options).await? {
                if self.asker.is_helped_by_others() {
                    return Ok(Some(ranked.swap_remove(place).0));
                }
                let tool = ranked[place].0.clone();
                return self.harmless(tool, &ranked).await.map(Some);
            }
            if !self.asker.is_helped_by_others() {
                let fits: Vec<_> = ranked.iter().map(|(_, fit)| *fit).collect();
                let absent = self.timed(self.tree.absent(self.asker.task())).await;
                let doubt = if absent.is_empty() { doubt(&fits) } else { Doubt::Absent(&absent) };
                let nearest: Vec<_> = ranked.into_iter().map(|(tool, _)| tool).collect();
                return Err(self.unsure(&nearest, doubt));
            }
        }
        Ok(None)
    }

    /// Category, then service, then tool; a level with one option is not asked, so it must not be
    /// one that was rejected.
    async fn descend(&self, rejected: &HashSet<Identity>) -> Result<Tool, Failure> {
        let mut path = Vec::new();
        let categories = self.tree.categories();
        let category = self.pick(Level::Category, categories, Category::choice, &mut path).await?;
        let services = category.services;
        let service = self.pick(Level::Service, services, Service::choice, &mut path).await?;
        let tools = self.timed(self.tree.tools(&service, self.asker.budget())).await?;
        if let [only] = tools.as_slice()
            && rejected.contains(&identity(only))
        {
            return Err(self.unsure(std::slice::from_ref(only), Doubt::NothingFits));
        }
        self.pick(Level::Tool, tools, |tool| tool.choice(tool.name.clone(), None), &mut path).await
    }

    async fn pick<O>(
        &self,
        level: Level,
        mut from: Vec<O>,
        choice: impl Fn(&O) -> Choice,
        path: &mut Vec<String>,
    ) -> Result<O, Failure> {
        let mut options: Vec<_> = from.iter().map(choice).collect();
        let place = match options.as_slice() {
            [] => None,
            [only] => {
                (self.heard)(&Step::Skipped { level, only: &only.name });
                Some(0)
            }
            _ => {
                options = ranker::rank(self.asker.task(), options).await;
                self.asker.choose(level, path, &options).await?
            }
        };
        let Some(place) = place else {
            let there_are: Vec<_> = options.iter().map(|option| option.name.as_str()).collect();
            return Err(Failure::no_match(level.as_str(), &there_are));
        };
        path.push(options[place].name.clone());
        Ok(from.swap_remove(place))
    }

    /// Waits for what is no choosing, which costs nothing of its time.
    async fn timed<R>(&self, work: impl Future<Output = R>) -> R {
        let began = Instant::now();
        let done = work.await;
        self.asker.budget().give_back(began.elapsed());
        done
    }
}

/// Tools of several services as options, each with a name of its own. Of those that say the same of
/// themselves, as where two toolboxes have one server, the first is kept.
fn distinct(ranked: &mut Vec<(Tool, Fit)>) -> Vec<Choice> {
    *ranked = first_of_each(std::mem::take(ranked));
    let mut names = HashSet::new();
    let mut name = |tool: &Tool| {
        let qualified = [tool.word(), format!("{}.{}", tool.category, tool.word())];
        let free = qualified.into_iter().find(|name| names.insert(name.clone()));
        free.unwrap_or_else(|| format!("{}/{}", tool.category, tool.id))
    };
    ranked.iter().map(|(tool, fit)| tool.choice(name(tool), Some(*fit))).collect()
}

/// Of tools that say the same of themselves the first.
fn first_of_each(mut ranked: Vec<(Tool, Fit)>) -> Vec<(Tool, Fit)> {
    let mut same = HashSet::new();
    ranked.retain(|(tool, _)| same.insert(identity(tool)));
    ranked
}

/// Why the first of some tools is not called, by how well they fit.
fn doubt(fits: &[Fit]) -> Doubt<'static> {
    if fits.first().is_some_and(|first| first.is_good()) {
        Doubt::SeveralFit
    } else {
        Doubt::NothingFits
    }
}

/// The names that a tool of a service has to have, if it is meant by a name.
fn spellings<'n>(name: &'n str, service: &Service) -> impl Iterator<Item = &'n str> {
    let after = |text: &'n str, word: &str| {
        let rest = text.strip_prefix(word)?;
        rest.strip_prefix(['.', '/', ':']).filter(|rest| !rest.is_empty())
    };
    let qualified = after(name, &service.category).and_then(|rest| after(rest, &service.name));
    qualified.into_iter().chain(after(name, &service.name))
}

fn identity(tool: &Tool) -> Identity {
    (tool.service.clone(), tool.name.clone(), tool.definition.raw.as_bytes().to_vec())
}

/// Other tools that may do for a task, as far as they are known.
pub(crate) async fn others(tree: &impl Tree, task: &str, than: &Tool) -> Vec<String> {
    let ranked = timeout(SUGGESTING, tree.ranked(task, OTHERS + 1)).await;
    let ranked = ranked.ok().and_then(Result::ok).unwrap_or_default();
    let others = ranked.iter().filter(|(tool, fit)| tool.id != than.id && fit.score >= FLOOR);
    others.map(|(tool, _)| tool.word()).take(OTHERS).collect()
}
