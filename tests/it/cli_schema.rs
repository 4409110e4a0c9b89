//! What `--json` says of runs, against docs/events.schema.json (S338: one JSON value a line).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::{Value, json};

use crate::cli_bin::{Desk, Ran, bakery};

const NAME: &str = "urn:milepost:events:1";

fn published() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/events.schema.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The schema, and the same one refusing every field that it does not list.
struct Schema {
    schemas: Schemas,
    published: SchemaIndex,
    strict: SchemaIndex,
}

impl Schema {
    fn new() -> Self {
        let mut strict = published();
        strict["$id"] = json!("urn:milepost:strict");
        close(&mut strict);
        let mut schemas = Schemas::new();
        let mut compiler = Compiler::new();
        compiler.add_resource(NAME, published()).unwrap();
        compiler
            .add_resource("urn:milepost:strict", strict)
            .unwrap();
        Self {
            published: compiler.compile(NAME, &mut schemas).unwrap(),
            strict: compiler
                .compile("urn:milepost:strict", &mut schemas)
                .unwrap(),
            schemas,
        }
    }

    fn takes(&self, value: &Value) {
        for schema in [self.published, self.strict] {
            let checked = self.schemas.validate(value, schema);
            checked.unwrap_or_else(|why| panic!("{value}\n{why:#}"));
        }
    }

    fn refuses(&self, value: &Value) {
        let checked = self.schemas.validate(value, self.published);
        assert!(checked.is_err(), "{value}");
    }

    /// Checks every line of a command on both channels, and gives the types of its output.
    fn check(&self, ran: &Ran) -> Vec<String> {
        for line in ran.err.lines() {
            self.takes(&serde_json::from_str(line).unwrap());
        }
        let values = ran.values();
        values.iter().for_each(|value| self.takes(value));
        let kind = |value: &Value| value["type"].as_str().unwrap().to_owned();
        values.iter().map(kind).collect()
    }
}

/// Lets no object have fields that are not listed.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(entries) => {
            if entries.contains_key("properties") {
                entries.insert("additionalProperties".to_owned(), json!(false));
            }
            entries.values_mut().for_each(close);
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

#[test]
fn every_line_of_runs_that_end_in_every_way_is_as_the_schema_says() {
    let schema = Schema::new();
    let desk = Desk::new();
    let mut seen = BTreeSet::new();
    let mut check = |words: &[&str], code: i32| {
        let ran = desk.run(&[words, &["--json"]].concat()).exits(code);
        let types = schema.check(&ran);
        seen.extend(types.iter().cloned());
        (ran, types)
    };
    let (_, types) = check(&["run", "count", "--thread", "t", "--run-id", "r"], 0);
    assert_eq!(types.first().unwrap(), "started");
    assert_eq!(types.last().unwrap(), "report");
    check(&["run", "count", "--thread", "t", "--run-id", "r"], 0);
    check(
        &["run", "count", "--thread", "limited", "--step-limit", "1"],
        4,
    );
    let late = ["--pace", "1s", "--deadline", "10ms"];
    check(
        &[&["run", "count", "--thread", "late"][..], &late].concat(),
        4,
    );
    fs::write(desk.path("block"), "").unwrap();
    let blocked = [
        "run",
        "count",
        "--thread",
        "failed",
        "--blocked-by",
        "block",
    ];
    let (failed, types) = check(&blocked, 1);
    assert!(failed.err.starts_with("{\"error\":"), "{}", failed.err);
    assert_eq!(types.last().unwrap(), "ended");
    check(&["resume", "failed"], 1);
    fs::remove_file(desk.path("block")).unwrap();
    check(&["resume", "failed"], 0);
    check(&["resume", "--all"], 0);
    let docs = bakery();
    let question = ["--question", "When is the bakery open?", "--docs", &docs];
    let research = [&["run", "research", "--thread", "research"][..], &question].concat();
    let killed = [&research[..], &["--crash-after", "analyse", "--json"]].concat();
    schema.check(&desk.run(&killed));
    check(&["resume", "research"], 0);
    for thread in ["t", "limited", "late", "failed", "research"] {
        let (events, _) = check(&["events", thread], 0);
        assert!(events.values().iter().all(|line| line["schema"] == 1));
    }
    let wrong = desk.run(&["events", "nosuch", "--json"]).exits(2);
    schema.check(&wrong);
    let wrong = desk.run(&["resume", "--nosuch", "--json"]).exits(2);
    schema.check(&wrong);
    // All but what no worked graph says; a test beside the code has a line of each kind.
    let all = [
        "committed",
        "ended",
        "report",
        "resumed",
        "started",
        "superstep_started",
        "task_failed",
        "task_finished",
        "task_started",
    ];
    assert_eq!(seen.iter().collect::<Vec<_>>(), all);
}

#[cfg(unix)]
#[test]
fn a_run_that_is_asked_to_stop_says_so_as_the_schema_says() {
    use std::io::{BufRead, BufReader, Read};

    let schema = Schema::new();
    let desk = Desk::new();
    let words = [
        "run", "count", "--to", "1000", "--pace", "50ms", "--thread", "t", "--json",
    ];
    let mut child = desk.start(&words);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut lines = String::new();
    out.read_line(&mut lines).unwrap();
    let pid = child.id().to_string();
    let kill = std::process::Command::new("kill")
        .args(["-INT", &pid])
        .status();
    assert!(kill.unwrap().success());
    out.read_to_string(&mut lines).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(6));
    let ran = Ran {
        code: Some(6),
        out: lines,
        err: String::new(),
    };
    schema.check(&ran);
    assert_eq!(ran.values().last().unwrap()["status"], "cancelled");
}

#[test]
fn the_schema_takes_new_fields_and_refuses_other_versions_types_and_holes() {
    let schema = Schema::new();
    let desk = Desk::new();
    let events = desk.run(&["run", "count", "--json"]).exits(0).values();
    for event in &events {
        let mut newer = event.clone();
        newer["more"] = json!("a field of a later program");
        assert!(schema.schemas.validate(&newer, schema.published).is_ok());
        assert!(schema.schemas.validate(&newer, schema.strict).is_err());
        for (field, value) in [("schema", json!(2)), ("type", json!("other"))] {
            let mut wrong = event.clone();
            wrong[field] = value;
            schema.refuses(&wrong);
        }
        for field in event.as_object().unwrap().keys() {
            let mut wrong = event.clone();
            wrong.as_object_mut().unwrap().remove(field);
            schema.refuses(&wrong);
        }
    }
    assert_eq!(published()["$id"], NAME);
}

#[test]
fn the_page_about_events_shows_a_valid_line_of_each_type() {
    let schema = Schema::new();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/events.md");
    let page = fs::read_to_string(path).unwrap();
    let lines = page.lines().filter(|line| line.starts_with("{\""));
    let mut shown = BTreeSet::new();
    for line in lines {
        let value: Value = serde_json::from_str(line).unwrap();
        schema.takes(&value);
        let kind = value["type"].as_str().unwrap_or("error");
        shown.insert(format!("#/$defs/{kind}"));
    }
    let known: BTreeSet<_> = published()["oneOf"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["$ref"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(shown, known);
}
