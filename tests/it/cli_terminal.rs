//! The real program on a real pseudo-terminal, and what the terminal shows.

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pty_process::Size;
use pty_process::blocking::{Command, Pty, open};

use crate::cli_bin::Desk;

/// So long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(60);
/// More rows than any test writes.
const TALL: u16 = 2000;

/// A terminal on which the program runs.
pub(crate) struct Terminal {
    pty: Arc<Pty>,
    child: Child,
    reader: JoinHandle<()>,
    seen: Arc<Mutex<Seen>>,
}

struct Seen {
    bytes: Vec<u8>,
    /// As many rows as the terminal has.
    screen: vt100::Parser,
    /// All that has ever been shown: nothing scrolls out of it.
    page: vt100::Parser,
}

/// What was on the terminal when the program had ended.
pub(crate) struct Shown {
    pub(crate) code: Option<i32>,
    /// Every byte, with the line ends of a file.
    pub(crate) bytes: String,
    /// The whole page, as people see it.
    pub(crate) page: String,
    /// How many rows are written.
    pub(crate) rows: u16,
    pub(crate) cursor: (u16, u16),
    pub(crate) hides_cursor: bool,
}

fn parser(rows: u16, columns: u16) -> vt100::Parser {
    let size = |n| NonZeroU16::new(n).unwrap();
    vt100::Parser::new(size(rows), size(columns), 0)
}

impl Terminal {
    /// Starts the program on a terminal of so many rows and columns, with these variables set; one
    /// that is empty is not set at all.
    pub(crate) fn start(
        desk: &Desk,
        (rows, columns): (u16, u16),
        variables: &[(&str, &str)],
        words: &[&str],
    ) -> Self {
        Self::start_with(desk, (rows, columns), variables, words, None)
    }

    /// The same, with its output going elsewhere.
    pub(crate) fn start_with(
        desk: &Desk,
        (rows, columns): (u16, u16),
        variables: &[(&str, &str)],
        words: &[&str],
        out: Option<Stdio>,
    ) -> Self {
        let (pty, pts) = open().unwrap();
        pty.resize(Size::new(rows, columns)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_milepost"))
            .args(words)
            .current_dir(desk.path(""))
            .env("TERM", "xterm-256color");
        for unset in ["MILEPOST_STORE", "MILEPOST_LOG", "NO_COLOR"] {
            command = command.env_remove(unset);
        }
        for (name, value) in variables {
            command = match *value {
                "" => command.env_remove(name),
                value => command.env(name, value),
            };
        }
        if let Some(out) = out {
            command = command.stdout(out);
        }
        let child = command.spawn(pts).unwrap();
        let pty = Arc::new(pty);
        let seen = Arc::new(Mutex::new(Seen {
            bytes: Vec::new(),
            screen: parser(rows, columns),
            page: parser(TALL, columns),
        }));
        let reader = {
            let (pty, seen) = (Arc::clone(&pty), Arc::clone(&seen));
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                // It ends with an error when nobody has the other side open any more.
                while let Ok(n @ 1..) = (&*pty).read(&mut buffer) {
                    let mut seen = seen.lock().unwrap();
                    seen.bytes.extend_from_slice(&buffer[..n]);
                    seen.screen.process(&buffer[..n]);
                    seen.page.process(&buffer[..n]);
                }
            })
        };
        Self {
            pty,
            child,
            reader,
            seen,
        }
    }

    /// Waits until the screen is as it is meant to be, and gives it.
    pub(crate) fn until(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let screen = self.seen.lock().unwrap().screen.screen().contents();
            if holds(&screen) {
                return screen;
            }
            assert!(Instant::now() < end, "no {what} on\n{screen}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Types something.
    pub(crate) fn type_in(&self, keys: &[u8]) {
        (&*self.pty).write_all(keys).unwrap();
    }

    /// Changes the size, as one who draws at the edge of a window.
    pub(crate) fn resize(&self, rows: u16, columns: u16) {
        let size = |n| NonZeroU16::new(n).unwrap();
        let mut seen = self.seen.lock().unwrap();
        seen.screen.screen_mut().set_size(size(rows), size(columns));
        seen.page.screen_mut().set_size(size(TALL), size(columns));
        self.pty.resize(Size::new(rows, columns)).unwrap();
    }

    /// Waits until the program has ended.
    pub(crate) fn end(mut self) -> Shown {
        let end = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < end, "the program does not end");
            std::thread::sleep(Duration::from_millis(2));
        };
        self.reader.join().unwrap();
        let seen = self.seen.lock().unwrap();
        let screen = seen.page.screen();
        let empty = |row: &String| row.trim_end().is_empty();
        let rows: Vec<_> = screen.rows(0, u16::MAX).collect();
        let below = rows.iter().rev().take_while(|row| empty(row)).count();
        Shown {
            rows: u16::try_from(rows.len() - below).unwrap(),
            code: status.code(),
            bytes: String::from_utf8_lossy(&seen.bytes).replace("\r\n", "\n"),
            page: screen.contents(),
            cursor: screen.cursor_position(),
            hides_cursor: seen.bytes.windows(6).any(|bytes| bytes == b"\x1b[?25l"),
        }
    }
}
