//! Comparison with another parser and with bash itself. Every command that they find in a script is in the
//! facts, or the script is not understood.

use std::{
    cell::Cell,
    collections::BTreeSet,
    fmt::Write,
    fs,
    io::BufReader,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::{Command, Stdio},
};

use brush_parser::{
    Parser, ParserOptions,
    ast::{
        self, AssignmentValue, Command as Parsed, CommandPrefixOrSuffixItem as Item,
        CompoundCommand, CompoundList, ExtendedTestExpr, IoFileRedirectTarget, IoRedirect,
    },
    word::{self, ParameterExpr, WordPiece, WordPieceWithSource},
};
use cotter::permission::facts::{CommandWordKind, Facts};
use cotter_test::not_tested;
use cotter_tools::shell;
use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{RngAlgorithm, TestRng, TestRunner},
};
use tempfile::TempDir;

use crate::{
    decision::is_understood,
    kit::{Project, brief},
    scripts::{LAYERS, Script, hidden, layer, soup, spelled, word},
};

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..Default::default() }
}

/// The names that another parser finds and that are missing in the facts of an understood script.
fn missing(script: &str, project: &Project) -> Vec<String> {
    let Some(found) = Found::in_script(script) else { return vec![] };
    let facts = shell::facts(script, &project.workspace);
    if !is_understood(&facts) {
        return vec![];
    }
    let told = facts.commands.iter().filter_map(|command| command.words.first());
    let told: BTreeSet<_> = told.map(|word| word.text.as_str()).collect();
    let missing = found.names.iter().filter(|name| !told.contains(name.as_str()));
    missing.filter(|name| !found.functions.contains(*name)).cloned().collect()
}

#[test]
fn b11_facts_list_every_command_that_another_parser_finds_in_the_table() {
    let project = Project::new();
    let (mut missed, mut compared) = (String::new(), 0);
    // The other parser has no end of depth but the stack's.
    let is_shallow = |text: &String| text.len() < 2000 && text.matches('(').count() < 50;
    for command in project.commands().into_iter().filter(is_shallow) {
        compared += usize::from(Found::in_script(&command).is_some());
        let names = missing(&command, &project);
        if !names.is_empty() {
            writeln!(missed, "{names:?} in {}", brief(&command)).unwrap();
        }
    }
    assert!(missed.is_empty(), "{missed}");
    assert!(compared > 1000, "only {compared} were compared");
}

#[test]
fn b11_facts_list_every_command_that_another_parser_finds_in_random_scripts() {
    let project = Project::new();
    let command =
        proptest::sample::select(vec!["frob a 'b c'", "ls -l", "rm x", "git push", "x=1 make"]);
    let layered = command.prop_flat_map(|command| hidden(command.to_owned(), vec(0..LAYERS, 0..6)));
    // To bash `a<(b)` is one word.
    let is_glued = |script: &str| {
        let mut starts = script.match_indices("<(").chain(script.match_indices(">("));
        starts.any(|(at, _)| !script[..at].ends_with([' ', '\t', '\n']))
    };
    // Within backquotes the other parser keeps both of two backslashes.
    let is_escaped = |script: &str| script.contains('`') && script.contains("\\\\");
    let check = |script: String| {
        if is_glued(&script) || is_escaped(&script) {
            return Ok(());
        }
        let names = missing(&script, &project);
        prop_assert!(names.is_empty(), "{:?} in {}", names, script);
        Ok(())
    };
    TestRunner::new(config(512)).run(&layered.prop_map(|script| script.text), check).unwrap();
    // Always the same soup: the other parser is wrong about some of it too, such as `<><(a)b`, which is
    // one word to bash.
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    TestRunner::new_with_rng(config(4096), rng).run(&soup(), check).unwrap();
}

