//! Damaged files: a typed error, or what was written up to some point. Never a panic, never
//! anything else.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use milepost::store::{CheckpointStore, StoreEngine, StoreError};

use super::store_disk::ENGINES;
use super::store_logs::{History, thread};

/// Writes three threads and copies the folder while it is open, as a kill would leave it, and
/// after it was closed.
async fn stores(engine: StoreEngine, folder: &Path) -> Vec<History> {
    let live = folder.join("live");
    let store = small(engine, &live);
    let mut histories: Vec<_> = ["a", "b", "c"]
        .iter()
        .map(|name| History::new(&thread(name)))
        .collect();
    for _ in 0..12 {
        for (number, history) in histories.iter_mut().enumerate() {
            history.grow(&*store, 2, 700 + 4_000 * number).await;
        }
    }
    copy(&live, &folder.join("killed"));
    drop(store);
    copy(&live, &folder.join("closed"));
    histories
}

/// A store that soon writes all kinds of files that its engine has.
fn small(engine: StoreEngine, path: &Path) -> Arc<dyn CheckpointStore> {
    #[cfg(feature = "fjall")]
    if engine == StoreEngine::Fjall {
        use milepost::store::{FjallOptions, FjallStore};
        let mut options = FjallOptions::default();
        options.write_buffer_bytes = 64 << 10;
        return Arc::new(FjallStore::open_with(path, options).unwrap());
    }
    engine.open(path).unwrap()
}

pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else if target.extension().is_some_and(|it| it == "jnl") {
            // Without the room that is written ahead.
            let mut bytes = fs::read(entry.path()).unwrap();
            let len = bytes.iter().rposition(|byte| *byte != 0);
            bytes.truncate(len.map_or(0, |last| last + 1));
            fs::write(target, bytes).unwrap();
        } else {
            let copied = fs::copy(entry.path(), target);
            // An engine at work removes files of its own meanwhile.
            let gone = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
            assert!(copied.is_ok() || copied.is_err_and(|error| gone(&error)));
        }
    }
}

/// The files that hold what was written.
fn files(path: &Path) -> Vec<PathBuf> {
    if StoreEngine::found(path) != Some(StoreEngine::Fjall) {
        return vec![path.join("db")];
    }
    let tables = path.join("fjall/keyspaces/1/tables").read_dir().unwrap();
    let mut files: Vec<_> = tables.map(|table| table.unwrap().path()).collect();
    files.sort_unstable();
    files.truncate(1);
    files.push(path.join("fjall/0.jnl"));
    files
}

/// Damages copies of the folder, one file after the other, and looks at what a store makes of them.
async fn damage<T: std::fmt::Debug + Copy>(cases: &[T], harm: impl Fn(&Path, T)) {
    for &engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let histories = stores(engine, folder.path()).await;
        for source in ["killed", "closed"] {
            let source = folder.path().join(source);
            for file in files(&source) {
                let file = file.strip_prefix(&source).unwrap();
                for case in cases {
                    let path = folder.path().join("damaged");
                    copy(&source, &path);
                    harm(&path.join(file), *case);
                    examine(engine, &path, &histories).await;
                }
            }
        }
    }
}

/// Looks at what a store makes of a damaged folder, and removes that.
async fn examine(engine: StoreEngine, path: &Path, histories: &[History]) {
    match engine.open(path) {
        Ok(store) => look(&*store, histories).await,
        Err(error) => sort(&error, path),
    }
    fs::remove_dir_all(path).unwrap();
}

fn sort(error: &StoreError, path: &Path) {
    let said = error.to_string();
    assert!(
        matches!(error, StoreError::Corrupt { .. } | StoreError::Io { .. }),
        "{said}"
    );
    assert!(said.contains(path.to_str().unwrap()), "{said}");
}

async fn look(store: &dyn CheckpointStore, histories: &[History]) {
    for history in histories {
        match history.check_prefix(store).await {
            Ok(_) | Err(StoreError::Corrupt { .. } | StoreError::Io { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    match store.threads(None, 10).await {
        Ok(listed) => {
            for (id, _) in listed {
                assert!(histories.iter().any(|history| history.thread == id));
            }
        }
        Err(StoreError::Corrupt { .. } | StoreError::Io { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

fn data_len(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

fn over(path: &Path, at: u64, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

/// Numbers without a pattern, the same each time.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}

#[tokio::test]
async fn a_store_whose_file_was_cut_off() {
    let cases = [1, 100, 4_096, 20_000, 100_000, 300_000, 600_000, u64::MAX];
    damage(&cases, |path, cut| {
        let file = OpenOptions::new().write(true).open(path);
        let len = data_len(path).saturating_sub(cut);
        file.unwrap().set_len(len).unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_store_with_zeroes_in_its_file() {
    let cases = [0, 5, 20, 35, 50, 65, 80, 95];
    damage(&cases, |path, percent| {
        let at = data_len(path) * percent / 100;
        let len = (data_len(path) - at).min(if percent % 2 == 0 { 512 } else { 8_192 });
        over(path, at, &vec![0; len as usize]);
    })
    .await;
}

#[tokio::test]
async fn a_store_with_noise_in_its_file() {
    let cases = [0, 1, 3, 7, 12, 21, 33, 48, 62, 77, 91];
    damage(&cases, |path, percent| {
        let at = data_len(path) * percent / 100;
        over(
            path,
            at,
            &noise(percent, 512.min((data_len(path) - at) as usize)),
        );
    })
    .await;
}

#[tokio::test]
async fn a_store_with_single_bits_flipped() {
    let cases: Vec<u64> = (0..24).collect();
    damage(&cases, |path, case| {
        let at = (case * 0x9e37_79b9) % data_len(path);
        let mut byte = [0];
        let file = fs::File::open(path).unwrap();
        file.read_exact_at(&mut byte, at).unwrap();
        over(path, at, &[byte[0] ^ (1 << (case % 8))]);
    })
    .await;
}

/// All that is in a folder, itself left out.
fn inside(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(inside(&path));
        }
        found.push(path);
    }
    found
}

#[tokio::test]
async fn a_store_with_files_missing_or_empty() {
    for &engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let histories = stores(engine, folder.path()).await;
        for source in ["killed", "closed"] {
            let source = folder.path().join(source);
            let mut found = inside(&source);
            found.sort_unstable();
            for file in found {
                let file = file.strip_prefix(&source).unwrap();
                for remove in [true, false] {
                    let path = folder.path().join("damaged");
                    copy(&source, &path);
                    let harmed = path.join(file);
                    match (remove, harmed.is_dir()) {
                        (true, true) => fs::remove_dir_all(harmed).unwrap(),
                        (true, false) => fs::remove_file(harmed).unwrap(),
                        (false, true) => {
                            fs::remove_dir_all(&harmed).unwrap();
                            fs::create_dir(harmed).unwrap();
                        }
                        (false, false) => fs::write(harmed, b"").unwrap(),
                    }
                    examine(engine, &path, &histories).await;
                }
            }
        }
    }
}
