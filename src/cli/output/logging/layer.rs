//! The `tracing` layer that writes both logs: the text for people, and the JSON for
//! `mcp-workbench logs`.

use std::sync::Arc;

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::{LookupSpan, Scope};

use crate::cli::output::logging::line::LogFields;
use crate::cli::output::logging::writer::LogWriter;

pub(super) struct LogLayer {
    pub(super) text: Arc<LogWriter>,
    pub(super) text_filter: Targets,
    /// Gets all events that pass the filters of the subscriber.
    pub(super) json: Option<Arc<LogWriter>>,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LogLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = LogFields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<LogFields>() {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut line = LogFields::default();
        event.record(&mut line);
        let own = line.len();
        for span in context.event_scope(event).into_iter().flat_map(Scope::from_root) {
            if let Some(fields) = span.extensions().get::<LogFields>() {
                line.add_span(fields, own);
            }
        }
        let (level, target) = (*event.metadata().level(), event.metadata().target());
        if self.text_filter.would_enable(target, &level) {
            self.text.write(&line, level, target);
        }
        if let Some(json) = &self.json {
            json.write(&line, level, target);
        }
    }
}
