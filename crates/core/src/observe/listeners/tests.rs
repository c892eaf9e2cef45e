use std::sync::Mutex;

use pretty_assertions::assert_eq;

use super::*;
use crate::observe::{Ending, Meters, Observer, Subject};

/// Notes what it hears of the kinds that it wants.
struct Notes {
    wants: Kinds,
    name: &'static str,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Listener for Notes {
    fn wants(&self) -> Kinds {
        self.wants
    }

    fn hear(&self, event: Event<'_>) {
        let what = match event {
            Event::CallBegan(call) => format!("{} begins", call.subject.tool),
            Event::CallEnded(call, end) => {
                format!("{} ends {}", call.facts().tool, end.ending.as_str())
            }
            _ => "something else".to_owned(),
        };
        self.heard.lock().unwrap().push(format!("{}: {what}", self.name));
    }
}

/// Cannot hear of anything.
struct Broken;

impl Listener for Broken {
    fn wants(&self) -> Kinds {
        Kinds::ALL
    }

    fn hear(&self, _: Event<'_>) {
        panic!("on purpose");
    }
}

struct Bench {
    heard: Arc<Mutex<Vec<String>>>,
    meters: Arc<Meters>,
    all: Vec<Arc<dyn Listener>>,
}

impl Bench {
    fn new() -> Self {
        let meters = Observer::default().meters("box", "srv");
        Self { heard: Arc::default(), meters, all: Vec::new() }
    }

    fn with(mut self, name: &'static str, wants: Kinds) -> Self {
        let heard = Arc::clone(&self.heard);
        self.all.push(Arc::new(Notes { wants, name, heard }));
        self
    }

    fn listeners(&self) -> Listeners {
        Listeners::new(self.all.iter().cloned(), Process::default())
    }

    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut *self.heard.lock().unwrap())
    }
}

fn subject(tool: &str) -> Subject<'_> {
    Subject {
        agent: None,
        session: 1,
        toolbox: None,
        server: None,
        tool,
        arguments: None,
        meta: &[],
    }
}

#[test]
fn who_wants_nothing_is_told_nothing_and_nothing_is_done_for_it() {
    let bench = Bench::new().with("deaf", Kinds::NONE);
    let listeners = bench.listeners();
    let of_calls = Kinds::CALLS_BEGUN.and(Kinds::CALLS_ENDED).and(Kinds::CALL_TEXTS);
    assert!(!listeners.want(of_calls.and(Kinds::READS).and(Kinds::LLM_REQUESTS)));
    let mut call = listeners.begin_call(&bench.meters, subject("t"));
    call.context.decided_by(|| unreachable!("nobody wants the rule"));
    call.context.refused_for("nobody wants to know");
    assert!(call.context.details.reason.is_none());
    std::thread::yield_now();
    assert_eq!(call.context.took(), Duration::ZERO, "nobody wants the clock to be looked at");
    call.end(Ending::Ok, None);
    assert_eq!(bench.heard(), [""; 0]);
    assert_eq!(listeners.calls().load(Ordering::Relaxed), 0, "nobody wanted the facts");
}

#[test]
fn everybody_hears_what_it_wants_in_order() {
    let bench = Bench::new()
        .with("one", Kinds::CALLS_BEGUN.and(Kinds::CALLS_ENDED))
        .with("two", Kinds::CALLS_ENDED)
        .with("three", Kinds::SERVERS);
    let listeners = bench.listeners();
    let one = listeners.begin_call(&bench.meters, subject("a"));
    let two = listeners.begin_call(&bench.meters, subject("b"));
    two.end(Ending::TimedOut, None);
    drop(one);
    let said = ["one: a begins", "one: b begins", "one: b ends timed_out", "two: b ends timed_out"];
    assert_eq!(
        bench.heard(),
        [&said[..], &["one: a ends cancelled", "two: a ends cancelled"]].concat()
    );
    let numbers = listeners.calls().load(Ordering::Relaxed);
    assert_eq!(numbers, 2, "each call has one number, whoever asks for its facts");
}

#[test]
fn a_rule_is_written_for_whoever_wants_texts() {
    let bench = Bench::new().with("one", Kinds::CALLS_ENDED.and(Kinds::CALL_TEXTS));
    let listeners = bench.listeners();
    let mut call = listeners.begin_call(&bench.meters, subject("a"));
    call.context.decided_by(|| Some("rules.a".into()));
    assert_eq!(call.context.details.rule.as_deref(), Some("rules.a"));
}

#[test]
fn one_that_panics_spoils_neither_the_call_nor_the_others() {
    let mut bench = Bench::new();
    bench.all.push(Arc::new(Broken));
    let bench = bench.with("one", Kinds::ALL);
    let listeners = bench.listeners();
    listeners.begin_call(&bench.meters, subject("a")).end(Ending::Ok, None);
    let lost = catch_unwind(AssertUnwindSafe(|| {
        let _call = listeners.begin_call(&bench.meters, subject("b"));
        panic!("on purpose");
    }));
    assert!(lost.is_err());
    assert_eq!(
        bench.heard(),
        ["one: a begins", "one: a ends ok", "one: b begins", "one: b ends panicked"]
    );
}
