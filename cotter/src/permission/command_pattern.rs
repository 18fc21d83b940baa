//! A pattern over commands: `git diff *`, `curl * | sh`.

use globset::{GlobBuilder, GlobMatcher};

use crate::permission::facts::{CommandWord, CommandWordKind, SimpleCommand};

/// A pattern over one command or over a pipeline.
#[derive(Clone, Debug)]
pub(crate) struct CommandPattern {
    commands: Vec<SingleCommandPattern>,
    /// `*` as any text of a command. In rules with Claude Code's name for the tool it always stands for that
    /// too; in others only within a word, `*--force*`, and only for `hits`.
    text: Option<TextPattern>,
    covers_text: bool,
}

/// The most commands of a pipeline that are compared as one text.
const MAX_STAGES: usize = 32;

/// A pattern over the text of a command or pipeline: its words joined by one blank.
#[derive(Clone, Debug)]
struct TextPattern {
    /// For `covers`, and for `hits`, which ignores case.
    globs: (GlobMatcher, GlobMatcher),
    words: Vec<String>,
}

#[derive(Clone, Debug)]
struct SingleCommandPattern {
    words: Vec<WordPattern>,
    /// True if the pattern ends in ` *`: any number of further operands matches.
    allows_more: bool,
}

#[derive(Clone, Debug)]
struct WordPattern {
    text: String,
    /// The globs of the word, if it is a glob: the first for `covers`, the second for `hits`.
    globs: Option<(GlobMatcher, GlobMatcher)>,
}

impl CommandPattern {
    pub(crate) fn parse(spec: &str) -> Result<Self, String> {
        let commands =
            spec.split(" | ").map(SingleCommandPattern::parse).collect::<Result<_, _>>()?;
        let is_within_word = |word: &str| word.contains('*') && word != "*" && word != "**";
        let text = match spec.trim_end_matches(":*").split_whitespace().any(is_within_word) {
            true => Some(TextPattern::parse(spec)?),
            false => None,
        };
        Ok(CommandPattern { commands, text, covers_text: false })
    }

    /// Parses a pattern in Claude Code's way: `*` also spans any text of one command or pipeline.
    pub(crate) fn parse_for_claude(spec: &str) -> Result<Self, String> {
        let pattern = CommandPattern::parse(spec)?;
        Ok(CommandPattern { text: Some(TextPattern::parse(spec)?), covers_text: true, ..pattern })
    }

    /// True if a program's name begins with a sign for any text, so that the pattern could match any program.
    pub(crate) fn has_open_program(&self) -> bool {
        self.commands.iter().any(|command| command.words[0].text.starts_with(['*', '?']))
    }

    /// True if a command of the call matches the pattern. The order of options and the case of letters are
    /// ignored. The commands of a pipeline pattern must occur in order in one pipeline; other commands may
    /// come between them.
    pub(crate) fn hits(&self, commands: &[SimpleCommand]) -> bool {
        let first = &self.commands[0];
        let by_words = commands.iter().enumerate().any(|(at, command)| {
            let mut rest = commands[at + 1..].iter().filter(|c| c.pipeline == command.pipeline);
            first.hits(command) && self.commands[1..].iter().all(|next| rest.any(|c| next.hits(c)))
        });
        by_words || self.text.as_ref().is_some_and(|text| text.hits(commands))
    }

    /// True if a command is covered word by word. A pipeline is covered only as a whole.
    pub(crate) fn covers(&self, commands: &[SimpleCommand], index: usize) -> bool {
        if let [only] = &self.commands[..] {
            let command = &commands[index];
            let by_text = || self.text.as_ref().is_some_and(|text| text.covers(command));
            return only.covers(command) || self.covers_text && by_text();
        }
        let pipeline = commands[index].pipeline;
        let all: Vec<_> = commands.iter().filter(|c| c.pipeline == pipeline).collect();
        all.len() == self.commands.len()
            && self.commands.iter().zip(all).all(|(pattern, command)| pattern.covers(command))
    }
}

impl TextPattern {
    fn parse(spec: &str) -> Result<Self, String> {
        let spec =
            spec.strip_suffix(":*").map_or_else(|| spec.to_owned(), |spec| format!("{spec} *"));
        let words: Vec<_> = spec.split_whitespace().map(str::to_owned).collect();
        // Of all signs only `*` is one.
        let parts: Vec<_> = words.join(" ").split('*').map(globset::escape).collect();
        let glob = |ignore_case: bool| {
            let glob = GlobBuilder::new(&parts.join("*"))
                .literal_separator(false)
                .case_insensitive(ignore_case)
                .build();
            glob.map(|glob| glob.compile_matcher()).map_err(|cause| cause.to_string())
        };
        Ok(TextPattern { globs: (glob(false)?, glob(true)?), words })
    }

