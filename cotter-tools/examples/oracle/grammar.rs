//! The grammar of generated scripts: one table. `«name»` in a row is replaced by a random row of that name.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::execution::is_known;

/// Every symbol with its rows. Too deep in a script, the first row is taken: it must end the recursion.
const GRAMMAR: &[(&str, &[&str])] = &[
    ("script", &["«list»"]),
    (
        "list",
        &[
            "«item»",
            "«item»",
            "«item»; «item»",
            "«item» && «item»",
            "«item»",
            "«item»; «item»",
            "«item»; «item»; «item»",
            "«item» && «item»",
            "«item» || «item»",
            "«item»\n«item»",
            "«item» && «item» || «item»; «item»",
            "! «item»; «item»",
            "# a comment\n«item»",
        ],
    ),
    (
        "item",
        &[
            "«command»",
            "«command»",
            "«command»",
            "«command»",
            "«command»",
            "«command»",
            "«command»",
            "«command»",
            "«command»",
            "«command»",
            "«command»",
            "«command»",
            "«compound»",
            "«state»",
            "«jump»",
        ],
    ),
    (
        "command",
        &[
            "«plain»",
            "«plain»",
            "«plain»",
            "«plain» «redirect»",
            "«redirect» «plain»",
            "«redirect»",
            "«wrapped»",
            "LANG=C «plain»",
            "A=1 «plain»",
            "«run»",
            "«run» «redirect»",
        ],
    ),
    (
        "compound",
        &[
            "( «list» )",
            "{ «list»; }",
            "if «item»; then «list»; fi",
            "if «item»; then «list»; else «list»; fi",
            "for i in «word» «file»; do «list»; done",
            "for i in 1 2; do «list»; done",
            "while «item»; do «list»; break; done",
            "until «item»; do «list»; break; done",
            "case a in «word») «list» ;; *) «list» ;; esac",
            "case a in a) «item» ;& b) «list» ;; esac",
            "f() { «list»; }; f",
            "f() { «list»; }; «item»; f «file»",
            "function g { «item»; }; g; «item»",
            "f() ( «list» ); f | cat",
            "«item» | «item»",
            "«item» |& «item»",
            "«item» | while read -r line; do «list»; done",
            "«item» & wait",
            "«item» &\n«item»\nwait",
            "coproc «command»; wait",
            "time «item»",
            "select i in «word»; do «list»; break; done <<< 1",
            "[[ -f «file» ]] && «item»",
            "[ -d «folder» ] || «item»",
            "(( 1 )) && «item»",
            "for ((i = 0; i < 2; i++)); do «list»; done",
            "{ «list»; } > «new»",
            "( «list» ) < «file»",
            "if true; then «list»; fi >> «new»",
            "cat <<END\n$(«bare»)\nEND",
            "cat <<'END' > «new»\ntext $(touch never)\nEND\n«item»",
        ],
    ),
    (
        "jump",
        &[
            "true",
            "break; «item»",
            "continue; «item»",
            "return; «item»",
            "return 1 2> /dev/null; «item»",
            "eval break; «item»",
            "exit --help; «item»",
            "( exit 1 ); «item»",
            "bash -c 'exit; «bare»'; «item»",
            "set -e; false; «item»",
            "set -n; «item»",
            "exec true; «item»",
            "exec nowhere; «item»",
            "f() { return; }; f; «item»",
            "for i in 1; do continue; «item»; done; «item»",
            "( break; «item» )",
            "kill -0 $$; «item»",
        ],
    ),
    (
        "state",
        &[
            "true",
            "cd «folder»; «item»",
            "cd «folder» && «item»",
            "cd «folder» && «item»; «item»",
            "cd «folder» || «item»",
            "cd «folder»; cd «folder»; «item»",
            "command cd «folder»; «item»",
            "builtin cd «folder» && «item»",
            "pushd «folder» > /dev/null; «item»; popd; «item»",
            "cd «folder» < nofile; «item»",
            "(cd «folder»); «item»",
            "cd «folder» | cat; «item»",
            "if cd «folder»; then «item»; fi; «item»",
            "{ cd «folder»; }; «item»",
            "for i in 1 2; do «item»; cd «folder»; done",
            "while cd «folder»; do «item»; break; done; «item»",
            "f() { cd «folder»; }; f; «item»",
            "f() { «item»; }; cd «folder»; f",
            "g() { cd sub; }; f() { «item»; }; g; f",
            "eval 'cd «plainfolder»'; «item»",
            "trap 'cd sub' DEBUG; «item»",
            "trap '«bare»' EXIT; cd «folder»",
            "trap '«bare»' EXIT; «item»",
            "trap '«bare»' DEBUG; «item»",
            "cd - > /dev/null; «item»",
            "set -- «word» «file»; «item»",
            "command set -- «bare»; $*",
            "x=«word»; «item»",
            "x='«bare»'; $x",
            "x=echo; $x a",
            "x='«bare»'; eval \"$x\"",
            "eval \"$(echo «bare»)\"",
            "x='«bare»'; trap \"$x\" EXIT; «item»",
            "x=a.txt; cat $x",
            "x=a.txt; x=.env; cat \"$x\"",
            "x=m; touch $x",
            "x=echo; command eval \"x='«bare»'\"; $x",
            "x=echo; trap 'x=cat' DEBUG; $x a.txt",
            "A=bash; declare A=cat B=$A; $B «file»",
            "x=( «word» «file» ); «item»",
            "export X=«word»; «item»",
            "unset x; «item»",
            "read x < «file»; «item»",
            "read -r x y <<< 'a b'; «item»",
            "mapfile -t lines < «file»; «item»",
            "printf -v x %s «word»; «item»",
            "let x=1; «item»",
            "alias ls='«bare»'; ls",
            "shopt -s expand_aliases\nalias ls='«bare»'\nls",
            "PATH=sub; «item»",
            "IFS=x; «item»",
            "exec > «new»; «item»",
            "exec 3> «new»; «item» >&3",
            ". ./lib.sh; «item»",
            "source sub/lib.sh; «item»",
            "ls() { «bare»; }; ls",
            "cd() { «bare»; }; cd sub; «item»",
            "echo() { «bare»; }; echo a; unset -f echo; echo b",
            "«bare»; ls() { «bare»; }; ls",
            "f() { f2; }; f2() { «bare»; }; f",
            "ln -s «file» l; cat l",
            "ln -s «folder» l; «item»; touch l/m",
            "for i in 1 2; do touch l/m; ln -s sub l; done",
            "cat l | ln -s .env l; cat l",
            "{ cat l; ln -s ../../home/u/notes.txt l; } & wait; cat l",
            "cp -P link copied; cat copied",
            "jobs -x «bare»",
            "hash -r; «item»",
            "umask 077; «item»",
            "set -f; echo *; «item»",
            "while read -r f; do cat \"$f\"; done < list.txt",
            "xargs cat < list.txt",
            "printf 'aaa%n' PATH; «item»",
            "printf '%s%n' a x; «item»",
            "x='-p x.sh ls'; hash -r $x; ls",
            "[[ -n a # ]] ; echo \"\n]] ; «bare» # \"",
            "[[ a == «word» ]] && «item»",
            ": $(cat <<A\nA «bare» )\nA\n)",
            "echo \"$(cat <<A\n«word»\nA\n)\"; «item»",
            "x='y[$(«bare»)]'; : {a[x]}> m",
            "ln -s «folder» -; touch ./-/m",
            "ln -s «file» -; cat ./-",
            "cd sub && ln -s ../.env && cat .env",
            "cd sub && ln -s ../../../home/u/notes.txt -t .. ; cat ../notes.txt",
            "ln -rs .git/hooks l; touch l/m",
            "ln -s «file» -t «folder»; «item»",
            "x='zz -o -name a.txt -exec touch m ;'; find . -name $x",
            "x=-r; grep \"$x\" x",
            "x=f; dd \"i${x}=.env\"",
            "mv «plainfolder» gone; cat gone/x.txt",
            "touch ./-r; grep x *",
            "echo .env > names; «item»; strings @names",
            "LC_ALL=C «item»",
            "bash <<< 'echo a' < x.sh",
            "echo '«bare»' | bash 3<<< true",
            "x=; grep \"-r$x\" x",
            "echo a >&\\\n-b",
            "touch &\\\n>x test m",
            "[[ a =~ (b ]] ; echo # ) ]] ; «bare»",
            "[[ a == @(b ]] ; echo # ) ]] ; «bare»",
            "echo \"${y:-$'$(«bare»)'}\"",
            "bash -o keyword -c 'ls PATH=./bin'",
            "echo hi | xargs -E $! echo «bare»",
            "if {cd,sub}; then cat x.txt; fi",
            "{command,cd,sub}; «item»",
            "mkdir s && cd s && ln -s ../.git/hooks && touch hooks/m",
            "ln -s ../.git/hooks sub/m; cp a.txt sub/m",
            "echo 'x; «bare»' | xargs --replace bash -c 'echo {}'",
            "cat ./{},.env}",
            "cat x=~/notes.txt",
            "x=a.txt; cat \"${x}\" <&-",
        ],
    ),
    (
        "wrapped",
        &[
            "env «bare»",
            "env A=1 «bare»",
            "env -i «bare»",
            "env -C «plainfolder» «bare»",
            "nice «bare»",
            "nice -n 5 «bare»",
            "timeout 5 «bare»",
            "nohup «bare»",
            "command «bare»",
            "command -p «bare»",
            "exec «bare»",
            "stdbuf -oL «bare»",
            "setsid «bare»",
            "echo «file» | xargs «bare»",
            "xargs -n 1 «bare» < list.txt",
            "xargs -I X cat X < list.txt",
            "find «folder» -name '*.txt' -exec «bare» ';'",
            "find «folder» -name '*.txt' -exec cat {} ';'",
            "find . -type f -exec head -n 1 {} +",
            "bash -c '«bare»'",
            "bash -c '«bare»; «bare»'",
            "bash -ec 'cd «plainfolder»; «bare»'",
            "bash -c 'cat $0' «file»",
            "bash <<< '«bare»'",
            "echo '«bare»' | bash",
            "sh -c '«bare»'",
            "eval '«bare»'",
            "eval '«bare»;' «bare»",
            "eval \"«bare»\"",
            "echo $(«bare»)",
            "echo \"$(«bare»; «bare»)\" `«bare»`",
            "cat <(«bare»)",
            "«bare» > >(cat)",
            "builtin echo a",
            "time -p «bare»",
        ],
    ),
    (
        "redirect",
        &[
            "> «new»",
            ">> «new»",
            "< «file»",
            "2> «new»",
            "&> «new»",
            ">| «new»",
            "<> «new»",
            "<<< «word»",
            "2>&1",
            ">&2",
            "> «file»",
            "< nofile",
            "> «plainfolder»/m",
            "3> «new»",
            ">& «new»",
            ">& '$(«bare»)'",
            ">& '$x'",
            ">&-",
            ">&-m",
            "2>&- < «file»",
            "> /dev/null",
        ],
    ),
    (
        "word",
        &[
            "a",
            "a.txt",
            "'a b'",
            "a",
            "a.txt",
            "b",
            "a",
            "b",
            "a",
            "a.txt",
            "'a b'",
            "\"x y\"",
            "$x",
            "\"$x\"",
            "${x:-«file»}",
            "${x:-a}",
            "${x:=m}",
            "${x:+a}",
            "$(«bare»)",
            "`«bare»`",
            "\"$(«bare»)\"",
            "{a,b}",
            "{1..3}",
            "~",
            "$HOME",
            "$PWD",
            "$((1 + 2))",
            "${#x}",
            "${x%.*}",
            "$'a\\tb'",
            "\\a",
            "*",
            "*.txt",
            "[ab].txt",
            "<(«bare»)",
            "${!x}",
            "\"${x[@]}\"",
            "$@",
            "\"$@\"",
            "$?",
            "-n",
            "--",
            "-x",
            "a=b",
        ],
    ),
    (
        "file",
        &[
            "a.txt",
            "b.txt",
            "sub/x.txt",
            "a.txt",
            "b.txt",
            "sub/x.txt",
            "a.txt",
            "b.txt",
            "a.txt",
            "b.txt",
            "a.txt",
            "b.txt",
            "a.txt",
            "b.txt",
            "sub/x.txt",
            "a.txt",
            "b.txt",
            "sub/x.txt",
            "./a.txt",
            "../app/a.txt",
            ".env",
            "sub/deep/y.txt",
            "'my file.txt'",
            "my\\ file.txt",
            "\"$PWD/a.txt\"",
            "~/notes.txt",
            "~/.ssh/id_rsa",
            "{a,b}.txt",
            "*.txt",
            "sub/*.txt",
            ".e?v",
            "a.tx[t]",
            ".[[:lower:]]nv",
            ".[[=e=]]n?",
            ".['!'e]nv",
            ".[[=n=]][a-m-z]nv",
            "[ab]*.txt",
            "[!x]*.txt",
            "-",
            "link",
            "linked/x.txt",
            ".git/config",
            "dash/*",
            "list.txt",
            "$x",
            "\"$(echo a.txt)\"",
            "x.txt",
        ],
    ),
    (
        "new",
        &[
            "m",
            "n.txt",
            "m",
            "n.txt",
            "sub/m",
            "m",
            "n.txt",
            "m",
            "n.txt",
            "m",
            "n.txt",
            "sub/m",
            "new/m",
            "./m",
            "a.txt",
            "/tmp/t",
            "\"$HOME/m\"",
            ".git/hooks/m",
            ".envrc",
            "linked/m",
            "../app/m",
            "'my file.txt'",
            "$x",
            "m{1,2}",
            "-",
        ],
    ),
    (
        "folder",
        &[
            "sub",
            "src",
            "sub",
            "src",
            "sub/deep",
            "sub",
            "sub/deep",
            ".",
            "..",
            ".git",
            "src",
            "~",
            "nowhere",
            "\"$HOME\"",
            "sub/../src",
            "dash",
            "linked",
            "$x",
            "sub",
            "sub",
        ],
    ),
    ("plainfolder", &["sub", "src", "sub/deep", ".git", "linked", "nowhere"]),
    (
        "bare",
        &[
            "echo a",
            "cat a.txt",
            "cat .env",
            "touch m",
            "touch sub/m",
            "cp a.txt m",
            "head -n 1 b.txt",
            "ls sub",
            "npm test",
            "make all",
            "./x.sh a",
            "cat sub/x.txt",
            "wc -l a.txt",
            "tee m",
            "cat x.txt",
            "touch new",
            "true",
            "mv b.txt m",
        ],
    ),
    (
        "run",
        &[
            "npm test",
            "make «word»",
            "./x.sh «word»",
            "cargo test «word»",
            "python3 -c 1",
            "frob «word» «file»",
            "python3 «file»",
            "node --env-file=«file» x",
            "perl -ne print «file»",
            "git status",
            "git diff «file»",
            "git fetch origin",
            "./x.sh; git fetch origin",
            "git fetch origin; «bare»",
            "'git status'",
        ],
    ),
    ("plain", PROGRAMS),
];

