use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use mcp_workbench_names::{ServerName, ToolboxName};

fn queue() -> ApprovalQueue {
    ApprovalQueue::new(Arc::default(), None)
}

fn tool() -> ToolId {
    ToolId {
        toolbox: ToolboxName::new("dev"),
        server: ServerName::new("files"),
        tool: "delete\u{202e}".to_owned(),
    }
}

struct Caller {
    name: AgentName,
    tool: ToolId,
    arguments: RawJson,
    secrets: Redactor,
}

impl Caller {
    fn new(name: &str) -> Self {
        let arguments = RawJson::encode(&json!({ "path": "/tmp\n" }));
        Self { name: AgentName::new(name), tool: tool(), arguments, secrets: Redactor::default() }
    }

    fn question(&self) -> ApprovalQuestion<'_> {
        ApprovalQuestion {
            agent: Some(&self.name),
            client: "codex",
            session: 1,
            owner: QuotaOwner::Agent(self.name.clone()),
            tool: &self.tool,
            concern: RiskReason::Dangerous,
            arguments: Some(&self.arguments),
            secrets: &self.secrets,
            timeout: Duration::from_secs(100),
            client_deadline: None,
        }
    }
}

/// Polls a wait once, so that its call is in the queue.
macro_rules! begin {
    ($queue:expr, $question:expr) => {{
        let mut waiting = Box::pin($queue.wait($question));
        tokio::select! {
            biased;
            ended = &mut waiting => panic!("not waiting: {ended:?}"),
            () = std::future::ready(()) => {}
        }
        waiting
    }};
}

#[tokio::test(start_paused = true)]
async fn answer_ends_the_wait_once() {
    let (queue, ann) = (queue(), Caller::new("ann"));
    for (is_approved, expected) in [(true, Ok(())), (false, Err(ApprovalFailure::Denied))] {
        let question = ann.question();
        let waiting = begin!(queue, &question);
        let [call] = &queue.pending()[..] else { panic!("not one call") };
        assert_eq!(
            (call.agent.as_deref(), &*call.tool, &*call.arguments),
            (Some("ann"), r"delete\u{202e}", r#"{"path":"/tmp\n"}"#)
        );
        assert_eq!(queue.answer("0", true, Approver::Key), Err(AnswerError::Unknown));
        assert_eq!(queue.answer(&call.id, is_approved, Approver::Key), Ok(()));
        assert_eq!(queue.answer(&call.id, true, Approver::Key), Err(AnswerError::Unknown));
        assert_eq!(waiting.await, expected);
    }
}

// invariant: agent-cannot-approve
#[tokio::test(start_paused = true)]
async fn operator_cannot_approve_calls_of_its_own_name() {
    let (queue, ann) = (queue(), Caller::new("ann"));
    let question = ann.question();
    let waiting = begin!(queue, &question);
    let id = &queue.pending()[0].id;
    let operator = |name| Approver::Operator(AgentName::new(name));
    assert_eq!(queue.answer(id, true, operator("ann")), Err(AnswerError::OwnCall));
    assert_eq!(queue.count(), 1);
    assert_eq!(queue.answer(id, true, operator("me")), Ok(()));
    assert_eq!(waiting.await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn unanswered_call_is_denied_before_the_client_gives_up() {
    let (queue, ann) = (queue(), Caller::new("ann"));
    for (client, expected) in [(None, 100), (Some(60), 55), (Some(4), 3), (Some(1000), 100)] {
        let began = Instant::now();
        let client_deadline = client.map(|seconds| began + Duration::from_secs(seconds));
        let question = ApprovalQuestion { client_deadline, ..ann.question() };
        let expected = Duration::from_secs(expected);
        assert_eq!(queue.wait(&question).await, Err(ApprovalFailure::Expired(expected)));
        assert_eq!((began.elapsed(), queue.count()), (expected, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_call_leaves_the_queue() {
    let (queue, ann) = (queue(), Caller::new("ann"));
    let question = ann.question();
    drop(begin!(queue, &question));
    assert_eq!(queue.count(), 0);
}

// invariant: limits-hit-own-caller
#[tokio::test(start_paused = true)]
async fn flood_of_one_caller_hides_and_displaces_no_other() {
    let queue = queue();
    let crowd: Vec<_> =
        (0..=MAX_WAITING / MAX_OF_CALLER).map(|n| Caller::new(&n.to_string())).collect();
    let questions: Vec<_> = crowd.iter().map(Caller::question).collect();
    let mut waiting = Vec::new();
    let (late, floods) = questions.split_last().unwrap();
    for question in floods {
        for _ in 0..MAX_OF_CALLER {
            waiting.push(begin!(queue, question));
        }
        assert_eq!(queue.wait(question).await, Err(ApprovalFailure::Full));
    }
    assert_eq!(queue.count(), MAX_WAITING);
    let others = begin!(queue, late);
    assert_eq!(queue.count(), MAX_WAITING, "a call of the largest caller made room");
    let shown = queue.pending();
    let first = shown[..crowd.len()].iter().filter_map(|call| call.agent.as_deref());
    let first: std::collections::BTreeSet<_> = first.collect();
    assert_eq!(first.len(), crowd.len(), "each caller's oldest call comes first");
    drop((waiting, others));
    assert_eq!(queue.count(), 0);
}
