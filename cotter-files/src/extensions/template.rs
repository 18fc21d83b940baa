//! The text of a skill or command, with its placeholders replaced.
//!
//! One pass, left to right; a replacement is never read again. These are replaced: arguments (`$ARGUMENTS`,
//! `$@`, `$1`, `${1}`, `${1:-otherwise}`, `${@:2}`), as far as they were passed; the variables
//! `{{project_name}}`, `{{project_path}}`, `{{language}}`, `{{framework}}`, `{{agent_id}}` and `{{mode}}`;
//! and `` !`command` `` outside of fenced code, by the output of the command. Everything else stays, because
//! prose often contains `$5` and `{{`.
//!
//! In a command, each argument and variable becomes a quoted word. The command does not run if quoting would
//! be unsafe: within other quotes, in a here-document, in arithmetic.

use std::borrow::Cow;

use cotter::invoke::directives::split_args;

/// The arguments that were passed along with a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments {
    raw: String,
    words: Vec<String>,
}

impl Arguments {
    /// Parses the text that was typed after a name.
    pub(crate) fn new(raw: &str) -> Self {
        Arguments { raw: raw.trim().to_owned(), words: split_args(raw) }
    }
}

/// The values of the variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Variables {
    /// The name of the project's folder.
    pub project_name: String,
    /// The path of the project's folder.
    pub project_path: String,
    /// The language of the project, as detected from its files.
    pub language: String,
    /// The framework of the project, as detected from its files.
    pub framework: String,
    /// The agent's id.
    pub agent_id: String,
    /// The agent's mode.
    pub mode: String,
}

impl Variables {
    fn get(&self, name: &str) -> Option<&str> {
        match name {
            "project_name" => Some(&self.project_name),
            "project_path" => Some(&self.project_path),
            "language" => Some(&self.language),
            "framework" => Some(&self.framework),
            "agent_id" => Some(&self.agent_id),
            "mode" => Some(&self.mode),
            _ => None,
        }
    }
}

/// A part of a text with its arguments and variables replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TemplatePart<'a> {
    /// Text as it is passed on.
    Text(Cow<'a, str>),
    /// A command, whose output replaces it.
    Command {
        /// The command line with quoted words inserted; or the reason why it does not run.
        line: Result<String, &'static str>,
        /// The command as it was written.
        written: &'a str,
    },
}

/// Replaces the placeholders of a text. The caller inserts the output of the commands.
pub(crate) fn fill<'a>(
    text: &'a str,
    arguments: &Arguments,
    variables: &Variables,
) -> Vec<TemplatePart<'a>> {
    let mut pieces = vec![];
    let mut out = String::new();
    for token in tokens(text, CommandExpansion::Run) {
        match token {
            TemplateToken::Text(text) => out.push_str(text),
            TemplateToken::Placeholder { written, hole } => {
                match hole.value(arguments, variables) {
                    Some(filled) => out.push_str(&filled.plain()),
                    None => out.push_str(written),
                }
            }
            TemplateToken::Command(written) => {
                pieces.push(TemplatePart::Text(Cow::Owned(std::mem::take(&mut out))));
                let line = command_line(written, arguments, variables);
                pieces.push(TemplatePart::Command { line, written });
            }
        }
    }
    pieces.push(TemplatePart::Text(Cow::Owned(out)));
    pieces.retain(|piece| !matches!(piece, TemplatePart::Text(text) if text.is_empty()));
    pieces
}

/// The commands of a text as they are written: those that [`fill`] returns.
pub(crate) fn commands(text: &str) -> impl Iterator<Item = &str> {
    tokens(text, CommandExpansion::Run).into_iter().filter_map(|token| match token {
        TemplateToken::Command(written) => Some(written),
        _ => None,
    })
}

