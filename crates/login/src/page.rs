//! The pages shown in the browser after the redirect from an authorization server.

use crate::callback::UNEXPECTED_CALLBACK;
use crate::target::{LoginError, LoginTarget};

/// Headers of every page. They forbid caching, scripts, framing and subresources, and keep the URL,
/// which contains a code, out of `Referer`.
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

/// A self-contained HTML page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The HTTP status code.
    pub status: u16,
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

    pub(crate) fn nothing() -> Self {
        Self::new(404, "Not found", "This page does not exist.")
    }

    /// The page after a sign-in through the loopback listener, so in the user's own browser.
    pub(crate) fn signed_in() -> Self {
        Self::new(200, "Signed in", "You are signed in. You can close this window.")
    }

    /// The page after a sign-in through an external redirect. The browser can belong to someone who
    /// was tricked into opening the link, so the page says whose login it is.
    pub(crate) fn signed_in_at(target: &LoginTarget) -> Self {
        let who = match &target.account {
            Some(agent) => format!("Agent `{agent}` is"),
            None => "All agents of this workbench are".to_owned(),
        };
        let text = format!(
            "{who} now signed in to server `{}` with your account. You can close this window. If \
             you did not request this, remove \"MCP Workbench\" from the connected applications in \
             your account settings there.",
            target.server
        );
        Self::new(200, "Signed in", &text)
    }

    /// The page for a callback without a pending login.
    pub fn no_pending_login() -> Self {
        Self::failed(&LoginError::new(UNEXPECTED_CALLBACK, "sign in again"))
    }

    pub(crate) fn failed(LoginError { reason, hint, .. }: &LoginError) -> Self {
        Self::new(400, "Not signed in", &format!("Sign-in failed: {reason}. Hint: {hint}."))
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
        let target = LoginTarget {
            server: "<b>".to_owned(),
            url: "https://mcp.example.com/".parse().unwrap(),
            account: Some("\"ann\" & '<i>'".to_owned()),
            oauth: mcp_workbench_settings::OAuthConfig::default(),
        };
        let html = Page::signed_in_at(&target).html;
        assert!(html.contains("Agent `&quot;ann&quot; &amp; &#39;&lt;i&gt;&#39;` is"), "{html}");
        assert!(html.contains("server `&lt;b&gt;` with"), "{html}");
    }
}
