//! The messages between a [`Runner`](crate::process::Runner), its spawner and a minder: one
//! request, one report.
//!
//! Both are lists of lists of byte strings, each with its length in front: a path or a variable
//! need not be UTF-8.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Read, Write},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use crate::confine::{Confinement, Network, SyscallSet};
use crate::process::{Exit, ProcessEnd};

/// The longest message; a longer one is an error.
const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// A command to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) cwd: PathBuf,
    /// `NAME=value` each.
    pub(crate) environment: Vec<OsString>,
    /// The most processes it may have at a time.
    pub(crate) processes: u32,
    pub(crate) confinement: Option<Confinement>,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    Ended(ProcessEnd),
    /// It was not started, with the reason.
    NotStarted(String),
}

type Lists = Vec<Vec<Vec<u8>>>;

impl Request {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let to_list =
            |texts: &[OsString]| texts.iter().map(|text| text.as_bytes().to_vec()).collect();
        let mut lists: Lists = vec![
            vec![bytes(&self.program), bytes(&self.cwd), self.processes.to_string().into_bytes()],
            to_list(&self.args),
            to_list(&self.environment),
        ];
        if let Some(confinement) = &self.confinement {
            let outlives = if confinement.outlives { "outlives" } else { "" };
            let view = if confinement.view { "view" } else { "" };
            let (network, calls) = (confinement.network.as_str(), confinement.calls.as_str());
            let modes = [network, calls, outlives, view];
            lists.push(modes.map(|mode| mode.as_bytes().to_vec()).into());
            for paths in confinement.lists() {
                lists.push(paths.iter().map(|path| bytes(path)).collect());
            }
        }
        encode(&lists)
    }

    pub(crate) fn decode(body: &[u8]) -> Option<Request> {
        let mut lists = decode(body)?.into_iter();
        let [program, cwd, processes] = lists.next()?.try_into().ok()?;
        let mut next_list = || -> Option<Vec<_>> {
            Some(lists.next()?.into_iter().map(OsString::from_vec).collect())
        };
        let (args, environment) = (next_list()?, next_list()?);
        let confinement = match lists.next() {
            None => None,
            Some(modes) => {
                let [network, calls, outlives, view] = modes.try_into().ok()?;
                let network = Network::parse(str::from_utf8(&network).ok()?)?;
                let calls = SyscallSet::parse(str::from_utf8(&calls).ok()?)?;
                let paths = lists.map(|paths| paths.into_iter().map(path).collect()).collect();
                let (outlives, view) = (outlives == b"outlives", view == b"view");
                let modes =
                    Confinement { calls, network, outlives, view, ..Confinement::nothing() };
                Some(modes.with_lists(paths)?)
            }
        };
        Some(Request {
            program: path(program),
            args,
            cwd: path(cwd),
            environment,
            processes: number(&processes)?,
            confinement,
        })
    }
}

/// Encodes paths that were approved while a command runs.
pub(crate) fn encode_approved(paths: &[PathBuf]) -> Vec<u8> {
    encode(&vec![paths.iter().map(|path| bytes(path)).collect()])
}

/// Decodes a message of [`encode_approved`].
pub(crate) fn decode_approved(body: &[u8]) -> Option<Vec<PathBuf>> {
    Some(decode(body)?.into_iter().next()?.into_iter().map(path).collect())
}

impl Report {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let to_list =
            |texts: &[String]| texts.iter().map(|text| text.clone().into_bytes()).collect();
        match self {
            Report::NotStarted(why) => encode(&vec![vec![why.clone().into_bytes()]]),
            Report::Ended(end) => {
                let (kind, value) = match end.exit {
                    Exit::Code(code) => ("code", code),
                    Exit::Signal(signal) => ("signal", signal),
                };
                let exit = vec![kind.into(), value.to_string().into_bytes()];
                encode(&vec![exit, to_list(&end.remarks)])
            }
        }
    }

    pub(crate) fn decode(body: &[u8]) -> Option<Report> {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let mut lists = decode(body)?.into_iter();
        let mut first = lists.next()?.into_iter();
        let kind = first.next()?;
        let Some(remarks) = lists.next() else { return Some(Report::NotStarted(text(kind))) };
        let value = number(&first.next()?)?;
        let exit = if kind == b"code" { Exit::Code(value) } else { Exit::Signal(value) };
        Some(Report::Ended(ProcessEnd { exit, remarks: remarks.into_iter().map(text).collect() }))
    }
}

