//! Scripts made up at random, of which it is known what they run.

use proptest::{collection::vec, prelude::*, sample::select};

/// A script, and whether it is one simple command, which a wrapper such as `nice` can take.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) text: String,
    pub(crate) simple: bool,
}

/// Wrappers: `@` is the words of the command they run.
pub(crate) const WRAPPERS: [&str; 22] = [
    "env @",
    "env -i @",
    "env -u X @",
    "nice @",
    "nice -n 5 @",
    "nohup @",
    "timeout 5 @",
    "timeout -k 1 -s TERM 5 @",
    "stdbuf -oL @",
    "setsid @",
    "command @",
    "command -p @",
    "exec @",
    "xargs @",
    "xargs -n 1 @",
    "xargs -I'{}' @",
    "find . -maxdepth 0 -exec @ ';'",
    "find . -maxdepth 0 -exec @ '{}' +",
    "sudo @",
    "sudo -u root -- @",
    "env nice -5 @",
    "/usr/bin/env @",
];

/// Scripts in words: `@'` is a script in quotes.
pub(crate) const QUOTERS: [&str; 8] = [
    "sh -c @'",
    "bash -c @'",
    "bash -ec @'",
    "bash --norc -c @' name",
    "bash -e -o pipefail -c @'",
    "eval @'",
    "eval true ';' @'",
    "command eval @'",
];

/// Constructs: `@` is a script, `` @` `` one between backticks, `E#` a unique mark.
pub(crate) const CONSTRUCTS: [&str; 58] = [
    "true; @",
    "true && @",
    "false || @",
    "true & @",
    "true\n@",
    "# a comment\n@",
    "true | {\n@\n}",
    "(\n@\n)",
    "( @\n)",
    "{\n@\n}",
    "{ @\n}",
    "true && {\n@\n} || false",
    "{\n@\n} | cat",
    "{\n@\n} > out.txt 2>&1",
    "(\n@\n) < /dev/null &",
    "if true; then\n@\nfi",
    "if\n@\nthen true; fi",
    "if false; then true; else\n@\nfi",
    "if false; then true; elif\n@\nthen true; fi",
    "while\n@\ndo break; done",
    "until\n@\ndo break; done",
    "while true; do\n@\nbreak; done",
    "for i in 1 2; do\n@\ndone",
    "for i in $(\n@\n); do true; done",
    "for ((i = 0; i < 1; i++)); do\n@\ndone",
    "case a in\na)\n@\n;;\nesac",
    "case a in (b) true ;; *) @\nesac",
    "case $(\n@\n) in *) true ;; esac",
    "f() {\n@\n}\nf",
    "function f {\n@\n}; f",
    "f() (\n@\n); f",
    "echo $(\n@\n)",
    "echo $( @\n)",
    "echo \"$(\n@\n)\"",
    "echo \"a $(echo \"$(\n@\n)\") b\"",
    "echo `@`",
    "echo \"${y:-`@`}\"",
    "x=$(\n@\n)",
    "x=1 y=$(\n@\n)",
    "export x=\"$(\n@\n)\"",
    "echo ${y:-$(\n@\n)}",
    "echo \"a ${y:-b $(\n@\n)}\"",
    "echo \"${y/a/$(\n@\n)}\"",
    "echo ${y%%$(\n@\n)}",
    "cat <(\n@\n)",
    "true > >(\n@\n)",
    "arr=(a $(\n@\n) b)",
    "[[ -n $(\n@\n) ]]",
    "[[ a == b || $(\n@\n) ]]",
    "[ \"$(\n@\n)\" ]",
    "echo $(( $(\n@\n) + 1 ))",
    "cat <<< \"$(\n@\n)\"",
    "cat <<E#\n$(\n@\n)\nE#\n",
    "cat <<-E#\n\ta ${y:-$(\n@\n)}\n\tE#\n",
    "cat <<'E#'\n$(true)\nE#\n@",
    "time {\n@\n}",
    "! {\n@\n}",
    "trap 'true' EXIT\n@",
];

/// A script within a construct, which is the `depth`-th round it.
pub(crate) fn within(construct: &str, script: &Script, depth: usize) -> Script {
    let construct = construct.replace("E#", &format!("END{depth}"));
    let mut text = String::new();
    let mut rest = construct.as_str();
    while let Some(at) = rest.find('@') {
        let (before, after) = rest.split_at(at);
        let in_backticks = before.ends_with('`');
        text.push_str(before);
        rest = &after[1..];
        if in_backticks {
            text.push_str(&script.text.replace('\\', "\\\\").replace('`', "\\`"));
        } else {
            text.push_str(&script.text);
        }
    }
    text.push_str(rest);
    Script { text, simple: false }
}

/// A script as a word of a command.
pub(crate) fn quoted(quoter: &str, script: &Script) -> Script {
    let word = format!("'{}'", script.text.replace('\'', r"'\''"));
    Script { text: quoter.replace("@'", &word), simple: true }
}

