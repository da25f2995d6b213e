//! Which hosts a box may reach: what an entry of `network:` means, and what becomes of a host or an address.
//!
//! Two questions, and a connection needs a yes to both. [`Rules::admit`]: is this host, as it was asked for, named by an
//! entry? [`Rules::admit_address`]: may the address that it resolves to be reached at all? The second is asked for every
//! address, because whoever owns a name decides what it resolves to.
//!
//! What holds: an entry means exactly one host, or what lies below one, and never more by spelling; both sides are compared
//! in one normal form (lower case, Punycode, no dot at the end, addresses as addresses). What hands out the keys of a
//! machine (metadata of clouds, link-local addresses) cannot be allowed at all.
//!
//! What it must never do: resolve a name. That, and the connection, is the proxy's (`egress` of orc-process).

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Ports of an entry that names none.
pub const DEFAULT_PORTS: [u16; 2] = [443, 80];
/// RFC 1035, 2.3.4.
const NAME_BYTES: usize = 253;
/// RFC 1035, 2.3.4.
const LABEL_BYTES: usize = 63;
/// An entry is quoted in errors up to here.
const QUOTED_CHARS: usize = 100;

/// Names under which clouds hand out credentials of the machine (documentation of Google, Amazon, Tencent and Equinix).
const METADATA_NAMES: [&str; 7] = [
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "instance-data",
    "instance-data.ec2.internal",
    "metadata.tencentyun.com",
    "metadata.platformequinix.com",
];

/// Addresses of the same that are not link-local: Alibaba, the agent of Azure, Oracle.
const METADATA_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(192, 0, 0, 192)];

/// Amazon, Google, Oracle, Scaleway.
const METADATA_V6: [Ipv6Addr; 4] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe),
    Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42),
];

/// A host in normal form.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Host {
    /// A name: lower case, Punycode, without a dot at the end; its last label is no number.
    Name(String),
    /// An address; one that stands for another (`::ffff:10.0.0.1`) is the other.
    Address(IpAddr),
}

/// Why a text is no host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HostError {
    /// Nothing there.
    #[error("the host is empty")]
    Empty,
    /// Not a name by the rules of DNS.
    #[error(
        "a host is made of labels of 1 to 63 letters, digits, `-` and `_` with dots between them, at most 253 characters"
    )]
    Name,
    /// Resolvers read such a name as an address in an old notation.
    #[error("a name does not end in a number, and an address has four numbers of 0 to 255 without leading zeros")]
    Number,
    /// Brackets that hold no IPv6 address, or one with a zone.
    #[error("`[...]` holds an IPv6 address without a zone, as in `[2001:4860::8888]`")]
    Bracket,
    /// Something that is no number of a port after the last colon.
    #[error("a port is a number from 1 to 65535; an IPv6 address stands in `[...]`")]
    Port,
}

impl Host {
    /// Reads a host without a port; an IPv6 address in brackets.
    ///
    /// # Errors
    /// When it is no host.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        if text.is_empty() {
            return Err(HostError::Empty);
        }
        if let Some(rest) = text.strip_prefix('[') {
            let inner = rest.strip_suffix(']').ok_or(HostError::Bracket)?;
            let address = inner.parse::<Ipv6Addr>().map_err(|_| HostError::Bracket)?;
            return Ok(Self::Address(address.to_canonical()));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Address(address.into()));
        }
        // Bounded before the work of normalising; Punycode is never shorter than a quarter of what it stands for.
        if text.len() > 4 * NAME_BYTES {
            return Err(HostError::Name);
        }
        let ascii = idna::domain_to_ascii(text).map_err(|_| HostError::Name)?;
        let name = ascii.strip_suffix('.').unwrap_or(&ascii);
        if !is_name(name) {
            return Err(HostError::Name);
        }
        // Digits of other scripts become an address only by normalising.
        if let Ok(address) = name.parse::<Ipv4Addr>() {
            return Ok(Self::Address(address.into()));
        }
        if name.rsplit('.').next().is_some_and(is_number) {
            return Err(HostError::Number);
        }
        Ok(Self::Name(name.to_owned()))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
        !label.is_empty()
            && label.len() <= LABEL_BYTES
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= NAME_BYTES && text.split('.').all(is_label)
}

