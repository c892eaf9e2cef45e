//! The admin page: shows workbenches in the browser and acts on them.
//!
//! The static files contain no data and are served to any client that passes the `Origin` check.
//! Status goes to each page as a stream of events. Requests come as a POST with a token in a
//! header, so that other web pages can't forge them. The route decides the access level beforehand
//! ([`AccessLevel`](crate::auth::AccessLevel)): `serve --http` by its
//! configuration, `mcp-workbench dashboard` by its own token ([`standalone`]).

mod assets;
mod events;
pub(crate) mod page;
mod request;
pub(crate) mod routes;
pub(crate) mod standalone;
mod viewers;
pub(crate) mod workbenches;

#[cfg(test)]
mod tests;
