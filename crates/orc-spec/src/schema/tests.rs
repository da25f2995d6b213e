use super::*;

fn properties(schema: &Value) -> Vec<&str> {
    schema["properties"].as_object().unwrap().keys().map(String::as_str).collect()
}

fn sorted(table: &'static Table) -> Vec<&'static str> {
    let mut names: Vec<&str> = table.keys.iter().map(|key| key.name).collect();
    names.sort_unstable();
    names
}

#[test]
fn the_schema_has_exactly_the_keys_of_the_tables() {
    let schema = pipeline_schema();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(properties(&schema), sorted(&keys::PIPELINE));
    assert_eq!(schema["properties"]["steps"]["additionalProperties"]["$ref"], "#/$defs/step");
    let steps = &schema["$defs"]["step"];
    assert_eq!(steps["properties"]["repeat"]["properties"]["steps"]["additionalProperties"]["$ref"], "#/$defs/step");
    assert_eq!(properties(steps), sorted(&keys::STEP));
    assert_eq!(properties(&steps["properties"]["retry"]), sorted(&keys::RETRY));
    assert_eq!(properties(&settings_schema()), sorted(&keys::SETTINGS));
    assert_eq!(schema["required"], json!(["steps"]));
    assert_eq!(schema["additionalProperties"], false);
    let goal = &steps["properties"]["goal"];
    assert_eq!(goal["not"], json!({}));
    assert!(goal["description"].as_str().unwrap().ends_with("Not available yet."));
    let [words, map] = schema["properties"]["worktree"]["anyOf"].as_array().unwrap().as_slice() else {
        panic!("two forms")
    };
    assert_eq!(words["enum"], json!(keys::WORKTREES));
    assert_eq!(properties(map), sorted(&keys::WORKTREE));
    assert_eq!(properties(&map["properties"]["repositories"]["items"]["anyOf"][1]), sorted(&keys::REPOSITORY));
    assert_eq!(properties(&steps["properties"]["box"]), sorted(&keys::BOX));
    assert_eq!(schema["properties"]["box"]["properties"]["read"]["items"]["type"][0], "string");
}

#[test]
fn tables_have_no_key_twice_and_document_every_key() {
    for (place, table) in keys::tables() {
        let mut names = sorted(table);
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count, "{place}");
        for key in table.keys {
            assert!(key.doc.ends_with('.') && key.doc.len() > 10, "{place}: {}", key.name);
            let advised = table.foreign.iter().any(|(foreign, _)| *foreign == key.name);
            assert!(!advised, "{place}: {} is a key and a word of others", key.name);
        }
        assert!(table.required.iter().all(|name| table.key(name).is_some()), "{place}");
    }
    let kinds = keys::STEP_KINDS.iter().all(|kind| keys::STEP.key(kind).is_some());
    assert!(kinds, "every kind of step is a key");
}
