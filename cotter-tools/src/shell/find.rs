//! `find`: the folders it searches and its actions. Pure.

use cotter::permission::{Zone, facts::CommandWordKind};

use crate::shell::{
    below::Deep,
    command_verdict::{CommandVerdict, plain_words},
    expand::Field,
    wrappers::WrappedCommand,
};

/// Tests and actions that only read, with the number of words each takes.
const LOOKS: [(&str, usize); 61] = [
    ("-name", 1),
    ("-iname", 1),
    ("-path", 1),
    ("-ipath", 1),
    ("-wholename", 1),
    ("-iwholename", 1),
    ("-regex", 1),
    ("-iregex", 1),
    ("-regextype", 1),
    ("-type", 1),
    ("-xtype", 1),
    ("-size", 1),
    ("-mtime", 1),
    ("-mmin", 1),
    ("-atime", 1),
    ("-amin", 1),
    ("-ctime", 1),
    ("-cmin", 1),
    ("-newermt", 1),
    ("-perm", 1),
    ("-user", 1),
    ("-group", 1),
    ("-uid", 1),
    ("-gid", 1),
    ("-links", 1),
    ("-inum", 1),
    ("-maxdepth", 1),
    ("-mindepth", 1),
    ("-lname", 1),
    ("-ilname", 1),
    ("-fstype", 1),
    ("-used", 1),
    ("-printf", 1),
    ("-empty", 0),
    ("-print", 0),
    ("-print0", 0),
    ("-ls", 0),
    ("-prune", 0),
    ("-quit", 0),
    ("-depth", 0),
    ("-d", 0),
    ("-xdev", 0),
    ("-mount", 0),
    ("-daystart", 0),
    ("-readable", 0),
    ("-writable", 0),
    ("-executable", 0),
    ("-nouser", 0),
    ("-nogroup", 0),
    ("-true", 0),
    ("-false", 0),
    ("-not", 0),
    ("-and", 0),
    ("-or", 0),
    ("-a", 0),
    ("-o", 0),
    ("-noleaf", 0),
    ("-warn", 0),
    ("-nowarn", 0),
    ("-E", 0),
    ("-ignore_readdir_race", 0),
];

pub(crate) fn judge(fields: &[Field]) -> CommandVerdict {
    let mut judged = CommandVerdict::new(Zone::Safe);
    judged.words = plain_words(fields);
    let begins =
        |field: &Field| field.text.starts_with(['-', '(', ')', '!', ',']) || field.may_be_option();
    let ways = ways(fields, &mut judged);
    let paths = ways + fields[1 + ways..].iter().take_while(|field| !begins(field)).count();
    let mut starts: Vec<_> = fields[1 + ways..=paths].to_vec();
    if starts.is_empty() {
        starts.push(Field::known("."));
    }
    judged.reads.clone_from(&starts);
    let mut at = paths + 1;
    while let Some(field) = fields.get(at) {
        let text = field.text.as_str();
        if !field.is_known() {
            judged.unclear(format!("`{text}` could be something `find` does"));
            return judged;
        }
        let looks = LOOKS.iter().find(|(name, _)| *name == text);
        at += match (looks, text) {
            (Some((_, takes)), _) => looked(&mut judged, at, *takes),
            (None, "(" | ")" | "!" | "," | "\\(" | "\\)") => 1,
            (None, "-delete") => {
                judged.words[at].1 = CommandWordKind::UnknownOption;
                judged.raise(Zone::Workspace);
                judged.writes.extend(starts.iter().cloned());
                judged.removes.extend(starts.iter().cloned());
                judged.destroys("`find … -delete` deletes what it finds");
                1
            }
            (None, "-exec" | "-execdir" | "-ok" | "-okdir") => {
                runs(&mut judged, fields, at, &starts)
            }
            (None, "-fprint" | "-fprint0" | "-fls" | "-fprintf") => {
                judged.words[at].1 = CommandWordKind::UnknownOption;
                judged.raise(Zone::Workspace);
                judged.writes.extend(fields.get(at + 1).cloned());
                if text == "-fprintf" { 3 } else { 2 }
            }
            (None, "-newer" | "-anewer" | "-cnewer" | "-samefile") => {
                judged.words[at].1 = CommandWordKind::Option;
                judged.reads.extend(fields.get(at + 1).cloned());
                2
            }
            _ => {
                judged.words[at].1 = CommandWordKind::UnknownOption;
                judged.raise(Zone::Build);
                1
            }
        };
    }
    judged
}