/// A token of a text as it is written.
enum TemplateToken<'a> {
    Text(&'a str),
    Placeholder { written: &'a str, hole: Placeholder<'a> },
    Command(&'a str),
}

/// A placeholder.
#[derive(Clone, Copy)]
enum Placeholder<'a> {
    /// All arguments.
    All,
    /// `count` arguments from a number on; `None` for all up to the end.
    From(usize, Option<usize>),
    /// One argument.
    One(usize),
    /// One argument or all, with a default if none was passed.
    Or(Option<usize>, &'a str),
    Variable(&'a str),
}

/// The value of a placeholder: words of the person, or one value.
enum PlaceholderValue<'a> {
    Raw(&'a Arguments),
    Words(&'a [String]),
    One(&'a str),
}

impl PlaceholderValue<'_> {
    fn plain(&self) -> Cow<'_, str> {
        match self {
            PlaceholderValue::Raw(arguments) => Cow::Borrowed(&arguments.raw),
            PlaceholderValue::Words(words) => Cow::Owned(words.join(" ")),
            PlaceholderValue::One(text) => Cow::Borrowed(text),
        }
    }

    fn quoted(&self) -> String {
        let words =
            |words: &[String]| words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        match self {
            PlaceholderValue::Raw(arguments) => words(&arguments.words),
            PlaceholderValue::Words(list) => words(list),
            PlaceholderValue::One(text) => quoted(text),
        }
    }
}

/// Quotes a word so that a shell takes it literally.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

impl<'a> Placeholder<'a> {
    fn value<'b>(
        self,
        passed: &'b Arguments,
        variables: &'b Variables,
    ) -> Option<PlaceholderValue<'b>>
    where
        'a: 'b,
    {
        let words = passed.words.as_slice();
        let one = |number: usize| words.get(number.checked_sub(1)?).map(String::as_str);
        match self {
            Placeholder::All => Some(PlaceholderValue::Raw(passed)),
            Placeholder::From(first, count) => {
                let start = first.saturating_sub(1).min(words.len());
                let end = count.map_or(words.len(), |count| start.saturating_add(count));
                Some(PlaceholderValue::Words(&words[start..end.min(words.len())]))
            }
            Placeholder::One(number) => one(number).map(PlaceholderValue::One),
            Placeholder::Or(number, otherwise) => {
                let passed = match number {
                    None => Some(PlaceholderValue::Raw(passed)).filter(|_| !words.is_empty()),
                    Some(number) => {
                        one(number).filter(|word| !word.is_empty()).map(PlaceholderValue::One)
                    }
                };
                passed.or(Some(PlaceholderValue::One(otherwise)))
            }
            Placeholder::Variable(name) => variables.get(name).map(PlaceholderValue::One),
        }
    }
}

/// The handling of commands in a text.
#[derive(Clone, Copy, PartialEq)]
enum CommandExpansion {
    Run,
    Leave,
}

fn tokens(text: &str, commands: CommandExpansion) -> Vec<TemplateToken<'_>> {
    let mut tokens = vec![];
    let mut fenced = CodeFence::default();
    for line in text.split_inclusive('\n') {
        let in_code = fenced.advance(line);
        let commands = if in_code { CommandExpansion::Leave } else { commands };
        tokens_of_line(line, commands, &mut tokens);
    }
    tokens
}

/// The state of fenced code, updated line by line.
#[derive(Default)]
struct CodeFence(Option<(char, usize)>);

impl CodeFence {
    /// Processes the next line. Returns true if the line is part of fenced code, including its fences.
    fn advance(&mut self, line: &str) -> bool {
        let line = line.trim_start();
        let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'));
        let length = mark.map_or(0, |mark| line.chars().take_while(|c| *c == mark).count());
        match (self.0, mark) {
            (None, Some(mark)) if length >= 3 => {
                self.0 = Some((mark, length));
                true
            }
            (Some((open, least)), Some(mark)) if open == mark && length >= least => {
                self.0 = None;
                true
            }
            (open, _) => open.is_some(),
        }
    }
}

fn tokens_of_line<'a>(
    line: &'a str,
    commands: CommandExpansion,
    tokens: &mut Vec<TemplateToken<'a>>,
) {
    let (mut from, mut at) = (0, 0);
    while let Some(next) = line[at..].find(['$', '{', '!']) {
        let start = at + next;
        let rest = &line[start..];
        let after_space = line[..start].chars().next_back().is_none_or(char::is_whitespace);
        let found = match rest.as_bytes()[0] {
            b'$' => argument(rest).map(|(length, hole)| {
                (length, TemplateToken::Placeholder { written: &rest[..length], hole })
            }),
            b'{' => variable(rest).map(|(length, hole)| {
                (length, TemplateToken::Placeholder { written: &rest[..length], hole })
            }),
            _ if after_space && commands == CommandExpansion::Run => command(rest),
            _ => None,
        };
        let Some((length, token)) = found else {
            at = start + 1;
            continue;
        };
        if from < start {
            tokens.push(TemplateToken::Text(&line[from..start]));
        }
        tokens.push(token);
        at = start + length;
        from = at;
    }
    if from < line.len() {
        tokens.push(TemplateToken::Text(&line[from..]));
    }
}

/// `` !`command` `` at the start of a text.
fn command(text: &str) -> Option<(usize, TemplateToken<'_>)> {
    let rest = text.strip_prefix("!`")?;
    let (command, _) = rest.split_once('`')?;
    (!command.trim().is_empty()).then(|| (command.len() + 3, TemplateToken::Command(command)))
}

/// `{{name}}` of a known name at the start of a text.
fn variable(text: &str) -> Option<(usize, Placeholder<'_>)> {
    let (name, _) = text.strip_prefix("{{")?.split_once("}}")?;
    let length = name.len() + 4;
    let name = name.trim();
    Variables::default().get(name)?;
    Some((length, Placeholder::Variable(name)))
}