/// Programs with options that read and write files in ways of their own.
const PROGRAMS: &[&str] = &[
    "echo «word»",
    "cat «file»",
    "cat «file» «file»",
    "cat -n «word»",
    "head -n 1 «file»",
    "head -1 «word»",
    "tail -n +1 «file»",
    "wc -l «file»",
    "wc --files0-from=«file»",
    "grep -r x «folder»",
    "grep x «file»",
    "grep -d recurse x .",
    "grep -rl --include='*.txt' x .",
    "grep -f «file» «file»",
    "sort «file»",
    "sort -o «new» «file»",
    "sort --out=«new» «file»",
    "sort --files0-from=«file»",
    "cut -c1 «file»",
    "tr a b < «file»",
    "sed -n 1p «file»",
    "sed s/x/y/ «file»",
    "sed -i s/x/y/ «file»",
    "sed -i.bak s/x/y/ «file»",
    "sed 's/x/y/w «new»' «file»",
    "sed -f «file» «file»",
    "sed -e 'r «file»' «file»",
    "cp «file» «new»",
    "cp -b «file» «new»",
    "cp --backup «file» b.txt",
    "cp --target-dir=«folder» «file»",
    "cp -t «folder» «file»",
    "cp -r «folder» new",
    "cp -rT sub src",
    "cp «file» «folder»",
    "cp -s \"$PWD/a.txt\" «new»",
    "cp -l «file» «new»",
    "mv «file» «new»",
    "mv -b «file» b.txt",
    "mv «file» «folder»",
    "ln -s «file» «new»",
    "ln «file» «new»",
    "ln -sb «file» b.txt",
    "mkdir «new»",
    "mkdir -p new/deep",
    "touch «new»",
    "touch -r «file» «new»",
    "tee «new» < «file»",
    "tee -a «new»",
    "mktemp T.XXXXXX",
    "mktemp -p «folder»",
    "mktemp -d «plainfolder»/T.XXXXXX",
    "split «file»",
    "split -b 1 «file» «new»",
    "gzip -k «file»",
    "gzip -c «file»",
    "gzip «file»",
    "tar cf m «file»",
    "tar -C «folder» -cf t.tar .",
    "tar -cf t.tar -C sub x.txt",
    "tar -xf archive.tar",
    "tar -xf archive.tar -C sub",
    "tar -tf archive.tar",
    "find «folder» -name '*.txt'",
    "find . -newer «file»",
    "find «folder» -fprint «new»",
    "ls «folder»",
    "ls -la «word»",
    "diff «file» «file»",
    "diff -r sub src",
    "cmp «file» «file»",
    "base64 «file»",
    "od -c «file»",
    "tac «file»",
    "nl «file»",
    "paste «file» «file»",
    "uniq «file» «new»",
    "shuf «file»",
    "shuf -o «new» «file»",
    "date -f «file»",
    "du -a --files0-from=«file»",
    "awk 1 «file»",
    "awk -f «file» «file»",
    "dd if=«file» of=«new»",
    "install «file» «new»",
    "install -D «file» new/m",
    "chmod +x «file»",
    "basename «file»",
    "dirname «word»",
    "realpath «file»",
    "readlink -f «file»",
    "sha256sum «file»",
    "sha256sum -c «file»",
    "md5sum --check list.txt",
    "stat «file»",
    "test -f «file»",
    "printf '%s\\n' «word»",
    "seq 3",
    "yes | head -n 1",
    "expand «file»",
    "fold -w 5 «file»",
    "join «file» «file»",
    "comm «file» «file»",
    "truncate -s 0 «new»",
    "rm «file»",
    "uniq - «new» < «file»",
    "xxd -ps «file» «new»",
    "xxd - «new» < «file»",
    "xxd -as «file» «new»",
    "sort -t «file» b.txt",
    "nice -n «file» cat",
    "timeout «file» ls",
    "find . -name «word»",
    "grep -rv «file» b.txt",
    "grep «file» «file»",
    "diff «folder» «folder»",
    "diff -N «folder» sub",
    "gzip -cr «folder»",
    "gzip -d «new».gz",
    "gunzip «new».gz",
    "pr -n «file»",
    "strings «file»",
    "jq -R . «file»",
    "cp --parents «file» «plainfolder»",
    "cp «file» -",
    "tee - < «file»",
    "tar cf - «folder»",
    "zip -r q «folder»",
    "zip q «file»",
    "sed ':a w m' «file»",
    "sed ':a e touch m' «file»",
    "sed ':x;N;$!bx;s/x/y/' «file»",
    "who «file»",
    "mv «folder» new",
    "find «folder» -type f -exec cat {} +",
    "find . -type f -exec cat {} + -name zz",
    "xz -tz «file»",
    "xz -k «file»",
    "grep -R x «folder»",
    "cp -rL «folder» new",
    ":",
];

