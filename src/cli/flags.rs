//! The flags of `run` that come from the fields of a state.
//!
//! In come fields with the shapes of what their reducers are given, out go flags; later words come
//! in, and out go the bytes of each field's update.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches};

use super::data::Data;
use super::exit::Failure;
use super::form;
use super::json;
use super::read;
use super::shell::quoted;
use super::source::{Sources, Text};
use super::wrong::Wrong;
use crate::{Codec, CodecError, Shape, State};

/// The flag that takes all fields at once.
const WHOLE: &str = "input";

/// The flags of one graph.
#[derive(Debug)]
pub(super) struct Flags {
    graph: String,
    about: &'static str,
    all: Vec<Flag>,
}

/// The flag of one field.
#[derive(Debug)]
struct Flag {
    /// The field.
    name: &'static str,
    /// The flag, without dashes.
    long: String,
    doc: &'static str,
    /// The shape of what the field's reducer is given.
    shape: Shape,
    reducer: &'static str,
    required: bool,
    /// What a new thread begins with, where it is worth to be said.
    begins: Option<String>,
}

impl Flags {
    /// The flags for the fields of a state; `taken` are those that every run has.
    pub(super) fn of<S: State>(graph: &str, taken: &[String]) -> Self {
        let initial = S::default();
        let all = S::fields().iter().map(|field| Flag {
            name: field.name(),
            long: String::new(),
            doc: field.doc(),
            shape: field.update_shape(),
            reducer: field.reducer().id,
            required: field.required(),
            begins: field
                .encode_value(&initial)
                .ok()
                .filter(|_| field.codec() == Codec::MessagePack)
                .and_then(|bytes| begins(&json::value(field.codec().number(), &bytes))),
        });
        let mut flags = Self {
            graph: graph.to_owned(),
            about: S::DOC,
            all: all.collect(),
        };
        flags.name(taken);
        flags
    }

    /// Names the flags: like their fields, but for those that are taken.
    fn name(&mut self, taken: &[String]) {
        let mut taken = taken.to_vec();
        taken.push(WHOLE.to_owned());
        // Those that keep their own name come first, so that no other takes it from them.
        for flag in &mut self.all {
            let own = dashed(flag.name);
            if !taken.contains(&own) {
                taken.push(own.clone());
                flag.long = own;
            }
        }
        for flag in self.all.iter_mut().filter(|flag| flag.long.is_empty()) {
            let mut other = format!("{WHOLE}-{}", dashed(flag.name));
            while taken.contains(&other) {
                other = format!("{WHOLE}-{other}");
            }
            taken.push(other.clone());
            flag.long = other;
        }
    }

    /// Adds the flags to a command.
    pub(super) fn add_to(&self, mut command: clap::Command) -> clap::Command {
        if !self.about.is_empty() {
            command = command
                .about(brief(self.about))
                .long_about(self.about.trim_end_matches('.').to_owned());
        }
        for flag in &self.all {
            command = command.arg(flag.arg());
        }
        command.arg(
            Arg::new(WHOLE)
                .long(WHOLE)
                .value_name("JSON")
                .value_parser(Word::default())
                .help("All fields as one JSON object: its text, @FILE, or - for what is piped in")
                .long_help(
                    "All fields as one JSON object: its text, @FILE, or - for what is piped in. \
                     Where a field has a flag of its own, too, the flag decides.",
                ),
        )
    }

    /// The input that was given: for each field, by its place, the update as MessagePack.
    pub(super) fn read(&self, given: &ArgMatches) -> Result<Vec<(usize, Vec<u8>)>, Failure> {
        let mut sources = Sources::default();
        let mut whole = match given.get_one::<String>(WHOLE) {
            Some(word) => self.whole(word, &mut sources)?,
            None => Vec::new(),
        };
        let mut read = Vec::new();
        for (place, flag) in self.all.iter().enumerate() {
            let data = match given.get_many::<String>(&flag.id()) {
                Some(words) => Some(flag.read(&self.graph, words, &mut sources)?),
                None => {
                    let given = whole.iter().position(|(at, _)| *at == place);
                    given.map(|at| whole.swap_remove(at).1)
                }
            };
            if let Some(data) = data {
                let bytes = Codec::MessagePack.encode(&data);
                let bytes = bytes.map_err(|error| self.refused(place, &error))?;
                read.push((place, bytes));
            }
        }
        Ok(read)
    }

