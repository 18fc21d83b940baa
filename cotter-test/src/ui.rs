//! A scripted person at the user interface.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use cotter::hooks::ui::{CallApproval, Question, QuestionAnswer, QuestionCall, Ui, UiFuture};

/// The person's answer to one question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PersonAnswer {
    /// Yes to every call.
    Yes,
    /// Yes to every call, with the offered session rule of each.
    YesForSession,
    /// No to every call, with a reason.
    No(String),
    /// A separate answer for each call, in call order.
    Each(Vec<bool>),
    /// Leaves without an answer.
    Nothing,
    /// Never answers.
    Silence,
    /// Yes, but with the id of another question.
    WrongQuestion,
    /// Yes, but with wrong call digests.
    WrongDigest,
    /// Chooses the option at that index.
    Choice(usize),
    /// Chooses the options at those indexes.
    Choices(Vec<usize>),
    /// Types a line.
    Line(String),
}

/// A scripted person. Without further answers they leave.
#[derive(Clone, Default)]
pub struct ScriptedUi {
    answers: Arc<Mutex<VecDeque<PersonAnswer>>>,
    questions: Arc<Mutex<Vec<Arc<Question>>>>,
    /// The questions besides permissions, as text.
    prompts: Arc<Mutex<String>>,
    notices: Arc<Mutex<String>>,
}

impl ScriptedUi {
    /// A person who gives these answers.
    pub fn new(answers: impl IntoIterator<Item = PersonAnswer>) -> Self {
        let answers = Arc::new(Mutex::new(answers.into_iter().collect()));
        ScriptedUi { answers, ..ScriptedUi::default() }
    }

    fn next(&self) -> PersonAnswer {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.pop_front().unwrap_or(PersonAnswer::Nothing)
    }

    fn record_prompt(&self, title: &str, options: &[String]) {
        let mut prompts = self.prompts.lock().unwrap_or_else(PoisonError::into_inner);
        prompts.push_str(&format!("{title}\n"));
        options.iter().for_each(|option| prompts.push_str(&format!("- {option}\n")));
    }

    /// The questions besides permissions: titles, with one option per line.
    pub fn prompts(&self) -> String {
        self.prompts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The notices, one per line.
    pub fn notices(&self) -> String {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Every question so far.
    pub fn questions(&self) -> Vec<Arc<Question>> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Every question so far as text: a line per call with the asking owner and the reason.
    pub fn shown(&self) -> String {
        let call = |call: &QuestionCall| {
            let asks: Vec<_> =
                call.asks.iter().map(|ask| format!("{}: {}", ask.by, ask.reason)).collect();
            format!("{} <- {}\n", call.preview, asks.join("; "))
        };
        let shown =
            |question: &Arc<Question>| -> String { question.calls.iter().map(call).collect() };
        self.questions().iter().map(shown).collect::<Vec<_>>().join("--\n")
    }
}

impl Ui for ScriptedUi {
    fn present(&self) -> bool {
        true
    }

    fn ask(&self, question: Arc<Question>) -> UiFuture<'_, Option<QuestionAnswer>> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner).push(question.clone());
        let answer = self.next();
        Box::pin(async move {
            let all = |decision| Some(QuestionAnswer::all(&question, decision, "test"));
            match answer {
                PersonAnswer::Yes => all(CallApproval::Yes),
                PersonAnswer::YesForSession => {
                    let yes = |call: &QuestionCall| {
                        (call.digest.clone(), CallApproval::YesForSession(call.offer.clone()))
                    };
                    let decisions = question.calls.iter().map(yes).collect();
                    Some(QuestionAnswer {
                        question: question.id.clone(),
                        decisions,
                        by: "test".into(),
                    })
                }
                PersonAnswer::No(reason) => all(CallApproval::No(Some(reason))),
                PersonAnswer::Each(each) => {
                    let mut question_answer =
                        QuestionAnswer::all(&question, CallApproval::No(None), "test");
                    for ((_, decision), yes) in question_answer.decisions.iter_mut().zip(each) {
                        *decision = if yes { CallApproval::Yes } else { CallApproval::No(None) };
                    }
                    Some(question_answer)
                }
                PersonAnswer::Nothing
                | PersonAnswer::Choice(_)
                | PersonAnswer::Choices(_)
                | PersonAnswer::Line(_) => None,
                PersonAnswer::Silence => std::future::pending().await,
                PersonAnswer::WrongQuestion => all(CallApproval::Yes).map(|question_answer| {
                    QuestionAnswer { question: "other".into(), ..question_answer }
                }),
                PersonAnswer::WrongDigest => all(CallApproval::Yes).map(|mut question_answer| {
                    question_answer
                        .decisions
                        .iter_mut()
                        .for_each(|(digest, _)| *digest = "other".into());
                    question_answer
                }),
            }
        })
    }

    fn notify(&self, text: &str) {
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        notices.push_str(&format!("{text}\n"));
    }

    fn confirm(&self, text: &str) -> UiFuture<'_, bool> {
        self.record_prompt(text, &[]);
        let answer = self.next();
        Box::pin(async move {
            match answer {
                PersonAnswer::Yes => true,
                PersonAnswer::Silence => std::future::pending().await,
                _ => false,
            }
        })
    }

    fn select<'a>(&'a self, title: &'a str, options: &'a [String]) -> UiFuture<'a, Option<usize>> {
        self.record_prompt(title, options);
        let answer = self.next();
        Box::pin(async move {
            match answer {
                PersonAnswer::Choice(index) => Some(index),
                PersonAnswer::Silence => std::future::pending().await,
                _ => None,
            }
        })
    }

    fn select_many<'a>(
        &'a self,
        title: &'a str,
        options: &'a [String],
    ) -> UiFuture<'a, Option<Vec<usize>>> {
        self.record_prompt(title, options);
        let answer = self.next();
        Box::pin(async move {
            match answer {
                PersonAnswer::Choice(index) => Some(vec![index]),
                PersonAnswer::Choices(indices) => Some(indices),
                PersonAnswer::Silence => std::future::pending().await,
                _ => None,
            }
        })
    }

    fn input<'a>(&'a self, title: &'a str) -> UiFuture<'a, Option<String>> {
        self.record_prompt(title, &[]);
        let answer = self.next();
        Box::pin(async move {
            match answer {
                PersonAnswer::Line(line) => Some(line),
                PersonAnswer::Silence => std::future::pending().await,
                _ => None,
            }
        })
    }
}
