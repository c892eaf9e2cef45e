//! The tasks extension: task creation, `tasks/get`, `tasks/update` and `tasks/cancel`.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use chrono::{SecondsFormat, Utc};
use serde_json::{Map, Value, json};

use crate::change::Change;
use crate::dialogue::{Dialogue, Question};
use crate::request::Request;
use crate::server::Server;
use crate::wire::{Answer, Fault};

/// Longer than any test runs. Tasks are never deleted.
const TTL_MS: u64 = 600_000;
const POLL_INTERVAL_MS: u64 = 100;

#[derive(Clone, Debug)]
enum Status {
    Working,
    InputRequired(Vec<Question>),
    Completed(Value),
    Failed(Value),
    Cancelled,
}

impl Status {
    fn word(&self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired(_) => "input_required",
            Self::Completed(_) => "completed",
            Self::Failed(_) => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    fn is_final(&self) -> bool {
        matches!(self, Self::Completed(_) | Self::Failed(_) | Self::Cancelled)
    }
}

#[derive(Debug)]
struct Task {
    id: String,
    status: Status,
    created_at: String,
    updated_at: String,
    answers: Map<String, Value>,
}

impl Task {
    /// Returns the fields of a newly created task, without result or input requests.
    fn summary(&self) -> Value {
        json!({
            "taskId": self.id,
            "status": self.status.word(),
            "createdAt": self.created_at,
            "lastUpdatedAt": self.updated_at,
            "ttlMs": TTL_MS,
            "pollIntervalMs": POLL_INTERVAL_MS,
        })
    }

    fn detail(&self) -> Value {
        let mut detail = self.summary();
        match &self.status {
            Status::Working | Status::Cancelled => {}
            Status::InputRequired(questions) => {
                let questions = questions.iter().map(|q| (q.key.to_owned(), q.to_json()));
                detail["inputRequests"] = questions.collect::<Map<_, _>>().into();
            }
            Status::Completed(result) => detail["result"] = result.clone(),
            Status::Failed(error) => detail["error"] = error.clone(),
        }
        detail
    }
}

#[derive(Default)]
pub(crate) struct Tasks {
    all: Mutex<HashMap<String, Task>>,
    changed: Condvar,
}

pub(crate) struct Work {
    server: Arc<Server>,
    id: String,
}

/// Returns a `CreateTaskResult`. The task can be queried before the response is sent.
pub(crate) fn start(
    server: &Arc<Server>,
    work: impl FnOnce(&Work) -> Answer + Send + 'static,
) -> Value {
    let now = now();
    let task = Task {
        id: new_id(),
        status: Status::Working,
        created_at: now.clone(),
        updated_at: now,
        answers: Map::new(),
    };
    let mut created = task.summary();
    created["resultType"] = "task".into();
    let this = Work { server: Arc::clone(server), id: task.id.clone() };
    server.tasks.all.lock().unwrap().insert(task.id.clone(), task);
    thread::spawn(move || {
        let status = match work(&this) {
            Ok(result) => Status::Completed(result),
            Err(fault) => Status::Failed(fault.to_json()),
        };
        change(&this.server, &this.id, |task| task.status = status);
    });
    created
}

impl Work {
    pub(crate) fn rest(&self, time: Duration) {
        let tasks = &self.server.tasks;
        let all = tasks.all.lock().unwrap();
        let goes_on = |all: &mut HashMap<String, Task>| !all[&self.id].status.is_final();
        drop(tasks.changed.wait_timeout_while(all, time, goes_on).unwrap());
    }

    /// Asks all questions and waits for the answers, or until the task is canceled.
    pub(crate) fn ask(&self, dialogue: Dialogue) -> Map<String, Value> {
        let questions = dialogue.rounds.into_iter().flatten().collect();
        change(&self.server, &self.id, |task| task.status = Status::InputRequired(questions));
        let tasks = &self.server.tasks;
        let all = tasks.all.lock().unwrap();
        let is_open = |all: &mut HashMap<String, Task>| {
            matches!(all[&self.id].status, Status::InputRequired(_))
        };
        let all = tasks.changed.wait_while(all, is_open).unwrap();
        all[&self.id].answers.clone()
    }
}

fn change(server: &Server, id: &str, change: impl FnOnce(&mut Task)) {
    let detail = {
        let mut all = server.tasks.all.lock().unwrap();
        let Some(task) = all.get_mut(id).filter(|task| !task.status.is_final()) else { return };
        change(task);
        task.updated_at = now();
        server.tasks.changed.notify_all();
        task.detail()
    };
    server.tell(Change::Task(&detail));
}

pub(crate) fn serve(server: &Server, method: &str, request: &Request) -> Answer {
    request.need_tasks()?;
    let id = request.text("taskId")?;
    let detail = {
        let all = server.tasks.all.lock().unwrap();
        let task = all.get(id);
        task.ok_or_else(|| Fault::invalid_params(format!("Unknown task: {id}")))?.detail()
    };
    match method {
        "tasks/get" => return Ok(detail),
        "tasks/cancel" => change(server, id, |task| task.status = Status::Cancelled),
        _ => {
            let answers = request.params["inputResponses"].as_object();
            let answers = answers
                .ok_or_else(|| Fault::invalid_params("`inputResponses` is not an object"))?;
            update(server, id, answers)?;
        }
    }
    Ok(json!({}))
}

/// Stores the answers to open questions and ignores the rest.
fn update(server: &Server, id: &str, answers: &Map<String, Value>) -> Result<(), Fault> {
    let status = server.tasks.all.lock().unwrap().get(id).map(|task| task.status.clone());
    let Some(Status::InputRequired(open)) = status else { return Ok(()) };
    let (answered, left): (Vec<_>, Vec<_>) =
        open.into_iter().partition(|question| answers.contains_key(question.key));
    for question in &answered {
        question.check(&answers[question.key])?;
    }
    if answered.is_empty() {
        return Ok(());
    }
    change(server, id, |task| {
        for question in answered {
            task.answers.insert(question.key.to_owned(), answers[question.key].clone());
        }
        task.status = if left.is_empty() { Status::Working } else { Status::InputRequired(left) };
    });
    Ok(())
}

fn now() -> String {
    Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// 128 random bits, so that IDs can't be guessed.
fn new_id() -> String {
    let random = || RandomState::new().hash_one("task");
    format!("task-{:016x}{:016x}", random(), random())
}
