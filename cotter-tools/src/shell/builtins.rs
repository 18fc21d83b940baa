//! Shell builtins: what they do to the shell, and to files.

use cotter::permission::{Zone, facts::CommandWordKind};

use crate::shell::{
    command_verdict::CommandVerdict,
    expand::{self, Field},
    faults,
    folders::Folders,
    judge::plain_words,
    names,
    tree::{Assign, ShellWord, Value},
    walk::{Call, ScriptWalk},
    wrappers::HARMLESS_SHELL_OPTIONS,
};

impl ScriptWalk<'_> {
    /// Records a builtin other than `cd`. False: a program has this name.
    pub(crate) fn builtin(
        &mut self,
        name: &str,
        fields: &[Field],
        folders: &Folders,
        call: &Call<'_>,
    ) -> bool {
        match name {
            "pushd" => _ = self.cd(fields, folders, call),
            "popd" | "exit" | "return" | "break" | "continue" | "shift" => {
                self.add_command(plain_words(fields), Zone::Safe, call);
            }
            "set" => self.set(fields, folders, call),
            "eval" => self.eval(fields, folders, call),
            "trap" => self.trap(fields, folders, call),
            "test" | "[" => self.bracket(fields, folders, call),
            "printf" => {
                let verdict = Self::printf(fields);
                self.record(verdict, folders, call);
            }
            "read" => self.plain_names(fields, READ_OPTIONS, folders, call),
            "unset" => self.plain_names(fields, UNSET_OPTIONS, folders, call),
            "hash" if matches!(fields, [_] | [_, _]) && fields[1..].iter().all(is_reset) => {
                return false;
            }
            "jobs" if fields.len() == 1 => return false,
            "let" | "getopts" | "mapfile" | "readarray" | "alias" | "unalias" | "shopt"
            | "enable" | "bind" | "complete" | "compgen" | "compopt" | "fc" | "hash"
            | "declare" | "typeset" | "local" | "export" | "readonly" | "coproc" | "suspend"
            | "logout" | "jobs" | "history" => {
                self.unclear(match name {
                    "alias" | "unalias" | "shopt" | "enable" | "hash" => {
                        format!("`{name}` changes what later words mean")
                    }
                    _ => format!("`{name}` may evaluate what it is given"),
                });
                self.add_command(plain_words(fields), Zone::Build, call);
            }
            _ => return false,
        }
        true
    }

    /// `cd` and `pushd`: the folders that they enter.
    pub(crate) fn cd(
        &mut self,
        fields: &[Field],
        folders: &Folders,
        call: &Call<'_>,
    ) -> Option<Folders> {
        let mut verdict = CommandVerdict::new(Zone::Safe);
        verdict.words = plain_words(fields);
        let mut target = None;
        for (at, field) in fields.iter().enumerate().skip(1) {
            match field.text.as_str() {
                "-P" | "-L" | "--" | "-e" => verdict.words[at].1 = CommandWordKind::Option,
                _ if target.is_none() => target = Some(field.clone()),
                _ => verdict.unclear("`cd` is given more than one folder"),
            }
        }
        let home = self.known(folders).home.map(Field::known);
        let is_back = |target: &Field| target.text == "-" || target.text.starts_with('+');
        let target = target.or(home).filter(|target| target.is_known() && !is_back(target));
        match &target {
            Some(target) => verdict.add_reads([target.clone()]),
            None => verdict.unknown("the folder that `cd` enters is only known when it runs"),
        }
        self.record(verdict, folders, call);
        let entered = target.map(|target| self.entered(&target, folders));
        Some(entered.unwrap_or_else(Folders::unknown))
    }

    /// `set` with options that change no meaning, or with arguments, which have no values here.
    fn set(&mut self, fields: &[Field], folders: &Folders, call: &Call<'_>) {
        let mut verdict = CommandVerdict::new(Zone::Safe);
        verdict.words = plain_words(fields);
        let mut rest = fields[1..].iter();
        while let Some(field) = rest.next() {
            let text = field.text.as_str();
            let flags = text
                .strip_prefix(['-', '+'])
                .filter(|flags| flags.chars().all(|c| "euxov".contains(c)));
            match (text, flags) {
                ("--", _) if field.is_known() => break,
                (_, Some(flags)) if field.is_known() && !flags.is_empty() => {
                    let option = flags.ends_with('o').then(|| rest.next()).flatten();
                    let is_harmless = |option: &Field| {
                        let option = option.literal();
                        option.is_some_and(|option| HARMLESS_SHELL_OPTIONS.contains(&option))
                    };
                    if option.is_some_and(|option| !is_harmless(option)) {
                        verdict.unclear("`set` changes how the shell reads what follows");
                    }
                }
                _ => verdict.unclear("`set` changes how the shell reads what follows"),
            }
        }
        self.record(verdict, folders, call);
    }

    /// `eval` of literal text, which was parsed with the rest.
    fn eval(&mut self, fields: &[Field], folders: &Folders, call: &Call<'_>) {
        self.add_command(plain_words(fields), Zone::Safe, call);
        match call.evaluated {
            Some(script) => {
                self.walk_in_place(&script.nodes, folders);
                if let Some(why) = &script.error {
                    self.unclear(why.clone());
                }
            }
            None if fields.len() == 1 || faults::is_off(faults::EVALUATED_TEXT) => {}
            None => self.unclear("what `eval` runs is only known when it runs"),
        }
    }

    /// `trap`: its command runs later, at any point of the script.
    fn trap(&mut self, fields: &[Field], folders: &Folders, call: &Call<'_>) {
        self.add_command(plain_words(fields), Zone::Safe, call);
        match call.evaluated {
            Some(script) => {
                let unknown = Folders::unknown();
                let moves = self.scan.moves && !faults::is_off(faults::BODIES_MOVE);
                let anywhere = if moves { &unknown } else { folders };
                self.walk_in_place(&script.nodes, anywhere);
                if let Some(why) = &script.error {
                    self.unclear(why.clone());
                }
            }
            None if fields.len() == 1 || faults::is_off(faults::EVALUATED_TEXT) => {}
            None => self.unclear("what `trap` runs is only known when it runs"),
        }
    }

    /// `read` and `unset`: harmless with plain names.
    fn plain_names(
        &mut self,
        fields: &[Field],
        options: (&str, &str),
        folders: &Folders,
        call: &Call<'_>,
    ) {
        let mut verdict = CommandVerdict::new(Zone::Safe);
        verdict.words = plain_words(fields);
        let mut rest = fields.iter().enumerate().skip(1);
        while let Some((at, field)) = rest.next() {
            let text = field.text.as_str();
            let letters = text.strip_prefix('-').filter(|letters| !letters.is_empty());
            match letters {
                Some(letters) if field.is_known() && text != "--" => {
                    let (plain, valued) = options;
                    let last_takes_value = letters.ends_with(|c| valued.contains(c));
                    let flags = &letters[..letters.len() - usize::from(last_takes_value)];
                    if !flags.chars().all(|c| plain.contains(c)) {
                        verdict
                            .unclear(format!("`{} {text}` has an unknown option", fields[0].text));
                    }
                    verdict.words[at].1 = CommandWordKind::Option;
                    let value = if last_takes_value { rest.next() } else { None };
                    let sets = letters.ends_with('a');
                    let is_plain = |value: &Field| match sets {
                        true => value.literal().is_some_and(is_plain_variable),
                        false => !value.is_several(),
                    };
                    if value.is_some_and(|(_, value)| !is_plain(value)) {
                        verdict.unclear(format!("`{}` may set any variable", fields[0].text));
                    }
                }
                _ if text == "--" => {}
                _ if !field.is_known() || !is_plain_variable(text) => {
                    verdict.unclear(format!(
                        "`{} {text}` may evaluate what it is given",
                        fields[0].text
                    ));
                }
                // The name may be that of a function, which would then be gone.
                _ if fields[0].text == "unset" && self.scan.defines(text) => {
                    verdict.unclear(format!("after `unset {text}` another command has this name"));
                }
                _ => {}
            }
        }
        self.record(verdict, folders, call);
    }

    /// `printf -v` assigns to the variable it names, and so does the format `%n`.
    fn printf(fields: &[Field]) -> CommandVerdict {
        let mut verdict = CommandVerdict::printer();
        verdict.words = plain_words(fields);
        let first = fields.get(1);
        let assigns =
            first.is_some_and(|field| field.text.starts_with("-v") || field.may_be_option());
        let counts = |format: &Field| format.literal().is_none_or(counts_characters);
        if assigns {
            verdict.unclear("`printf -v` may evaluate what it is given");
        } else if let [format, _, ..] = format_words(fields)
            && counts(format)
        {
            verdict.unclear("a format of `printf` may set a variable");
        }
        verdict
    }

    /// `[ … ]`: most tests only read words or files.
    fn bracket(&mut self, fields: &[Field], folders: &Folders, call: &Call<'_>) {
        let mut verdict = CommandVerdict::new(Zone::Safe);
        verdict.words = plain_words(fields);
        let end = if fields[0].text == "[" { fields.len() - 1 } else { fields.len() };
        if fields[0].text == "[" && fields.last().is_none_or(|last| last.text != "]") {
            verdict.unclear("`[` is never closed");
        }
        let inner = fields.get(1..end).unwrap_or_default();
        let text = |at: usize| inner.get(at).map(|field| field.text.as_str()).unwrap_or_default();
        for (at, field) in inner.iter().enumerate() {
            if at + 1 < end
                && at < verdict.words.len() - 1
                && field.is_known()
                && field.text.starts_with('-')
            {
                verdict.words[at + 1].1 = CommandWordKind::Option;
            }
            let evaluates = matches!(field.text.as_str(), "-v" | "-R");
            let compared = is_comparison(text(at + 1)) || at > 0 && is_comparison(text(at - 1));
            let tested =
                at > 0 && (matches!(text(at - 1), "-n" | "-z") || is_file_test(text(at - 1)));
            let lone = inner.len() == 1;
            let open = field.is_open() && (field.may_split() || !(compared || tested || lone));
            if evaluates || open || matches!(field.shape, expand::Shape::Pattern(_)) {
                verdict
                    .unclear(format!("`{}` may be evaluated by `{}`", field.text, fields[0].text));
            }
            if is_file_test(&field.text) && !is_comparison(text(at + 1)) {
                verdict.add_reads(inner.get(at + 1).filter(|file| !file.is_open()).cloned());
            }
            if matches!(field.text.as_str(), "-nt" | "-ot" | "-ef") && at > 0 {
                let sides = [inner.get(at - 1), inner.get(at + 1)].into_iter().flatten();
                verdict.add_reads(sides.filter(|file| !file.is_open()).cloned());
            }
        }
        self.record(verdict, folders, call);
    }

    /// `[[ … ]]`: words are not split, but numbers are evaluated.
    pub(crate) fn test(&mut self, words: &[ShellWord], folders: &Folders) {
        let bare = |at: usize| words.get(at).and_then(ShellWord::bare).unwrap_or_default();
        for (at, word) in words.iter().enumerate() {
            match word.bare().unwrap_or_default() {
                "-v" | "-R" => self.unclear("`[[ -v … ]]` may evaluate what it is given"),
                "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge" => {
                    let sides =
                        [at.checked_sub(1).and_then(|before| words.get(before)), words.get(at + 1)];
                    let number = |word: &ShellWord| {
                        let field = expand::single(word, self.known(folders));
                        let digits = |text: &str| {
                            !text.is_empty() && text.chars().all(|c| c.is_ascii_digit())
                        };
                        field.literal().is_some_and(digits)
                    };
                    if !sides.into_iter().flatten().all(number) {
                        self.unclear("`[[ … ]]` evaluates what it compares as numbers");
                    }
                }
                test if is_file_test(test) && !is_comparison(bare(at + 1)) => {
                    let file = words.get(at + 1);
                    let file = file.map(|word| expand::single(word, self.known(folders)));
                    // Of a file that is not known beforehand, only its existence would be told.
                    if let Some(file) = file.filter(|file| !file.is_open()) {
                        let zone = self.reads(&file, folders);
                        self.facts.zone = self.facts.zone.max(zone);
                    }
                }
                _ => {}
            }
        }
    }

    /// Assignments without a command.
    pub(crate) fn assign_all(&mut self, assigns: &[Assign], folders: &Folders) {
        for assign in assigns {
            self.check_assigned(&assign.name);
            if !names::is_harmless_value(&assign.name, assign.literal().as_deref()) {
                self.unclear(format!("`{}=…` changes how text is read", assign.name));
            }
            self.assign(assign, folders);
        }
    }

    /// Assignments before a command may change what it does.
    pub(crate) fn assign_before_command(&mut self, assigns: &[Assign], folders: &Folders) {
        for assign in assigns {
            let name = &assign.name;
            let is_harmless = names::is_harmless(name)
                && names::is_harmless_value(name, assign.literal().as_deref());
            if names::is_influential(name) {
                self.unclear(format!("`{name}=…` changes what a command does"));
            } else if !is_harmless {
                self.unknown(format!("`{name}=…` before a command may change what it does"));
            }
            self.assign(assign, folders);
        }
    }

    /// Bash evaluates subscripts. The words of the value may name files.
    fn assign(&mut self, assign: &Assign, folders: &Folders) {
        if let Some(subscript) = &assign.subscript
            && (subscript.is_empty() || !subscript.chars().all(|c| c.is_ascii_digit()))
        {
            self.unclear(format!("the subscript `[{subscript}]` is evaluated"));
        }
        if let Value::List(words) = &assign.value
            && words.iter().any(|word| word.source.starts_with('['))
        {
            self.unclear("a list names its own subscripts");
        }
        for word in assign.words() {
            let field = expand::single(word, self.known(folders));
            self.mention_all(&[field], folders);
        }
    }

    /// `export`, `declare` and similar commands.
    pub(crate) fn declare(
        &mut self,
        fields: &[Field],
        assigns: &[Assign],
        folders: &Folders,
        call: &Call<'_>,
    ) {
        let mut verdict = CommandVerdict::new(Zone::Safe);
        verdict.words = plain_words(fields);
        let name = fields[0].text.as_str();
        let flags = |field: &&Field| field.is_known() && field.text.starts_with('-');
        let exports = name == "export"
            || fields[1..].iter().filter(flags).any(|field| field.text.contains('x'));
        for (at, field) in fields.iter().enumerate().skip(1) {
            match field.text.as_str() {
                "-x" | "-g" | "-gx" | "-p" | "--" if field.is_known() => {
                    verdict.words[at].1 = CommandWordKind::Option;
                }
                text if field.is_known() && is_name(text) => verdict.set(text, exports),
                text => verdict.unclear(format!("`{name} {text}` may evaluate what it is given")),
            }
        }
        for assign in assigns {
            verdict.set(&assign.name, exports);
            let source = match &assign.value {
                Value::Word(word) => word.source.as_str(),
                Value::List(_) => "(…)",
            };
            let field = Field::known(format!("{}={source}", assign.name));
            verdict.words.push((field, CommandWordKind::Operand));
        }
        if name == "readonly" {
            verdict.unclear("after `readonly` later assignments may fail");
        }
        self.record(verdict, folders, call);
        assigns.iter().for_each(|assign| self.assign(assign, folders));
    }
}