    /// True if the text of a command or of a whole pipeline matches.
    fn hits(&self, commands: &[SimpleCommand]) -> bool {
        let matches = |text: &str| {
            let base = text.split(' ').next().and_then(|name| name.rsplit_once('/'));
            let by_base = base.map(|(folder, _)| &text[folder.len() + 1..]);
            self.globs.1.is_match(text) || by_base.is_some_and(|text| self.globs.1.is_match(text))
        };
        // Commands within words stand between those of a pipeline. From each on, the rest counts as a whole.
        let rest_of_pipeline = |at: usize| {
            let rest = commands[at..].iter().filter(|c| c.pipeline == commands[at].pipeline);
            rest.take(MAX_STAGES).map(join_words).collect::<Vec<_>>().join(" | ")
        };
        (0..commands.len())
            .any(|at| matches(&join_words(&commands[at])) || matches(&rest_of_pipeline(at)))
    }

    /// True if the text of a command matches, and each of its words is in the pattern or is one that `*` may
    /// cover. The name of the command must be in the pattern.
    fn covers(&self, command: &SimpleCommand) -> bool {
        let has_name = self.words.first().is_some_and(|name| !name.contains('*'));
        let is_covered = |word: &CommandWord| {
            let is_written = self.words.contains(&word.text);
            word.kind != CommandWordKind::RuntimeValue && is_written || is_covered_by_star(word)
        };
        // A blank within a word would pass for one between words.
        has_name
            && !command.words.iter().any(|word| word.text.contains(char::is_whitespace))
            && self.globs.0.is_match(join_words(command))
            && command.words.iter().all(is_covered)
    }
}

/// The words of a command, joined by one blank.
fn join_words(command: &SimpleCommand) -> String {
    let words: Vec<_> = command.words.iter().map(|word| word.text.as_str()).collect();
    words.join(" ")
}

impl SingleCommandPattern {
    fn parse(spec: &str) -> Result<Self, String> {
        let spec = spec.trim();
        // Other programs end a prefix with `:*`.
        let (spec, has_colon_star) = match spec.strip_suffix(":*") {
            Some(spec) => (spec, true),
            None => (spec, false),
        };
        let mut words = spec.split_whitespace().map(strip_quotes).collect::<Result<Vec<_>, _>>()?;
        let ends_in_star = words.len() > 1 && words.last() == Some(&"*");
        if ends_in_star {
            words.pop();
        }
        if words.is_empty() {
            return Err("there is no command on one side of `|`".into());
        }
        let words = words.into_iter().map(WordPattern::parse).collect::<Result<_, _>>()?;
        Ok(SingleCommandPattern { words, allows_more: ends_in_star || has_colon_star })
    }

    /// True if a command has these operands in this order, then anything, and these options anywhere. A
    /// word after an unknown option may be the option's value or an operand; both readings count.
    fn hits(&self, command: &SimpleCommand) -> bool {
        let is_option = |text: &str| text.len() > 1 && text.starts_with('-');
        let (options, operands): (Vec<_>, Vec<_>) =
            self.words.iter().partition(|word| is_option(&word.text));
        let has_option =
            |option: &&WordPattern| command.words.iter().any(|word| option.is_option_in(word));
        let mut words = command.words.iter().enumerate();
        let mut operand_follows = |wanted: &&WordPattern| {
            let mut may_be_value = false;
            for (at, word) in words.by_ref() {
                if is_option(&word.text) {
                    may_be_value =
                        word.kind == CommandWordKind::UnknownOption && !word.text.contains('=');
                } else if wanted.hits(word, at == 0) {
                    return true;
                } else if !may_be_value {
                    return false;
                } else {
                    may_be_value = false;
                }
            }
            false
        };
        operands.iter().all(&mut operand_follows) && options.iter().all(has_option)
    }

    fn covers(&self, command: &SimpleCommand) -> bool {
        let Some((head, rest)) = command.words.split_at_checked(self.words.len()) else {
            return false;
        };
        let start_matches = self.words.iter().zip(head).all(|(wanted, word)| wanted.covers(word));
        start_matches
            && if self.allows_more { rest.iter().all(is_covered_by_star) } else { rest.is_empty() }
    }
}

