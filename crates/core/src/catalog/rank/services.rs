//! Well-known services that a query names but no indexed tool mentions.
//!
//! Without a GitHub server, a query for `github` still finds the nearest tools, such as a git
//! server's, so the agent should learn that the service is missing. A word counts as a service only
//! if it is in the list below, and as absent only if no tool's text has it. That makes the note
//! rare and mostly right.

use std::sync::LazyLock;

use foldhash::HashMap;

use crate::catalog::rank::tokenizer::identifiers;

const MAX_NAMED: usize = 3;

/// Each service with all its names. A capitalized name is also an ordinary word: it counts only if
/// the query capitalizes it too, other than at the start.
const SERVICES: &[&[&str]] = &[
    &["activecampaign"],
    &["adyen"],
    &["airbnb"],
    &["airtable"],
    &["algolia"],
    &["alipay"],
    &["amplitude analytics"],
    &["ansible"],
    &["apple notes"],
    &["apple reminders"],
    &["argocd", "argo cd"],
    &["arxiv"],
    &["asana"],
    &["auth0"],
    &["aws", "amazon"],
    &["azure"],
    &["bamboohr"],
    &["basecamp"],
    &["bigquery", "big query"],
    &["binance"],
    &["bitbucket"],
    &["bitwarden"],
    &["bluesky"],
    &["calendly"],
    &["canva"],
    &["circleci", "circle ci"],
    &["clickhouse"],
    &["clickup"],
    &["cloudflare"],
    &["coinbase"],
    &["coingecko"],
    &["confluence"],
    &["contentful"],
    &["databricks"],
    &["datadog"],
    &["deepl"],
    &["digitalocean", "digital ocean"],
    &["discord"],
    &["docusign"],
    &["doordash"],
    &["dropbox"],
    &["drupal"],
    &["dynamodb"],
    &["ebay"],
    &["elasticsearch", "opensearch", "Elastic"],
    &["etsy"],
    &["eventbrite"],
    &["evernote"],
    &["facebook", "Meta"],
    &["figma"],
    &["firebase", "firestore"],
    &["fitbit"],
    &["freshdesk"],
    &["gitea"],
    &["github"],
    &["gitlab"],
    &["gmail", "google mail"],
    &["google analytics"],
    &["google calendar", "gcal"],
    &["google cloud", "gcp"],
    &["google docs", "gdocs"],
    &["google drive", "gdrive"],
    &["google maps", "gmaps"],
    &["google sheets", "gsheets"],
    &["google tasks"],
    &["grafana"],
    &["hacker news", "hackernews"],
    &["heroku"],
    &["hetzner"],
    &["home assistant", "homeassistant", "hass"],
    &["hubspot"],
    &["hugging face", "huggingface"],
    &["influxdb"],
    &["instagram"],
    &["jenkins"],
    &["jira", "atlassian"],
    &["kafka"],
    &["klaviyo"],
    &["kubernetes", "k8s", "kubectl"],
    &["linkedin"],
    &["Linear"],
    &["mailchimp"],
    &["mailgun"],
    &["mastodon"],
    &["mattermost"],
    &["microsoft teams", "msteams", "Teams"],
    &["miro"],
    &["mixpanel"],
    &["monday.com", "Monday com"],
    &["mongodb", "mongo"],
    &["mysql", "mariadb"],
    &["neo4j"],
    &["netlify"],
    &["netflix"],
    &["new relic", "newrelic"],
    &["Notion"],
    &["obsidian"],
    &["okta"],
    &["onedrive"],
    &["onenote"],
    &["openai", "chatgpt"],
    &["openstreetmap", "OSM"],
    &["openweathermap", "openweather"],
    &["opsgenie"],
    &["pagerduty"],
    &["paypal"],
    &["Perplexity"],
    &["pinecone"],
    &["pinterest"],
    &["pipedrive"],
    &["postgres", "postgresql"],
    &["posthog"],
    &["pubmed"],
    &["qdrant"],
    &["quickbooks"],
    &["reddit"],
    &["redis"],
    &["redshift"],
    &["rocketchat", "rocket chat"],
    &["salesforce"],
    &["SAP"],
    &["sendgrid"],
    &["sentry"],
    &["servicenow"],
    &["sharepoint"],
    &["shopify"],
    &["shopware"],
    &["slack"],
    &["Snowflake"],
    &["sonarqube"],
    &["spotify"],
    &["splunk"],
    &["Square"],
    &["stackoverflow", "stack overflow"],
    &["strava"],
    &["stripe"],
    &["supabase"],
    &["telegram"],
    &["terraform"],
    &["tiktok"],
    &["todoist"],
    &["trello"],
    &["tumblr"],
    &["twilio"],
    &["twitch"],
    &["twitter"],
    &["typeform"],
    &["vercel"],
    &["webflow"],
    &["wechat"],
    &["whatsapp"],
    &["wikipedia"],
    &["wolfram", "wolframalpha"],
    &["woocommerce"],
    &["wordpress"],
    &["xero"],
    &["youtube"],
    &["zapier"],
    &["zendesk"],
    &["Zoom"],
    &["zotero"],
];

