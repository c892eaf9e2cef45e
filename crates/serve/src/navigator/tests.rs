//! Tests with a fake tree and a scripted chooser.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use mcp_workbench_core::catalog::rank::Relevance;
use mcp_workbench_core::catalog::{Definition, ToolDefinition};
use mcp_workbench_core::llm;
use mcp_workbench_names::{ServerName, ServerRef, ToolId, ToolboxName};
use mcp_workbench_wire::json::{self, RawJson};

use crate::navigator::error::NoCallReason;

mod answers;
mod arguments;
mod ways;

/// A tool at `category/service/name`.
pub(crate) fn tool(category: &str, service: &str, name: &str, schema: &Value) -> ToolNode {
    let definition = json!({
        "name": name,
        "description": format!("Does {name}. At length."),
        "inputSchema": schema,
    });
    ToolNode {
        id: ToolId {
            toolbox: ToolboxName::new(category),
            server: ServerName::new(service),
            tool: name.to_owned(),
        },
        category: category.to_owned(),
        service: service.to_owned(),
        name: name.to_owned(),
        definition: Arc::new(ToolDefinition::parse(RawJson::encode(&definition)).expect("a tool")),
    }
}

/// A tree of tools at `category/service/tool`, with the tools it ranks.
pub(crate) struct FakeTree {
    pub(crate) tools: Vec<ToolNode>,
    pub(crate) ranked: Vec<ToolNode>,
    /// The best score, and its lead over all others.
    pub(crate) score: f32,
    pub(crate) lead: f32,
    pub(crate) absent: Vec<String>,
    pub(crate) takes: Duration,
}

impl Default for FakeTree {
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

impl FakeTree {
    pub(crate) fn of(paths: &[&str]) -> Self {
        let tools = paths.iter().map(|path| {
            let parts: Vec<_> = path.split('/').collect();
            tool(parts[0], parts[1], parts[2], &json!({"type": "object"}))
        });
        Self { tools: tools.collect(), ..Self::default() }
    }
}

impl ToolTree for FakeTree {
    fn categories(&self) -> Vec<CategoryNode> {
        let mut categories: Vec<CategoryNode> = Vec::new();
        for tool in &self.tools {
            let service = ServiceNode {
                category: tool.category.clone(),
                name: tool.service.clone(),
                about: String::new(),
                server_ref: ServerRef {
                    toolbox: tool.id.toolbox.clone(),
                    server: tool.id.server.clone(),
                },
                tools: Vec::new(),
            };
            match categories.iter_mut().find(|category| category.name == tool.category) {
                Some(known) if known.services.iter().any(|s| s.name == service.name) => {}
                Some(known) => known.services.push(service),
                None => categories.push(CategoryNode {
                    name: tool.category.clone(),
                    about: format!("All of {}", tool.category),
                    services: vec![service],
                }),
            }
        }
        categories
    }

    async fn tools(
        &self,
        service: &ServiceNode,
        _budget: &NavigationBudget,
    ) -> Result<Vec<ToolNode>, TaskError> {
        // Advances the paused clock.
        tokio::time::sleep(self.takes).await;
        let its =
            |tool: &&ToolNode| tool.category == service.category && tool.service == service.name;
        Ok(self.tools.iter().filter(its).cloned().collect())
    }

    async fn rank_tools(
        &self,
        _task: &str,
        limit: usize,
    ) -> Result<Vec<(ToolNode, Relevance)>, TaskError> {
        let fit = |at| {
            let score = if at == 0 { self.score } else { self.score - self.lead };
            Relevance { score, rank: score }
        };
        let ranked = self.ranked.iter().take(limit).cloned().enumerate();
        Ok(ranked.map(|(at, tool)| (tool, fit(at))).collect())
    }

    async fn absent_services(&self, _task: &str) -> Vec<String> {
        self.absent.clone()
    }
}

pub(crate) enum Says {
    Name(&'static str),
    None,
    /// An index, valid or not.
    Place(usize),
    Arguments(Value),
    Unable(ChooserError),
    /// Never answers.
    Nothing,
}

/// A chooser that gives scripted answers and records the requests.
pub(crate) struct ScriptedChooser {
    says: Mutex<VecDeque<Says>>,
    pub(crate) asked: Mutex<Vec<String>>,
}

impl ScriptedChooser {
    pub(crate) fn new(says: impl IntoIterator<Item = Says>) -> Self {
        Self { says: Mutex::new(says.into_iter().collect()), asked: Mutex::default() }
    }

    fn next(&self, asked: String) -> Says {
        self.asked.lock().push(asked);
        self.says.lock().pop_front().expect("too many requests")
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}

impl Chooser for ScriptedChooser {
    fn name(&self) -> &'static str {
        "llm"
    }

