//! `approvals key`: creates the approval key.

use std::process::ExitCode;

use crate::authoring::edit::{ConfigText, EditError, set_text};
use crate::cli::args::GlobalArgs;
use crate::cli::files::config_edit::{self, EditTarget};
use crate::cli::output::{CommandError, print};
use crate::cli::servers::approval_key::{MIN_PASSPHRASE, PassphraseKey};
use crate::cli::terminal::read_passphrase;

const SECTION: &str = "approvals";
const KEY: &str = "key";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Edit ~/.config/mcp-workbench/config.json
    #[arg(long, conflicts_with = "config")]
    user: bool,
    /// Replace an existing key
    #[arg(long)]
    force: bool,
}

pub(super) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    let target = EditTarget::find(global, args.user)?;
    let file = target.location.display_path.display();
    let Some(before) = target.text.as_deref() else {
        return Err(CommandError::usage(format!("no configuration at `{file}`"))
            .with_hint("run `mcp-workbench setup` or `mcp-workbench add` first"));
    };
    let source = ConfigText { file: &target.location.path, text: before };
    let edit = |key: &str| match set_text(source, &[SECTION, KEY], key) {
        Ok(text) => Ok(Some(text)),
        // The user can still add the line by hand.
        Err(EditError::NotEditable { .. }) => Ok(None),
        Err(error) => Err(config_edit::edit_error(error, &target)),
    };
    // Report a broken file before the user chooses a passphrase.
    edit("")?;
    if !args.force && has_key(before) {
        return Err(CommandError::usage(format!("`{file}` already has an approval key"))
            .with_hint("replace it with `--force`, for example if you forgot the passphrase"));
    }
    let passphrase = read_passphrase("New passphrase: ")?;
    let length = passphrase.chars().count();
    if length < MIN_PASSPHRASE {
        return Err(CommandError::usage(format!(
            "the passphrase has {length} characters; at least {MIN_PASSPHRASE} are required"
        ))
        .with_hint(
            "choose at least four random words: agents can read the public part of the key and try \
             out passphrases",
        ));
    }
    if read_passphrase("Repeat the passphrase: ")? != passphrase {
        return Err(CommandError::usage("the passphrases differ"));
    }
    let key = PassphraseKey::create(&passphrase)?.public.to_string();
    let Some(text) = edit(&key)? else {
        print::note(&format!(
            "add this key as `{SECTION}.{KEY}` to `{file}`, then restart the workbench:"
        ));
        print::data(&key)?;
        return Ok(ExitCode::SUCCESS);
    };
    target.check(&text, before)?;
    target.write(&text)?;
    print::note(&format!(
        "wrote the public part of the approval key to `{file}`; the passphrase is stored nowhere\n\
         hint: restart your clients, or the workbenches that `mcp-workbench ps` lists: they read the \
         key only when they start"
    ));
    Ok(ExitCode::SUCCESS)
}

/// Returns `true` if the text has a key, whether it is valid or not.
fn has_key(text: &str) -> bool {
    let tree = mcp_workbench_config::syntax::document::parse_jsonc(text);
    let value = tree.ok().map(serde_json::Value::from);
    value.is_some_and(|value| value[SECTION].get(KEY).is_some_and(|key| !key.is_null()))
}
