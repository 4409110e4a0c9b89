//! Lines of an export: what is read is written again as the same text.

use std::path::Path;

use milepost::store::ExportLine;

use crate::corpus::{keep, play};

#[test]
fn lines_of_an_export() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/lines.jsonl");
    let golden = std::fs::read_to_string(golden).unwrap();
    let lines: Vec<_> = golden
        .lines()
        .filter(|line| serde_json::from_str::<ExportLine>(line).is_ok())
        .enumerate()
        .map(|(number, line)| (format!("{number:02}.json"), line.as_bytes().to_vec()))
        .collect();
    assert!(lines.len() > 15, "{}", lines.len());
    keep("line", &lines);
    play("line", 12_000, |bytes| {
        match serde_json::from_slice::<ExportLine>(bytes) {
            Ok(line) => {
                let text = serde_json::to_vec(&line).unwrap();
                let again: ExportLine = serde_json::from_slice(&text).unwrap();
                assert_eq!(again, line);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    });
}