/// A script run by a wrapper: by itself where it is one command, else by a shell.
pub(crate) fn wrapped(wrapper: &str, script: &Script) -> Script {
    let is_builtin = ["eval", "command", "exec"].iter().any(|name| script.text.starts_with(name));
    // The end of the inner one would be the end of both.
    let is_nested_find = wrapper.starts_with("find") && script.text.contains("find ");
    let inner = match script.simple && !is_builtin && !is_nested_find {
        true => script.clone(),
        false => quoted(QUOTERS[1], script),
    };
    Script { text: wrapper.replace('@', &inner.text), simple: true }
}

/// One more layer round a script, by its number among all there are.
pub(crate) fn layer(number: usize, script: &Script, depth: usize) -> Script {
    let (wrappers, quoters) = (WRAPPERS.len(), QUOTERS.len());
    match number % LAYERS {
        n if n < wrappers => wrapped(WRAPPERS[n], script),
        n if n < wrappers + quoters => quoted(QUOTERS[n - wrappers], script),
        n => within(CONSTRUCTS[n - wrappers - quoters], script, depth),
    }
}

/// How many layers there are.
pub(crate) const LAYERS: usize = WRAPPERS.len() + QUOTERS.len() + CONSTRUCTS.len();

/// A command within a number of layers.
pub(crate) fn hidden(
    command: String,
    layers: impl Strategy<Value = Vec<usize>>,
) -> impl Strategy<Value = Script> {
    layers.prop_map(move |layers| {
        let command = Script { text: command.clone(), simple: true };
        let numbered = layers.into_iter().enumerate();
        numbered.fold(command, |script, (depth, number)| layer(number, &script, depth))
    })
}

/// A word, and a spelling that means it.
pub(crate) fn spelled(word: &str) -> impl Strategy<Value = String> + use<> {
    let chars: Vec<char> = word.chars().collect();
    let count = chars.len().max(1);
    vec((0..6usize, any::<bool>()), count).prop_map(move |ways| {
        let mut spelling = String::new();
        if chars.is_empty() {
            spelling.push_str(if ways[0].1 { "''" } else { "\"\"" });
        }
        for (c, (way, empty)) in chars.iter().zip(ways) {
            spelling.push_str(&one(*c, way));
            if empty && way == 5 {
                spelling.push_str("''");
            }
        }
        spelling
    })
}

/// One character, quoted in one of the ways there are.
fn one(c: char, way: usize) -> String {
    let is_plain = c.is_ascii_alphanumeric() || "-_./,:+%".contains(c);
    match way {
        0 if c != '\'' => format!("'{c}'"),
        1 if c != '\n' => format!("\\{c}"),
        2 if "$`\"\\".contains(c) => format!("\"\\{c}\""),
        2 => format!("\"{c}\""),
        3 if c.is_ascii() => format!("$'\\x{:02x}'", u32::from(c)),
        4 if c.is_ascii() => format!("$'\\{:03o}'", u32::from(c)),
        _ if is_plain => c.to_string(),
        _ if c == '\'' => "\\'".into(),
        _ => format!("'{c}'"),
    }
}

/// Words that mean nothing to a shell once they are in quotes, and much when they are not.
pub(crate) fn word() -> impl Strategy<Value = String> {
    let char = prop_oneof![
        3 => select(('a'..='z').collect::<Vec<_>>()),
        2 => select(" \t\n;|&<>(){}[]$`'\"\\*?!#~=%^-_./,:+@".chars().collect::<Vec<_>>()),
        1 => select(vec!['é', 'ß', '日', '😀']),
    ];
    vec(char, 0..8).prop_map(|chars| chars.into_iter().collect())
}

/// Pieces of shell in any order, most of which make no sense.
pub(crate) fn soup() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => select(PIECES.to_vec()).prop_map(str::to_owned),
        1 => word(),
    ];
    vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

const PIECES: [&str; 96] = [
    " ",
    " ",
    " ",
    "\n",
    ";",
    ";;",
    "&",
    "&&",
    "|",
    "||",
    "|&",
    "(",
    ")",
    "{ ",
    " }",
    "((",
    "))",
    "[[ ",
    " ]]",
    "[ ",
    " ]",
    "$(",
    "${",
    "}",
    "`",
    "'",
    "\"",
    "\\",
    "$'",
    "$\"",
    "<",
    ">",
    ">>",
    "<<",
    "<<-",
    "<<<",
    "<>",
    ">|",
    "&>",
    ">&",
    "2>&1",
    "<(",
    ">(",
    "EOF",
    "\nEOF\n",
    "'EOF'",
    "#",
    "!",
    "~",
    "*",
    "?",
    "=",
    "x=",
    "x+=",
    "a[0]=",
    "a=(",
    "$x",
    "${x:-",
    "${!x}",
    "${x@P}",
    "$((",
    "$[",
    "{a,b}",
    "{1..3}",
    "if ",
    "then ",
    "else ",
    "elif ",
    "fi",
    "for i in ",
    "do ",
    "done",
    "while ",
    "until ",
    "case a in ",
    "esac",
    "a) ",
    "function f ",
    "f() ",
    "select i in ",
    "time ",
    "coproc ",
    "in ",
    "rm x",
    "ls",
    "echo ",
    "sudo ",
    "env ",
    "xargs ",
    "find . -exec ",
    "sh -c ",
    "eval ",
    "git ",
    "cd ",
    "/etc/passwd",
    "--",
];