/// A source of random numbers that is the same for the same seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % limit as u64).expect("it is below a usize")
    }
}

/// A generated script, with the rows that it is made of.
pub(crate) struct Generated {
    pub(crate) text: String,
    pub(crate) rows: Vec<&'static str>,
    /// True if it was made for a row that is rarely executed. Such a script may come again.
    pub(crate) is_for_rare: bool,
}

/// The deepest nesting of random rows.
const MAX_DEPTH: usize = 8;
/// From here on a script stays short.
const SHALLOW: usize = MAX_DEPTH - 3;

/// How often a row was part of a script that was judged, and of one that was executed and compared.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RowCount {
    pub(crate) judged: usize,
    pub(crate) executed: usize,
}

/// The counts of all rows.
pub(crate) type RowCounts = HashMap<&'static str, RowCount>;

/// After so many scripts it is known how often a row passes.
const MANY: usize = 2500;

impl RowCount {
    /// True if scripts with this row ask or are not compared, but for one in two hundred at most.
    pub(crate) fn asks(self) -> bool {
        self.judged >= MANY && self.executed * 200 < self.judged
    }
}

/// Scripts for rows that are no commands.
const PLACES: [(&str, &str); 6] = [
    ("redirect", "echo a «»"),
    ("word", "echo «»"),
    ("file", "cat «»"),
    ("new", "touch «»"),
    ("folder", "ls «»"),
    ("plainfolder", "ls «»"),
];

