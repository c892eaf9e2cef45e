//! The address policy against SSRF: which addresses a server can lead OAuth requests to.
//!
//! The class of the server's own address is pinned when its name is first resolved. Afterwards its
//! URLs, redirects and metadata reach only addresses that are at most as private. The resolver of
//! each connection applies the policy, so there is no second lookup between check and connection.
//! With an HTTP proxy, the proxy resolves names; only literal addresses are checked then.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::net::lookup_host;
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout};
use url::{Host, Url};

/// How long to wait for the address of the server. Behind a proxy, there may be no DNS.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(3);
/// How long to wait after a failed lookup before the next one.
const LOOKUP_PAUSE: Duration = Duration::from_secs(30);
/// Maximum number of hosts that one server can name while the process runs.
const MAX_HOSTS: usize = 256;

/// The reach of an address, from public to forbidden. The order matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AddressClass {
    Public,
    /// 198.18.0.0/15. Transparent proxies map every name to an address in this range.
    Benchmarking,
    Private,
    Loopback,
    /// Never an authorization server: link-local (such as cloud metadata services), multicast,
    /// documentation, reserved and other special-purpose addresses (IANA registries, RFC 6890).
    Forbidden,
}

impl AddressClass {
    fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => Self::of_v4(v4),
            IpAddr::V6(v6) => Self::of_v6(v6),
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        match address.octets() {
            [127, ..] => Self::Loopback,
            [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => Self::Private,
            [198, 18 | 19, ..] => Self::Benchmarking,
            [0 | 224.., ..]
            | [169, 254, ..]
            | [192, 0, 0 | 2, _]
            | [192, 88, 99, _]
            | [198, 51, 100, _]
            | [203, 0, 113, _] => Self::Forbidden,
            _ => Self::Public,
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        let v4 = |high: u16, low: u16| {
            Self::of_v4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)))
        };
        match address.segments() {
            [0, 0, 0, 0, 0, 0, 0, 1] => Self::Loopback,
            // IPv4-mapped and IPv4-compatible addresses, NAT64 and 6to4.
            [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
            | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
            | [0x2002, high, low, ..] => v4(high, low),
            // NAT64 with a prefix of the local network, and unique local addresses.
            [0x64, 0xff9b, 1, ..] | [0xfc00..=0xfdff, ..] => Self::Private,
            // Teredo and other protocol assignments, and documentation.
            [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Self::Forbidden,
            // The only block of global unicast addresses.
            [0x2000..=0x3fff, ..] => Self::Public,
            _ => Self::Forbidden,
        }
    }

    /// Classifies a host without DNS. `None` for a name that has to be resolved.
    fn of_host(host: &Host<&str>) -> Option<Self> {
        match host {
            Host::Ipv4(address) => Some(Self::of((*address).into())),
            Host::Ipv6(address) => Some(Self::of((*address).into())),
            Host::Domain(name) => {
                let name = name.trim_end_matches('.').to_ascii_lowercase();
                let is_here = name == "localhost" || name.ends_with(".localhost");
                is_here.then_some(Self::Loopback)
            }
        }
    }
}

/// Returns `true` for `localhost` and loopback addresses, without DNS.
pub(crate) fn is_loopback(url: &Url) -> bool {
    url.host().is_some_and(|host| AddressClass::of_host(&host) == Some(AddressClass::Loopback))
}

/// The policy for the requests on behalf of one server.
pub(crate) struct AddressPolicy {
    server: Url,
    /// The class of the server. Unset until its host is resolved.
    class: OnceCell<AddressClass>,
    failed_at: Mutex<Option<Instant>>,
    /// Hosts of requests sent. All other names resolved are proxies, which the user has configured.
    asked: Mutex<HashSet<String>>,
}

impl AddressPolicy {
    pub(crate) fn new(server: &Url) -> Self {
        let class = server.host().as_ref().and_then(AddressClass::of_host);
        Self {
            server: server.clone(),
            class: OnceCell::new_with(class),
            failed_at: Mutex::default(),
            asked: Mutex::default(),
        }
    }

    pub(crate) fn server(&self) -> &Url {
        &self.server
    }

    /// Returns `true` if the user has configured this origin.
    pub(crate) fn is_own(&self, url: &Url) -> bool {
        url.origin() == self.server.origin()
    }

