//! Rows in columns. The last column wraps at the edge of the terminal and continues below its own beginning.
//! Without a terminal, a row is one line.

use std::{env, io};

use cotter::text;
use rustix::termios::tcgetwinsize;

use crate::terminal::style::{ColorChoice, Style};

/// The smallest width of the last column. If less is left, the last column is below the others.
const MIN_LAST_WIDTH: usize = 30;

/// The indentation of a last column that is below the others.
const BELOW_INDENT: usize = 4;

/// A function that paints a text.
pub(crate) type Paint = fn(Style, &str) -> String;

/// A text on one line, with its paint.
#[derive(Clone)]
pub(crate) struct StyledSpan {
    text: String,
    paint: Paint,
}

impl StyledSpan {
    /// Creates a span. Control characters of the text are made visible, because it may come from foreign
    /// input.
    pub(crate) fn new(paint: Paint, text: &str) -> Self {
        StyledSpan { text: text::show_line(text).into_owned(), paint }
    }

    /// Creates a span without colour.
    pub(crate) fn plain(text: &str) -> Self {
        StyledSpan::new(|_, text| text.to_owned(), text)
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

/// The output that rows are rendered for.
#[derive(Clone, Copy)]
pub(crate) struct Page {
    pub(crate) style: Style,
    /// The number of columns. `None`: unlimited.
    width: Option<usize>,
}

impl Page {
    /// Returns standard output with the width of its terminal. Without a terminal, `COLUMNS` gives the width.
    pub(crate) fn on_stdout(color: ColorChoice) -> Self {
        let of_terminal = tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col));
        let from_variable = || env::var("COLUMNS").ok()?.parse().ok();
        let width = of_terminal.or_else(from_variable).filter(|width| *width > MIN_LAST_WIDTH);
        Page { style: Style::on_stdout(color), width }
    }

    /// Renders rows. Each column is as wide as its widest cell; the last cell is a text of several spans.
    pub(crate) fn rows(self, rows: &[(Vec<StyledSpan>, Vec<StyledSpan>)]) -> String {
        let columns = rows.iter().map(|(columns, _)| columns.len()).max().unwrap_or_default();
        let widest = |column: usize| {
            rows.iter().filter_map(|(columns, _)| columns.get(column)).map(StyledSpan::width).max()
        };
        let widths: Vec<_> =
            (0..columns).map(|column| widest(column).unwrap_or_default()).collect();
        let mut out = String::new();
        for (columns, last) in rows {
            let (mut lead, mut lead_width) = (String::new(), 0);
            for (piece, width) in columns.iter().zip(&widths) {
                lead += &(piece.paint)(self.style, &piece.text);
                lead += &" ".repeat(width - piece.width() + 2);
                lead_width += width + 2;
            }
            out += &self.render_hanging(&lead, lead_width, last);
        }
        out
    }

    /// Renders spans after a lead of `lead_width` columns. Further lines are indented to the same
    /// column.
    pub(crate) fn render_hanging(
        self,
        lead: &str,
        lead_width: usize,
        pieces: &[StyledSpan],
    ) -> String {
        let paint = |piece: &StyledSpan| (piece.paint)(self.style, &piece.text);
        let pieces: Vec<_> =
            pieces.iter().filter(|piece| !piece.text.is_empty()).cloned().collect();
        let one_line = || pieces.iter().map(paint).collect::<Vec<_>>().join("  ");
        let Some(width) = self.width else {
            return format!("{lead}{}", one_line()).trim_end().to_owned() + "\n";
        };
        let spans_width: usize = pieces.iter().map(|piece| piece.width() + 2).sum::<usize>();
        if lead_width + spans_width.saturating_sub(2) <= width {
            return format!("{lead}{}", one_line()).trim_end().to_owned() + "\n";
        }
        let fits = width >= lead_width + MIN_LAST_WIDTH;
        let indent = if fits { lead_width } else { BELOW_INDENT };
        let mut out = match fits {
            true => lead.to_owned(),
            false => format!("{}\n{}", lead.trim_end(), " ".repeat(indent)),
        };
        for (number, line) in wrap_spans(&pieces, width - indent).iter().enumerate() {
            if number > 0 {
                out += &format!("\n{}", " ".repeat(indent));
            }
            out += &line.iter().map(paint).collect::<Vec<_>>().join("  ");
        }
        out + "\n"
    }
}

