//! Generated regions of a Markdown file, as pure functions over its text.
//!
//! A region is the text between two markers. Each marker is alone on its line and not indented:
//!
//! ```text
//! <!-- generated: NAME -->
//! …
//! <!-- /generated -->
//! ```

use std::ops::Range;

const OPEN: &str = "<!-- generated:";
const CLOSE: &str = "<!-- /generated -->";

/// One region of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Region<'a> {
    pub(crate) name: &'a str,
    /// The line of the opening marker, counted from one.
    pub(crate) line: usize,
    /// The bytes between the two markers' lines.
    pub(crate) body: Range<usize>,
}

/// A misplaced or unknown marker.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) line: usize,
    pub(crate) message: String,
}

/// The first difference between a region's text and the expected text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference<'a> {
    pub(crate) line: usize,
    pub(crate) found: &'a str,
    pub(crate) expected: &'a str,
}

/// Finds the regions of `text`, in order. Only names in `known` may be used.
pub(crate) fn parse<'a>(text: &'a str, known: &[&str]) -> Result<Vec<Region<'a>>, Fault> {
    let mut regions = Vec::new();
    let mut open: Option<Region<'a>> = None;
    let mut start = 0;
    for (line, content) in (1..).zip(text.split_inclusive('\n')) {
        let end = start + content.len();
        match (marker(content), open.take()) {
            (None, unchanged) => open = unchanged,
            (Some(Marker::Open(name)), None) => {
                check_known(name, known, line)?;
                open = Some(Region { name, line, body: end..end });
            }
            (Some(Marker::Open(_)), Some(outer)) => return Err(not_closed(&outer)),
            (Some(Marker::Close), Some(region)) => {
                let body = region.body.start..start;
                regions.push(Region { body, ..region });
            }
            (Some(Marker::Close), None) => {
                let message = "closes a generated region where none is open".to_owned();
                return Err(Fault { line, message });
            }
        }
        start = end;
    }
    match open {
        Some(region) => Err(not_closed(&region)),
        None => Ok(regions),
    }
}

/// Puts `generate(name)` between the markers of each region; the rest of `text` stays.
///
/// `regions` must be the result of [`parse`] for the same text.
pub(crate) fn fill(
    text: &str,
    regions: &[Region<'_>],
    generate: impl Fn(&str) -> String,
) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut kept = 0;
    for region in regions {
        filled.push_str(&text[kept..region.body.start]);
        filled.push_str(&normal(&generate(region.name)));
        kept = region.body.end;
    }
    filled + &text[kept..]
}

/// The first line of `region` that is not as in `generated`; `None` when the region is fresh.
pub(crate) fn difference<'a>(
    text: &'a str,
    region: &Region<'_>,
    generated: &'a str,
) -> Option<Difference<'a>> {
    let body = &text[region.body.clone()];
    if body == normal(generated) {
        return None;
    }
    let mut found = body.lines();
    let mut expected = generated.trim().lines().map(str::trim_end);
    for line in region.line + 1.. {
        match (found.next(), expected.next()) {
            (Some(found), Some(expected)) if found == expected => {}
            (found, expected) => {
                let [found, expected] = [found, expected].map(|side| side.unwrap_or(NOTHING));
                return Some(Difference { line, found, expected });
            }
        }
    }
    None
}

/// The text in a [`Difference`] for the end of the region.
const NOTHING: &str = "(end of region)";

enum Marker<'a> {
    Open(&'a str),
    Close,
}

fn marker(line: &str) -> Option<Marker<'_>> {
    let line = line.trim_end();
    if line == CLOSE {
        return Some(Marker::Close);
    }
    let name = line.strip_prefix(OPEN)?.strip_suffix("-->")?;
    Some(Marker::Open(name.trim()))
}

fn check_known(name: &str, known: &[&str], line: usize) -> Result<(), Fault> {
    if known.contains(&name) {
        return Ok(());
    }
    let known = known.join("`, `");
    let message = format!("nothing generates a region `{name}`; there are: `{known}`");
    Err(Fault { line, message })
}

fn not_closed(region: &Region<'_>) -> Fault {
    let message = format!("generated region `{}` is opened and not closed", region.name);
    Fault { line: region.line, message }
}

