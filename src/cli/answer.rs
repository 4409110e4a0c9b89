//! `questions` and `answer`: what waits for people, and what they say.

use std::io::{self, BufRead, IsTerminal, Write};

use serde_json::{Value, json};

use super::args::{AnswerArgs, QuestionsArgs};
use super::drive::{Watched, check_probes, drive};
use super::entry::Known;
use super::exit::{Exit, Failure};
use super::list::{all_threads, head};
use super::out::one_line;
use super::shell::{Shell, quoted};
use super::source::{Sources, Text};
use super::when::date;
use super::{data::Data, form, json as shown, read};
use crate::{AfterCrash, Answers, MayHaveRun, OpenQuestion, QuestionId, Shape, ThreadId};

/// Lists what waits for an answer.
pub(super) async fn questions(shell: &mut Shell, args: &QuestionsArgs) -> Result<Exit, Failure> {
    let store = shell.look()?;
    let mut threads: Vec<ThreadId> = match &args.thread {
        Some(thread) => {
            head(shell, &*store, thread).await?;
            vec![thread.clone()]
        }
        None => all_threads(&*store)
            .await?
            .into_iter()
            .map(|(thread, _)| thread)
            .collect(),
    };
    threads.sort();
    let mut count = 0;
    for thread in &threads {
        let Some(head) = store.head(thread).await? else {
            continue;
        };
        let open = crate::questions(&*store, thread).await?;
        count += open.len();
        let known = shell.find(&head.graph);
        for question in &open {
            let answer = how(shell, thread, &open, question, known.as_deref());
            let mut value = question_json(question, &answer);
            value["thread"] = json!(thread.as_str());
            shell.out.value(&value);
            let name = one_line(thread.as_str());
            shell.out.say(format!("{name}  {}", asked(question)));
            shell.out.say(format!("  next: {answer}"));
        }
    }
    if count == 0 {
        shell.out.say("Nothing waits for an answer.");
    }
    Ok(Exit::Done)
}

/// A question on one line.
pub(super) fn asked(question: &OpenQuestion) -> String {
    let id = &question.id;
    let value = shown::value(1, &question.question);
    let until = question
        .expires_ms
        .map(|ms| format!(", until {}", date(ms)));
    // The engine's own may be answered in ways that no author has explained.
    let ways = AfterCrash::answers(id).then(|| format!("; {}", form::words(&own())));
    format!(
        "{} asks {}: {value}{}{}",
        id.task(),
        id.key(),
        ways.unwrap_or_default(),
        until.unwrap_or_default()
    )
}

/// A question as JSON, with the command that answers it.
pub(super) fn question_json(question: &OpenQuestion, answer: &str) -> Value {
    let id = &question.id;
    json!({
        "id": id.to_string(),
        "node": id.task().task().node.as_str(),
        "key": id.key(),
        "type_name": question.type_name,
        "question": shown::value(1, &question.question),
        "answer_shape": question.answer_shape,
        "expires_ms": question.expires_ms,
        "answer": answer,
    })
}

/// The command that answers a question, with an answer that would be taken.
pub(super) fn how(
    shell: &Shell,
    thread: &ThreadId,
    open: &[OpenQuestion],
    question: &OpenQuestion,
    known: Option<&dyn Known>,
) -> String {
    let asks = known.and_then(|known| asks(known, &question.id));
    let example = asks.map_or_else(|| "JSON".to_owned(), |shape| form::example(&shape));
    // Of a node with exits, "it ran" is said by one of them.
    let exit = AfterCrash::answers(&question.id)
        .then(|| question.read::<MayHaveRun>().ok()?.exits.into_iter().next())
        .flatten();
    let by = exit.map(|exit| quoted(&json!({"ran_by": exit}).to_string()));
    let example = by.unwrap_or(example);
    let words = shell.on("answer", thread);
    match open {
        [_] => format!("{words} {example}"),
        open => {
            let key = question.id.key();
            let alone = open.iter().filter(|other| other.id.key() == key).count() == 1;
            let id = if alone {
                key.to_owned()
            } else {
                question.id.to_string()
            };
            format!("{words} {} {example}", quoted(&id))
        }
    }
}

/// What the engine's own questions are answered with.
fn own() -> Shape {
    Shape::of::<AfterCrash>()
}

/// What a question is answered with, where that is known.
fn asks(known: &dyn Known, id: &QuestionId) -> Option<Shape> {
    if AfterCrash::answers(id) {
        return Some(own());
    }
    let mut view = Some(known.view());
    let mut asks = None;
    for level in id.task().levels() {
        let node = view?.nodes.iter().find(|known| known.name == level.node)?;
        (view, asks) = (node.inner.as_deref(), node.asks.as_ref());
    }
    Some(asks?.answer_is.clone())
}

