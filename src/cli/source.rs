//! Where the value of a flag comes from: the word itself, a file, what is piped in.
//!
//! In comes a word, out goes a text. `@FILE` is the file's content, `-` what is piped in, and
//! `@@x` a text that begins with `@`.

use std::fs::File;
use std::io::{self, IsTerminal, Read};

/// The most bytes of a file, or of what is piped in.
const MOST: u64 = 64 << 20;

/// A text, and where it comes from.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) text: String,
    /// The file, or "what is piped in"; none for the word itself.
    pub(super) from: Option<String>,
}

/// Reads words; what is piped in is read once.
#[derive(Debug, Default)]
pub(super) struct Sources {
    /// The flag that has read what is piped in.
    piped: Option<String>,
}

impl Sources {
    /// The text that a word of this flag stands for.
    pub(super) fn read(&mut self, flag: &str, word: &str) -> Result<Text, String> {
        if word == "-" {
            return self.piped(flag);
        }
        let Some(rest) = word.strip_prefix('@') else {
            return Ok(typed(word));
        };
        if rest.starts_with('@') {
            return Ok(typed(rest));
        }
        if rest.is_empty() {
            return Err("@ alone names no file; for the text @ type @@".to_owned());
        }
        let refused = |error: io::Error| format!("the file {rest} cannot be read: {error}");
        let file = File::open(rest).map_err(refused)?;
        if file.metadata().is_ok_and(|about| about.is_dir()) {
            return Err(format!("{rest} is a folder, and no file"));
        }
        let text = whole(file, &format!("the file {rest}"))?;
        let from = Some(rest.to_owned());
        Ok(Text { text, from })
    }

    fn piped(&mut self, flag: &str) -> Result<Text, String> {
        if let Some(first) = &self.piped {
            return Err(format!(
                "- can be read once, and {first} has it already: give this one as @FILE"
            ));
        }
        if io::stdin().is_terminal() {
            return Err("- reads what is piped in, and nothing is: this is a terminal".to_owned());
        }
        self.piped = Some(flag.to_owned());
        let what = "what is piped in";
        let text = whole(io::stdin().lock(), what)?;
        let from = Some(what.to_owned());
        Ok(Text { text, from })
    }
}

fn typed(word: &str) -> Text {
    Text {
        text: word.to_owned(),
        from: None,
    }
}

/// Everything that can be read, as text.
fn whole(source: impl Read, what: &str) -> Result<String, String> {
    let mut bytes = Vec::new();
    source
        .take(MOST + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("{what} cannot be read: {error}"))?;
    if bytes.len() as u64 > MOST {
        let most = MOST >> 20;
        return Err(format!(
            "{what} is larger than {most} MiB, the most that a flag takes"
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        format!("{what} is not UTF-8, from byte {place} on")
    })
}