struct Name {
    service: usize,
    words: Vec<String>,
    /// `true` if it counts only when capitalized.
    is_word: bool,
}

static NAMES: LazyLock<HashMap<String, Vec<Name>>> = LazyLock::new(|| {
    let mut names: HashMap<String, Vec<Name>> = HashMap::default();
    for (service, aliases) in SERVICES.iter().enumerate() {
        for alias in *aliases {
            let words: Vec<_> = identifiers(alias).map(str::to_lowercase).collect();
            let is_word = alias.starts_with(char::is_uppercase);
            let Some(first) = words.first().cloned() else { continue };
            names.entry(first).or_default().push(Name { service, words, is_word });
        }
    }
    names
});

/// Returns the services that a query names and no text mentions, each once, in lowercase.
/// `is_known` returns `true` for a word of some tool's text.
pub(super) fn absent(query: &str, is_known: impl Fn(&str) -> bool) -> Vec<String> {
    let written: Vec<&str> = identifiers(query).collect();
    let words: Vec<String> = written.iter().map(|word| word.to_lowercase()).collect();
    let (mut absent, mut seen) = (Vec::new(), Vec::new());
    for (at, first) in words.iter().enumerate() {
        let here = NAMES.get(first).into_iter().flatten().filter(|name| {
            words[at..].starts_with(&name.words)
                && (!name.is_word || at > 0 && written[at].starts_with(char::is_uppercase))
        });
        for name in here {
            if !seen.contains(&name.service) && !is_here(name.service, &is_known) {
                absent.push(name.words.join(" "));
            }
            seen.push(name.service);
        }
    }
    absent
}

/// Returns the message that no server is about these services.
pub fn absent_services_message(services: &[String]) -> String {
    let named: Vec<_> =
        services.iter().take(MAX_NAMED).map(|service| format!("`{service}`")).collect();
    format!("no server here provides {}", named.join(" or "))
}

/// Returns `true` if the tools' texts have all words of one of the service's names.
fn is_here(service: usize, is_known: impl Fn(&str) -> bool) -> bool {
    let mut names = SERVICES[service].iter();
    names.any(|name| identifiers(name).all(|word| is_known(&word.to_lowercase())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn absent_of(query: &str, known: &[&str]) -> Vec<String> {
        absent(query, |word| known.contains(&word))
    }

    #[test]
    fn service_that_no_text_mentions_is_absent() {
        assert_eq!(absent_of("open GitHub issue", &["git", "issue"]), ["github"]);
        assert_eq!(absent_of("open GitHub issue on github", &["github"]), [""; 0]);
        assert_eq!(absent_of("move the card from trello to jira", &[]), ["trello", "jira"]);
    }

    #[test]
    fn service_is_present_under_any_of_its_names() {
        assert_eq!(absent_of("query postgres", &["postgresql"]), [""; 0]);
        assert_eq!(absent_of("upload to Google Drive", &["gdrive"]), [""; 0]);
        assert_eq!(absent_of("upload to google drive", &["google", "mail"]), ["google drive"]);
    }

    #[test]
    fn ambiguous_service_names_count_only_when_capitalized() {
        assert_eq!(absent_of("solve a linear equation", &[]), [""; 0]);
        assert_eq!(absent_of("Linear regression of prices", &[]), [""; 0]);
        assert_eq!(absent_of("create an issue in Linear", &[]), ["linear"]);
        assert_eq!(absent_of("the teams of the league", &[]), [""; 0]);
    }

    #[test]
    fn every_service_has_a_name() {
        assert!(
            SERVICES
                .iter()
                .all(|names| names.iter().all(|name| identifiers(name).next().is_some()))
        );
    }
}
