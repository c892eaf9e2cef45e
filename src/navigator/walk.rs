//! From a task to its tool: by the hierarchy, or among what the ranker finds.

use std::collections::HashSet;

use tokio::time::Instant;

use crate::config::Strategy;
use crate::navigator::asking::Asker;
use crate::navigator::tree::{Category, Service, Tool, Tree};
use crate::navigator::{Choice, Failure, Hear, Level, Step, ranker};

/// How many tools are offered among what the ranker finds, and how many if none of them fits.
const OFFERED: [usize; 2] = [20, 50];
/// How many tools are named where none fits well enough to be called.
const NEAREST: usize = 5;
/// How many other tools are named when one has failed.
const OTHERS: usize = 3;

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
            return self.descend().await;
        }
        if let Some(tool) = self.retrieve().await? {
            return Ok(tool);
        }
        let last = self.descend().await?;
        if self.asker.is_helped_by_others() {
            return Ok(last);
        }
        // That it is the last one says nothing of how well it fits; but its server may have been
        // listed only now.
        let found = self.retrieve().await?;
        found.ok_or_else(|| Failure::unsure(&[&last.word()]))
    }

    /// Among the tools that the ranker finds; none if none of them fits.
    async fn retrieve(&self) -> Result<Option<Tool>, Failure> {
        let mut seen = 0;
        for limit in OFFERED {
            let mut ranked = self.timed(self.tree.ranked(self.asker.task(), limit)).await?;
            if ranked.len() <= seen {
                break;
            }
            seen = ranked.len();
            let options = distinct(&mut ranked);
            if let Some(place) = self.asker.choose(Level::Tool, &[], &options).await? {
                return Ok(Some(ranked.swap_remove(place).0));
            }
            if !self.asker.is_helped_by_others() {
                let nearest = options.iter().take(NEAREST).map(|option| option.name.as_str());
                return Err(Failure::unsure(&nearest.collect::<Vec<_>>()));
            }
        }
        Ok(None)
    }

    /// Category, then service, then tool; a level with one option is not asked.
    async fn descend(&self) -> Result<Tool, Failure> {
        let mut path = Vec::new();
        let categories = self.tree.categories();
        let category = self.pick(Level::Category, categories, Category::choice, &mut path).await?;
        let services = category.services;
        let service = self.pick(Level::Service, services, Service::choice, &mut path).await?;
        let tools = self.timed(self.tree.tools(&service, self.asker.budget())).await?;
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
        ranker::rank(self.asker.task(), &mut options);
        let place = match options.as_slice() {
            [] => None,
            [only] => {
                (self.heard)(&Step::Skipped { level, only: &only.name });
                Some(0)
            }
            several => self.asker.choose(level, path, several).await?,
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
fn distinct(ranked: &mut Vec<(Tool, f32)>) -> Vec<Choice> {
    let mut same = HashSet::new();
    ranked.retain(|(tool, _)| {
        let definition = tool.definition.raw.as_bytes().to_vec();
        same.insert((tool.service.clone(), tool.name.clone(), definition))
    });
    let mut names = HashSet::new();
    let mut name = |tool: &Tool| {
        let qualified = [tool.word(), format!("{}.{}", tool.category, tool.word())];
        let free = qualified.into_iter().find(|name| names.insert(name.clone()));
        free.unwrap_or_else(|| format!("{}/{}", tool.category, tool.id))
    };
    ranked.iter().map(|(tool, score)| tool.choice(name(tool), Some(*score))).collect()
}

/// Other tools that may do for a task.
pub(crate) async fn others(tree: &impl Tree, task: &str, than: &Tool) -> Vec<String> {
    let ranked = tree.ranked(task, OTHERS + 1).await.unwrap_or_default();
    let words = ranked.iter().filter(|(tool, _)| tool.id != than.id).map(|(tool, _)| tool.word());
    words.take(OTHERS).collect()
}