/// A parser made for editors continues after errors, so it finds commands where the others give up. It misreads
/// here-documents and words that continue on the next line.
#[test]
fn b11_facts_list_every_command_that_an_editor_finds_in_the_table() {
    let project = Project::new();
    let (mut missed, mut compared) = (String::new(), 0);
    let is_misread = |text: &str| text.contains("<<") || text.contains("\\\n");
    let texts = project.commands().into_iter().filter(|text| text.len() < 2000);
    for command in texts.filter(|text| !is_misread(text)) {
        let facts = shell::facts(&command, &project.workspace);
        if !is_understood(&facts) {
            continue;
        }
        compared += 1;
        let told: Vec<_> = facts.commands.iter().flat_map(|command| &command.words).collect();
        let told: BTreeSet<_> = told.into_iter().map(|word| word.text.as_str()).collect();
        let names = editor::names(&command);
        let lost: Vec<_> = names.iter().filter(|name| !told.contains(name.as_str())).collect();
        if !lost.is_empty() {
            writeln!(missed, "{lost:?} in {}", brief(&command)).unwrap();
        }
    }
    assert!(missed.is_empty(), "{missed}");
    assert!(compared > 1000, "only {compared} were compared");
}

/// The parser made for editors.
mod editor {
    use std::collections::BTreeSet;

    use tree_sitter::Parser;

    /// The names of the commands in a script, without quotes and backslashes; reserved words it takes for
    /// names, and names made of expansions, are left out.
    pub(super) fn names(script: &str) -> BTreeSet<String> {
        let mut parser = Parser::new();
        parser.set_language(&tree_sitter_bash::LANGUAGE.into()).unwrap();
        let tree = parser.parse(script, None).unwrap();
        let (mut names, mut cursor) = (BTreeSet::new(), tree.walk());
        loop {
            let node = cursor.node();
            if node.kind() == "command_name" {
                let plain = script[node.byte_range()].replace(['\'', '"', '\\'], "");
                let is_plain = !plain.contains(['$', '`', '{', '}', '*', '~', '<', '>', '\n']);
                if is_plain && !["time", "!", ""].contains(&plain.as_str()) {
                    names.insert(plain);
                }
            }
            if cursor.goto_first_child() {
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return names;
                }
            }
        }
    }
}

/// The commands that another parser finds in a script.
#[derive(Default)]
struct Found {
    names: BTreeSet<String>,
    /// Functions that are not called, or not yet looked into: nothing of them runs.
    waiting: Vec<ast::FunctionDefinition>,
    functions: BTreeSet<String>,
}

impl Found {
    /// None where the other parser does not understand it.
    fn in_script(script: &str) -> Option<Found> {
        let mut found = Found::default();
        let mut understood = found.script(script, 0);
        let called = |found: &Found| {
            let mut waiting = found.waiting.iter();
            waiting.position(|function| found.names.contains(&function.fname.value))
        };
        while let Some(at) = called(&found) {
            let function = found.waiting.swap_remove(at);
            understood &=
                found.compound(&function.body.0, 0) && found.redirects(function.body.1.as_ref(), 0);
        }
        understood.then_some(found)
    }

    fn script(&mut self, script: &str, depth: usize) -> bool {
        if depth > 8 {
            return false;
        }
        let script = script.to_owned();
        // The other parser panics on some text; that is no opinion.
        let parsed = std::panic::catch_unwind(move || {
            let mut parser =
                Parser::new(BufReader::new(script.as_bytes()), &ParserOptions::default());
            parser.parse_program().ok()
        });
        let Ok(Some(program)) = parsed else { return false };
        program.complete_commands.iter().all(|list| self.list(list, depth))
    }

    fn list(&mut self, list: &CompoundList, depth: usize) -> bool {
        list.0.iter().all(|item| {
            item.0.iter().all(|(_, pipeline)| pipeline.seq.iter().all(|c| self.command(c, depth)))
        })
    }