/// Reads one message.
pub(crate) fn receive(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let mut body = vec![0; length_of(length)?];
    from.read_exact(&mut body)?;
    Ok(body)
}

/// The length of a message, from its head.
pub(crate) fn length_of(head: [u8; 4]) -> io::Result<usize> {
    match u32::from_le_bytes(head) as usize {
        length if length <= MAX_MESSAGE => Ok(length),
        length => Err(io::Error::other(format!(
            "a message has {length} bytes; it may have {MAX_MESSAGE}"
        ))),
    }
}

/// Writes one message.
pub(crate) fn send(to: &mut impl Write, body: &[u8]) -> io::Result<()> {
    to.write_all(&framed(body))
}

/// A message with its length in front.
pub(crate) fn framed(body: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(body.len() + 4);
    put(&mut message, body);
    message
}

fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

fn path(bytes: Vec<u8>) -> PathBuf {
    OsString::from_vec(bytes).into()
}

fn number<T: std::str::FromStr>(bytes: &[u8]) -> Option<T> {
    OsStr::from_bytes(bytes).to_str()?.parse().ok()
}

fn put(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend(u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
    to.extend(bytes);
}

fn encode(lists: &Lists) -> Vec<u8> {
    let mut all = vec![];
    for list in lists {
        let mut body = vec![];
        list.iter().for_each(|bytes| put(&mut body, bytes));
        put(&mut all, &body);
    }
    all
}

fn decode(body: &[u8]) -> Option<Lists> {
    pieces(body)?
        .into_iter()
        .map(|list| Some(pieces(list)?.into_iter().map(<[u8]>::to_vec).collect()))
        .collect()
}

fn pieces(mut body: &[u8]) -> Option<Vec<&[u8]>> {
    let mut pieces = vec![];
    while !body.is_empty() {
        let (length, rest) = body.split_first_chunk()?;
        let (piece, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        pieces.push(piece);
        body = rest;
    }
    Some(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_encoding() {
        let confinement = Confinement {
            network: Network::Off,
            calls: SyscallSet::Few,
            reads: vec!["/usr".into()],
            writes: vec!["/work".into(), "/tmp/a b".into()],
            guarded_writes: vec!["/other/.git".into()],
            closed: vec![],
            protected: vec!["/work/.git/hooks".into()],
            aside: Some("/tmp/aside".into()),
            view: true,
            nested: vec!["/work/a/.envrc".into()],
            covered: vec!["/work/.env".into(), "/etc/shadow".into()],
            blank: Some("/tmp/blank".into()),
            outlives: true,
        };
        let odd = OsString::from_vec(b"X=\xff\n".to_vec());
        for confinement in [None, Some(confinement)] {
            let request = Request {
                program: "/bin/bash".into(),
                args: vec!["-c".into(), "".into()],
                cwd: "/work".into(),
                environment: vec![odd.clone()],
                processes: 7,
                confinement,
            };
            let body = request.encode();
            assert_eq!(Request::decode(&body), Some(request));
            (0..body.len()).for_each(|cut| drop(Request::decode(&body[..cut])));
        }
        let paths = vec![PathBuf::from("/work/.envrc"), "/work/.git".into()];
        assert_eq!(decode_approved(&encode_approved(&paths)), Some(paths));
        let ended = ProcessEnd { exit: Exit::Signal(9), remarks: vec!["it grew".into()] };
        for report in [Report::Ended(ended), Report::NotStarted("no such file".into())] {
            assert_eq!(Report::decode(&report.encode()), Some(report));
        }
    }
}