/// `$…` at the start of a text.
fn argument(text: &str) -> Option<(usize, Placeholder<'_>)> {
    let rest = text.strip_prefix('$')?;
    if let Some(braced) = rest.strip_prefix('{') {
        let (inside, _) = braced.split_once('}')?;
        return Some((inside.len() + 3, braced_argument(inside)?));
    }
    if rest.starts_with('@') {
        return Some((2, Placeholder::All));
    }
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0 {
        return Some((digits + 1, Placeholder::One(rest[..digits].parse().ok()?)));
    }
    let after = rest.strip_prefix(ARGUMENTS)?;
    let ends = !after.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    ends.then_some((ARGUMENTS.len() + 1, Placeholder::All))
}

const ARGUMENTS: &str = "ARGUMENTS";

fn braced_argument(inside: &str) -> Option<Placeholder<'_>> {
    let is_all = |name: &str| name == "@" || name == ARGUMENTS;
    if is_all(inside) {
        return Some(Placeholder::All);
    }
    if let Some((name, otherwise)) = inside.split_once(":-") {
        let number = if is_all(name) { None } else { Some(name.parse().ok()?) };
        return Some(Placeholder::Or(number, otherwise));
    }
    if let Some(range) = inside.strip_prefix("@:") {
        let (first, count) = match range.split_once(':') {
            Some((first, count)) => (first, Some(count.parse().ok()?)),
            None => (range, None),
        };
        return Some(Placeholder::From(first.parse().ok()?, count));
    }
    inside.parse().ok().map(Placeholder::One)
}

/// Marks of shell syntax in which a quoted word is not safe.
const UNSAFE_MARKS: [&str; 8] = ["<<", "((", "[[", "${", "$'", "$\"", "#", "\\"];

/// A command with its placeholders replaced by quoted words; or the reason why it cannot run.
fn command_line(
    written: &str,
    arguments: &Arguments,
    variables: &Variables,
) -> Result<String, &'static str> {
    let mut line = String::new();
    let mut quote = None;
    let mut has_values = false;
    // True if the next closing quote is dropped, because a quoted word replaced `"$1"` with its quotes.
    let mut skip = false;
    let tokens = tokens(written, CommandExpansion::Leave);
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let text = match &token {
            TemplateToken::Text(text) => *text,
            TemplateToken::Command(_) => return Err("it contains another command"),
            TemplateToken::Placeholder { written, hole } => {
                match hole.value(arguments, variables) {
                    None => written,
                    Some(filled) => {
                        has_values = true;
                        let closes = matches!(tokens.peek(), Some(TemplateToken::Text(next)) if next.starts_with('"'));
                        match quote {
                            None => {}
                            Some('"') if line.ends_with('"') && closes => {
                                line.pop();
                                skip = true;
                            }
                            Some(_) => return Err("an argument is inside quotes"),
                        }
                        line.push_str(&filled.quoted());
                        continue;
                    }
                }
            }
        };
        let text = if std::mem::take(&mut skip) {
            quote = None;
            &text[1..]
        } else {
            text
        };
        for char in text.chars() {
            match quote {
                None if matches!(char, '\'' | '"') => quote = Some(char),
                Some(open) if open == char => quote = None,
                _ => {}
            }
        }
        line.push_str(text);
    }
    let unsafe_place = || {
        let left = text_without_placeholders(written);
        UNSAFE_MARKS.iter().any(|mark| left.contains(mark))
    };
    if has_values && unsafe_place() {
        return Err("an argument cannot be quoted safely in it");
    }
    Ok(line)
}

