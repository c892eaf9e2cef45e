//! The core with a tree and a chooser that do what a test says.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::catalog::rank::Fit;
use crate::catalog::{Definition, ToolDefinition};
use crate::name::{ServerName, ServerRef, ToolboxName};
use crate::{llm, raw};

use crate::navigator::failure::Doubt;

mod answers;
mod arguments;
mod ways;

/// A tool `category/service/name`.
pub(crate) fn tool(category: &str, service: &str, name: &str, schema: &Value) -> Tool {
    let definition = json!({
        "name": name,
        "description": format!("Does {name}. At length."),
        "inputSchema": schema,
    });
    Tool {
        id: ToolId {
            toolbox: ToolboxName::new(category),
            server: ServerName::new(service),
            tool: name.to_owned(),
        },
        category: category.to_owned(),
        service: service.to_owned(),
        name: name.to_owned(),
        definition: Arc::new(ToolDefinition::parse(Raw::encode(&definition)).expect("a tool")),
    }
}

/// A tree of tools `category/service/tool`, and what it ranks.
pub(crate) struct Garden {
    pub(crate) tools: Vec<Tool>,
    pub(crate) ranked: Vec<Tool>,
    /// How well these fit, and how far the first is ahead.
    pub(crate) score: f32,
    pub(crate) lead: f32,
    /// The services that a task names and that are not here.
    pub(crate) absent: Vec<String>,
    /// How long it takes to list the tools of a service.
    pub(crate) takes: Duration,
}

impl Default for Garden {
    fn default() -> Self {
        Self {
            tools: Vec::new(),
            ranked: Vec::new(),
            score: 1.0,
            lead: 0.0,
            absent: Vec::new(),
            takes: Duration::ZERO,
        }
    }
}

impl Garden {
    pub(crate) fn of(paths: &[&str]) -> Self {
        let tools = paths.iter().map(|path| {
            let parts: Vec<_> = path.split('/').collect();
            tool(parts[0], parts[1], parts[2], &json!({"type": "object"}))
        });
        Self { tools: tools.collect(), ..Self::default() }
    }
}

impl Tree for Garden {
    fn categories(&self) -> Vec<Category> {
        let mut categories: Vec<Category> = Vec::new();
        for tool in &self.tools {
            let service = Service {
                category: tool.category.clone(),
                name: tool.service.clone(),
                about: String::new(),
                at: ServerRef { toolbox: tool.id.toolbox.clone(), server: tool.id.server.clone() },
                tools: Vec::new(),
            };
            match categories.iter_mut().find(|category| category.name == tool.category) {
                Some(known) if known.services.iter().any(|s| s.name == service.name) => {}
                Some(known) => known.services.push(service),
                None => categories.push(Category {
                    name: tool.category.clone(),
                    about: format!("All of {}", tool.category),
                    services: vec![service],
                }),
            }
        }
        categories
    }

    async fn tools(&self, service: &Service, _budget: &Budget) -> Result<Vec<Tool>, Failure> {
        // Time stands still in these tests, and goes on when it is waited for.
        tokio::time::sleep(self.takes).await;
        let its = |tool: &&Tool| tool.category == service.category && tool.service == service.name;
        Ok(self.tools.iter().filter(its).cloned().collect())
    }

    async fn ranked(&self, _task: &str, limit: usize) -> Result<Vec<(Tool, Fit)>, Failure> {
        let fit = |at| {
            let score = if at == 0 { self.score } else { self.score - self.lead };
            Fit { score, rank: score }
        };
        let ranked = self.ranked.iter().take(limit).cloned().enumerate();
        Ok(ranked.map(|(at, tool)| (tool, fit(at))).collect())
    }

    async fn absent(&self, _task: &str) -> Vec<String> {
        self.absent.clone()
    }
}

/// An answer of a scripted chooser.
pub(crate) enum Says {
    /// The option of this name.
    Name(&'static str),
    /// That no one fits.
    None,
    /// A place, whether or not there is one.
    Place(usize),
    /// These arguments.
    Arguments(Value),
    /// That it cannot.
    Unable(Unable),
    /// Nothing, ever.
    Nothing,
}

/// A chooser that says what it is told to, and keeps what it was asked.
pub(crate) struct Script {
    says: Mutex<VecDeque<Says>>,
    pub(crate) asked: Mutex<Vec<String>>,
}

impl Script {
    pub(crate) fn new(says: impl IntoIterator<Item = Says>) -> Self {
        Self { says: Mutex::new(says.into_iter().collect()), asked: Mutex::default() }
    }