/// Generated text as a file has it: no blank lines at the edges, no blanks at the end of a line.
fn normal(generated: &str) -> String {
    generated.trim().lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::{Difference, difference, fill, parse};

    const KNOWN: &[&str] = &["one", "two"];

    fn generate(name: &str) -> String {
        format!("\n| {name} |  \n\n|---|\n\n")
    }

    fn check(text: &str, expected: Expect) {
        expected.assert_eq(&match parse(text, KNOWN) {
            Ok(regions) => fill(text, &regions, generate),
            Err(fault) => format!("line {}: {}", fault.line, fault.message),
        });
    }

    fn check_difference(text: &str, expected: Expect) {
        let regions = parse(text, KNOWN).unwrap();
        expected.assert_eq(&match difference(text, &regions[0], &generate(regions[0].name)) {
            Some(Difference { line, found, expected }) => {
                format!("line {line}: found `{found}`, expected `{expected}`")
            }
            None => "fresh".to_owned(),
        });
    }

    #[test]
    fn text_without_regions_is_kept() {
        check("# Title\n\nNo newline at the end", expect!["# Title\n\nNo newline at the end"]);
        check("", expect![""]);
    }

    #[test]
    fn regions_are_replaced_and_the_rest_is_kept() {
        check(
            "a\n<!-- generated: one -->\nold\n<!-- /generated -->\nb\n\
             <!-- generated: two -->\n<!-- /generated -->",
            expect![[r#"
                a
                <!-- generated: one -->
                | one |

                |---|
                <!-- /generated -->
                b
                <!-- generated: two -->
                | two |

                |---|
                <!-- /generated -->"#]],
        );
    }

    #[test]
    fn filling_twice_changes_nothing() {
        let text = "<!-- generated: one -->\n<!-- /generated -->\n";
        let once = fill(text, &parse(text, KNOWN).unwrap(), generate);
        let twice = fill(&once, &parse(&once, KNOWN).unwrap(), generate);
        assert_eq!(once, twice);
    }

    #[test]
    fn markers_stand_alone_and_are_not_indented() {
        check(
            "    <!-- generated: one -->\nWrite `<!-- /generated -->` to close.\n",
            expect![[r#"
                    <!-- generated: one -->
                Write `<!-- /generated -->` to close.
            "#]],
        );
    }

    #[test]
    fn open_regions_are_refused() {
        check(
            "a\n<!-- generated: one -->\nb\n",
            expect!["line 2: generated region `one` is opened and not closed"],
        );
        check(
            "a\n<!-- generated: one -->\n<!-- generated: two -->\n<!-- /generated -->\n",
            expect!["line 2: generated region `one` is opened and not closed"],
        );
    }

    #[test]
    fn stray_ends_are_refused() {
        check(
            "a\n\n<!-- /generated -->\n",
            expect!["line 3: closes a generated region where none is open"],
        );
    }

    #[test]
    fn unknown_names_are_refused() {
        check(
            "<!-- generated: three -->\n<!-- /generated -->\n",
            expect!["line 1: nothing generates a region `three`; there are: `one`, `two`"],
        );
        check(
            "<!-- generated: -->\n<!-- /generated -->\n",
            expect!["line 1: nothing generates a region ``; there are: `one`, `two`"],
        );
    }

    #[test]
    fn a_fresh_region_has_no_difference() {
        check_difference(
            "a\n<!-- generated: one -->\n| one |\n\n|---|\n<!-- /generated -->\n",
            expect!["fresh"],
        );
    }

    #[test]
    fn the_first_line_that_differs_is_named() {
        check_difference(
            "a\n<!-- generated: one -->\n| one |\n\n|--|\nrest\n<!-- /generated -->\n",
            expect!["line 5: found `|--|`, expected `|---|`"],
        );
    }

    #[test]
    fn a_region_too_short_or_too_long_differs_at_its_end() {
        check_difference(
            "<!-- generated: one -->\n| one |\n<!-- /generated -->\n",
            expect!["line 3: found `(end of region)`, expected ``"],
        );
        check_difference(
            "<!-- generated: one -->\n| one |\n\n|---|\nmore\n<!-- /generated -->\n",
            expect!["line 5: found `more`, expected `(end of region)`"],
        );
    }
}