/// Programs of the rows that bash has within itself.
const BUILTINS: [&str; 4] = [":", "echo", "printf", "test"];

/// The rows of the grammar whose programs this machine has.
pub(crate) struct Grammar(Vec<(&'static str, Vec<&'static str>)>);

impl Grammar {
    /// The grammar without the rows that name a missing program. Fails if a row runs a program that no script
    /// would find.
    pub(crate) fn new(missing: &[&str]) -> Result<Self, String> {
        let program = |row: &str| row.split(' ').next().unwrap_or_default().to_owned();
        let is_unknown = |row: &&&str| {
            let name = program(row);
            !is_known(&name) && !BUILTINS.contains(&name.as_str())
        };
        if let Some(row) = PROGRAMS.iter().find(is_unknown) {
            return Err(format!("no script would find the program of the row {row:?}"));
        }
        let is_made = |row: &&str| !row.split(' ').any(|word| missing.contains(&word));
        let made = |rows: &[&'static str]| rows.iter().copied().filter(is_made).collect();
        Ok(Grammar(GRAMMAR.iter().map(|(symbol, rows)| (*symbol, made(rows))).collect()))
    }

    /// All rows.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().flat_map(|(_, rows)| rows.iter().copied())
    }

    /// Makes a script. One in three is made for a row that was executed fewer than `least` times.
    pub(crate) fn generate(
        &self,
        random: &mut Random,
        counts: &RowCounts,
        least: usize,
    ) -> Generated {
        let rare = match random.below(3) {
            0 => self.generate_rare(random, counts, least),
            _ => None,
        };
        rare.unwrap_or_else(|| {
            let mut generated = Generated { text: String::new(), rows: vec![], is_for_rare: false };
            self.expand("script", 0, random, &mut generated);
            generated
        })
    }

