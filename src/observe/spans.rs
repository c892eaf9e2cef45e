//! Spans of OpenTelemetry: one for each call, exported in batches by a thread of its own.
//!
//! The names are those of the semantic conventions for MCP and generative AI. The trace that an
//! agent's request belongs to is continued: its span is the parent of ours, and ours is what the
//! server is told in `_meta`.

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::time::Duration;

use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{Span as _, SpanKind, Status, TraceContextExt, Tracer, TracerProvider};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span};
use url::Url;

use crate::name::{AgentName, ServerName, ToolboxName};
use crate::observe::post::Poster;
use crate::observe::record::cut;
use crate::observe::{Ending, Subject};
use crate::raw::{Member, Raw};

/// How long one export may take.
const EXPORT: Duration = Duration::from_secs(5);
/// The members of `_meta` that say which trace a request belongs to (W3C trace context).
const PARENT: &str = "traceparent";
const STATE: &str = "tracestate";
/// The method of the call (MCP).
const METHOD: &str = "tools/call";

/// Where spans go.
pub(crate) struct Spans {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    propagator: TraceContextPropagator,
}

impl fmt::Debug for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spans")
    }
}

/// The span of one call.
pub(crate) struct Spanning {
    span: Span,
    /// The members of the request's `_meta` that go on to the server, with this span in place of
    /// the agent's.
    pub(crate) meta: Vec<Member>,
}

/// The trace context of a request.
#[derive(Default)]
struct Carrier<'a> {
    parent: Option<Cow<'a, str>>,
    state: Option<Cow<'a, str>>,
}

impl Extractor for Carrier<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            PARENT => self.parent.as_deref(),
            STATE => self.state.as_deref(),
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec![PARENT, STATE]
    }
}

impl Spans {
    /// Exports to the collector at this address, as the service of this name.
    pub(crate) fn new(address: &Url, service: &str) -> Result<Self, String> {
        let poster = Poster::new(address).map_err(|error| error.to_string())?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(poster)
            .with_endpoint(address.as_str())
            .with_timeout(EXPORT)
            .build()
            .map_err(|error| error.to_string())?;
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource = Resource::builder()
            .with_service_name(service.to_owned())
            .with_attribute(version)
            .build();
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource)
            .build();
        let tracer = provider.tracer(env!("CARGO_PKG_NAME"));
        Ok(Self { provider, tracer, propagator: TraceContextPropagator::new() })
    }

    /// Begins the span of a call.
    pub(crate) fn begin(&self, run: &str, subject: &Subject<'_>) -> Spanning {
        let said = |key: &str| {
            let found = subject.meta.iter().find(|(name, _)| &**name == key);
            found.and_then(|(_, value)| value.text())
        };
        let carrier = Carrier { parent: said(PARENT), state: said(STATE) };
        let parent = self.propagator.extract_with_context(&Context::new(), &carrier);
        let tool = cut(subject.tool).into_owned();
        let mut attributes = vec![
            KeyValue::new("mcp.method.name", METHOD),
            KeyValue::new("gen_ai.operation.name", "execute_tool"),
            KeyValue::new("gen_ai.tool.name", tool.clone()),
            KeyValue::new("mcp.session.id", format!("{run}-{}", subject.session)),
        ];
        let named = [
            ("mcp_workbench.toolbox", subject.toolbox.map(ToolboxName::as_str)),
            ("mcp_workbench.server", subject.server.map(ServerName::as_str)),
            ("mcp_workbench.agent", subject.agent.map(AgentName::as_str)),
        ];
        let named = named.into_iter().filter_map(|(key, name)| Some((key, name?.to_owned())));
        attributes.extend(named.map(|(key, name)| KeyValue::new(key, name)));
        let span = self
            .tracer
            .span_builder(format!("{METHOD} {tool}"))
            .with_kind(SpanKind::Server)
            .with_attributes(attributes)
            .start_with_context(&self.tracer, &parent);
        let meta = passed_on(&span, subject.meta);
        Spanning { span, meta }
    }

    /// Exports what there is, and ends.
    pub(crate) fn close(&self, patience: Duration) {
        if let Err(error) = self.provider.shutdown_with_timeout(patience) {
            tracing::warn!(%error, "the last spans were not exported");
        }
    }
}

/// The `_meta` of a request with a span in place of its parent.
fn passed_on(span: &Span, meta: &[Member]) -> Vec<Member> {
    let context = span.span_context();
    let (trace, own) = (context.trace_id(), context.span_id());
    let mut parent = String::with_capacity(55);
    // Writing into memory does not fail.
    let _ = write!(parent, "00-{trace}-{own}-{:02x}", context.trace_flags().to_u8());
    let state = context.trace_state().header();
    let kept = meta.iter().filter(|(key, _)| !matches!(&**key, PARENT | STATE)).cloned();
    let parent = (PARENT.into(), Raw::of_text(&parent));
    let state = (!state.is_empty()).then(|| (STATE.into(), Raw::of_text(&state)));
    kept.chain([parent]).chain(state).collect()
}

impl Spanning {
    /// The call has ended.
    pub(crate) fn end(mut self, ending: Ending) {
        self.span.set_attribute(KeyValue::new("mcp_workbench.outcome", ending.as_str()));
        if !matches!(ending, Ending::Ok | Ending::InputRequired) {
            self.span.set_attribute(KeyValue::new("error.type", ending.as_str()));
            self.span.set_status(Status::error(""));
        }
        self.span.end();
    }
}

/// Returns `true` if a text says which trace a request belongs to.
pub fn is_trace_parent(text: &str) -> bool {
    let carrier = Carrier { parent: Some(text.into()), state: None };
    let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &carrier);
    context.span().span_context().is_valid()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    const AGENTS: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn spans() -> Spans {
        // Nobody listens there, and nothing is exported before the end.
        Spans::new(&Url::parse("http://127.0.0.1:9/v1/traces").unwrap(), "test").unwrap()
    }

    fn subject(meta: &[Member]) -> Subject<'_> {
        Subject {
            agent: None,
            session: 1,
            toolbox: None,
            server: None,
            tool: "echo",
            arguments: None,
            meta,
        }
    }

    #[test]
    fn the_trace_of_the_agent_goes_on_and_the_rest_of_its_meta_stays() {
        let given = json!({"x": 1, "traceparent": AGENTS, "tracestate": "a=b", "baggage": "c=d"});
        let given = Raw::encode(&given).members().unwrap();
        let passed = spans().begin("run", &subject(&given)).meta;
        let keys: Vec<_> = passed.iter().map(|(key, _)| &**key).collect();
        assert_eq!(keys, ["x", "baggage", "traceparent", "tracestate"]);
        let parent = passed[2].1.text().unwrap().into_owned();
        assert!(parent.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"), "{parent}");
        assert!(parent.ends_with("-01") && parent != AGENTS, "{parent}");
        assert_eq!(passed[3].1.text().as_deref(), Some("a=b"));
    }

    #[test]
    fn without_one_a_trace_begins() {
        let meta = spans().begin("run", &subject(&[])).meta;
        assert!(is_trace_parent(&meta[0].1.text().unwrap()));
    }

    #[test]
    fn what_is_no_trace_parent_is_none() {
        assert!(is_trace_parent(AGENTS));
        for text in
            ["", "x", "00-0-0-00", "00-00000000000000000000000000000000-00f067aa0ba902b7-01"]
        {
            assert!(!is_trace_parent(text), "{text}");
        }
    }
}