    fn command(&mut self, command: &Parsed, depth: usize) -> bool {
        match command {
            Parsed::Simple(simple) => self.simple(simple, depth),
            Parsed::Compound(compound, redirects) => {
                self.compound(compound, depth) && self.redirects(redirects.as_ref(), depth)
            }
            Parsed::Function(function) => {
                self.functions.insert(function.fname.value.clone());
                self.waiting.push(function.clone());
                true
            }
            Parsed::ExtendedTest(test, redirects) => {
                self.test(&test.expr, depth) && self.redirects(redirects.as_ref(), depth)
            }
        }
    }

    fn simple(&mut self, simple: &ast::SimpleCommand, depth: usize) -> bool {
        if let Some(name) = &simple.word_or_name {
            if let Some(text) = literal(&name.value) {
                self.names.insert(text);
            }
            if !self.word(&name.value, depth) {
                return false;
            }
        }
        let prefix = simple.prefix.iter().flat_map(|prefix| &prefix.0);
        let suffix = simple.suffix.iter().flat_map(|suffix| &suffix.0);
        prefix.chain(suffix).all(|item| self.item(item, depth))
    }

    fn item(&mut self, item: &Item, depth: usize) -> bool {
        match item {
            Item::IoRedirect(redirect) => self.redirect(redirect, depth),
            Item::Word(word) => self.word(&word.value, depth),
            Item::AssignmentWord(assignment, _) => match &assignment.value {
                AssignmentValue::Scalar(word) => self.word(&word.value, depth),
                AssignmentValue::Array(words) => {
                    words.iter().all(|(_, w)| self.word(&w.value, depth))
                }
            },
            Item::ProcessSubstitution(_, subshell) => self.list(&subshell.list, depth),
        }
    }

    fn compound(&mut self, compound: &CompoundCommand, depth: usize) -> bool {
        match compound {
            CompoundCommand::Arithmetic(_) => true,
            CompoundCommand::ArithmeticForClause(each) => self.list(&each.body.list, depth),
            CompoundCommand::BraceGroup(group) => self.list(&group.list, depth),
            CompoundCommand::Subshell(subshell) => self.list(&subshell.list, depth),
            CompoundCommand::ForClause(each) => {
                each.values.iter().flatten().all(|word| self.word(&word.value, depth))
                    && self.list(&each.body.list, depth)
            }
            CompoundCommand::CaseClause(case) => {
                self.word(&case.value.value, depth)
                    && case.cases.iter().all(|item| {
                        item.patterns.iter().all(|word| self.word(&word.value, depth))
                            && item.cmd.iter().all(|list| self.list(list, depth))
                    })
            }
            CompoundCommand::IfClause(branch) => {
                self.list(&branch.condition, depth)
                    && self.list(&branch.then, depth)
                    && branch.elses.iter().flatten().all(|other| {
                        other.condition.iter().all(|list| self.list(list, depth))
                            && self.list(&other.body, depth)
                    })
            }
            CompoundCommand::WhileClause(each) | CompoundCommand::UntilClause(each) => {
                self.list(&each.0, depth) && self.list(&each.1.list, depth)
            }
            CompoundCommand::Coprocess(coprocess) => self.command(&coprocess.body, depth),
        }
    }

    fn test(&mut self, test: &ExtendedTestExpr, depth: usize) -> bool {
        match test {
            ExtendedTestExpr::And(a, b) | ExtendedTestExpr::Or(a, b) => {
                self.test(a, depth) && self.test(b, depth)
            }
            ExtendedTestExpr::Not(a) | ExtendedTestExpr::Parenthesized(a) => self.test(a, depth),
            ExtendedTestExpr::UnaryTest(_, word) => self.word(&word.value, depth),
            ExtendedTestExpr::BinaryTest(_, a, b) => {
                self.word(&a.value, depth) && self.word(&b.value, depth)
            }
        }
    }

    fn redirects(&mut self, redirects: Option<&ast::RedirectList>, depth: usize) -> bool {
        redirects.iter().flat_map(|list| &list.0).all(|redirect| self.redirect(redirect, depth))
    }

