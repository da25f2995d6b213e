//! Arrows between crates point inward only.
//!
//! Reads `cargo metadata`, the real graph, and compares it with the lists below. Rings 0, 1 and 2 take other people's
//! crates from a list of allowed ones, so a new dependency there is a decision in this file; what does input, output or
//! asynchronous work must not be reachable from them at all.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Violation;

/// What a crate of ours may use of ours, outside of its tests.
const ARROWS: [(&str, &[&str]); 17] = [
    ("orc-domain", &[]),
    ("orc-spec", &["orc-domain", "orc-policy"]),
    ("orc-policy", &["orc-domain"]),
    ("orc-engine", &["orc-domain"]),
    ("orc-ports", &["orc-domain"]),
    ("orc-store-sqlite", &["orc-domain", "orc-ports"]),
    ("orc-kernel", &[]),
    ("orc-process", &["orc-domain", "orc-kernel", "orc-ports"]),
    ("orc-worktree", &["orc-domain", "orc-ports", "orc-process"]),
    ("orc-adapters", &["orc-domain", "orc-ports"]),
    ("orc-gateway", &["orc-domain", "orc-ports"]),
    ("orc-harness", &["orc-domain", "orc-policy", "orc-ports", "orc-process"]),
    ("orc-notify", &["orc-domain", "orc-ports"]),
    ("orc-runtime", &["orc-domain", "orc-engine", "orc-ports"]),
    (
        "orc-cli",
        &[
            "orc-domain",
            "orc-spec",
            "orc-engine",
            "orc-ports",
            "orc-store-sqlite",
            "orc-process",
            "orc-adapters",
            "orc-gateway",
            "orc-harness",
            "orc-notify",
            "orc-policy",
            "orc-runtime",
            "orc-worktree",
        ],
    ),
    ("orc-testkit", &["orc-domain", "orc-engine", "orc-ports"]),
    ("xtask", &["orc-domain", "orc-spec", "orc-engine", "orc-ports", "orc-store-sqlite", "orc-testkit"]),
];

/// What tests of a crate may use of ours beside that and `orc-testkit`: who sends and who meters the same bytes are held
/// against each other.
const IN_TESTS: [(&str, &str); 1] = [("orc-harness", "orc-gateway")];

/// Crates of others that rings 0 to 2 may use.
const PURE: [(&str, &[&str]); 5] = [
    ("orc-domain", &["boon", "idna", "jiff", "petgraph", "serde", "serde_json", "sha2", "thiserror", "uuid"]),
    ("orc-spec", &["annotate-snippets", "granit-parser", "petgraph", "serde", "serde_json", "thiserror"]),
    ("orc-policy", &["serde", "serde_json", "sha2", "thiserror", "unicode-normalization"]),
    ("orc-engine", &["serde", "serde_json", "thiserror", "uuid"]),
    ("orc-ports", &["bytes", "futures-util", "serde", "serde_json", "thiserror"]),
];

/// Must not be reachable from rings 0 to 2 by any path.
const ACTING: [&str; 11] =
    ["tokio", "mio", "socket2", "rustix", "nix", "rusqlite", "sqlx", "sqlx-core", "libsqlite3-sys", "reqwest", "hyper"];

/// Crates of others that only some of ours may use outside of tests.
const RESERVED: [(&str, &[&str]); 5] = [
    ("anyhow", &["orc-cli", "xtask"]),
    ("clap", &["orc-cli", "xtask"]),
    ("rusqlite", &["orc-store-sqlite"]),
    ("sqlx", &["orc-store-sqlite"]),
    ("syn", &["xtask"]),
];

pub(super) fn check(metadata: &Value) -> Vec<Violation> {
    let graph = Graph::read(metadata);
    let mut violations = Vec::new();
    for (name, uses) in &graph.members {
        match ARROWS.iter().find(|(ours, _)| ours == name) {
            None => violations.push(Violation::new(
                &manifest(name),
                0,
                format!("crate `{name}` has no ring"),
                "add it to ARROWS in crates/xtask/src/tidy/arrows.rs and to docs/ARCHITECTURE.md",
            )),
            Some((_, allowed)) => violations.extend(graph.check_member(name, uses, allowed)),
        }
    }
    violations
}

