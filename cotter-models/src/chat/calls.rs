//! Assembles calls from their deltas. Servers do not agree on how a delta names its call; the rules
//! here cover all known ones.

use cotter::model::Delta;
use serde::Deserialize;
use serde_json::Value;

use super::replay::ReplayItem;
use crate::{adapter::Out, input};

/// The calls of a reply so far.
#[derive(Default)]
pub(super) struct Calls(Vec<PartialCall>);

#[derive(Default)]
struct PartialCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    extra: Option<Value>,
}

/// A delta of a call. Any field may be missing.
#[derive(Default, Deserialize)]
pub(super) struct CallDelta {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionDelta>,
    extra_content: Option<Value>,
}

#[derive(Default, Deserialize)]
struct FunctionDelta {
    name: Option<String>,
    /// A text; some servers send the object itself.
    arguments: Option<Value>,
}

/// Whether a reply was cut off.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Truncation {
    No,
    /// Cut off at the length limit: the last call may be incomplete.
    AtLength,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, delta: CallDelta) {
        let CallDelta { index, id, function, extra_content } = delta;
        let FunctionDelta { name, arguments } = function.unwrap_or_default();
        let (id, name) = (id.unwrap_or_default(), name.unwrap_or_default());
        let at = self.find(index, &id, &name).unwrap_or_else(|| {
            self.0.push(PartialCall { index, ..PartialCall::default() });
            self.0.len() - 1
        });
        let call = &mut self.0[at];
        // Some servers repeat both with every delta.
        if call.id.is_empty() {
            call.id = id;
        }
        if call.name.is_empty() {
            call.name = name;
        }
        match arguments {
            None | Some(Value::Null) => {}
            Some(Value::String(more)) => call.arguments.push_str(&more),
            Some(object) => call.arguments = object.to_string(),
        }
        call.extra = extra_content.filter(|extra| !extra.is_null()).or(call.extra.take());
    }

    /// The call that a delta belongs to; `None` if the delta begins a new call.
    fn find(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let calls = &self.0;
        let at = match index {
            Some(_) => calls.iter().rposition(|call| call.index == index)?,
            None if !id.is_empty() => return calls.iter().rposition(|call| call.id == id),
            None => calls.len().checked_sub(1)?,
        };
        let call = &calls[at];
        let has_other_id = !id.is_empty() && !call.id.is_empty() && call.id != id;
        // Some servers send wrong indexes: a name with another id begins a new call. So does a name
        // without index and id if the call before it is complete.
        let begins = !name.is_empty()
            && (has_other_id || (index.is_none() && !call.name.is_empty() && call.is_whole()));
        (!begins).then_some(at)
    }

    /// Pushes the calls in the order in which they began. An incomplete call is dropped.
    pub(super) fn end(self, cut: Truncation, out: &mut Out) {
        let has_content =
            |call: &PartialCall| !call.name.is_empty() || !call.arguments.trim().is_empty();
        let is_complete =
            |call: &PartialCall| has_content(call) && (cut == Truncation::No || call.is_whole());
        for PartialCall { id, name, arguments, extra, .. } in self.0.into_iter().filter(is_complete)
        {
            if let Some(extra) = extra {
                out.push_back(Delta::Signature(ReplayItem::CallExtra(extra).to_string()));
            }
            let input = input::parse(arguments);
            out.push_back(Delta::Call { id: id.into(), name: name.into(), input });
        }
    }
}

