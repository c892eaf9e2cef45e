//! Lists that change, and the notifications about them.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::request::Request;
use crate::server::Server;
use crate::wire::Fault;

const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";
const FLAGS: [&str; 3] = ["toolsListChanged", "promptsListChanged", "resourcesListChanged"];

#[derive(Debug, Default)]
pub(crate) struct Lists {
    pub(crate) has_dynamic_tool: bool,
    pub(crate) has_dynamic_prompt: bool,
    pub(crate) revision: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Listeners {
    subscribed: HashSet<String>,
    /// The open `subscriptions/listen` requests: request ID and granted filter.
    open: Vec<(Value, Value)>,
}

impl Listeners {
    pub(crate) fn forget(&mut self, id: &Value) {
        self.open.retain(|(open, _)| open != id);
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Change<'a> {
    Tools,
    Prompts,
    Resource(&'a str),
    Task(&'a Value),
}

impl Change<'_> {
    fn method(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resource(_) => "notifications/resources/updated",
            Self::Task(_) => "notifications/tasks",
        }
    }

    fn params(self) -> Value {
        match self {
            Self::Tools | Self::Prompts => Value::Null,
            Self::Resource(uri) => json!({ "uri": uri }),
            Self::Task(task) => task.clone(),
        }
    }

    fn passes(self, filter: &Value) -> bool {
        let names = |list: &str, name: &str| {
            filter[list].as_array().is_some_and(|names| names.iter().any(|entry| entry == name))
        };
        match self {
            Self::Tools => filter["toolsListChanged"] == true,
            Self::Prompts => filter["promptsListChanged"] == true,
            Self::Resource(uri) => names("resourceSubscriptions", uri),
            Self::Task(task) => task["taskId"].as_str().is_some_and(|task| names("taskIds", task)),
        }
    }
}

impl Server {
    /// Opens a subscription. The acknowledgement is sent under the lock, so no change can precede
    /// it.
    pub(crate) fn listen(&self, request: &Request) -> Result<(), Fault> {
        let wanted = &request.params["notifications"];
        if !wanted.is_object() {
            return Err(Fault::invalid_params("`notifications` is missing or not an object"));
        }
        let mut granted = json!({});
        for flag in FLAGS.iter().filter(|flag| wanted[**flag] == true) {
            granted[*flag] = true.into();
        }
        for list in ["resourceSubscriptions", "taskIds"] {
            if wanted[list].is_array() {
                granted[list] = wanted[list].clone();
            }
        }
        if !granted["taskIds"].is_null() {
            request.need_tasks()?;
        }
        let mut listeners = self.listeners.lock().unwrap();
        self.output.notify(
            "notifications/subscriptions/acknowledged",
            &json!({ "_meta": { SUBSCRIPTION_KEY: request.id }, "notifications": granted }),
        );
        listeners.open.push((request.id.clone(), granted));
        Ok(())
    }

    pub(crate) fn subscribe(&self, uri: &str, wanted: bool) {
        let subscribed = &mut self.listeners.lock().unwrap().subscribed;
        if wanted {
            subscribed.insert(uri.to_owned());
        } else {
            subscribed.remove(uri);
        }
    }

    pub(crate) fn tell(&self, change: Change<'_>) {
        let has_session = self.has_session();
        let listeners = self.listeners.lock().unwrap();
        let is_for_session = match change {
            Change::Tools | Change::Prompts => has_session,
            Change::Resource(uri) => has_session && listeners.subscribed.contains(uri),
            Change::Task(_) => false,
        };
        if is_for_session {
            self.output.notify(change.method(), &change.params());
        }
        for (id, _) in listeners.open.iter().filter(|(_, filter)| change.passes(filter)) {
            let mut params = change.params();
            params["_meta"][SUBSCRIPTION_KEY] = id.clone();
            self.output.notify(change.method(), &params);
        }
    }
}
