//! The live region: the last rows of a terminal, drawn anew in place.
//!
//! In come text that stays and lines that are drawn over; out go bytes. What is drawn is known to
//! the whole process, because a warning of the library has to be written above it, too. The cursor
//! is never hidden and no mode of the terminal stays changed: however the process ends, there is
//! nothing to restore.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

/// The terminal shows a frame when it is whole; one that does not know this ignores it.
const BEGIN: &str = "\x1b[?2026h";
const END: &str = "\x1b[?2026l";
/// A row that a terminal finds wider than we do is cut there, and not wrapped.
const NO_WRAP: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";
const ERASE_BELOW: &str = "\x1b[J";
const ERASE_REST: &str = "\x1b[K";

/// The rows of the region; the cursor stands below them.
static DRAWN: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Writes lines that stay, each with its end, and below them the region. Lines of the region are
/// narrower than the terminal.
pub(super) fn draw(stays: &str, lines: Vec<String>) -> io::Result<()> {
    let mut drawn = DRAWN.lock().unwrap_or_else(PoisonError::into_inner);
    if stays.is_empty() && *drawn == lines {
        return Ok(());
    }
    let mut frame = BEGIN.to_owned();
    up(&mut frame, drawn.len());
    if !stays.is_empty() {
        frame.push_str(ERASE_BELOW);
        frame.push_str(stays);
    }
    rows(&mut frame, &lines);
    frame.push_str(END);
    *drawn = lines;
    put(&frame)
}

/// The error channel, above the region.
#[derive(Debug)]
pub(super) struct Above;

impl Write for Above {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let drawn = DRAWN.lock().unwrap_or_else(PoisonError::into_inner);
        if drawn.is_empty() {
            return io::stderr().write(bytes);
        }
        let mut erased = String::new();
        up(&mut erased, drawn.len());
        put(&(erased + ERASE_BELOW))?;
        let written = io::stderr().write_all(bytes);
        let mut again = String::new();
        rows(&mut again, &drawn);
        put(&again)?;
        written.map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn up(frame: &mut String, rows: usize) {
    frame.push('\r');
    if rows > 0 {
        // A String takes every text.
        let _ = write!(frame, "\x1b[{rows}A");
    }
}

fn rows(frame: &mut String, lines: &[String]) {
    if !lines.is_empty() {
        frame.push_str(NO_WRAP);
        for line in lines {
            frame.extend([line, ERASE_REST, "\n"]);
        }
        frame.push_str(WRAP);
    }
    frame.push_str(ERASE_BELOW);
}

fn put(frame: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(frame.as_bytes()).and_then(|()| out.flush())
}