    /// The fields of `--input`.
    fn whole(&self, word: &str, sources: &mut Sources) -> Result<Vec<(usize, Data)>, Failure> {
        let next = |flag: Option<&Flag>| {
            let flag = flag.or_else(|| self.all.first());
            let example = flag.map(|flag| {
                let name = flag.name;
                format!("{{{name:?}: {}}}", form::example_json(&flag.shape))
            });
            let example = quoted(&example.unwrap_or_else(|| "{}".to_owned()));
            format!("run {} --{WHOLE} {example}", quoted(&self.graph))
        };
        let source = sources.read(&format!("--{WHOLE}"), word);
        let Text { text, from } =
            source.map_err(|what| Failure::usage(format!("--{WHOLE}: {what}")).next(next(None)))?;
        let refused = |wrong: Wrong, flag: Option<&Flag>| {
            Failure::usage(format!("{}: {wrong}", named(WHOLE, from.as_deref()))).next(next(flag))
        };
        let mut read = Vec::new();
        for (name, raw) in read::object(&text).map_err(|wrong| refused(wrong, None))? {
            let Some(place) = self.all.iter().position(|flag| flag.name == name) else {
                let known = self.all.iter().map(|flag| flag.name.to_owned()).collect();
                let at = String::new();
                return Err(refused(Wrong::Unknown { at, name, known }, None));
            };
            let flag = &self.all[place];
            let data = read::field(&flag.shape, flag.name, &raw);
            read.push((place, data.map_err(|wrong| refused(wrong, Some(flag)))?));
        }
        Ok(read)
    }

    /// A value of the right shape that the field's type refuses all the same.
    pub(super) fn refused(&self, place: usize, error: &CodecError) -> Failure {
        let flag = &self.all[place];
        let why = match error {
            CodecError::Encode { reason } | CodecError::Decode { reason } => reason.clone(),
            error => error.to_string(),
        };
        let what = format!(
            "--{}: the field {} refuses this: {why}",
            flag.long, flag.name
        );
        Failure::usage(what).next(flag.next(&self.graph))
    }

    /// The words that give a field.
    pub(super) fn words_for(&self, field: &str) -> Option<String> {
        let flag = self.all.iter().find(|flag| flag.name == field)?;
        Some(flag.next(&self.graph))
    }
}

impl Flag {
    /// The flag's name for clap, which no other can have.
    fn id(&self) -> String {
        format!("field {}", self.name)
    }

    fn arg(&self) -> Arg {
        let names = match form::some(form::item(&self.shape).unwrap_or(&self.shape)).0 {
            Shape::Enum(variants) => form::names(variants).unwrap_or_default(),
            Shape::Bool => vec!["true", "false"],
            _ => Vec::new(),
        };
        let (short, long) = self.help();
        Arg::new(self.id())
            .long(self.long.clone())
            .value_name(form::value_name(&self.shape))
            .value_parser(Word(names))
            // The name of the value says it already.
            .hide_possible_values(form::value_name(&self.shape) == "true|false")
            .allow_negative_numbers(!form::is_text(&self.shape))
            // Which may be given several times is said in our own words.
            .action(ArgAction::Append)
            .help(short)
            .long_help(long)
    }

    /// What the flag is for: on one line, and at length.
    fn help(&self) -> (String, String) {
        let mut marks = String::new();
        if self.required {
            marks.push_str(" [a new thread needs it]");
        }
        if let Some(begins) = &self.begins {
            marks.push_str(&format!(" [a new thread begins with: {begins}]"));
        }
        let (short, whole) = match self.doc {
            "" => (
                format!("The field {}", self.name),
                format!("The field {}.", self.name),
            ),
            doc => (brief(doc), doc.to_owned()),
        };
        let mut how = Vec::new();
        if self.long != dashed(self.name) {
            how.push(format!(
                "This is the field {}: its own name is a flag that every run has.",
                self.name
            ));
        }
        if self.reducer != "replace" {
            how.push(format!(
                "The thread's value and this become one by {}.",
                last(self.reducer)
            ));
        }
        let takes = match form::item(&self.shape) {
            Some(item) if form::is_text(item) => {
                "A list: repeat the flag for more, or give a JSON array. @FILE is one item, - what \
                 is piped in is one, @@x is @x."
                    .to_owned()
            }
            Some(_) => "A list: repeat the flag for more, or give a JSON array, also as @FILE, or \
                        as - from what is piped in."
                .to_owned(),
            None if form::is_text(&self.shape) => {
                "@FILE is the file's content, - is what is piped in, @@x is @x.".to_owned()
            }
            None if form::is_word(&self.shape) => String::new(),
            None => format!(
                "JSON, also as @FILE, or as - from what is piped in: {}.",
                form::words(&self.shape)
            ),
        };
        how.push(takes);
        if form::some(&self.shape).1 && form::is_word(&self.shape) {
            how.push("The word null is no value.".to_owned());
        }
        how.retain(|sentence| !sentence.is_empty());
        let how = match how.is_empty() {
            true => String::new(),
            false => format!("\n\n{}", how.join(" ")),
        };
        (format!("{short}{marks}"), format!("{whole}{marks}{how}"))
    }