/// Breaks spans into lines of at most `width` columns. A longer word has a line of its own.
fn wrap_spans(pieces: &[StyledSpan], width: usize) -> Vec<Vec<StyledSpan>> {
    let mut lines: Vec<Vec<StyledSpan>> = vec![vec![]];
    let mut used = 0;
    for piece in pieces {
        let mut is_continued = false;
        for word in piece.text.split(' ') {
            let word_width = word.chars().count();
            let gap = if is_continued { 1 } else { 2 };
            let line = lines.last_mut().expect("lines is never empty");
            match line.last_mut() {
                Some(last) if used + gap + word_width <= width => {
                    used += gap + word_width;
                    if is_continued {
                        last.text += &format!(" {word}");
                        continue;
                    }
                    line.push(StyledSpan { text: word.to_owned(), paint: piece.paint });
                }
                Some(_) => {
                    lines.push(vec![StyledSpan { text: word.to_owned(), paint: piece.paint }]);
                    used = word_width;
                }
                None => {
                    line.push(StyledSpan { text: word.to_owned(), paint: piece.paint });
                    used = word_width;
                }
            }
            is_continued = true;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    use expect_test::{Expect, expect};

    fn check(width: Option<usize>, rows: &[(&[&str], &[&str])], expected: Expect) {
        let style = Style::on_stdout(ColorChoice::Never);
        let pieces = |texts: &[&str]| texts.iter().map(|text| StyledSpan::plain(text)).collect();
        let rows: Vec<_> = rows.iter().map(|(some, last)| (pieces(some), pieces(last))).collect();
        let out = Page { style, width }.rows(&rows);
        for line in out.lines() {
            assert!(width.is_none_or(|width| line.chars().count() <= width || !line.trim().contains(' ')));
            assert!(!line.ends_with(' '));
        }
        expected.assert_eq(&out);
    }

    #[test]
    fn last_table_column_wraps_below_its_own_start() {
        let rows: &[(&[&str], &[&str])] = &[
            (&["name", "at"], &["(user)", "Blocks calls that write where the system lives."]),
            (&["longer", "a"], &["(kernel)"]),
            (&["x", "a"], &[]),
            (&["hidden\u{1b}", "a"], &["", "two\nlines"]),
        ];
        check(
            None,
            rows,
            expect![[r#"
            name          at  (user)  Blocks calls that write where the system lives.
            longer        a   (kernel)
            x             a
            hidden\u{1b}  a   two\nlines
        "#]],
        );
        check(
            Some(50),
            rows,
            expect![[r#"
                name          at  (user)  Blocks calls that write
                                  where the system lives.
                longer        a   (kernel)
                x             a
                hidden\u{1b}  a   two\nlines
            "#]],
        );
        // The last column would be too narrow beside the others.
        check(
            Some(36),
            rows,
            expect![[r#"
            name          at
                (user)  Blocks calls that write
                where the system lives.
            longer        a   (kernel)
            x             a
            hidden\u{1b}  a   two\nlines
        "#]],
        );
    }

    #[test]
    fn word_longer_than_a_table_line_gets_its_own_line() {
        let long = "a-word-that-is-longer-than-all-of-the-line-can-be";
        check(
            Some(40),
            &[(&["a"], &["one", long, "two"])],
            expect![[r#"
            a  one
               a-word-that-is-longer-than-all-of-the-line-can-be
               two
        "#]],
        );
    }
}