impl CommandVerdict {
    /// Sets a variable for all later commands, or for those of the shell alone.
    fn set(&mut self, name: &str, exports: bool) {
        if names::is_influential(name) {
            self.unclear(format!("`{name}=…` changes what later commands do"));
        } else if exports && !names::is_harmless(name) {
            self.unknown(format!("`export {name}` may change what later commands do"));
        }
    }
}

/// The letters of `read` without a value, and those with one.
const READ_OPTIONS: (&str, &str) = ("rse", "adintNpu");
const UNSET_OPTIONS: (&str, &str) = ("vf", "");

/// True for a variable that may be set: bash evaluates nothing in its name, and nothing else reads it.
fn is_plain_variable(name: &str) -> bool {
    is_name(name) && !names::is_influential(name)
}

/// `hash -r` forgets where programs are, which changes nothing.
fn is_reset(field: &Field) -> bool {
    field.literal() == Some("-r")
}

/// The format of `printf` and what follows it.
fn format_words(fields: &[Field]) -> &[Field] {
    match fields {
        [_, dashes, rest @ ..] if dashes.text == "--" => rest,
        [_, rest @ ..] => rest,
        [] => &[],
    }
}

/// True if a format of `printf` stores the number of printed characters in a variable.
fn counts_characters(format: &str) -> bool {
    let format = format.replace("%%", "");
    format.split('%').skip(1).any(|part| {
        let letter = part.find(|c: char| c.is_ascii_alphabetic() && !"hlLjzt".contains(c));
        letter.is_some_and(|at| part[at..].starts_with('n'))
    })
}

fn is_name(text: &str) -> bool {
    let letters = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    letters && !text.starts_with(|c: char| c.is_ascii_digit())
}

fn is_comparison(text: &str) -> bool {
    matches!(
        text,
        "=" | "=="
            | "!="
            | "<"
            | ">"
            | "-eq"
            | "-ne"
            | "-lt"
            | "-le"
            | "-gt"
            | "-ge"
            | "=~"
            | "-nt"
            | "-ot"
            | "-ef"
    )
}

fn is_file_test(text: &str) -> bool {
    text.len() == 2
        && text.starts_with('-')
        && text.ends_with(|c| "abcdefghkprsuwxGLNOS".contains(c))
}
