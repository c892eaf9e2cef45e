//! The two spellings of keys, `camelCase` and `snake_case`.

/// Converts `allowed_servers` to `allowedServers`.
pub(crate) fn to_camel_case(key: &str) -> String {
    let mut parts = key.split('_');
    let mut camel = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut chars = part.chars();
        camel.extend(chars.next().into_iter().flat_map(char::to_uppercase).chain(chars));
    }
    camel
}

/// Converts `allowedServers` to `allowed_servers`.
pub(crate) fn to_snake_case(key: &str) -> String {
    let mut snake = String::with_capacity(key.len() + 4);
    for c in key.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}
