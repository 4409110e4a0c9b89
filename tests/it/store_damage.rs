//! Damaged files: a typed error, or what was written up to some point. Never a panic, never
//! anything else.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use milepost::store::{CheckpointStore, SledStore, StoreError};

use super::store_logs::{History, thread};

/// Writes three threads and copies the folder while it is open, as a kill would leave it, and
/// after it was closed.
async fn stores(folder: &Path) -> Vec<History> {
    let live = folder.join("live");
    let store = SledStore::open(&live).unwrap();
    let mut histories: Vec<_> = ["a", "b", "c"]
        .iter()
        .map(|name| History::new(&thread(name)))
        .collect();
    for _ in 0..12 {
        for (number, history) in histories.iter_mut().enumerate() {
            history.grow(&store, 2, 700 + 4_000 * number).await;
        }
    }
    copy(&live, &folder.join("killed"));
    drop(store);
    copy(&live, &folder.join("closed"));
    histories
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Damages copies of the folder, one after the other, and looks at what a store makes of them.
async fn damage<T: std::fmt::Debug + Copy>(cases: &[T], harm: impl Fn(&Path, T)) {
    let folder = tempfile::tempdir().unwrap();
    let histories = stores(folder.path()).await;
    for source in ["killed", "closed"] {
        for case in cases {
            let path = folder.path().join("damaged");
            copy(&folder.path().join(source), &path);
            harm(&path, *case);
            match SledStore::open(&path) {
                Ok(store) => look(&store, &histories).await,
                Err(error) => sort(&error, &path),
            }
            fs::remove_dir_all(&path).unwrap();
        }
    }
}

fn sort(error: &StoreError, path: &Path) {
    let said = error.to_string();
    assert!(
        matches!(error, StoreError::Corrupt { .. } | StoreError::Io { .. }),
        "{said}"
    );
    assert!(said.contains(path.to_str().unwrap()), "{said}");
}

async fn look(store: &SledStore, histories: &[History]) {
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
    fs::metadata(path.join("db")).unwrap().len()
}

fn over(path: &Path, at: u64, bytes: &[u8]) {
    let file = OpenOptions::new()
        .write(true)
        .open(path.join("db"))
        .unwrap();
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
        let file = OpenOptions::new().write(true).open(path.join("db"));
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
        let file = fs::File::open(path.join("db")).unwrap();
        file.read_exact_at(&mut byte, at).unwrap();
        over(path, at, &[byte[0] ^ (1 << (case % 8))]);
    })
    .await;
}

#[tokio::test]
async fn a_store_with_files_missing_or_empty() {
    let cases = [
        ("db", true),
        ("conf", true),
        ("snap.", true),
        ("blobs", true),
        ("holder", true),
        ("db", false),
        ("conf", false),
        ("snap.", false),
        ("holder", false),
    ];
    damage(&cases, |path, (name, remove)| {
        for entry in fs::read_dir(path).unwrap() {
            let entry = entry.unwrap().path();
            if !entry
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with(name)
            {
                continue;
            }
            match (remove, entry.is_dir()) {
                (true, true) => fs::remove_dir_all(entry).unwrap(),
                (true, false) => fs::remove_file(entry).unwrap(),
                (false, _) => fs::write(entry, b"").unwrap(),
            }
        }
    })
    .await;
}
