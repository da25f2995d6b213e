//! Tools that take a path or an address.

use serde_json::Value;

use super::{Access, Family, Reach, Touch, View};
use crate::path::Around;

/// Names under which tools of others take a path.
const PATHS: [&str; 12] = [
    "file_path",
    "path",
    "notebook_path",
    "file",
    "filename",
    "filepath",
    "directory",
    "dir",
    "folder",
    "source",
    "destination",
    "root",
];
/// Names under which they take an address.
const ADDRESSES: [&str; 5] = ["url", "uri", "endpoint", "href", "address"];

pub(super) fn read(view: &mut View, input: &Value, around: &Around) {
    let path = ["file_path", "notebook_path", "path"].iter().find_map(|name| input.get(*name).and_then(Value::as_str));
    let search = matches!(view.tool.as_str(), "Grep" | "Glob");
    let path = match path {
        Some(path) => path,
        None if search => ".",
        None => {
            view.unread = Some("it names no file".to_owned());
            return;
        }
    };
    if path.contains('\0') {
        view.unread = Some("the path has a NUL in it".to_owned());
    }
    let access = if view.family == Family::Edits { Access::Write } else { Access::Read };
    let mut touch = Touch { access, path: around.path(path), certain: true, redirect: false, below: search };
    if view.tool == "Glob" {
        // A pattern of its own may lead away from the directory.
        if let Some(pattern) = input.get("pattern").and_then(Value::as_str)
            && (pattern.starts_with(['/', '~']) || pattern.split('/').any(|part| part == ".."))
        {
            let glob = crate::glob::Glob::of_path(pattern);
            touch.path = around.path_from(&around.cwd, &glob, pattern);
        }
    }
    view.touches.push(touch);
}

pub(super) fn web(view: &mut View, input: &Value) {
    let url = input.get("url").and_then(Value::as_str).unwrap_or_default();
    let host = host(url);
    if host.is_none() {
        view.unread = Some("the address names no host".to_owned());
    }
    view.reaches.push(Reach { host });
}

/// A tool of a server, or one that is not known: what looks like a path may be read and written.
pub(super) fn named(view: &mut View, input: &Value, around: &Around) {
    let Some(input) = input.as_object() else { return };
    for (name, value) in input {
        let Some(text) = value.as_str() else { continue };
        let name = name.to_ascii_lowercase();
        if ADDRESSES.contains(&name.as_str()) {
            view.reaches.push(Reach { host: host(text) });
        }
        if PATHS.contains(&name.as_str()) && !text.is_empty() {
            for access in [Access::Read, Access::Write] {
                let path = around.path(text.strip_prefix("file://").unwrap_or(text));
                view.touches.push(Touch { access, path, certain: false, redirect: false, below: false });
            }
        }
    }
}

/// The host of an address, without what stands before and behind it.
#[must_use]
pub(super) fn host(address: &str) -> Option<String> {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    // A browser takes `\` for `/`.
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(host, _)| host)?,
        None => host.split_once(':').map_or(host, |(host, _)| host),
    };
    let host = host.trim_end_matches('.').to_lowercase();
    let plain = !host.is_empty()
        && !host.chars().any(|letter| letter.is_whitespace() || letter.is_control() || "<>\"'`{}|^%*".contains(letter));
    plain.then_some(host)
}

#[cfg(test)]
mod tests {
    use super::host;

    #[test]
    fn hosts_are_found() {
        for (address, expected) in [
            ("https://a.example.com/x", Some("a.example.com")),
            ("https://docs.rs@evil.test/x", Some("evil.test")),
            ("http://EXAMPLE.org.:80?x", Some("example.org")),
            ("https://good.test\\@evil.test/", Some("good.test")),
            ("http://[::1]:8/", Some("::1")),
            ("", None),
            ("https:///x", None),
            ("https://a b/", None),
        ] {
            assert_eq!(host(address).as_deref(), expected, "{address}");
        }
    }
}
