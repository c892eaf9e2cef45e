//! Messages of servers to agents besides answers: progress, notices and questions.

use tokio::sync::oneshot;

use crate::raw::Raw;
use crate::wire::Outcome;
use crate::wire::incoming::{Reply, error_object};

/// A message to an agent besides the answers to its requests.
#[derive(Debug)]
pub enum Event {
    /// The `params` of a progress notification; their token is not the agent's.
    Progress(Raw),
    /// Any other notification.
    Notice {
        /// The method of the notice.
        method: String,
        /// Its `params`, as written.
        params: Option<Raw>,
    },
    /// Wants an answer. Boxed, for there are few, and every request has room for an event.
    Question(Box<Question>),
}

impl From<Question> for Event {
    fn from(question: Question) -> Self {
        Self::Question(Box::new(question))
    }
}

/// Something a server asks of an agent (elicitation, sampling, roots). Dropping it unanswered
/// tells the server that there will be no answer.
pub struct Question {
    /// The method of the question.
    pub method: String,
    /// Its `params`, as written.
    pub params: Option<Raw>,
    /// `true` if a server asks it, and not we.
    pub is_of_server: bool,
    back: Back,
    when_answered: Option<Box<dyn FnOnce() + Send>>,
}

pub(crate) enum Back {
    Server(Reply),
    Here(oneshot::Sender<Outcome>),
    Nowhere,
}

impl std::fmt::Debug for Question {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Question").field("method", &self.method).finish_non_exhaustive()
    }
}

impl Question {
    pub(crate) fn of_server(method: String, params: Option<Raw>, reply: Reply) -> Self {
        let mut question = Self::new(method, params, Back::Server(reply));
        question.is_of_server = true;
        question
    }

    /// A question of our own, and where its answer comes.
    pub fn here(method: String, params: Option<Raw>) -> (Self, oneshot::Receiver<Outcome>) {
        let (back, answer) = oneshot::channel();
        (Self::new(method, params, Back::Here(back)), answer)
    }

    /// A question that a server has asked in its answer, and where its own answer comes.
    pub(crate) fn relayed(
        method: String,
        params: Option<Raw>,
    ) -> (Self, oneshot::Receiver<Outcome>) {
        let (mut question, answer) = Self::here(method, params);
        question.is_of_server = true;
        (question, answer)
    }

    fn new(method: String, params: Option<Raw>, back: Back) -> Self {
        Self { method, params, is_of_server: false, back, when_answered: None }
    }

    /// Does something once it is answered, or dropped.
    pub(crate) fn and_then(mut self, f: impl FnOnce() + Send + 'static) -> Self {
        self.when_answered = Some(Box::new(f));
        self
    }

    /// Answers; returns once the server has been sent the answer.
    pub async fn answer(mut self, outcome: Outcome) {
        match std::mem::replace(&mut self.back, Back::Nowhere) {
            Back::Server(reply) => {
                if reply.answer(outcome).await.is_err() {
                    tracing::debug!(method = self.method, "the server is gone that asked");
                }
            }
            // Whoever asked may have given up in the meantime.
            Back::Here(back) => drop(back.send(outcome)),
            Back::Nowhere => {}
        }
    }

    /// Answers with an error, without waiting.
    pub fn decline(mut self, code: i64, reason: &str) {
        let outcome = Outcome::Error(error_object(code, reason, None));
        match std::mem::replace(&mut self.back, Back::Nowhere) {
            Back::Server(reply) => reply.answer_later(outcome),
            Back::Here(back) => drop(back.send(outcome)),
            Back::Nowhere => {}
        }
    }

    /// Resolves when the server no longer wants an answer.
    pub async fn withdrawn(&mut self) {
        match &mut self.back {
            Back::Server(reply) => reply.cancelled().await,
            Back::Here(back) => back.closed().await,
            Back::Nowhere => {}
        }
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        if let Some(f) = self.when_answered.take() {
            f();
        }
    }
}