    /// What was given with this flag.
    fn read<'w>(
        &self,
        graph: &str,
        words: impl Iterator<Item = &'w String>,
        sources: &mut Sources,
    ) -> Result<Data, Failure> {
        let refused = |what: String| Failure::usage(what).next(self.next(graph));
        let texts: Result<Vec<Text>, String> = words
            .map(|word| sources.read(&format!("--{}", self.long), word))
            .collect();
        let texts = texts.map_err(|what| refused(format!("--{}: {what}", self.long)))?;
        let Some(item) = form::item(&self.shape) else {
            let [text] = texts.as_slice() else {
                let times = texts.len();
                let what = format!("--{} is given {times} times and takes one value", self.long);
                return Err(refused(what));
            };
            return self.one(&self.shape, text).map_err(refused);
        };
        if let [only] = texts.as_slice()
            && only.from.is_none()
            && only.text == "null"
            && form::some(&self.shape).1
        {
            return Ok(Data::Null);
        }
        let mut items = Vec::new();
        for text in &texts {
            let is_array = text.text.trim_start().starts_with('[')
                && (text.from.is_none() || !form::is_text(item));
            match is_array {
                true => match self
                    .json(form::some(&self.shape).0, text)
                    .map_err(refused)?
                {
                    Data::List(more) => items.extend(more),
                    one => items.push(one),
                },
                false => items.push(self.one(item, text).map_err(refused)?),
            }
        }
        Ok(Data::List(items))
    }

    /// One value: a word, the text of a file, or JSON.
    fn one(&self, shape: &Shape, text: &Text) -> Result<Data, String> {
        let is_enum = matches!(form::some(shape).0, Shape::Enum(_));
        let is_word = text.from.is_none() && (form::is_word(shape) || is_enum);
        match is_word || form::is_text(shape) {
            // The word null is no value; a file that says null is a text.
            true if text.from.is_some() => {
                read::word(form::some(shape).0, &text.text).map_err(|wrong| self.said(text, &wrong))
            }
            true => read::word(shape, &text.text).map_err(|wrong| self.said(text, &wrong)),
            false => self.json(shape, text),
        }
    }

    fn json(&self, shape: &Shape, text: &Text) -> Result<Data, String> {
        read::json(shape, &text.text).map_err(|wrong| self.said(text, &wrong))
    }

    fn said(&self, text: &Text, wrong: &Wrong) -> String {
        let mut said = format!("{}: {wrong}", named(&self.long, text.from.as_deref()));
        if let Wrong::NotJson { .. } = wrong {
            said = format!("{said}; {} is expected", form::words(&self.shape));
        }
        said
    }

    fn next(&self, graph: &str) -> String {
        let example = quoted(&form::example(&self.shape));
        format!("run {} --{} {example}", quoted(graph), self.long)
    }
}

/// A flag with where its value came from.
fn named(flag: &str, from: Option<&str>) -> String {
    match from {
        Some(from) => format!("--{flag}, {from}"),
        None => format!("--{flag}"),
    }
}

fn dashed(name: &str) -> String {
    match name.trim_matches('_') {
        "" => name.to_owned(),
        name => name.replace('_', "-"),
    }
}

/// The first paragraph of a comment, on one line.
pub(super) fn paragraph(doc: &str) -> String {
    let lines = doc.lines().take_while(|line| !line.trim().is_empty());
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

/// The first paragraph, as help has it: without a full stop.
fn brief(doc: &str) -> String {
    paragraph(doc).trim_end_matches('.').to_owned()
}

/// A reducer without its modules.
fn last(reducer: &str) -> &str {
    reducer.rsplit("::").next().unwrap_or(reducer)
}

/// A first value that is worth to be said.
fn begins(value: &serde_json::Value) -> Option<String> {
    use serde_json::Value;
    match value {
        Value::Number(number) if number.as_f64() != Some(0.0) => Some(number.to_string()),
        Value::Bool(true) => Some("true".to_owned()),
        Value::String(text) if !text.is_empty() && text.chars().count() < 40 => Some(text.clone()),
        _ => None,
    }
}

/// Takes any word of UTF-8, and knows which are likely.
#[derive(Debug, Clone, Default)]
struct Word(Vec<&'static str>);

impl TypedValueParser for Word {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        _: Option<&Arg>,
        word: &OsStr,
    ) -> Result<String, clap::Error> {
        let text = word.to_str().map(str::to_owned);
        text.ok_or_else(|| clap::Error::new(ErrorKind::InvalidUtf8).with_cmd(command))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        if self.0.is_empty() {
            return None;
        }
        Some(Box::new(self.0.iter().map(PossibleValue::new)))
    }
}
