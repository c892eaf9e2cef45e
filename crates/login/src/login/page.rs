//! The pages that a browser is shown when it comes back from an authorization server.

use crate::login::callback::STRANGER;
use crate::login::place::{Failure, Place};

/// The headers that go with every page: nothing is kept, run, framed or asked for, and no other page hears of the
/// address, which has a code in it.
pub const PAGE_HEADERS: [(&str, &str); 6] = [
    ("content-type", "text/html; charset=utf-8"),
    ("cache-control", "no-store"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("cross-origin-resource-policy", "same-origin"),
    (
        "content-security-policy",
        "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
];

/// A page that asks for nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The status that it is answered with.
    pub status: u16,
    /// Its text, in HTML.
    pub html: String,
}

impl Page {
    fn new(status: u16, title: &str, text: &str) -> Self {
        let text: String = text.chars().map(escape).collect();
        let html = format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title} - MCP Workbench</title>\
             <h1>{title}</h1><p>{text}</p></html>"
        );
        Self { status, html }
    }

    /// The page where there is nothing.
    pub(crate) fn nothing() -> Self {
        Self::new(404, "Not found", "There is nothing here.")
    }

    /// The page at the end of a sign-in, whose browser is the user's own.
    pub(crate) fn signed_in() -> Self {
        Self::new(200, "Signed in", "You are signed in; you can close this window.")
    }

    /// The page at the end of a sign-in whose browser may be anybody's: whoever was led to it is told whose it is.
    pub(crate) fn signed_in_at(place: &Place) -> Self {
        let who = match &place.account {
            Some(agent) => format!("Agent `{agent}` is"),
            None => "All agents of this workbench are".to_owned(),
        };
        let text = format!(
            "{who} signed in at server `{}` now, as you; you can close this window. If you have not asked for that, \
             take \"MCP Workbench\" out of the applications in the settings of your account there.",
            place.server
        );
        Self::new(200, "Signed in", &text)
    }

    /// The page for a browser that nobody waits for.
    pub fn nobody_waits() -> Self {
        Self::failed(&Failure::new(STRANGER, "sign in again"))
    }

    /// The page that says why nobody is signed in.
    pub(crate) fn failed(Failure { reason, hint }: &Failure) -> Self {
        Self::new(400, "Not signed in", &format!("Nobody is signed in: {reason}; {hint}."))
    }
}

fn escape(character: char) -> String {
    match character {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        '\'' => "&#39;".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text_and_nothing_else() {
        let place = Place {
            server: "<b>".to_owned(),
            url: "https://mcp.example.com/".parse().unwrap(),
            account: Some("\"ann\" & '<i>'".to_owned()),
            oauth: crate::settings::OAuth::default(),
        };
        let html = Page::signed_in_at(&place).html;
        assert!(html.contains("Agent `&quot;ann&quot; &amp; &#39;&lt;i&gt;&#39;` is"), "{html}");
        assert!(html.contains("server `&lt;b&gt;` now"), "{html}");
    }
}
