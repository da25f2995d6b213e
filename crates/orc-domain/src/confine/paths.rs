//! Which paths of the machine a box may be given.
//!
//! What holds: a path is absolute or below `~/`, the home of whoever runs the orchestrator, and has one normal form, so that
//! texts can be compared. What holds keys, sockets or the kernel's own files cannot be given at all; what is hidden below a
//! path that is given stays hidden ([`HIDDEN`]).
//!
//! What it must never do: look at a file. Links, and what is really there, are judged where the box is made.

/// Where people and programs keep keys, and where the sockets of the machine are; with what they are. No box sees them,
/// whatever is written.
pub const HIDDEN: [(&str, &str); 23] = [
    ("~/.ssh", "keys for other machines"),
    ("~/.gnupg", "keys that sign and decrypt"),
    ("~/.aws", CLOUD),
    ("~/.azure", CLOUD),
    ("~/.config/gcloud", CLOUD),
    ("~/.kube", "credentials of clusters"),
    ("~/.docker", REGISTRY),
    ("~/.npmrc", REGISTRY),
    ("~/.pypirc", REGISTRY),
    ("~/.cargo/credentials", REGISTRY),
    ("~/.cargo/credentials.toml", REGISTRY),
    ("~/.config/gh", "credentials of GitHub"),
    ("~/.git-credentials", "credentials of git"),
    ("~/.netrc", "credentials of servers"),
    ("~/.password-store", "passwords"),
    ("~/.config/op", "passwords"),
    ("~/.claude", PROVIDER),
    ("~/.codex", PROVIDER),
    ("/etc/shadow", "passwords"),
    ("/etc/ssh", "keys of this machine"),
    ("/boot", "what this machine starts with"),
    ("/run", SOCKETS),
    ("/var/run", SOCKETS),
];
const CLOUD: &str = "credentials of a cloud";
const REGISTRY: &str = "credentials of registries";
const PROVIDER: &str = "credentials of a provider of models";
const SOCKETS: &str = "sockets of this machine, such as Docker's, that would open it";
/// Directories of the kernel, which every box has its own of.
const OF_KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];
/// The system's programs and their settings, which a box can read and nobody changes from within one.
const OF_SYSTEM: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc"];
/// Where homes usually are.
const HOMES: &str = "/home";
/// The home of root.
const OF_ROOT: &str = "/root";
/// Linux: `PATH_MAX`.
const MAX_BYTES: usize = 4096;
/// A path is quoted in errors up to here.
const QUOTED_CHARS: usize = 100;

/// Why a path cannot be given to a box.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PathError {
    /// It does not say where it begins.
    #[error("`{path}` is neither absolute nor below `~/`")]
    Relative {
        /// As written, shortened.
        path: String,
    },
    /// It goes up again.
    #[error("`{path}` goes up with `..`")]
    Up {
        /// As written, shortened.
        path: String,
    },
    /// Too long, or with characters that no path of a file has.
    #[error("`{path}` cannot be a path")]
    Malformed {
        /// As written, shortened.
        path: String,
    },
    /// Everything.
    #[error("`/` is the whole machine")]
    Root,
    /// All that somebody has.
    #[error("`{path}` is a whole home, with every key in it")]
    Home {
        /// In normal form.
        path: String,
    },
    /// The kernel's.
    #[error("`{path}` belongs to the kernel; a box has one of its own")]
    Kernel {
        /// In normal form.
        path: String,
    },
    /// It cannot be seen in any box.
    #[error("`{path}` is hidden from every box: `{hidden}` holds {what}")]
    Hidden {
        /// In normal form.
        path: String,
        /// The entry of [`HIDDEN`].
        hidden: &'static str,
        /// What it is.
        what: &'static str,
    },
    /// It can be read only.
    #[error("`{path}` belongs to the system, which is read-only in every box")]
    System {
        /// In normal form.
        path: String,
    },
}

/// The normal form of a path that a box may read: without `.`, repeated `/` and a `/` at the end.
///
/// # Errors
/// When no box may be given it.
pub fn parse(text: &str) -> Result<String, PathError> {
    let quoted = || text.chars().take(QUOTED_CHARS).flat_map(char::escape_debug).collect::<String>();
    if text.len() > MAX_BYTES || text.chars().any(char::is_control) {
        return Err(PathError::Malformed { path: quoted() });
    }
    let (start, rest) = match (text.strip_prefix('/'), text.strip_prefix("~/")) {
        (Some(rest), _) => ("/", rest),
        (_, Some(rest)) => ("~/", rest),
        _ if text == "~" => return Err(PathError::Home { path: text.to_owned() }),
        _ => return Err(PathError::Relative { path: quoted() }),
    };
    let parts: Vec<&str> = rest.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if parts.contains(&"..") {
        return Err(PathError::Up { path: quoted() });
    }
    if parts.is_empty() {
        return Err(if start == "/" { PathError::Root } else { PathError::Home { path: "~".to_owned() } });
    }
    let path = format!("{start}{}", parts.join("/"));
    if OF_KERNEL.iter().any(|kernel| covers(kernel, &path)) {
        return Err(PathError::Kernel { path });
    }
    if is_home(&path) {
        return Err(PathError::Home { path });
    }
    let below = below_home(&path).map(|below| format!("~/{below}"));
    let seen = below.as_ref().unwrap_or(&path);
    match HIDDEN.into_iter().find(|(hidden, _)| covers(hidden, seen)) {
        Some((hidden, what)) => Err(PathError::Hidden { path, hidden, what }),
        None => Ok(path),
    }
}