    /// Resolves the host of the server to pin its class. After a failure, the server counts as
    /// public until a later lookup succeeds.
    pub(crate) async fn pin(&self) {
        let host = self.server.host_str().unwrap_or_default();
        let look_up = async {
            if self.failed_at().is_some_and(|failed| failed.elapsed() < LOOKUP_PAUSE) {
                return Err(());
            }
            let found = timeout(LOOKUP_TIMEOUT, lookup_host((host, 0))).await;
            let found = found.ok().and_then(Result::ok).into_iter().flatten();
            // The lowest class: a hostile name can have private addresses beside public ones.
            let class = found.map(|address| AddressClass::of(address.ip())).min();
            class.ok_or_else(|| *self.failed_at() = Some(Instant::now()))
        };
        let _ = self.class.get_or_try_init(|| look_up).await;
    }

    /// Checks the host of a URL before a request, as far as that is possible without DNS.
    pub(crate) fn check_host(&self, url: &Url) -> Result<(), &'static str> {
        let class = url.host().as_ref().and_then(AddressClass::of_host);
        if self.is_own(url) || class.is_none_or(|class| self.allows(class, false)) {
            Ok(())
        } else {
            Err("is on a private network or at a reserved address")
        }
    }

    /// Applies the policy to this host whenever it is resolved.
    pub(crate) fn register_host(&self, url: &Url) -> Result<(), &'static str> {
        let Some(host) = url.host_str().map(str::to_ascii_lowercase) else { return Ok(()) };
        let mut asked = self.asked.lock();
        if asked.len() >= MAX_HOSTS && !asked.contains(&host) {
            return Err("is one host too many for this server");
        }
        asked.insert(host);
        Ok(())
    }

    /// Returns a resolver that drops forbidden addresses. `is_own`: for the server's own origin.
    pub(crate) fn resolver(self: &Arc<Self>, is_own: bool) -> Arc<dyn Resolve> {
        Arc::new(Resolver { policy: Arc::clone(self), is_own })
    }

    fn allows(&self, class: AddressClass, is_own: bool) -> bool {
        let server = self.class.get().copied().unwrap_or(AddressClass::Public);
        if is_own {
            return class <= server;
        }
        let is_name = self.server.host().is_some_and(|it| AddressClass::of_host(&it).is_none());
        // A public DNS name can resolve to loopback. Cap the class at private, so that its owner
        // can't send requests to loopback services.
        let most = if is_name { server.min(AddressClass::Private) } else { server };
        class <= most && class < AddressClass::Forbidden
    }

    fn allowed(&self, name: &str, mut found: Vec<SocketAddr>, is_own: bool) -> Vec<SocketAddr> {
        let asked = self.asked.lock();
        if asked.contains(&name.to_ascii_lowercase()) {
            found.retain(|address| self.allows(AddressClass::of(address.ip()), is_own));
        }
        found
    }

    fn failed_at(&self) -> parking_lot::MutexGuard<'_, Option<Instant>> {
        self.failed_at.lock()
    }
}

struct Resolver {
    policy: Arc<AddressPolicy>,
    is_own: bool,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (policy, is_own) = (Arc::clone(&self.policy), self.is_own);
        Box::pin(async move {
            let found = lookup_host((name.as_str(), 0)).await?.collect();
            let found = policy.allowed(name.as_str(), found, is_own);
            if !found.is_empty() {
                return Ok(Box::new(found.into_iter()) as Addrs);
            }
            let why = if is_own {
                "its address is now on a private network, but was public before; if you moved the \
                 server, restart"
            } else {
                "its address is on a private network or reserved, but the server's is not"
            };
            Err(why.into())
        })
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn address(text: &str) -> SocketAddr {
        SocketAddr::new(text.parse().unwrap(), 0)
    }

    /// A policy whose server, a DNS name, was first resolved to an address of this class.
    fn pinned(class: AddressClass) -> Arc<AddressPolicy> {
        let policy = AddressPolicy::new(&url("https://mcp.example.com/mcp"));
        policy.class.set(class).unwrap();
        policy.register_host(&url("https://mcp.example.com/mcp")).unwrap();
        policy.register_host(&url("https://AS.example.com/token")).unwrap();
        Arc::new(policy)
    }

