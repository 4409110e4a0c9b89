//! The one place that writes to the terminal.
//!
//! In come lines and JSON values, out go bytes. What is shown may come from anywhere (a document, a
//! model, a damaged record), so control characters are shown and never obeyed. A reader that has
//! gone away ends the output quietly; whatever else keeps it from being written is told.

use std::env;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use serde_json::{Value, json};
use terminal_size::{Height, Width, terminal_size};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::exit::{Exit, Failure, room};
use super::lines::SCHEMA;
use super::region::{self, Above};

/// How wide text is that goes to no terminal.
const WIDE: usize = 120;

/// The terminal, for one command.
#[derive(Debug)]
pub(super) struct Out {
    json: bool,
    /// Whether nothing that is written from now on would be read.
    gone: bool,
    /// Why, where it is not that the reader has gone.
    refused: Option<io::Error>,
    /// Lines that wait for the next frame, where there is a live region.
    live: Option<String>,
}

impl Out {
    pub(super) fn new(json: bool) -> Self {
        Self {
            json,
            gone: false,
            refused: None,
            live: None,
        }
    }

    /// From now on lines are shown with the next frame, if this is a terminal on which rows can be
    /// drawn over. Says whether it is.
    pub(super) fn go_live(&mut self) -> bool {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty());
        let able = !self.json
            && io::stdout().is_terminal()
            && set("NO_COLOR").is_none()
            && set("TERM").is_some_and(|term| term != "dumb");
        self.live = able.then(String::new);
        able
    }

    /// Shows the lines that wait, and below them the live region.
    pub(super) fn frame(&mut self, region: Vec<String>) {
        if let Some(stays) = self.live.as_mut().map(std::mem::take) {
            self.heed(region::draw(&stays, region));
        }
    }

    /// Shows the lines that wait, and takes the live region away.
    pub(super) fn go_still(&mut self) {
        self.frame(Vec::new());
        self.live = None;
    }

    /// Columns and rows of the terminal; where there is none, those of a wide page.
    pub(super) fn size(&self) -> (usize, usize) {
        match terminal_size().filter(|_| io::stdout().is_terminal()) {
            Some((Width(columns), Height(rows))) => (columns.into(), rows.into()),
            None => (WIDE, 24),
        }
    }

    /// Whether values are wanted instead of lines.
    pub(super) fn is_json(&self) -> bool {
        self.json
    }

    /// Whether nobody reads any more.
    pub(super) fn is_gone(&self) -> bool {
        self.gone
    }

    /// Writes text for people: one line or several. Says nothing where values are wanted.
    pub(super) fn say(&mut self, text: impl AsRef<str>) {
        if !self.json {
            self.put(&shown(text.as_ref()));
        }
    }

    /// Writes one value on one line. Says nothing where lines are wanted.
    pub(super) fn value(&mut self, value: &Value) {
        if self.json {
            self.put(&value.to_string());
        }
    }

    /// Writes text as it is, in any case: help, and pictures for other programs.
    pub(super) fn raw(&mut self, text: &str) {
        self.put(text.trim_end_matches('\n'));
    }

    /// Says on the error channel why a command failed.
    pub(super) fn complain(&self, failure: &Failure) {
        let Failure { exit, what, next } = failure;
        let text = if self.json {
            let error = json!({"exit": exit.code(), "what": what, "next": next});
            let value = json!({"schema": SCHEMA, "error": error});
            value.to_string()
        } else {
            format!("milepost: {what}\n  next: {next}")
        };
        self.hint(&text);
    }

    /// Says something on the error channel that is not a result.
    pub(super) fn hint(&self, text: &str) {
        // Where even that channel is gone, the exit code is left.
        let _ = Above.write_all(format!("{}\n", shown(text)).as_bytes());
    }

    fn put(&mut self, text: &str) {
        if self.gone {
            return;
        }
        if let Some(waiting) = &mut self.live {
            waiting.extend([text, "\n"]);
            return;
        }
        let mut out = io::stdout().lock();
        let written = writeln!(out, "{text}").and_then(|()| out.flush());
        drop(out);
        self.heed(written);
    }

    fn heed(&mut self, written: io::Result<()>) {
        let Err(error) = written else { return };
        if !self.gone && error.kind() != io::ErrorKind::BrokenPipe {
            self.refused = Some(error);
        }
        self.gone = true;
    }

    /// Tells, once, what kept the output from being written. A command that would have ended well
    /// has failed then.
    pub(super) fn settle(&mut self, exit: Exit, next: &str) -> Exit {
        let Some(error) = self.refused.take() else {
            return exit;
        };
        let exit = exit.max(Exit::Failed);
        let what = format!("the output cannot be written: {error}");
        let first = room(&error).unwrap_or("write it to another place");
        let next = format!("{first}, then {next}; nothing acknowledged is lost");
        self.complain(&Failure::new(exit, what).next(next));
        exit
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        self.go_still();
    }
}

/// The text with control characters made visible.
pub(super) fn shown(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => plain.push(c),
            '\t' => plain.push(' '),
            // Also the marks that reorder text to the left and right.
            c if c.is_control()
                || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
            {
                // A String takes every text.
                let _ = write!(plain, "{}", c.escape_unicode());
            }
            c => plain.push(c),
        }
    }
    plain
}

/// A name on one line, whatever is in it.
pub(super) fn one_line(name: &str) -> String {
    name.replace('\n', "\\n")
}

/// Cuts a text to a number of columns, and says that it was cut.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let Some(mut left) = width.checked_sub(1) else {
        return String::new();
    };
    let kept = text.chars().take_while(|c| {
        let fits = c.width().unwrap_or(0) <= left;
        left = left.saturating_sub(c.width().unwrap_or(0));
        fits
    });
    format!("{}…", kept.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_not_obeyed() {
        assert_eq!(shown("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb\nc");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöüß", 3), "äö…");
        assert_eq!(cut("日本語", 6), "日本語");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("日本語", 0), "");
    }
}