fn manifest(name: &str) -> String {
    format!("crates/{name}/Cargo.toml")
}

#[derive(Default)]
struct Uses {
    normal: BTreeSet<String>,
    tests: BTreeSet<String>,
}

struct Graph {
    /// Our crates with the crates that they name.
    members: BTreeMap<String, Uses>,
    /// Every package's normal dependencies, as resolved.
    resolved: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    fn read(metadata: &Value) -> Self {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let members: BTreeSet<String> = list(&metadata["workspace_members"]).iter().map(text).collect();
        let mut names = BTreeMap::new();
        let mut uses_by_name = BTreeMap::new();
        for package in list(&metadata["packages"]) {
            names.insert(text(&package["id"]), text(&package["name"]));
            if members.contains(&text(&package["id"])) {
                let mut uses = Uses::default();
                for dependency in list(&package["dependencies"]) {
                    let test = dependency["kind"] == "dev";
                    let side = if test { &mut uses.tests } else { &mut uses.normal };
                    side.insert(text(&dependency["name"]));
                }
                uses_by_name.insert(text(&package["name"]), uses);
            }
        }
        let name_of = |id: &Value| names.get(id.as_str().unwrap_or_default()).cloned().unwrap_or_default();
        let mut resolved: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for node in list(&metadata["resolve"]["nodes"]) {
            let reached = resolved.entry(name_of(&node["id"])).or_default();
            for dependency in list(&node["deps"]) {
                if list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null()) {
                    reached.insert(name_of(&dependency["pkg"]));
                }
            }
        }
        Self { members: uses_by_name, resolved }
    }

    fn check_member(&self, name: &str, uses: &Uses, allowed: &[&str]) -> Vec<Violation> {
        let file = &manifest(name);
        let mut violations = Vec::new();
        let ours = |dependency: &&String| self.members.contains_key(*dependency);
        for dependency in uses.normal.iter().filter(ours).filter(|found| !allowed.contains(&found.as_str())) {
            let message = format!("`{name}` must not know `{dependency}`");
            violations.push(Violation::new(
                file,
                0,
                message,
                "arrows point inward; docs/ARCHITECTURE.md shows the rings",
            ));
        }
        for dependency in uses.tests.iter().filter(ours) {
            let is_allowed = allowed.contains(&dependency.as_str()) || IN_TESTS.contains(&(name, dependency));
            if !is_allowed && dependency != "orc-testkit" {
                let message = format!("tests of `{name}` must not know `{dependency}`");
                violations.push(Violation::new(
                    file,
                    0,
                    message,
                    "test it from outside: in tests/, or through orc-testkit",
                ));
            }
        }
        let others = uses.normal.iter().filter(|dependency| !ours(dependency));
        for dependency in others {
            if let Some((_, listed)) = PURE.iter().find(|(pure, _)| *pure == name)
                && !listed.contains(&dependency.as_str())
            {
                let hint =
                    "do it in an outer ring, or add it to PURE in crates/xtask/src/tidy/arrows.rs with its reason";
                violations.push(Violation::new(file, 0, format!("`{dependency}` is not for `{name}`"), hint));
            }
            if let Some((_, places)) = RESERVED.iter().find(|(reserved, _)| reserved == dependency)
                && !places.contains(&name)
            {
                let message = format!("`{dependency}` is only for {}", places.join(" and "));
                violations.push(Violation::new(file, 0, message, "use what that crate offers instead"));
            }
        }
        if PURE.iter().any(|(pure, _)| *pure == name) {
            for path in self.paths_to_acting(name) {
                let message = format!("`{name}` reaches `{}`", path.join(" -> "));
                violations.push(Violation::new(file, 0, message, "take a smaller dependency or fewer features"));
            }
        }
        violations
    }

    /// One path to each acting crate that can be reached over normal dependencies.
    fn paths_to_acting(&self, from: &str) -> Vec<Vec<String>> {
        let mut seen = BTreeSet::from([from.to_owned()]);
        let mut open = vec![Vec::new()];
        let mut found = Vec::new();
        while let Some(path) = open.pop() {
            let last = path.last().map_or(from, String::as_str);
            for next in self.resolved.get(last).into_iter().flatten() {
                if seen.insert(next.clone()) {
                    let mut longer = path.clone();
                    longer.push(next.clone());
                    if ACTING.contains(&next.as_str()) {
                        found.push(longer.clone());
                    }
                    open.push(longer);
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Metadata of packages given as (name, ours, normal dependencies, test dependencies).
    fn metadata(packages: &[(&str, bool, &[&str], &[&str])]) -> Value {
        let kind = |names: &[&str], kind: Value| -> Vec<Value> {
            names.iter().map(|name| json!({ "name": name, "kind": kind })).collect()
        };
        let deps = |names: &[&str], kind: Value| -> Vec<Value> {
            names.iter().map(|name| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] })).collect()
        };
        json!({
            "workspace_members": packages.iter().filter(|p| p.1).map(|p| p.0).collect::<Vec<_>>(),
            "packages": packages.iter().map(|p| {
                let dependencies = [kind(p.2, Value::Null), kind(p.3, json!("dev"))].concat();
                json!({ "id": p.0, "name": p.0, "dependencies": dependencies })
            }).collect::<Vec<_>>(),
            "resolve": { "nodes": packages.iter().map(|p| {
                let deps = [deps(p.2, Value::Null), deps(p.3, json!("dev"))].concat();
                json!({ "id": p.0, "deps": deps })
            }).collect::<Vec<_>>() },
        })
    }

    fn found(packages: &[(&str, bool, &[&str], &[&str])]) -> Vec<String> {
        check(&metadata(packages)).into_iter().map(|violation| violation.message).collect()
    }

    #[test]
    fn an_arrow_outward_is_reported() {
        let packages: [(&str, bool, &[&str], &[&str]); 3] = [
            ("orc-domain", true, &[], &[]),
            ("orc-engine", true, &["orc-domain", "orc-ports"], &[]),
            ("orc-ports", true, &["orc-domain"], &[]),
        ];
        assert_eq!(found(&packages), ["`orc-engine` must not know `orc-ports`"]);
    }

    #[test]
    fn tests_may_use_the_testkit_and_nothing_more() {
        let packages: [(&str, bool, &[&str], &[&str]); 4] = [
            ("orc-domain", true, &[], &[]),
            ("orc-engine", true, &["orc-domain"], &["orc-testkit", "orc-cli"]),
            ("orc-testkit", true, &[], &[]),
            ("orc-cli", true, &[], &[]),
        ];
        assert_eq!(found(&packages), ["tests of `orc-engine` must not know `orc-cli`"]);
    }

    #[test]
    fn a_pure_crate_takes_only_listed_crates_and_reaches_nothing_that_acts() {
        let packages: [(&str, bool, &[&str], &[&str]); 4] = [
            ("orc-domain", true, &["serde", "rand"], &["tokio"]),
            ("serde", false, &["mio"], &[]),
            ("rand", false, &[], &["tokio"]),
            ("mio", false, &[], &[]),
        ];
        assert_eq!(found(&packages), ["`rand` is not for `orc-domain`", "`orc-domain` reaches `serde -> mio`"]);
    }

    #[test]
    fn reserved_crates_and_unknown_members_are_reported() {
        let packages: [(&str, bool, &[&str], &[&str]); 2] =
            [("orc-runtime", true, &["anyhow"], &["clap"]), ("orc-new", true, &[], &[])];
        assert_eq!(found(&packages), ["crate `orc-new` has no ring", "`anyhow` is only for orc-cli and xtask"]);
    }
}