    /// Makes a script for a row that was executed fewer than `least` times. `None` if there is no such row.
    pub(crate) fn generate_rare(
        &self,
        random: &mut Random,
        counts: &RowCounts,
        least: usize,
    ) -> Option<Generated> {
        let (symbol, row) = self.pick_rare(random, counts, least)?;
        let mut generated = Generated { text: String::new(), rows: vec![], is_for_rare: true };
        let place = PLACES.iter().find(|(name, _)| *name == symbol).map_or("«»", |(_, at)| at);
        let (before, after) = place.split_once("«»").unwrap_or_default();
        generated.text.push_str(before);
        self.expand_row(row, SHALLOW, random, &mut generated);
        generated.text.push_str(after);
        if random.below(2) == 0 {
            generated.text.push_str("; ");
            self.expand("item", SHALLOW, random, &mut generated);
        }
        Some(generated)
    }

    /// One of the rows that pass and were executed fewer than `least` times, with its symbol.
    fn pick_rare(
        &self,
        random: &mut Random,
        counts: &RowCounts,
        least: usize,
    ) -> Option<(&'static str, &'static str)> {
        let is_rare = |row: &str| {
            let count = counts.get(row).copied().unwrap_or_default();
            count.executed < least && !count.asks()
        };
        let rows = self.0.iter().flat_map(|(symbol, rows)| rows.iter().map(|row| (*symbol, *row)));
        let rare: Vec<_> = rows.filter(|(_, row)| is_rare(row)).collect();
        (!rare.is_empty()).then(|| rare[random.below(rare.len())])
    }

