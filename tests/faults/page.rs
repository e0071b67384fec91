//! The page of faults must not rot: what it names exists, and what exists here it names.

use std::{fs, path::PathBuf};

/// What a line may say instead of naming a test.
const REASONS: [&str; 2] = ["cannot occur", "waits for"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn page() -> String {
    fs::read_to_string(root().join("docs/faults.md")).unwrap()
}

/// The cells of each line of the page's tables, without heads and rules.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let lines = page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let rows = lines.map(|line| line.split(" | ").collect::<Vec<_>>());
    rows.filter(|row| !["fault", "---"].contains(&row[0])).collect()
}

/// Every `path.rs::name` in backticks: file and function.
fn references(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split('`').skip(1).step_by(2).filter_map(|code| {
        let (path, name) = code.split_once(".rs::")?;
        Some((&code[..path.len() + 3], name))
    })
}

#[test]
fn every_test_that_is_named_exists() {
    let page = page();
    let mut n_references = 0;
    for (path, name) in references(&page) {
        let file = root().join(path);
        let source = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(source.contains(&format!("fn {name}(")), "no `fn {name}` in {path}");
        n_references += 1;
    }
    assert!(n_references > 100, "{n_references} tests: is the page still what it was?");
}

#[test]
fn every_fault_has_a_test_or_a_reason() {
    let page = page();
    let rows = rows(&page);
    assert!(rows.len() > 60, "{} faults", rows.len());
    for row in rows {
        assert_eq!(row.len(), 4, "fault, wrong, right, test: {row:?}");
        let last = row[3];
        let has_reason = REASONS.iter().any(|reason| last.contains(reason));
        assert!(has_reason || references(last).next().is_some(), "{} has neither a test nor a reason", row[0]);
    }
}

#[test]
fn every_test_of_this_class_is_on_the_page() {
    let page = page();
    let named: Vec<_> = references(&page).collect();
    for entry in fs::read_dir(root().join("tests/faults")).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap().to_owned();
        let source = fs::read_to_string(&path).unwrap();
        if ["page.rs", "soak.rs"].contains(&&*file) {
            continue;
        }
        let lines: Vec<&str> = source.lines().collect();
        let is_test = |line: &str| line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        for pair in lines.windows(2).filter(|pair| is_test(pair[0])) {
            let name =
                pair[1].split_once("fn ").and_then(|(_, rest)| rest.split_once('(')).map(|(name, _)| name).unwrap();
            let path = format!("tests/faults/{file}");
            assert!(named.contains(&(&*path, name)), "docs/faults.md does not name {path}::{name}");
        }
    }
}