/// Removes the quotes around a word. A quote on one side only is an error, because no command would match
/// the word.
fn strip_quotes(word: &str) -> Result<&str, String> {
    const QUOTES: [char; 2] = ['\'', '"'];
    let inner = QUOTES.iter().find_map(|quote| word.strip_prefix(*quote)?.strip_suffix(*quote));
    match inner {
        Some(inner) if !inner.is_empty() => Ok(inner),
        None if !word.starts_with(QUOTES) && !word.ends_with(QUOTES) => Ok(word),
        _ => Err(format!(
            "`{word}` is not a whole word in quotes: spaces separate the words of a pattern, and `?` \
             matches a space inside a word"
        )),
    }
}

impl WordPattern {
    fn parse(text: &str) -> Result<Self, String> {
        let glob = |ignore_case: bool| {
            let glob = GlobBuilder::new(text)
                .literal_separator(false)
                .case_insensitive(ignore_case)
                .build();
            glob.map(|glob| glob.compile_matcher()).map_err(|cause| cause.to_string())
        };
        let is_glob = text.contains(['*', '?']);
        let globs = if is_glob { Some((glob(false)?, glob(true)?)) } else { None };
        Ok(WordPattern { text: text.into(), globs })
    }

    fn covers(&self, word: &CommandWord) -> bool {
        match &self.globs {
            Some((glob, _)) => is_covered_by_star(word) && glob.is_match(&word.text),
            None => word.kind != CommandWordKind::RuntimeValue && word.text == self.text,
        }
    }

    fn hits(&self, word: &CommandWord, is_name: bool) -> bool {
        let base = word.text.rsplit('/').next().filter(|_| is_name);
        std::iter::once(word.text.as_str()).chain(base).any(|text| match &self.globs {
            Some((_, glob)) => glob.is_match(text),
            None => text.eq_ignore_ascii_case(&self.text),
        })
    }

    /// True if a word contains this option: alone, with a value, or as one letter of a group.
    fn is_option_in(&self, word: &CommandWord) -> bool {
        if self.hits(word, false) {
            return true;
        }
        let is_letter = self.text.len() == 2 && !self.text.starts_with("--");
        let letter_group = word.text.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        match letter_group {
            Some(letters) if is_letter => letters.contains(&self.text[1..]),
            _ => word.text.strip_prefix(&self.text).is_some_and(|rest| rest.starts_with('=')),
        }
    }
}

