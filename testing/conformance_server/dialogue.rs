//! Asking the client, in rounds: with requests of our own (legacy), or with an `input_required`
//! result and the client's retry (modern). Whoever asks sees the answers only.

use serde_json::{Map, Value, json};

use crate::capability::needed_for;
use crate::request::Request;
use crate::server::Server;
use crate::state::Progress;
use crate::wire::Fault;

/// One thing that we want to know.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) key: &'static str,
    pub(crate) method: &'static str,
    pub(crate) params: Option<Value>,
}

impl Question {
    /// As it stands in `inputRequests`.
    pub(crate) fn to_json(&self) -> Value {
        let mut request = json!({ "method": self.method });
        if let Some(params) = &self.params {
            request["params"] = params.clone();
        }
        request
    }

    /// Checks that an answer is of the kind that the question wants.
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

/// The questions of a tool or a prompt.
#[derive(Clone, Debug)]
pub(crate) struct Dialogue {
    /// All questions of a round are asked at once.
    pub(crate) rounds: Vec<Vec<Question>>,
    /// `true` if the client is given a `requestState`, without which it begins anew.
    pub(crate) keeps_state: bool,
    /// `true` if questions that the client cannot answer are left out, as long as some remain.
    pub(crate) adapts: bool,
}

/// Where a dialogue has led.
pub(crate) enum Outcome {
    /// Everything is answered, by the keys of the questions.
    Answers(Map<String, Value>),
    /// The client is to come back with answers to this.
    Asked(Value),
}

impl Dialogue {
    /// A single round, with nothing to remember.
    pub(crate) fn once(questions: Vec<Question>) -> Self {
        Self { rounds: vec![questions], keeps_state: false, adapts: false }
    }

    /// Goes on as far as it gets without the client.
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

    /// The questions of a round that this client can be asked.
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
            Some(_) => return Err(Fault::invalid_params("`requestState` is not a text")),
        };
        let is_new = self.keeps_state && state.is_none();
        let mut progress = state.unwrap_or_default();
        let round = rounds
            .get(progress.round)
            .ok_or_else(|| Fault::invalid_params("`requestState` is of a dialogue at its end"))?;
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