impl PartialCall {
    fn is_whole(&self) -> bool {
        // Runs for every delta of a server that repeats the name, so parse only what may be
        // complete.
        self.arguments.trim_end().ends_with('}')
            && matches!(serde_json::from_str(&self.arguments), Ok(Value::Object(_)))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::{Calls, Delta, Out, Truncation};

    /// Feeds call deltas, one per line, and compares the calls they make.
    fn check_cut(cut: Truncation, pieces: &str, expected: Expect) {
        let mut calls = Calls::default();
        for piece in pieces.lines().map(str::trim).filter(|line| !line.is_empty()) {
            calls.add(serde_json::from_str(piece).expect("a piece of a call"));
        }
        let mut out = Out::new();
        calls.end(cut, &mut out);
        let shown = out.into_iter().map(|delta| match delta {
            Delta::Call { id, name, input } => format!("{id}: {name} {input}\n"),
            Delta::Signature(signature) => format!("{signature}\n"),
            other => format!("{other:?}\n"),
        });
        expected.assert_eq(&shown.collect::<String>());
    }

    fn check(pieces: &str, expected: Expect) {
        check_cut(Truncation::No, pieces, expected);
    }

    #[test]
    fn pieces_are_found_by_index() {
        check(
            r#"
            {"index":0,"id":"a","type":"function","function":{"name":"add","arguments":""}}
            {"index":0,"function":{"arguments":"{\"n\""}}
            {"index":1,"id":"b","function":{"name":"sub","arguments":"{"}}
            {"index":0,"function":{"arguments":":1}"}}
            {"index":1,"function":{"arguments":"}"}}
            "#,
            expect![[r#"
                a: add {"n":1}
                b: sub {}
            "#]],
        );
    }

    #[test]
    fn new_id_and_name_at_one_index_begin_a_call() {
        check(
            r#"
            {"index":0,"id":"a","function":{"name":"add","arguments":"{\"n\":1}"}}
            {"index":0,"id":"b","function":{"name":"add","arguments":"{\"n\":"}}
            {"index":0,"function":{"arguments":"2}"}}
            "#,
            expect![[r#"
                a: add {"n":1}
                b: add {"n":2}
            "#]],
        );
    }

    #[test]
    fn new_id_without_a_name_continues_the_call() {
        check(
            r#"
            {"index":0,"id":"a","function":{"name":"add","arguments":"{\"n\""}}
            {"index":0,"id":"x","function":{"arguments":":1}"}}
            "#,
            expect![[r#"
                a: add {"n":1}
            "#]],
        );
    }

    #[test]
    fn without_an_index_the_id_counts() {
        check(
            r#"
            {"id":"a","function":{"name":"add","arguments":"{\"n\":"}}
            {"id":"b","function":{"name":"sub","arguments":"{}"}}
            {"id":"a","function":{"arguments":"1}"}}
            "#,
            expect![[r#"
                a: add {"n":1}
                b: sub {}
            "#]],
        );
    }

    #[test]
    fn piece_without_index_and_id_belongs_to_the_last_open_call() {
        check(
            r#"
            {"function":{"name":"add","arguments":"{\"n\":"}}
            {"function":{"arguments":"1}"}}
            {"function":{"name":"add","arguments":"{\"n\":2}"}}
            "#,
            expect![[r#"
                : add {"n":1}
                : add {"n":2}
            "#]],
        );
        check(
            r#"
            {"index":3,"id":"a","function":{"name":"add","arguments":"{"}}
            {"function":{"arguments":"}"}}
            "#,
            expect![[r#"
                a: add {}
            "#]],
        );
    }

    #[test]
    fn repeated_id_and_name_are_not_appended() {
        check(
            r#"
            {"index":0,"id":"a","function":{"name":"add","arguments":"{"}}
            {"index":0,"id":"a","function":{"name":"add","arguments":"\"n\":1"}}
            {"index":0,"id":"","function":{"name":"","arguments":"}"}}
            "#,
            expect![[r#"
                a: add {"n":1}
            "#]],
        );
    }

    #[test]
    fn late_id_and_extra_content_are_added() {
        check(
            r#"
            {"index":0,"function":{"name":"add"}}
            {"index":0,"id":"a","function":null}
            {"index":0,"extra_content":{"google":{"thought_signature":"xyz"}}}
            {"index":0,"extra_content":null,"function":{"arguments":null}}
            "#,
            expect![[r#"
                tool_calls.extra_content {"google":{"thought_signature":"xyz"}}
                a: add {}
            "#]],
        );
    }

    #[test]
    fn arguments_may_be_an_object_or_nothing_or_nonsense() {
        check(
            r#"
            {"index":0,"id":"a","function":{"name":"add","arguments":{"n":1}}}
            {"index":1,"id":"b","function":{"name":"add","arguments":""}}
            {"index":2,"id":"c","function":{"name":"add","arguments":"{n: 1}"}}
            {"index":3}
            "#,
            expect![[r#"
                a: add {"n":1}
                b: add {}
                c: add "{n: 1}"
            "#]],
        );
    }

    #[test]
    fn half_a_call_is_dropped() {
        check_cut(
            Truncation::AtLength,
            r#"
            {"index":0,"id":"a","function":{"name":"add","arguments":"{\"n\":1}"}}
            {"index":1,"id":"b","function":{"name":"add","arguments":"{\"n\":"}}
            {"index":2,"id":"c","function":{"name":"add","arguments":""}}
            "#,
            expect![[r#"
                a: add {"n":1}
            "#]],
        );
    }
}