    #[test]
    fn special_purpose_addresses_are_not_public() {
        let cases = [
            (AddressClass::Public, "1.1.1.1 100.63.255.255 100.128.0.0 172.15.0.1 192.0.1.1"),
            (AddressClass::Public, "192.167.1.1 198.17.0.1 203.0.114.1 223.255.255.255"),
            (AddressClass::Public, "2606:4700::1111 2a00:1450::1 2001:4860:4860::8888"),
            // The same through a mapping, NAT64 and 6to4.
            (AddressClass::Public, "::ffff:1.1.1.1 64:ff9b::1.1.1.1 2002:101:101::1"),
            (AddressClass::Benchmarking, "198.18.0.1 198.19.255.255 ::ffff:198.18.0.1"),
            (AddressClass::Private, "10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1"),
            (AddressClass::Private, "100.127.255.255 fc00::1 fd12:3456::1 64:ff9b:1::a00:1"),
            (AddressClass::Private, "::ffff:10.0.0.1 64:ff9b::a00:1 2002:c0a8:101::1 ::10.0.0.1"),
            (AddressClass::Loopback, "127.0.0.1 127.255.0.1 ::1 ::ffff:127.0.0.1 64:ff9b::7f00:1"),
            (AddressClass::Loopback, "2002:7f00:1::1 ::127.0.0.1"),
            (AddressClass::Forbidden, "0.0.0.0 0.1.2.3 169.254.169.254 192.0.0.8 192.0.2.1"),
            (AddressClass::Forbidden, "192.88.99.1 198.51.100.1 203.0.113.1 224.0.0.1 240.0.0.1"),
            (AddressClass::Forbidden, "255.255.255.255 239.255.255.250"),
            (AddressClass::Forbidden, ":: fe80::1 fec0::1 ff02::1 100::1 2001::1 2001:2::1"),
            (AddressClass::Forbidden, "2001:10::1 2001:20::1 2001:db8::1 3fff::1 5f00::1 4000::1"),
            (AddressClass::Forbidden, "::ffff:0:127.0.0.1 ::ffff:169.254.169.254 64:ff9b::a9fe:1"),
            // Teredo, with the loopback address as its obfuscated client.
            (AddressClass::Forbidden, "2001:0:4136:e378:8000:63bf:80ff:fffe"),
        ];
        for (class, addresses) in cases {
            for address in addresses.split(' ') {
                assert_eq!(AddressClass::of(address.parse().unwrap()), class, "{address}");
            }
        }
    }

    #[test]
    fn resolved_addresses_in_more_private_networks_are_dropped() {
        let found = || ["1.1.1.1", "198.18.0.1", "10.0.0.9", "127.0.0.1", "::1"].map(address);
        let up_to = |policy: &AddressPolicy, name: &str, is_own| {
            policy.allowed(name, found().to_vec(), is_own).len()
        };
        for (class, own, other) in [
            (AddressClass::Public, 1, 1),
            (AddressClass::Benchmarking, 2, 2),
            (AddressClass::Private, 3, 3),
            // Only the server itself, because the name's owner chose the address.
            (AddressClass::Loopback, 5, 3),
        ] {
            let policy = pinned(class);
            assert_eq!(up_to(&policy, "mcp.example.com", true), own, "{class:?}");
            assert_eq!(up_to(&policy, "mcp.example.com", false), other, "{class:?}");
            assert_eq!(up_to(&policy, "as.example.com", false), other, "{class:?}");
            // Proxies are configured by the user.
            assert_eq!(up_to(&policy, "proxy.example.com", false), 5, "{class:?}");
        }
        let policy = AddressPolicy::new(&url("http://localhost/mcp"));
        policy.register_host(&url("https://as.example.com/token")).unwrap();
        assert_eq!(up_to(&policy, "as.example.com", false), 5);
    }

    #[tokio::test]
    async fn class_is_pinned_at_the_first_successful_lookup() {
        let policy = pinned(AddressClass::Public);
        policy.pin().await;
        assert_eq!(policy.class.get(), Some(&AddressClass::Public));
        // A failed lookup pins nothing, and isn't repeated at once.
        let policy = AddressPolicy::new(&url("https://mcp.invalid/mcp"));
        policy.pin().await;
        assert_eq!(policy.class.get(), None);
        let failed = *policy.failed_at();
        policy.pin().await;
        assert!(failed.is_some() && *policy.failed_at() == failed);
        assert!(policy.check_host(&url("https://10.0.0.1/")).is_err());
    }

    #[test]
    fn number_of_hosts_is_bounded() {
        let policy = AddressPolicy::new(&url("https://mcp.example.com/mcp"));
        let host = |number: usize| url(&format!("https://as-{number}.example.com/"));
        for number in 0..MAX_HOSTS {
            policy.register_host(&host(number)).unwrap();
        }
        policy.register_host(&host(MAX_HOSTS)).unwrap_err();
        policy.register_host(&host(0)).unwrap();
    }
}
