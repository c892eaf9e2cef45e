//! Multi-round input from the client: server requests in the legacy protocol, `input_required`
//! results and retries in the modern one. Callers see only the answers.

use serde_json::{Map, Value, json};

use crate::capability::needed_for;
use crate::request::Request;
use crate::server::Server;
use crate::state::Progress;
use crate::wire::Fault;

#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) key: &'static str,
    pub(crate) method: &'static str,
    pub(crate) params: Option<Value>,
}

impl Question {
    pub(crate) fn to_json(&self) -> Value {
        let mut request = json!({ "method": self.method });
        if let Some(params) = &self.params {
            request["params"] = params.clone();
        }
        request
    }

    pub(crate) fn check(&self, answer: &Value) -> Result<(), Fault> {
        let is_good = match self.method {
            "elicitation/create" => {
                let has_content = answer["content"].is_object();
                match answer["action"].as_str() {
                    Some("accept") => has_content,
                    Some("decline" | "cancel") => true,
                    _ => false,
                }
            }
            "sampling/createMessage" => !answer["content"].is_null() && answer["model"].is_string(),
            _ => answer["roots"].is_array(),
        };
        if is_good {
            return Ok(());
        }
        let message = format!("the answer to `{}` does not fit `{}`", self.key, self.method);
        Err(Fault::invalid_params(message))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Dialogue {
    /// All questions of a round go into one `input_required` result.
    pub(crate) rounds: Vec<Vec<Question>>,
    /// Send a `requestState`. A retry without it starts over.
    pub(crate) keeps_state: bool,
    /// Leave out questions that the client lacks the capability for, as long as one remains.
    pub(crate) adapts: bool,
}

pub(crate) enum Outcome {
    Answers(Map<String, Value>),
    /// The `input_required` result to return.
    Asked(Value),
}

impl Dialogue {
    /// A single round without `requestState`.
    pub(crate) fn once(questions: Vec<Question>) -> Self {
        Self { rounds: vec![questions], keeps_state: false, adapts: false }
    }

    /// Asks all rounds (legacy), or advances by the answers in the request (modern).
    pub(crate) fn hold(
        &self,
        server: &Server,
        request: &Request,
        name: &str,
    ) -> Result<Outcome, Fault> {
        let rounds = self.rounds.iter().map(|round| self.fitting(round, request));
        let rounds = rounds.collect::<Result<Vec<_>, _>>()?;
        if request.modern {
            return self.go_on(&rounds, request, name);
        }
        let mut answers = Map::new();
        for question in rounds.into_iter().flatten() {
            let answer = server.ask(request, question.method, question.params.as_ref())?;
            question.check(&answer)?;
            answers.insert(question.key.to_owned(), answer);
        }
        Ok(Outcome::Answers(answers))
    }

    fn fitting(&self, round: &[Question], request: &Request) -> Result<Vec<Question>, Fault> {
        let can = |question: &&Question| request.can(needed_for(question.method));
        let fitting: Vec<Question> = round.iter().filter(can).cloned().collect();
        if fitting.len() == round.len() || (self.adapts && !fitting.is_empty()) {
            return Ok(fitting);
        }
        let needed: Vec<_> = round.iter().map(|question| needed_for(question.method)).collect();
        request.need(&needed)?;
        Ok(fitting)
    }

    fn go_on(
        &self,
        rounds: &[Vec<Question>],
        request: &Request,
        name: &str,
    ) -> Result<Outcome, Fault> {
        let params = &request.params;
        let given = match params.get("inputResponses") {
            None => Map::new(),
            Some(Value::Object(given)) => given.clone(),
            Some(_) => return Err(Fault::invalid_params("`inputResponses` is not an object")),
        };
        let state = match params.get("requestState") {
            None => None,
            Some(Value::String(text)) => Some(Progress::open(text, name)?),
            Some(_) => return Err(Fault::invalid_params("`requestState` is not a string")),
        };
        let is_new = self.keeps_state && state.is_none();
        let mut progress = state.unwrap_or_default();
        let round = rounds.get(progress.round).ok_or_else(|| {
            Fault::invalid_params("`requestState` belongs to a finished dialogue")
        })?;
        let mut is_answered = true;
        for question in round {
            match given.get(question.key).filter(|_| !is_new) {
                Some(answer) => {
                    question.check(answer)?;
                    progress.answers.insert(question.key.to_owned(), answer.clone());
                }
                None => is_answered = false,
            }
        }
        if is_answered {
            progress.round += 1;
        }
        let Some(round) = rounds.get(progress.round) else {
            return Ok(Outcome::Answers(progress.answers));
        };
        let questions = round.iter().map(|question| (question.key.to_owned(), question.to_json()));
        let mut result = json!({
            "resultType": "input_required",
            "inputRequests": questions.collect::<Map<_, _>>(),
        });
        if self.keeps_state {
            result["requestState"] = progress.seal(name).into();
        }
        Ok(Outcome::Asked(result))
    }
}
