//! The JSON Schema of the configuration file, generated from the raw types.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

use crate::sections::project::RawProject;
use crate::sections::root::RawConfig;

/// Returns the JSON Schema of the configuration file.
pub fn schema() -> Value {
    generate::<RawConfig>()
}

fn generate<T: JsonSchema>() -> Value {
    SchemaSettings::draft07()
        .with_transform(RecursiveTransform(tidy))
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
}

/// Returns the text of `schemas/workbench-project.schema.json`.
pub fn project_schema_text() -> String {
    format!("{:#}\n", generate::<RawProject>())
}

/// Returns the text of `schemas/workbench-config.schema.json`.
pub fn schema_text() -> String {
    format!("{:#}\n", schema())
}

/// Removes Rust specifics: integer formats, and line breaks of wrapped doc comments.
fn tidy(schema: &mut Schema) {
    schema.remove("format");
    if let Some(Value::String(description)) = schema.get_mut("description") {
        let paragraphs = description.split("\n\n").map(|text| text.replace('\n', " "));
        *description = paragraphs.collect::<Vec<_>>().join("\n\n");
    }
}