    fn redirect(&mut self, redirect: &IoRedirect, depth: usize) -> bool {
        match redirect {
            IoRedirect::File(_, _, target) => match target {
                IoFileRedirectTarget::Filename(word) | IoFileRedirectTarget::Duplicate(word) => {
                    self.word(&word.value, depth)
                }
                IoFileRedirectTarget::Fd(_) => true,
                IoFileRedirectTarget::ProcessSubstitution(_, subshell) => {
                    self.list(&subshell.list, depth)
                }
            },
            IoRedirect::HereDocument(_, document) => {
                let text = &document.doc.value;
                !document.requires_expansion
                    || word::parse_heredoc(text, &ParserOptions::default())
                        .is_ok_and(|pieces| self.pieces(&pieces, depth))
            }
            IoRedirect::HereString(_, word) | IoRedirect::OutputAndError(word, _) => {
                self.word(&word.value, depth)
            }
        }
    }

    fn word(&mut self, text: &str, depth: usize) -> bool {
        let pieces = word::parse(text, &ParserOptions::default());
        pieces.is_ok_and(|pieces| self.pieces(&pieces, depth))
    }

    fn pieces(&mut self, pieces: &[WordPieceWithSource], depth: usize) -> bool {
        pieces.iter().all(|piece| match &piece.piece {
            WordPiece::DoubleQuotedSequence(pieces)
            | WordPiece::GettextDoubleQuotedSequence(pieces) => self.pieces(pieces, depth),
            WordPiece::CommandSubstitution(script)
            | WordPiece::BackquotedCommandSubstitution(script) => self.script(script, depth + 1),
            WordPiece::ParameterExpansion(
                ParameterExpr::UseDefaultValues { default_value: Some(text), .. }
                | ParameterExpr::AssignDefaultValues { default_value: Some(text), .. }
                | ParameterExpr::UseAlternativeValue { alternative_value: Some(text), .. },
            ) => self.word(text, depth),
            _ => true,
        })
    }
}

/// The value of a word, if it is known beforehand.
fn literal(text: &str) -> Option<String> {
    let pieces = word::parse(text, &ParserOptions::default()).ok()?;
    let mut literal = String::new();
    for piece in &pieces {
        match &piece.piece {
            WordPiece::Text(text) if !text.contains(['*', '?', '[', '{', '~']) => {
                literal.push_str(text)
            }
            WordPiece::SingleQuotedText(text) => literal.push_str(text),
            WordPiece::EscapeSequence(text) => literal.push_str(text.strip_prefix('\\')?),
            _ => return None,
        }
    }
    (!literal.is_empty() && !literal.contains('\n')).then_some(literal)
}

/// A folder in which bash runs scripts whose commands only write down that they were run.
struct Bench {
    keep: TempDir,
    runs: Cell<usize>,
}