/// The same of a path that a box may change.
///
/// # Errors
/// When no box may be given it, or none may change it.
pub fn parse_writable(text: &str) -> Result<String, PathError> {
    let path = parse(text)?;
    if OF_SYSTEM.iter().any(|system| covers(system, &path)) { Err(PathError::System { path }) } else { Ok(path) }
}

/// Whether `path` is `above` or lies below it; both in normal form.
#[must_use]
pub fn covers(above: &str, path: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What is usually a home, or holds all of them.
fn is_home(path: &str) -> bool {
    path == OF_ROOT || path == HOMES || in_homes(path).is_some_and(|below| !below.contains('/'))
}

/// What a path is called from the home that it lies in, as far as its text tells.
fn below_home(path: &str) -> Option<&str> {
    let of_root = path.strip_prefix(OF_ROOT).and_then(|rest| rest.strip_prefix('/'));
    of_root.or_else(|| in_homes(path)?.split_once('/').map(|(_, below)| below))
}

fn in_homes(path: &str) -> Option<&str> {
    path.strip_prefix(HOMES)?.strip_prefix('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_form() {
        let cases = [
            ("/opt/tools", "/opt/tools"),
            ("//opt/./tools/", "/opt/tools"),
            ("~/.rustup", "~/.rustup"),
            ("~//.cargo/./bin/", "~/.cargo/bin"),
            ("/etc/hosts", "/etc/hosts"),
            ("/devel", "/devel"),
            ("/running", "/running"),
            ("~/.sshd", "~/.sshd"),
            ("~/.config", "~/.config"),
            ("~/a b", "~/a b"),
        ];
        for (text, wanted) in cases {
            assert_eq!(parse(text).as_deref(), Ok(wanted), "{text}");
            assert_eq!(parse(wanted).as_deref(), Ok(wanted), "a normal form is its own: {wanted}");
        }
        let in_home = format!("{HOMES}/a/src");
        assert_eq!(parse(&in_home), Ok(in_home));
    }

    #[test]
    fn what_no_box_may_be_given_is_refused_with_its_reason() {
        let cases = [
            ("", "`` is neither absolute nor below `~/`"),
            ("src", "`src` is neither"),
            ("~other/x", "`~other/x` is neither"),
            ("$HOME/x", "`$HOME/x` is neither"),
            ("/a/../etc", "`/a/../etc` goes up"),
            ("~/..", "`~/..` goes up"),
            ("/a\0b", "`/a\\0b` cannot be a path"),
            ("/", "`/` is the whole machine"),
            ("//.", "`/` is the whole machine"),
            ("~", "`~` is a whole home"),
            ("~/.", "`~` is a whole home"),
            ("/root/", "`/root` is a whole home"),
            ("/home", "`/home` is a whole home"),
            ("/proc/1/environ", "`/proc/1/environ` belongs to the kernel"),
            ("/sys", "`/sys` belongs to the kernel"),
            ("/dev/sda", "`/dev/sda` belongs to the kernel"),
            ("~/.ssh", "`~/.ssh` is hidden from every box: `~/.ssh` holds keys"),
            ("~/./.ssh/id_ed25519", "`~/.ssh/id_ed25519` is hidden"),
            ("/var/run/docker.sock", "`/var/run/docker.sock` is hidden from every box: `/var/run` holds sockets"),
            ("/run/user/1000/bus", "`/run/user/1000/bus` is hidden"),
        ];
        for (text, wanted) in cases {
            let told = parse(text).unwrap_err().to_string();
            assert!(told.starts_with(wanted), "{text}: {told}");
            assert_eq!(parse_writable(text), parse(text));
        }
        assert!(matches!(parse(&format!("{HOMES}/a")), Err(PathError::Home { .. })));
        for home in [format!("{HOMES}/a"), OF_ROOT.to_owned()] {
            let key = parse(&format!("{home}/.aws/credentials"));
            assert!(matches!(key, Err(PathError::Hidden { hidden: "~/.aws", .. })), "{key:?}");
        }
        assert!(matches!(parse(&format!("/{}", "x".repeat(MAX_BYTES))), Err(PathError::Malformed { .. })));
        for (hidden, _) in HIDDEN {
            assert!(parse(hidden).is_err() && parse(&format!("{hidden}/x")).is_err(), "{hidden}");
        }
    }

    #[test]
    fn the_system_is_read_only() {
        for path in ["/usr/local", "/etc", "/lib64/x"] {
            assert!(parse(path).is_ok());
            assert!(matches!(parse_writable(path), Err(PathError::System { .. })), "{path}");
        }
        assert_eq!(parse_writable("/var/cache/x/").as_deref(), Ok("/var/cache/x"));
    }

    #[test]
    fn a_path_covers_itself_and_what_lies_below() {
        let cases = [("/a", "/a", true), ("/a", "/a/b", true), ("/a", "/ab", false), ("~/a/b", "~/a", false)];
        for (above, path, wanted) in cases {
            assert_eq!(covers(above, path), wanted, "{above} {path}");
        }
    }
}