/// What a resolver of the C library would take for a number: digits, or hexadecimal ones after `0x`.
fn is_number(label: &str) -> bool {
    let hexadecimal = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    label.bytes().all(|byte| byte.is_ascii_digit()) || label.strip_prefix("0x").is_some_and(hexadecimal)
}

/// Splits `host:port`, leaving brackets of IPv6 on the host. Without a colon after the host there is no port.
fn split_port(text: &str) -> Result<(&str, Option<u16>), HostError> {
    let after_bracket = text.rfind(']').map_or(0, |at| at + 1);
    let Some(colon) = text[after_bracket..].find(':').map(|at| at + after_bracket) else {
        return Ok((text, None));
    };
    let digits = &text[colon + 1..];
    let well_formed = !digits.is_empty() && digits.len() <= 5 && digits.bytes().all(|byte| byte.is_ascii_digit());
    match digits.parse::<u16>() {
        Ok(port) if well_formed && port > 0 => Ok((&text[..colon], Some(port))),
        _ => Err(HostError::Port),
    }
}

/// A host and port that somebody wants to reach.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Target {
    /// Which host.
    pub host: Host,
    /// Which port; never 0.
    pub port: u16,
}

impl Target {
    /// Reads `host`, `host:port`, `[v6]` or `[v6]:port`; `default` is the port of a text that names none.
    ///
    /// # Errors
    /// When it is no host, or names no port and there is no default.
    pub fn parse(text: &str, default: Option<u16>) -> Result<Self, HostError> {
        let (host, port) = split_port(text)?;
        let port = port.or(default).ok_or(HostError::Port)?;
        Ok(Self { host: Host::parse(host)?, port })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// An entry of `network:`.
///
/// `example.com` is that host on ports 443 and 80, `*.example.com` every host below it and not itself,
/// `example.com:8443` that port alone. An address is meant only by an entry that is that address.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Entry {
    host: Host,
    /// Whether it means what lies below `host` instead of it.
    below: bool,
    port: Option<u16>,
}

/// Why an entry of `network:` means nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EntryError {
    /// The host or port in it is not one.
    #[error("`{entry}` names no host")]
    Host {
        /// The entry, shortened.
        entry: String,
        /// Why.
        #[source]
        source: HostError,
    },
    /// A URL, or a part of one.
    #[error("`{entry}` is not a host; write the host alone, as in `example.com` or `example.com:8443`")]
    Url {
        /// The entry, shortened.
        entry: String,
    },
    /// A star elsewhere than in `*.` at the beginning.
    #[error("`{entry}`: a `*` stands only at the beginning, for all hosts below a name, as in `*.example.com`")]
    Star {
        /// The entry, shortened.
        entry: String,
    },
    /// All hosts below a name without a dot.
    #[error("`{entry}` allows every host below a top-level name; name the hosts, or write `*.example.com`")]
    Broad {
        /// The entry, shortened.
        entry: String,
    },
    /// It is refused whatever is allowed.
    #[error("`{entry}` cannot be allowed: {}", why.phrase())]
    Never {
        /// The entry, shortened.
        entry: String,
        /// What it is.
        why: Class,
    },
}

impl FromStr for Entry {
    type Err = EntryError;

    fn from_str(text: &str) -> Result<Self, EntryError> {
        let entry = || text.chars().take(QUOTED_CHARS).flat_map(char::escape_debug).collect::<String>();
        let host_error = |source| EntryError::Host { entry: entry(), source };
        if text.contains(['/', '@', '?', '#', '\\']) {
            return Err(EntryError::Url { entry: entry() });
        }
        let parsed = if let Ok(address) = text.parse::<Ipv6Addr>() {
            // Without brackets there is no place for a port, so this reading is the only one.
            Self { host: Host::Address(address.to_canonical()), below: false, port: None }
        } else {
            let (host, port) = split_port(text).map_err(host_error)?;
            let below = host.strip_prefix("*.");
            if below.unwrap_or(host).contains('*') {
                return Err(EntryError::Star { entry: entry() });
            }
            Self { host: Host::parse(below.unwrap_or(host)).map_err(host_error)?, below: below.is_some(), port }
        };
        match &parsed.host {
            Host::Address(_) if parsed.below => Err(EntryError::Star { entry: entry() }),
            Host::Address(address) if !Class::of(*address).may_be_allowed() => {
                Err(EntryError::Never { entry: entry(), why: Class::of(*address) })
            }
            Host::Name(name) if parsed.below && !name.contains('.') => Err(EntryError::Broad { entry: entry() }),
            Host::Name(name) if !parsed.below && is_metadata(name) => {
                Err(EntryError::Never { entry: entry(), why: Class::Metadata })
            }
            _ => Ok(parsed),
        }
    }
}