impl Bench {
    /// Programs that run others, which they find in the same folder only.
    const REAL: [&'static str; 10] =
        ["bash", "sh", "env", "nice", "nohup", "timeout", "stdbuf", "setsid", "xargs", "find"];

    /// None where the machine has no bash.
    fn new() -> Option<Bench> {
        let keep = tempfile::tempdir().unwrap();
        let bin = keep.path().join("bin");
        fs::create_dir_all(&bin).unwrap();
        let find = |name: &str| {
            let folders = ["/usr/bin", "/bin", "/usr/local/bin"];
            folders.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists())
        };
        let bash = find("bash")?;
        for name in Bench::REAL {
            if let Some(path) = find(name) {
                symlink(path, bin.join(name)).unwrap();
            }
        }
        // Each writes into the folder it is run in, so that what is late does not count for the next, and
        // into a file of its own: two at once would write into each other's words.
        let stub = format!(
            "#!{} --norc\nprintf '%s\\0' \"${{0##*/}}\" \"$@\" $'\\x01' >> log.$$\nexit 1\n",
            bash.display(),
        );
        for name in ["frob", "cat", "sudo"] {
            fs::write(bin.join(name), &stub).unwrap();
            fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        Some(Bench { keep, runs: Cell::new(0) })
    }

    /// The commands that bash ran, word by word.
    fn run(&self, script: &str) -> Vec<Vec<String>> {
        self.runs.set(self.runs.get() + 1);
        let path = self.keep.path();
        let work = path.join(self.runs.get().to_string());
        fs::create_dir(&work).unwrap();
        let child = Command::new(path.join("bin/timeout"))
            .args(["-s", "KILL", "10", "bash", "--noprofile", "--norc", "-c", script])
            .env_clear()
            .env("PATH", path.join("bin"))
            .current_dir(&work)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        child.unwrap();
        let logs = fs::read_dir(&work).unwrap().map(|entry| entry.unwrap().path());
        let logs = logs.filter(|path| path.to_string_lossy().contains("/log."));
        let log: Vec<u8> = logs.flat_map(|path| fs::read(path).unwrap()).collect();
        let words: Vec<_> = log.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        let commands = words.split(|word| word == "\u{1}");
        let commands = commands.map(|words| words.iter().map(ToString::to_string).collect());
        commands.filter(|words: &Vec<String>| words.iter().any(|word| !word.is_empty())).collect()
    }
}

/// True if a command that ran is in the facts; words known only at run time match anything.
fn is_in_facts(ran: &[String], facts: &Facts) -> bool {
    facts.commands.iter().any(|command| {
        let open = command.words.iter().position(|word| word.kind == CommandWordKind::RuntimeValue);
        let known = &command.words[..open.unwrap_or(command.words.len())];
        let same = known.iter().zip(ran).all(|(word, ran)| {
            word.text == *ran || word.text.rsplit('/').next() == Some(ran) || word.text == "{}"
        });
        same && ran.len() >= known.len() && (open.is_some() || ran.len() >= command.words.len())
    })
}

/// Two commands, one after the other within the same layers.
fn scripts() -> impl Strategy<Value = String> {
    let command = || {
        let words = vec(word().prop_flat_map(|word| spelled(&word)), 0..3);
        words.prop_map(|words| format!("frob {}", words.join(" ")))
    };
    let both = (command(), command(), vec(0..LAYERS, 1..5), 0..LAYERS);
    both.prop_map(|(first, second, layers, between)| {
        let first = layer(between, &Script { text: first, simple: true }, 9);
        let both = Script { text: format!("{second}\n{}", first.text), simple: false };
        let numbered = layers.into_iter().enumerate();
        numbered.fold(both, |script, (depth, number)| layer(number, &script, depth)).text
    })
}

#[test]
fn b11_s10_facts_list_every_command_that_bash_runs() {
    let Some(bench) = Bench::new() else {
        return not_tested("no bash in a folder of the system");
    };
    let project = Project::new();
    let (mut ran, mut understood) = (0, 0);
    let mut runner = TestRunner::new(config(192));
    let check = |script: String| {
        let facts = shell::facts(&script, &project.workspace);
        if script.contains('\u{1}') || !is_understood(&facts) {
            return Ok(());
        }
        for command in bench.run(&script) {
            prop_assert!(is_in_facts(&command, &facts), "{:?} ran, of {}", command, script);
        }
        Ok(())
    };
    runner.run(&scripts(), check).unwrap();
    // That the bench works at all, and that most of this is understood.
    for number in 0..LAYERS {
        let script = layer(number, &Script { text: "frob 'a b'".into(), simple: true }, 1).text;
        let commands = bench.run(&script);
        ran += usize::from(commands.iter().any(|words| words[0] == "frob"));
        understood += usize::from(is_understood(&shell::facts(&script, &project.workspace)));
    }
    assert!(ran * 10 > LAYERS * 8, "bash ran {ran} of {LAYERS}");
    assert!(understood * 10 > LAYERS * 7, "{understood} of {LAYERS} are understood");
}