/// True if `*` covers a word: an operand, or an option known not to change what the command may do.
fn is_covered_by_star(word: &CommandWord) -> bool {
    matches!(word.kind, CommandWordKind::Operand | CommandWordKind::Option | CommandWordKind::Name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permission::Zone;

    /// Builds commands from words; `~x` is an unknown option, `$x` is only known at run time.
    fn commands(line: &str) -> Vec<SimpleCommand> {
        let word = |text: &str| {
            let (text, kind) = match text.split_at(1) {
                ("~", rest) => (rest, CommandWordKind::UnknownOption),
                ("$", _) => (text, CommandWordKind::RuntimeValue),
                ("-", _) => (text, CommandWordKind::Option),
                _ => (text, CommandWordKind::Operand),
            };
            CommandWord { text: text.into(), kind }
        };
        let pipelines = line.split("; ").enumerate();
        let commands = pipelines.flat_map(|(number, pipeline)| {
            pipeline.split(" | ").map(move |command| SimpleCommand {
                words: command.split(' ').map(word).collect(),
                zone: Zone::Build,
                writes_to: vec![],
                pipeline: u32::try_from(number).unwrap(),
            })
        });
        commands.collect()
    }

    /// Returns two results: an allow rule covers every command, and a deny rule hits any command.
    fn check(spec: &str, line: &str) -> (bool, bool) {
        let (pattern, commands) = (CommandPattern::parse(spec).unwrap(), commands(line));
        let covered = (0..commands.len()).all(|index| pattern.covers(&commands, index));
        (covered, pattern.hits(&commands))
    }

    /// Checks a pattern in Claude Code's way: whether it hits a call, and whether it covers its first command.
    fn check_for_claude(pattern: &str, line: &str, hits: bool, covers: bool) {
        let (pattern, commands) =
            (CommandPattern::parse_for_claude(pattern).unwrap(), commands(line));
        assert_eq!(
            (pattern.hits(&commands), pattern.covers(&commands, 0)),
            (hits, covers),
            "{line}"
        );
    }

    #[test]
    fn l12_star_spans_any_text_of_a_command_in_claude_codes_way() {
        check_for_claude("git * main", "git push origin main", true, true);
        check_for_claude("git * main", "git push origin other", false, false);
        check_for_claude("git * main", "git push ~--force main", true, false);
        check_for_claude("git * main", "ls; git push origin main", true, false);
        check_for_claude("*--no-verify*", "git commit -m x ~--no-verify", true, false);
        check_for_claude("git push *--force*", "git push origin ~--force-with-lease", true, false);
        check_for_claude("cat *.env*", "cat sub/.env.local", true, true);
        check_for_claude("cat *.env*", "cat a | sort", false, false);
        check_for_claude("curl *| sh", "curl x | sh", true, false);
        check_for_claude("git push *--force*", "/usr/bin/git push ~--FORCE", true, false);
        check_for_claude("npm run test:*", "npm run test", true, true);
        check_for_claude("curl *| sh", "env curl x | curl x | sh", true, false);
        check_for_claude("[a] *", "a b", false, false);
        check_for_claude("git * main", "git push $x main", true, false);
    }

    #[test]
    fn l12_command_pattern_matches_whole_words() {
        assert_eq!(check("ls", "ls"), (true, true));
        assert_eq!(check("ls", "lsof"), (false, false));
        assert_eq!(check("ls", "ls -l"), (false, true));
        assert_eq!(check("ls *", "ls -l a b"), (true, true));
        assert_eq!(check("ls *", "ls"), (true, true));
        assert_eq!(check("ls *", "ls; rm x"), (false, true));
        assert_eq!(check("npm run test:*", "npm run test"), (true, true));
        assert_eq!(check("npm run *", "npm install x"), (false, false));
        assert_eq!(check("git * main", "git checkout main"), (true, true));
        assert_eq!(check("test-*", "test-unit"), (true, true));
        assert_eq!(check("git push *--force*", "git push ~--force origin"), (false, true));
        assert_eq!(
            check("git push *--force*", "git push origin ~--force-with-lease"),
            (false, true)
        );
        assert_eq!(check("git push *--force*", "git push origin"), (false, false));
    }

    #[test]
    fn s11_star_of_an_allow_rule_covers_no_unknown_option_or_value() {
        assert_eq!(check("git diff *", "git diff --stat HEAD"), (true, true));
        assert_eq!(check("git diff *", "git diff ~--output=x"), (false, true));
        assert_eq!(check("git diff --output=x", "git diff ~--output=x"), (true, true));
        assert_eq!(check("rm *", "rm $x"), (false, true));
        assert_eq!(check("rm $x", "rm $x"), (false, true));
        assert_eq!(check("ls *", "/tmp/ls a"), (false, true));
    }

    #[test]
    fn c8_deny_rule_ignores_option_order_case_and_folder() {
        assert!(check("git push --force *", "git push origin --force").1);
        assert!(!check("git push --force", "git push origin main").1);
        assert!(!check("rm -r", "RM -fR x").1, "another letter is another option");
        assert!(check("rm -r", "/bin/RM -fr x").1);
        assert!(check("curl --output", "curl --output=x u").1);
        assert!(check("npm publish", "npm ~--prefix src publish").1);
        assert!(check("npm publish", "npm ~--silent publish").1);
        assert!(!check("npm publish", "npm ~--prefix src run publish").1);
        assert!(!check("npm publish", "npm ~--prefix=src run publish").1);
    }

    #[test]
    fn l12_allow_rule_covers_a_whole_pipeline_and_deny_rule_hits_any_distance() {
        assert_eq!(check("curl * | sh", "curl x | sh"), (true, true));
        assert_eq!(check("curl * | sh", "curl x | tee y | sh"), (false, true));
        assert_eq!(check("curl * | sh", "curl x; sh"), (false, false));
    }

    #[test]
    fn command_pattern_with_a_partial_quote_is_an_error() {
        assert_eq!(check("echo 'x' *", "echo x y"), (true, true));
        assert_eq!(check("echo it's *", "echo it's y"), (true, true));
        assert_eq!(check("rm a?b", "rm a-b"), (true, true));
        for spec in ["'", "rm 'a b'", "rm \"a'", "ls ''"] {
            let cause = CommandPattern::parse(spec).unwrap_err();
            assert!(cause.contains("is not a whole word in quotes"), "{spec}: {cause}");
        }
    }
}