impl fmt::Display for Entry {
    /// In normal form; reads back as the same entry.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.below { "*." } else { "" }, self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl Entry {
    /// Whether it means this host on this port.
    #[must_use]
    pub fn allows(&self, target: &Target) -> bool {
        self.port.map_or_else(|| DEFAULT_PORTS.contains(&target.port), |port| port == target.port)
            && self.names(&target.host)
    }

    /// Whether everything that the other entry means is meant by this one too.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let ports = match (self.port, other.port) {
            (None, None) => true,
            (None, Some(port)) => DEFAULT_PORTS.contains(&port),
            (Some(ours), theirs) => theirs == Some(ours),
        };
        ports
            && if other.below {
                self.below && (self.host == other.host || self.names(&other.host))
            } else {
                self.names(&other.host)
            }
    }

    fn names(&self, host: &Host) -> bool {
        match (&self.host, host) {
            (Host::Name(ours), Host::Name(theirs)) if self.below => {
                theirs.strip_suffix(ours.as_str()).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            }
            (ours, theirs) => !self.below && ours == theirs,
        }
    }
}

fn is_metadata(name: &str) -> bool {
    METADATA_NAMES.contains(&name)
}

/// What an address is, as far as it decides who may reach it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// An address of the internet.
    Public,
    /// A private network.
    Private,
    /// This machine.
    Loopback,
    /// This cable; where most clouds have their metadata.
    LinkLocal,
    /// The metadata of a cloud: credentials of the machine.
    Metadata,
    /// No address, which the system takes for this machine.
    Unspecified,
    /// Many machines.
    Multicast,
    /// All machines of a network.
    Broadcast,
    /// Set aside: documentation, tests, the future.
    Reserved,
}

impl Class {
    /// Judges an address (registries of special-purpose addresses, RFC 6890). One that carries an IPv4 address within it
    /// (mapped, compatible, NAT64, 6to4) is what that is, unless it is something worse itself.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => Self::of_v6(address),
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        if METADATA_V4.contains(&address) {
            return Self::Metadata;
        }
        match address.octets() {
            [0, ..] => Self::Unspecified,
            [127, ..] => Self::Loopback,
            [169, 254, ..] => Self::LinkLocal,
            [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] | [198, 18..=19, ..] => Self::Private,
            [224..=239, ..] => Self::Multicast,
            [255, 255, 255, 255] => Self::Broadcast,
            [240..=255, ..] | [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 51, 100, _] | [203, 0, 113, _] => {
                Self::Reserved
            }
            _ => Self::Public,
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        if METADATA_V6.contains(&address) {
            return Self::Metadata;
        }
        let carried = |high: u16, low: u16| {
            let [a, b] = high.to_be_bytes();
            let [c, d] = low.to_be_bytes();
            Self::of_v4(Ipv4Addr::new(a, b, c, d))
        };
        match address.segments() {
            [0, 0, 0, 0, 0, 0, 0, 0] => Self::Unspecified,
            [0, 0, 0, 0, 0, 0, 0, 1] => Self::Loopback,
            // Compatible, mapped and translated (SIIT) addresses.
            [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => carried(high, low),
            [0x64, 0xff9b, 0, 0, 0, 0, high, low] => carried(high, low),
            // NAT64 of one's own network: where the IPv4 address is in it is not to be known.
            [0x64, 0xff9b, 1, ..] => Self::Private,
            [0x2002, high, low, ..] => carried(high, low),
            [0xfe80..=0xfebf, ..] => Self::LinkLocal,
            [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => Self::Private,
            [0xff00..=0xffff, ..] => Self::Multicast,
            // Teredo (2001::/32) and its neighbours, documentation, discard.
            [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] | [0x100, 0, 0, 0, ..] => {
                Self::Reserved
            }
            [0x2000..=0x3fff, ..] => Self::Public,
            _ => Self::Reserved,
        }
    }

    /// Whether an entry that is the address allows it. All others are refused whatever is allowed.
    #[must_use]
    pub const fn may_be_allowed(self) -> bool {
        matches!(self, Self::Public | Self::Private | Self::Loopback)
    }

    /// What it is, for people.
    #[must_use]
    pub const fn phrase(self) -> &'static str {
        match self {
            Self::Public => "an address of the internet",
            Self::Private => "an address of a private network",
            Self::Loopback => "an address of this machine",
            Self::LinkLocal => "a link-local address, where machines have their metadata",
            Self::Metadata => "the metadata of a cloud, which holds credentials of this machine",
            Self::Unspecified => "the unspecified address",
            Self::Multicast => "a multicast address",
            Self::Broadcast => "a broadcast address",
            Self::Reserved => "an address that is set aside",
        }
    }
}

/// What a box may reach.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rules {
    entries: Vec<Entry>,
    allow_private: bool,
}