/// The text of a command without its placeholders.
fn text_without_placeholders(written: &str) -> String {
    let text = |token: TemplateToken<'_>| match token {
        TemplateToken::Text(text) => text.to_owned(),
        _ => " ".to_owned(),
    };
    tokens(written, CommandExpansion::Leave).into_iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn variables() -> Variables {
        Variables {
            project_name: "my-app".into(),
            project_path: "/work/my-app".into(),
            language: "rust".into(),
            framework: "{{mode}}".into(),
            agent_id: "coder".into(),
            mode: "code".into(),
        }
    }

    fn shown(text: &str, arguments: &str) -> String {
        let piece = |piece: TemplatePart<'_>| match piece {
            TemplatePart::Text(text) => text.into_owned(),
            TemplatePart::Command { line: Ok(line), .. } => format!("«{line}»"),
            TemplatePart::Command { line: Err(why), written } => format!("«not {written}: {why}»"),
        };
        fill(text, &Arguments::new(arguments), &variables()).into_iter().map(piece).collect()
    }

    #[test]
    fn c11_argument_placeholders_are_replaced_by_passed_arguments() {
        let check = |text: &str, arguments: &str, expected: &str| {
            assert_eq!(shown(text, arguments), expected, "{text} with {arguments}");
        };
        check("Test: $ARGUMENTS", "a b c", "Test: a b c");
        check("[$ARGUMENTS]", "", "[]");
        check("$ARGUMENTS", "$1 $ARGUMENTS {{mode}} !`x`", "$1 $ARGUMENTS {{mode}} !`x`");
        check("$1: $@", "prefix a b", "prefix: prefix a b");
        check("[$1|$2|$@]", "one \"two three\" x", "[one|two three|one \"two three\" x]");
        check("$1.5", "a", "a.5");
        check("costs $5 or $100", "", "costs $5 or $100");
        check("costs $5", "one", "costs $5");
        check("$0", "a", "$0");
        check("$arguments $ARGUMENTS_X $ARGUMENTS", "a", "$arguments $ARGUMENTS_X a");
        check("${1:-def}|${2:-x y}", "", "def|x y");
        check("${@:-none} ${ARGUMENTS:-n2}", "", "none n2");
        check("${1}|${2}|${x}|${", "a", "a|${2}|${x}|${");
        check("BC ${@:2} / ${@:1:1} / ${@:9}", "1 2 3", "BC 2 3 / 1 / ");
        check("$99999999999999999999999", "a", "$99999999999999999999999");
        check("${@:99999999999999999999999}", "a", "${@:99999999999999999999999}");
        check("${@:2:18446744073709551615}", "a b", "b");
    }

    #[test]
    fn c11_variables_are_replaced_once_and_unknown_variables_stay() {
        let check = |text: &str, expected: &str| assert_eq!(shown(text, ""), expected, "{text}");
        check("{{project_name}} at {{ project_path }}", "my-app at /work/my-app");
        check("{{language}}/{{framework}}", "rust/{{mode}}");
        check("{{agent_id}} {{mode}}", "coder code");
        check("{{task}} {{ }} {{ {{mode}} }}", "{{task}} {{ }} {{ code }}");
        check("{{{mode}}} {{mode", "{code} {{mode");
        check("just plain text", "just plain text");
        check("", "");
    }

    fn check(text: &str, arguments: &str, expected: Expect) {
        expected.assert_eq(&shown(text, arguments));
    }

    #[test]
    fn s19_arguments_within_a_command_are_quoted_words() {
        check("Now:\n!`git diff`\nthen", "", expect!["Now:\n«git diff»\nthen"]);
        check("!`cat $1`", "a.rs", expect!["«cat 'a.rs'»"]);
        check("!`cat $1`", "'; rm -rf ~ #'", expect!["«cat '; rm -rf ~ #'»"]);
        check("!`cat $1`", "\"it's\"", expect![[r"«cat 'it'\''s'»"]]);
        check("!`cat \"$1\" x`", "'a b'", expect!["«cat 'a b' x»"]);
        check("!`cat \"$1\"\"$2\"`", "a b", expect!["«cat 'a''b'»"]);
        check("!`grep $ARGUMENTS .`", "-n 'a b'", expect!["«grep '-n' 'a b' .»"]);
        check("!`ls {{project_path}}`", "", expect!["«ls '/work/my-app'»"]);
        check("!`echo {{framework}}`", "", expect!["«echo '{{mode}}'»"]);
        check("!`awk '{print $1}' f`", "", expect!["«awk '{print $1}' f»"]);
    }

    #[test]
    fn s19_command_with_an_argument_inside_quotes_does_not_run() {
        check("!`echo '$1'`", "x", expect!["«not echo '$1': an argument is inside quotes»"]);
        check(
            "!`echo \"a $1\"`",
            "x",
            expect![[r#"«not echo "a $1": an argument is inside quotes»"#]],
        );
        check(
            "!`echo \"$1 a\"`",
            "x",
            expect![[r#"«not echo "$1 a": an argument is inside quotes»"#]],
        );
        for place in [
            "cat <<E $1",
            "x=$(( $1 ))",
            "[[ $1 -eq 0 ]]",
            "echo ${x} $1",
            "echo $'a' $1",
            "ls # $1",
            "echo \\$1",
        ] {
            let told = shown(&format!("!`{place}`"), "x");
            assert_eq!(told, format!("«not {place}: an argument cannot be quoted safely in it»"));
        }
    }

    #[test]
    fn c9_inline_commands_need_a_blank_before_and_are_ignored_in_code() {
        check("a!`x` b", "", expect!["a!`x` b"]);
        check("```\n!`x`\n```\n!`y`", "", expect!["```\n!`x`\n```\n«y»"]);
        check("~~~~\n```\n!`x`\n~~~~\n!`y`", "", expect!["~~~~\n```\n!`x`\n~~~~\n«y»"]);
        check("!`` !`open", "", expect!["!`` !`open"]);
        check("!`a\nb`", "", expect!["!`a\nb`"]);
    }
}