    fn next(&self, asked: String) -> Says {
        self.asked.lock().expect("no panic").push(asked);
        self.says.lock().expect("no panic").pop_front().expect("it is not asked so often")
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic").clone()
    }
}

impl Chooser for Script {
    fn name(&self) -> &'static str {
        "llm"
    }

    fn choose<'a>(&'a self, question: Question<'a>) -> Choosing<'a, Option<usize>> {
        let names: Vec<_> = question.options.iter().map(|option| option.name.as_str()).collect();
        let hint = question.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
        let path = question.path.join("/");
        let says = self.next(format!("{} {path}: {}{hint}", question.level, names.join(", ")));
        Box::pin(async move {
            match says {
                Says::Name(name) => Ok(question.options.iter().position(|o| o.name == name)),
                Says::None => Ok(None),
                Says::Place(place) => Ok(Some(place)),
                Says::Unable(unable) => Err(unable),
                Says::Nothing => std::future::pending().await,
                Says::Arguments(_) => panic!("it is asked for an option"),
            }
        })
    }

    fn arguments<'a>(&'a self, wanted: Wanted<'a>) -> Choosing<'a, Raw> {
        let hint = wanted.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
        let says = self.next(format!("arguments of {}{hint}", wanted.tool));
        Box::pin(async move {
            match says {
                Says::Arguments(arguments) => Ok(Raw::encode(&arguments)),
                Says::Unable(unable) => Err(unable),
                Says::Nothing => std::future::pending().await,
                Says::Name(_) | Says::None | Says::Place(_) => panic!("it is asked for arguments"),
            }
        })
    }
}

/// Walks a tree with a chooser; the tool's word, or the failure, and the steps in words.
pub(crate) async fn walk(
    tree: &Garden,
    chooser: &Script,
    strategy: Strategy,
) -> (Result<String, Failure>, Vec<String>) {
    let steps = Mutex::new(Vec::new());
    let heard = |step: &Step<'_>| steps.lock().expect("no panic").push(step.text());
    let budget = Budget::new(&BudgetConfig::default());
    let asker = Asker::new("do it", chooser, &budget, &heard);
    let found = Walk::new(tree, &asker, &heard).find(strategy).await;
    (found.map(|tool| tool.word()), steps.into_inner().expect("no panic"))
}

/// Finds the arguments of a tool.
pub(crate) async fn fill(
    tool: &Tool,
    given: Option<Value>,
    chooser: &Script,
) -> Result<Option<Value>, Failure> {
    let heard = |_: &Step<'_>| {};
    let budget = Budget::new(&BudgetConfig::default());
    let asker = Asker::new("do it", chooser, &budget, &heard);
    let given = given.map(|given| Raw::encode(&given));
    let found = Filling::new(given.as_ref()).next(tool, &asker, &heard).await?;
    Ok(found.map(|found| found.parse().expect("JSON")))
}

#[test]
fn the_word_for_a_failure_is_its_own() {
    let words: Vec<_> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
    let distinct: std::collections::BTreeSet<_> = words.iter().collect();
    assert_eq!(distinct.len(), words.len());
}

#[test]
fn every_text_of_a_failure_is_bounded() {
    let long = "word ".repeat(10_000);
    let many: Vec<_> = (0..1000).map(|n| format!("tool-{n}")).collect();
    let names: Vec<_> = many.iter().map(String::as_str).collect();
    let parameter = |name: &String| crate::catalog::schema::Parameter {
        name: name.clone(),
        kind: long.clone(),
        description: Some(long.clone()),
        is_required: true,
    };
    let known = raw::object([("text", &Raw::encode(&long))]);
    let large = tool(&long, &long, &long, &json!({"properties": {(long.clone()): {}}}));
    let candidates = vec![Candidate::new(&long, &large.definition); 3];
    for failure in [
        Failure::no_match("tool", &names),
        Failure::unsure(Doubt::Absent(&many), candidates),
        Failure::unsure(Doubt::NoSuchTool(&long), Vec::new()),
        Failure::unasked(&long, many.iter().map(parameter).collect()),
        Failure::invalid_choice("tool", "llm", &long),
        Failure::missing("a.b", many.iter().map(parameter).collect(), Some(&known)),
        Failure::unavailable("server", &long, &long),
        Failure::no_model(&llm::Failure::Unusable(long.clone())),
        Failure::new(Kind::ToolExecutionError, &long, &long).or_else(many.clone()),
    ] {
        let kind = failure.kind.as_str();
        let done = Done { tool: None, came: Came::Failed(failure) };
        let shape = shape(&done);
        assert!(shape.len() < 20_000, "{kind}: {}", shape.len());
    }
}