/// Why a host is not reached.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Refusal {
    /// No entry names it.
    NotListed,
    /// An entry names it, for other ports.
    Port,
    /// What it is cannot be allowed at all.
    Never(Class),
    /// It is, or resolves to, an address that an entry must name as an address.
    Inside(Class, IpAddr),
}

impl Rules {
    /// Reads the entries of `network:`. With `allow_private`, names may resolve to private addresses and to this machine.
    ///
    /// # Errors
    /// The first entry that means nothing.
    pub fn compile(network: &BTreeSet<String>, allow_private: bool) -> Result<Self, EntryError> {
        let entries = network.iter().map(|entry| entry.parse()).collect::<Result<_, _>>()?;
        Ok(Self { entries, allow_private })
    }

    /// Whether the host may be looked up. A name that may not must not be: a look-up alone carries data out.
    ///
    /// # Errors
    /// Why not.
    pub fn admit(&self, target: &Target) -> Result<(), Refusal> {
        match &target.host {
            Host::Name(name) if is_metadata(name) => return Err(Refusal::Never(Class::Metadata)),
            Host::Address(address) if !Class::of(*address).may_be_allowed() => {
                return Err(Refusal::Never(Class::of(*address)));
            }
            _ => {}
        }
        if self.entries.iter().any(|entry| entry.allows(target)) {
            Ok(())
        } else if self.entries.iter().any(|entry| entry.names(&target.host)) {
            Err(Refusal::Port)
        } else {
            Err(Refusal::NotListed)
        }
    }

    /// Whether an admitted host may be reached at this address.
    ///
    /// # Errors
    /// Why not.
    pub fn admit_address(&self, address: IpAddr, port: u16) -> Result<(), Refusal> {
        let class = Class::of(address);
        if !class.may_be_allowed() {
            return Err(Refusal::Never(class));
        }
        let listed = || {
            let target = Target { host: Host::Address(address.to_canonical()), port };
            self.entries.iter().any(|entry| entry.allows(&target))
        };
        if class == Class::Public || self.allow_private || listed() {
            Ok(())
        } else {
            Err(Refusal::Inside(class, address.to_canonical()))
        }
    }
}

impl Refusal {
    /// The reason in a few words, without the host.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::NotListed => "no entry of `network` names it".to_owned(),
            Self::Port => "`network` names it for other ports".to_owned(),
            Self::Never(class) => class.phrase().to_owned(),
            Self::Inside(class, address) => format!("{address} is {}", class.phrase()),
        }
    }

    /// What would allow it.
    #[must_use]
    pub fn remedy(&self, target: &Target) -> String {
        let entry = |host: &Host| {
            let port = Some(target.port).filter(|port| !DEFAULT_PORTS.contains(port));
            Entry { host: host.clone(), below: false, port }
        };
        let add = |entry: Entry| {
            format!("To allow it, add `{entry}` to `network` of `box` in the pipeline, the step or the profile.")
        };
        match self {
            Self::NotListed => add(entry(&target.host)),
            Self::Port => add(Entry { host: target.host.clone(), below: false, port: Some(target.port) }),
            Self::Never(_) => "It cannot be allowed.".to_owned(),
            Self::Inside(_, address) => add(entry(&Host::Address(*address))),
        }
    }
}

#[cfg(test)]
mod tests;
