//! The page of faults must not rot: what it names exists, and what exists here it names.

use std::{fs, path::PathBuf};

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

/// The names of a file's tests: functions under an attribute that makes them one, in or out of `proptest!`. Other attributes
/// and comments may stand between.
fn tests(source: &str) -> impl Iterator<Item = &str> {
    let is_test = |line: &str| line == "#[test]" || line.starts_with("#[tokio::test");
    let mut is_next = false;
    source.lines().map(str::trim).filter_map(move |line| {
        let was_next = is_next;
        is_next = is_test(line) || (is_next && line.starts_with(['#', '/']));
        let (_, rest) = line.split_once("fn ").filter(|_| was_next && !is_next)?;
        rest.split_once('(').map(|(name, _)| name)
    })
}

#[test]
fn a_function_is_not_a_test() {
    let source = "
        fn helper() {}
        #[test]
        #[should_panic]
        fn first() {}
        fn not_any_more() {}
        #[tokio::test(flavor = \"multi_thread\")]
        // About it.
        async fn second() {}
    ";
    assert_eq!(tests(source).collect::<Vec<_>>(), ["first", "second"]);
}

#[test]
fn every_test_that_is_named_exists() {
    let page = page();
    let mut n_references = 0;
    for (path, name) in references(&page) {
        let file = root().join(path);
        let source = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(tests(&source).any(|test| test == name), "no test `{name}` in {path}");
        n_references += 1;
    }
    assert!(n_references > 100, "{n_references} tests: is the page still what it was?");
}

#[test]
fn every_fault_has_a_test() {
    let page = page();
    let rows = rows(&page);
    assert!(rows.len() > 60, "{} faults", rows.len());
    for row in rows {
        assert_eq!(row.len(), 4, "fault, wrong, right, test: {row:?}");
        assert!(references(row[3]).next().is_some(), "{} has no test", row[0]);
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
        let path = format!("tests/faults/{file}");
        for name in tests(&source) {
            assert!(named.contains(&(&*path, name)), "docs/faults.md does not name {path}::{name}");
        }
    }
}