/// Answers questions, and goes on with the thread.
pub(super) async fn answer(shell: &mut Shell, args: &AnswerArgs) -> Result<Exit, Failure> {
    let thread = &args.thread;
    let store = shell.old_store()?;
    let head = head(shell, &*store, thread).await?;
    let known = shell.graph(&head.graph)?;
    let open = crate::questions(&*store, thread).await?;
    let answers = match args.words.as_slice() {
        [] => interview(shell, thread, &open, &*known)?,
        [word] if open.len() > 1 => {
            let question = find(shell, thread, &open, word)?;
            interview(shell, thread, std::slice::from_ref(question), &*known)?
        }
        [word] => {
            let [question] = open.as_slice() else {
                return Err(none(shell, thread));
            };
            Answers::to(
                question.id.clone(),
                &value(shell, thread, &*known, &question.id, word)?,
            )
        }
        [id, word, ..] => {
            let id = match find(shell, thread, &open, id) {
                Ok(question) => question.id.clone(),
                // One that was answered before may be repeated: the library knows.
                Err(failure) => id.parse().map_err(|_| failure)?,
            };
            let value = value(shell, thread, &*known, &id, word)?;
            Answers::to(id, &value)
        }
    };
    let watched = Watched {
        known: &*known,
        plain: args.plain,
        probe: check_probes(shell, &*known, &args.probes)?,
        probes: &args.probes,
    };
    drive(shell, thread, store, known.answer(answers), watched).await
}

fn none(shell: &Shell, thread: &ThreadId) -> Failure {
    let what = format!("thread {thread} has no open question");
    Failure::usage(what).next(shell.on("show", thread))
}

/// A question by its key, where only one has it, or by its whole id.
fn find<'q>(
    shell: &Shell,
    thread: &ThreadId,
    open: &'q [OpenQuestion],
    word: &str,
) -> Result<&'q OpenQuestion, Failure> {
    let mut named = open
        .iter()
        .filter(|one| one.id.key() == word || one.id.to_string() == word);
    match (named.next(), named.next(), open) {
        (Some(question), None, _) => Ok(question),
        (_, _, []) => Err(none(shell, thread)),
        (found, _, open) => {
            let ids: Vec<_> = open
                .iter()
                .map(|question| question.id.to_string())
                .collect();
            let what = match found {
                Some(_) => format!("several questions of thread {thread} have the key {word}"),
                None => format!("thread {thread} has no open question {word}"),
            };
            let what = format!("{what}; open are {}", ids.join(", "));
            Err(Failure::usage(what).next(shell.on("questions", thread)))
        }
    }
}

/// An answer as it was typed, as the question wants it.
fn value(
    shell: &Shell,
    thread: &ThreadId,
    known: &dyn Known,
    id: &QuestionId,
    word: &str,
) -> Result<Data, Failure> {
    let shape = asks(known, id).unwrap_or(Shape::Any);
    let refused = |what: String| {
        let next = format!("{} {}", shell.on("answer", thread), form::example(&shape));
        Failure::usage(format!(
            "the answer to {id} was not taken, and it is still open: {what}"
        ))
        .next(next)
    };
    let text = Sources::default()
        .read("the answer", word)
        .map_err(refused)?;
    parsed(&shape, &text).map_err(refused)
}

fn parsed(shape: &Shape, text: &Text) -> Result<Data, String> {
    let read = match &text.from {
        Some(_) if !form::is_text(shape) => read::json(shape, &text.text),
        _ => read::word(shape, &text.text),
    };
    read.map_err(|wrong| wrong.to_string())
}

/// Asks whoever sits at the terminal, question by question.
fn interview(
    shell: &mut Shell,
    thread: &ThreadId,
    open: &[OpenQuestion],
    known: &dyn Known,
) -> Result<Answers, Failure> {
    let [first, ..] = open else {
        return Err(none(shell, thread));
    };
    if !io::stdin().is_terminal() {
        let what = format!("what is the answer? {}", asked(first));
        return Err(Failure::usage(what).next(how(shell, thread, open, first, Some(known))));
    }
    let mut answers: Option<Answers> = None;
    for question in open {
        let shape = asks(known, &question.id).unwrap_or(Shape::Any);
        shell.out.hint(&asked(question));
        let value = loop {
            let prompt = format!(
                "{} (as {}, nothing to skip)",
                form::words(&shape),
                form::example(&shape)
            );
            let Some(line) = ask_for(&prompt)? else {
                break None;
            };
            let typed = Text {
                text: line,
                from: None,
            };
            match parsed(&shape, &typed) {
                Ok(value) => break Some(value),
                Err(why) => shell.out.hint(&why),
            }
        };
        if let Some(value) = value {
            let id = question.id.clone();
            answers = Some(match answers {
                Some(answers) => answers.and(id, &value),
                None => Answers::to(id, &value),
            });
        }
    }
    answers
        .ok_or_else(|| Failure::usage("nothing was answered").next(shell.on("questions", thread)))
}

/// One line of the terminal; none for an empty one, or where it was closed.
fn ask_for(prompt: &str) -> Result<Option<String>, Failure> {
    let unread = |error: io::Error| {
        Failure::usage(format!("the terminal cannot be read: {error}"))
            .next("give the answer as a word of the command")
    };
    let mut err = io::stderr().lock();
    write!(err, "{prompt}: ")
        .and_then(|()| err.flush())
        .map_err(unread)?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(unread)?;
    let line = line.trim();
    Ok((!line.is_empty()).then(|| line.to_owned()))
}