/// The number of options before the search folders. Following links reads elsewhere.
fn ways(fields: &[Field], judged: &mut CommandVerdict) -> usize {
    let is_way = |field: &&Field| matches!(field.text.as_str(), "-L" | "-H" | "-P");
    let ways = fields[1..].iter().take_while(is_way).count();
    for (field, kind) in &mut judged.words[1..=ways] {
        *kind = if field.text == "-P" {
            CommandWordKind::Option
        } else {
            CommandWordKind::UnknownOption
        };
    }
    if judged.words.iter().any(|(_, kind)| *kind == CommandWordKind::UnknownOption) {
        judged.raise(Zone::Build);
    }
    ways
}

/// A test with its words.
fn looked(judged: &mut CommandVerdict, at: usize, takes: usize) -> usize {
    for (_, kind) in judged.words[at..].iter_mut().take(takes + 1) {
        if *kind != CommandWordKind::Open {
            *kind = CommandWordKind::Option;
        }
    }
    takes + 1
}

/// `-exec` with its command, in which `{}` is a path below a search folder.
fn runs(judged: &mut CommandVerdict, fields: &[Field], at: usize, starts: &[Field]) -> usize {
    judged.words[at].1 = CommandWordKind::UnknownOption;
    let rest = &fields[at + 1..];
    let ends = |at: usize| match rest[at].text.as_str() {
        ";" => true,
        "+" => at > 0 && rest[at - 1].text == "{}",
        _ => false,
    };
    let Some(end) = (0..rest.len()).find(|at| ends(*at)) else {
        judged.unclear("what `find` runs has no end");
        return rest.len() + 1;
    };
    if rest[..end].iter().any(|field| field.text.contains("{}") && field.text != "{}") {
        judged.unclear("`find` puts names into the words of what it runs");
    }
    let names = fields.windows(2).filter(|pair| pair[0].text == "-name");
    let names = names.filter_map(|pair| pair[1].literal().map(str::to_owned));
    // With several tests, either may match.
    let plain = fields.iter().filter(|field| field.text.ends_with("name")).count() == 1;
    let turned =
        fields.iter().any(|field| matches!(field.text.as_str(), "-not" | "!" | "-o" | "-or"));
    let names = if plain && !turned { names.collect() } else { vec![] };
    let only_files =
        !turned && fields.windows(2).any(|pair| pair[0].text == "-type" && pair[1].text == "f");
    // These commands act on a link itself.
    let itself = ["rm", "unlink", "rmdir", "mv", "ls", "stat", "readlink", "echo", "printf"];
    let follows =
        !only_files && rest.first().is_some_and(|name| !itself.contains(&name.text.as_str()));
    judged.deep = Some(Deep { follows, names, ..Deep::default() });
    for start in starts {
        // The found paths are a search folder or below one.
        let command: Vec<_> = rest[..end]
            .iter()
            .map(|field| match field.text.as_str() {
                "{}" => start.clone(),
                _ => field.clone(),
            })
            .collect();
        if command.is_empty() {
            judged.unclear("`find` is told to run nothing");
        } else if fields[at].text.contains("dir") || !start.is_known() {
            judged.unclear("`find` runs a command in folders it finds");
            judged.inner.push(WrappedCommand::Program(command));
        } else {
            judged.inner.push(WrappedCommand::Program(command));
        }
    }
    end + 2
}