    fn choose<'a>(&'a self, request: ChoiceRequest<'a>) -> ChooserFuture<'a, Option<usize>> {
        let names: Vec<_> = request.options.iter().map(|option| option.name.as_str()).collect();
        let hint = request.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
        let path = request.path.join("/");
        let says = self.next(format!("{} {path}: {}{hint}", request.level, names.join(", ")));
        Box::pin(async move {
            match says {
                Says::Name(name) => Ok(request.options.iter().position(|o| o.name == name)),
                Says::None => Ok(None),
                Says::Place(index) => Ok(Some(index)),
                Says::Unable(unable) => Err(unable),
                Says::Nothing => std::future::pending().await,
                Says::Arguments(_) => panic!("expected a scripted choice"),
            }
        })
    }

    fn derive_arguments<'a>(&'a self, request: ArgumentsRequest<'a>) -> ChooserFuture<'a, RawJson> {
        let hint = request.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
        let says = self.next(format!("arguments of {}{hint}", request.tool));
        Box::pin(async move {
            match says {
                Says::Arguments(arguments) => Ok(RawJson::encode(&arguments)),
                Says::Unable(unable) => Err(unable),
                Says::Nothing => std::future::pending().await,
                Says::Name(_) | Says::None | Says::Place(_) => {
                    panic!("expected scripted arguments")
                }
            }
        })
    }
}

/// Finds a tool; returns its qualified name or the error, and the text of each step.
pub(crate) async fn walk(
    tree: &FakeTree,
    chooser: &ScriptedChooser,
    strategy: Strategy,
) -> (Result<String, TaskError>, Vec<String>) {
    let steps = Mutex::new(Vec::new());
    let heard = |step: &NavigationStep<'_>| steps.lock().push(step.text());
    let budget = NavigationBudget::new(&BudgetConfig::default());
    let asker = RetryingChooser::new("do it", chooser, &budget, &heard);
    let found = ToolSearch::new(tree, &asker, &heard).find(strategy).await;
    (found.map(|tool| tool.qualified_name()), steps.into_inner())
}

pub(crate) async fn fill(
    tool: &ToolNode,
    given: Option<Value>,
    chooser: &ScriptedChooser,
) -> Result<Option<Value>, TaskError> {
    let heard = |_: &NavigationStep<'_>| {};
    let budget = NavigationBudget::new(&BudgetConfig::default());
    let asker = RetryingChooser::new("do it", chooser, &budget, &heard);
    let given = given.map(|given| RawJson::encode(&given));
    let found = ArgumentResolver::new(given.as_ref()).resolve(tool, &asker, &heard).await?;
    Ok(found.map(|found| found.parse().expect("JSON")))
}

#[test]
fn error_kinds_have_distinct_words() {
    let words: Vec<_> = TaskErrorKind::ALL.iter().map(|kind| kind.as_str()).collect();
    let distinct: std::collections::BTreeSet<_> = words.iter().collect();
    assert_eq!(distinct.len(), words.len());
}

#[test]
fn error_texts_are_bounded() {
    let long = "word ".repeat(10_000);
    let many: Vec<_> = (0..1000).map(|n| format!("tool-{n}")).collect();
    let names: Vec<_> = many.iter().map(String::as_str).collect();
    let parameter = |name: &String| mcp_workbench_core::catalog::schema::Parameter {
        name: name.clone(),
        kind: long.clone(),
        description: Some(long.clone()),
        is_required: true,
    };
    let known = json::object([("text", &RawJson::encode(&long))]);
    let large = tool(&long, &long, &long, &json!({"properties": {(long.clone()): {}}}));
    let candidates = vec![Candidate::new(&long, &large.definition); 3];
    for failure in [
        TaskError::no_match("tool", &names),
        TaskError::no_clear_tool(NoCallReason::Absent(&many), candidates, &names),
        TaskError::no_clear_tool(NoCallReason::NoSuchTool(&long), Vec::new(), &names),
        TaskError::arguments_not_derived(&long, many.iter().map(parameter).collect()),
        TaskError::invalid_choice("tool", "llm", &long),
        TaskError::missing("a.b", many.iter().map(parameter).collect(), Some(&known)),
        TaskError::unavailable("server", &long, &long),
        TaskError::no_model(&llm::LlmError::Unusable(long.clone())),
        TaskError::new(TaskErrorKind::ToolExecutionError, &long, &long)
            .with_alternatives(many.clone()),
    ] {
        let kind = failure.kind.as_str();
        let done = TaskOutcome { tool: None, outcome: ToolOutcome::Failed(failure) };
        let shape = outcome_json(&done);
        assert!(shape.len() < 20_000, "{kind}: {}", shape.len());
    }
}
