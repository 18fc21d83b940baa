//! `sed`: the effects of its script. A script of plain text commands is safe; any other counts as
//! code. Pure.

use cotter::permission::Zone;

use crate::shell::{command_verdict::CommandVerdict, expand::Field, options::ParsedOptions};

/// The effects of a script and of `-i`.
pub(crate) fn refine(given: &ParsedOptions, verdict: &mut CommandVerdict) {
    let mut scripts: Vec<_> = given.values(&["e", "expression"]).collect();
    let mut operands = given.operands.as_slice();
    let in_place = given.has(&["i", "in-place"]);
    // `sed -i '' …` means "no suffix" on BSD.
    if in_place && operands.first().is_some_and(|field| field.text.is_empty() && field.is_known()) {
        operands = &operands[1..];
    }
    if scripts.is_empty() && !given.has(&["f", "file"]) {
        scripts.extend(operands.first());
        operands = operands.get(1..).unwrap_or_default();
    }
    let plain = scripts.iter().all(|script| script.literal().is_some_and(is_plain));
    let unknown = given.unknown.is_some() || given.has(&["f", "file", "follow-symlinks"]);
    let unknown_script = given.has(&["f", "file"]);
    // The backup has the suffix after its name: `AGENTS` becomes `AGENTS.md`.
    let usual = [".bak", ".orig", ".old", ".tmp", ".backup", "~", ""];
    let elsewhere = |suffix: &&Field| !suffix.literal().is_some_and(|text| usual.contains(&text));
    if !plain || unknown_script || given.values(&["i", "in-place"]).any(|suffix| elsewhere(&suffix))
    {
        verdict.unclear("the script of `sed` may write files or run commands");
    }
    if !plain || unknown {
        verdict.raise(Zone::Build);
    }
    if !in_place {
        return verdict.add_reads(operands.iter().filter(|field| field.text != "-").cloned());
    }
    verdict.add_writes(operands.iter().cloned());
    let suffixes = given.values(&["i", "in-place"]).filter_map(Field::literal);
    for suffix in suffixes.filter(|suffix| !suffix.is_empty()) {
        verdict.add_writes(operands.iter().map(|file| file.with_suffix(suffix)));
    }
}

/// True if a script has only commands that read and change text.
fn is_plain(script: &str) -> bool {
    let mut reader = Reader { rest: script };
    while !reader.rest.is_empty() {
        if reader.command().is_none() {
            return false;
        }
    }
    true
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn skip(&mut self, signs: &str) {
        self.rest = self.rest.trim_start_matches(|c| signs.contains(c));
    }

    /// One command with its addresses. `None`: it is not a known plain command.
    fn command(&mut self) -> Option<()> {
        self.skip(" \t\n;");
        if self.rest.is_empty() {
            return Some(());
        }
        self.address()?;
        if self.rest.starts_with(',') {
            self.next();
            self.skip(" \t+~");
            self.address()?;
        }
        self.skip(" \t!");
        match self.next()? {
            'p' | 'd' | 'D' | 'P' | 'g' | 'G' | 'h' | 'H' | 'x' | 'n' | 'N' | '=' | '{' | '}'
            | 'q' => {
                self.skip("0123456789 \t");
                (self.rest.is_empty()
                    || self.rest.starts_with([';', '\n', '}', 'p', 'd', 'n', 'N']))
                .then_some(())
            }
            'y' => self.parts(),
            ':' | 'b' | 't' | 'T' => {
                self.skip(" \t");
                self.rest = self.rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
                (self.rest.is_empty() || self.rest.starts_with([';', '\n', '}'])).then_some(())
            }
            's' => {
                self.parts()?;
                self.skip("gpiI0123456789");
                (self.rest.is_empty() || self.rest.starts_with([';', '\n', '}', ' '])).then_some(())
            }
            // A line of text up to the end of the script, so no other command can follow.
            'a' | 'i' | 'c' if !self.rest.contains('\n') => {
                self.rest = "";
                Some(())
            }
            _ => None,
        }
    }

    /// A line number, `$`, a step, or a regular expression.
    fn address(&mut self) -> Option<()> {
        match self.rest.chars().next() {
            Some('0'..='9' | '$') => self.skip("0123456789$~"),
            Some('/') => {
                self.next();
                self.until('/')?;
                self.skip("I");
            }
            // `\cREGEXc` and other forms.
            Some('\\') => return None,
            _ => {}
        }
        Some(())
    }

    /// Both parts of `s/a/b/`.
    fn parts(&mut self) -> Option<()> {
        let sign = self.next().filter(|c| !c.is_alphanumeric() && *c != '\\' && *c != '\n')?;
        self.until(sign)?;
        self.until(sign)
    }

    /// Skips to the next separator that is neither escaped nor in brackets.
    fn until(&mut self, sign: char) -> Option<()> {
        loop {
            match self.next()? {
                '\\' => _ = self.next()?,
                // Programs disagree on where a bracket ends.
                '[' if self.rest.contains(sign) && bracket_holds(self.rest, sign) => return None,
                c if c == sign => return Some(()),
                _ => {}
            }
        }
    }
}

/// True if the separator stands before the bracket is closed.
fn bracket_holds(rest: &str, sign: char) -> bool {
    let inner = rest.strip_prefix('^').unwrap_or(rest);
    let inner = inner.strip_prefix(']').unwrap_or(inner);
    let close = inner.find(']').unwrap_or(inner.len());
    inner[..close].contains(sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s11_sed_script_that_writes_or_runs_is_not_plain() {
        let plain = [
            "s/a/b/",
            "s/a/b/g",
            "s|a/b|c|gI",
            "1,5p",
            "/x/d",
            "$p",
            "10q",
            "/a/,/b/p",
            "s/a/b/;s/c/d/",
            "y/ab/cd/",
            "/^#/!d",
            "2~3p",
            "s/[a-z]*/x/g",
            "1a hello",
            "1,$s/\\//x/",
            "/foo/{p;q}",
            "s/a/b/ ; p",
            ":a;N;$!ba;s/\\n/ /g",
        ];
        for script in plain {
            assert!(is_plain(script), "{script}");
        }
        let other = [
            "1e rm x",
            "e",
            "s/a/rm x/e",
            "s/a/b/w out",
            "w out",
            "r /etc/passwd",
            "s/a/b/ge",
            "1,5w x",
            "R x",
            "W x",
            "s/[/]/x/e",
            "\\%x%e",
            "y/a/b/e",
            "1i x\n1e rm",
            "Fp",
            "s/a/b/m",
            "l;e rm",
            ":a e touch x",
            ":a w x",
            "ba w x",
            "t\tr .env",
        ];
        for script in other {
            assert!(!is_plain(script), "{script}");
        }
    }
}
