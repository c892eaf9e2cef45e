//! From a task to its tool: by the hierarchy, or among what the ranker finds.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::catalog::rank::FLOOR;
use crate::config::Strategy;
use crate::navigator::asking::Asker;
use crate::navigator::tree::{Category, Service, Tool, Tree};
use crate::navigator::{Choice, Failure, Hear, Level, Step, ranker};

/// How many tools are offered among what the ranker finds, and how many if none of them fits.
const OFFERED: [usize; 2] = [20, 50];
/// How many tools are named where none fits well enough to be called.
const NEAREST: usize = 5;
/// How many other tools are named when one has failed, and how long they may take to be found.
const OTHERS: usize = 3;
const SUGGESTING: Duration = Duration::from_secs(1);

/// What makes two tools the same to who chooses: the service, the name, the definition.
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
            return self.descend(&HashSet::new()).await;
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
        let found = self.retrieve(&mut rejected).await?;
        found.ok_or_else(|| Failure::unsure(&[&last.word()]))
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
            ranked.retain(|(_, score)| *score >= FLOOR);
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
                return Ok(Some(ranked.swap_remove(place).0));
            }
            if !self.asker.is_helped_by_others() {
                let nearest = options.iter().take(NEAREST).map(|option| option.name.as_str());
                return Err(Failure::unsure(&nearest.collect::<Vec<_>>()));
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
            return Err(Failure::unsure(&[&only.word()]));
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
fn distinct(ranked: &mut Vec<(Tool, f32)>) -> Vec<Choice> {
    let mut same = HashSet::new();
    ranked.retain(|(tool, _)| same.insert(identity(tool)));
    let mut names = HashSet::new();
    let mut name = |tool: &Tool| {
        let qualified = [tool.word(), format!("{}.{}", tool.category, tool.word())];
        let free = qualified.into_iter().find(|name| names.insert(name.clone()));
        free.unwrap_or_else(|| format!("{}/{}", tool.category, tool.id))
    };
    ranked.iter().map(|(tool, score)| tool.choice(name(tool), Some(*score))).collect()
}

fn identity(tool: &Tool) -> Identity {
    (tool.service.clone(), tool.name.clone(), tool.definition.raw.as_bytes().to_vec())
}

/// Other tools that may do for a task, as far as they are known.
pub(crate) async fn others(tree: &impl Tree, task: &str, than: &Tool) -> Vec<String> {
    let ranked = timeout(SUGGESTING, tree.ranked(task, OTHERS + 1)).await;
    let ranked = ranked.ok().and_then(Result::ok).unwrap_or_default();
    let others = ranked.iter().filter(|(tool, score)| tool.id != than.id && *score >= FLOOR);
    others.map(|(tool, _)| tool.word()).take(OTHERS).collect()
}