    fn expand(&self, symbol: &str, depth: usize, random: &mut Random, into: &mut Generated) {
        let (_, rows) =
            self.0.iter().find(|(name, _)| *name == symbol).expect("a symbol of the grammar");
        let row = rows[if depth > MAX_DEPTH { 0 } else { random.below(rows.len()) }];
        self.expand_row(row, depth, random, into);
    }

    fn expand_row(
        &self,
        row: &'static str,
        depth: usize,
        random: &mut Random,
        into: &mut Generated,
    ) {
        into.rows.push(row);
        for (at, part) in row.split(['«', '»']).enumerate() {
            match at % 2 {
                0 => into.text.push_str(part),
                _ => self.expand(part, depth + 1, random, into),
            }
        }
    }
}

/// Ways to join two texts, and to change one.
const JOINTS: [&str; 9] = ["; ", " && ", " || ", " | ", "\n", " & ", " $(", "; break; ", "; eval "];

/// Makes a script of texts that were written by people: two joined, or one with a word taken out or doubled.
pub(crate) fn mutate(texts: &[String], random: &mut Random) -> Generated {
    let mut text = texts[random.below(texts.len())].clone();
    if random.below(2) == 0 {
        let joint = JOINTS[random.below(JOINTS.len())];
        text = format!("{text}{joint}{}", texts[random.below(texts.len())]);
        text.push_str(if joint.ends_with("$(") { ")" } else { "" });
    } else {
        let mut words: Vec<_> = text.split(' ').collect();
        let at = random.below(words.len());
        match random.below(3) {
            0 => drop(words.remove(at)),
            1 => words.insert(at, words[at]),
            _ => words.swap(0, at),
        }
        text = words.join(" ");
    }
    Generated { text, rows: vec!["a mutation"], is_for_rare: false }
}
