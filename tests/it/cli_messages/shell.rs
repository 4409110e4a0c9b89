//! A shell in a folder with a store, files, and disks that take nothing.

use std::fmt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use milepost::ThreadId;
use milepost::store::ThreadKey;
use tempfile::TempDir;

/// What the folder has: two threads, and files of every wrong kind.
const FOLDER: &str = r#"
set -e
milepost run count --thread t
milepost run count --thread half --to 9 --step-limit 2 || test $? = 4
milepost export t --out t.jsonl
printf '{"milepost":"threads","version":9}\n' > newer.jsonl
sed 's/"records":\([0-9]*\)/"records":7/' t.jsonl > altered.jsonl
head -n 3 t.jsonl > cut.jsonl
echo x > file; echo '{"to": ' > broken.json; printf 'caf\351' > latin.txt
mkdir folder empty other demos disk; echo x > other/letter
for way in emptied cut zeroed scribbled; do cp -r mileposts $way; done
: > emptied/db
size=$(wc -c < mileposts/db)
head -c 1000 mileposts/db > cut/db
head -c $size /dev/zero > zeroed/db
head -c $size /dev/zero | tr '\0' 'x' > scribbled/db
cp -r mileposts newer; mkdir ro; cp -r mileposts ro/old; cp t.jsonl ro
"#;

/// Disks that take nothing more, one that takes nothing, and an output that nobody reads.
const DISKS: &str = r#"
limited() { ( trap '' XFSZ; ulimit -f $1; shift; exec "$@" ); }
small() { $UNSHARE sh -c 'mount -t tmpfs -o size=100k none disk && exec "$@"' sh "$@"; }
fixed() { $UNSHARE sh -c 'mount --bind ro ro && mount -o remount,ro,bind ro && exec "$@"' sh "$@"; }
unread() {
  ( trap '' PIPE; while echo x; do :; done 2>/dev/null; "$@"; echo exit $? >&2 ) | true
}
rm -rf new
"#;

/// What a line gave.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) code: i32,
    pub(super) out: String,
    pub(super) err: String,
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit {}\n{}", self.code, self.err)?;
        // What the doctor finds is its result.
        for line in self.out.lines().filter(|line| line.starts_with("error ")) {
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}

/// A folder, and a shell in it.
pub(super) struct Shell {
    folder: TempDir,
}

impl Shell {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let shell = Self { folder };
        let made = shell.runs(FOLDER);
        assert_eq!(made.code, 0, "{}{}", made.out, made.err);
        shell.newer();
        shell
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Whether this system has the disk that a line needs.
    pub(super) fn can(&self, line: &str) -> bool {
        let needs = line.starts_with("small ") || line.starts_with("fixed ");
        !needs || unshare().is_some()
    }

    /// Types a line.
    pub(super) fn types(&self, line: &str) -> Said {
        let said = self.runs(&format!("{DISKS}\n{line}"));
        let here = self.folder.path().display().to_string();
        let said_here = |text: String| timeless(&text.replace(&here, "HERE"));
        Said {
            err: said_here(said.err).trim_end().to_owned(),
            ..said
        }
    }

    fn runs(&self, script: &str) -> Said {
        let program = PathBuf::from(env!("CARGO_BIN_EXE_milepost"));
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new("sh")
            .args(["-c", script])
            .current_dir(self.folder.path())
            .env(
                "PATH",
                format!("{}:{path}", program.parent().unwrap().display()),
            )
            .env("DOCS", crate::cli_bin::bakery())
            .env("UNSHARE", unshare().unwrap_or_default())
            .env_remove("MILEPOST_STORE")
            .env_remove("MILEPOST_LOG")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        Said {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Makes the records of a thread those of a later program.
    fn newer(&self) {
        let db = sled::open(self.path("newer")).unwrap();
        let thread = ThreadKey::of(&ThreadId::new("t").unwrap());
        let rows = db.scan_prefix(thread.as_bytes()).map(Result::unwrap);
        for (key, row) in rows.collect::<Vec<_>>() {
            let mut row = row.to_vec();
            row[6] = 9;
            let mut covered = blake3::Hasher::new();
            for part in [thread.as_bytes(), &row[..32], &row[48..]] {
                covered.update(part);
            }
            row[32..48].copy_from_slice(&covered.finalize().as_bytes()[..16]);
            db.insert(key, row).unwrap();
        }
        db.flush().unwrap();
    }
}

/// How a process gets mounts of its own, where it can.
fn unshare() -> Option<&'static str> {
    static FOUND: OnceLock<Option<&str>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let works = |words: &&str| {
            let line = format!("{words} sh -c 'mount -t tmpfs none /mnt'");
            let tried = Command::new("sh").args(["-c", &line]).output();
            tried.is_ok_and(|tried| tried.status.success())
        };
        ["unshare -rm", "unshare -m"].into_iter().find(works)
    })
}

/// The text without the names that were made by chance.
fn timeless(text: &str) -> String {
    let words = text.split_inclusive([' ', '\n', '/', ':', ',']);
    words.map(word).collect()
}

/// A word, or what it stands for if it is a name made by chance.
fn word(word: &str) -> String {
    let name = word.trim_end_matches([' ', '\n', '/', ':', ',']);
    let parts: Vec<_> = name.split('-').map(str::len).collect();
    let end = &word[name.len()..];
    match parts.as_slice() {
        [8, 4, 4, 4, 12] => format!("UUID{end}"),
        _ => word.to_owned(),
    }
}
