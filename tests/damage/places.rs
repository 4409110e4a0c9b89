//! Damage at many places of a store's files: whatever is read, gone on with or saved afterwards is
//! what was written, or a typed error. C53 (7), C67.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use milepost::store::{
    CheckpointStore, MemoryStore, Severity, StoreEngine, StoreError, Wreck, check, salvage,
};
#[cfg(feature = "fjall")]
use milepost::store::{FjallOptions, FjallStore};
use milepost::{Command, RunError, Runner, Seq, ThreadId, history};
use tempfile::TempDir;

use crate::salvage::{Book, book, options, thread};

/// What a thread was at each of its positions.
struct Was {
    thread: ThreadId,
    states: BTreeMap<Seq, Book>,
}

/// A store of several threads, and a copy as a kill would leave it.
struct Sound {
    folder: TempDir,
    engine: StoreEngine,
    /// The file that is harmed, in the folder of the store.
    file: PathBuf,
    threads: Vec<Was>,
}

fn runner(store: Arc<dyn CheckpointStore>) -> Runner<Book> {
    Runner::new(book()).options(options()).shared_store(store)
}

impl Sound {
    async fn make() -> Self {
        let made = |path: &Path| StoreEngine::Sled.open(path).unwrap();
        Self::made(StoreEngine::Sled, made, |_| "db".into()).await
    }

    /// All that is written is in the journal.
    #[cfg(feature = "fjall")]
    async fn in_journal() -> Self {
        let made = |path: &Path| StoreEngine::Fjall.open(path).unwrap();
        Self::made(StoreEngine::Fjall, made, |_| "fjall/0.jnl".into()).await
    }

    /// Most of what is written is in sorted files, of which the largest is harmed.
    #[cfg(feature = "fjall")]
    async fn in_sorted_files() -> Self {
        let made = |path: &Path| {
            let mut options = FjallOptions::default();
            options.write_buffer_bytes = 128 << 10;
            Arc::new(FjallStore::open_with(path, options).unwrap()) as Arc<dyn CheckpointStore>
        };
        let largest = |store: &Path| {
            let tables = store.join("fjall/keyspaces/1/tables");
            let files = fs::read_dir(&tables).unwrap().map(Result::unwrap);
            let largest = files.max_by_key(|file| file.metadata().unwrap().len());
            let path = largest.expect("a file was sorted").path();
            path.strip_prefix(store).unwrap().to_owned()
        };
        Self::made(StoreEngine::Fjall, made, largest).await
    }

    async fn made(
        engine: StoreEngine,
        made: impl Fn(&Path) -> Arc<dyn CheckpointStore>,
        file: impl Fn(&Path) -> PathBuf,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = made(&folder.path().join("live"));
        let runner = runner(Arc::clone(&store));
        let mut threads = Vec::new();
        for name in ["a", "b", "c"] {
            let thread = thread(name);
            for _ in 0..3 {
                let start = Command::start(Book::update());
                runner.run(&thread, start).await.unwrap();
            }
            let mut states = BTreeMap::new();
            for at in history(&*store, &thread).await.unwrap() {
                let state = runner.state_at(&thread, at.seq).await.unwrap();
                states.insert(at.seq, (*state).clone());
            }
            threads.push(Was { thread, states });
        }
        let (live, killed) = (folder.path().join("live"), folder.path().join("killed"));
        if engine == StoreEngine::Sled {
            copy(&live, &killed);
        } else {
            // fjall writes sorted files in a thread of its own, so its files are still once it is closed.
            drop((runner, store));
            drop(made(&live));
            copy(&live, &killed);
        }
        let file = file(&killed);
        Self {
            folder,
            engine,
            file,
            threads,
        }
    }

    /// Harms a copy in each way, and looks at what is made of it. Returns how often it opened.
    async fn harm<T: Copy + std::fmt::Debug>(
        &self,
        cases: impl IntoIterator<Item = T>,
        harm: impl Fn(&Path, T),
    ) -> usize {
        let mut opened = 0;
        let path = self.folder.path().join("harmed");
        for case in cases {
            copy(&self.folder.path().join("killed"), &path);
            harm(&path.join(&self.file), case);
            let what = format!("{case:?}");
            // First a copy is saved from, which must leave the store as it is.
            self.save(&path, &what).await;
            match self.engine.open(&path) {
                Ok(store) => {
                    opened += 1;
                    self.look(store, &what).await;
                }
                Err(error) => {
                    let said = error.to_string();
                    assert!(is_damage(&error), "{what}: {said}");
                    assert!(said.contains(path.to_str().unwrap()), "{what}: {said}");
                }
            }
            fs::remove_dir_all(&path).unwrap();
        }
        opened
    }

    /// Reads and goes on with every thread.
    async fn look(&self, store: Arc<dyn CheckpointStore>, what: &str) {
        match store.thread_names().await {
            Ok(names) => {
                for name in names.into_iter().flatten() {
                    assert!(self.threads.iter().any(|was| was.thread == name), "{what}");
                }
            }
            Err(error) => assert!(is_damage(&error), "{what}: {error}"),
        }
        for was in &self.threads {
            let what = format!("{what}, thread {}", was.thread);
            let runner = runner(Arc::clone(&store));
            let found = check(&*store, &was.thread).await;
            match store.head(&was.thread).await {
                Ok(Some(head)) => match runner.state(&was.thread).await {
                    Ok(state) => was.is(head.seq, &state, &what),
                    Err(error) => sorted(&error, found.is_sound(), &what),
                },
                Ok(None) => continue,
                Err(error) => assert!(is_damage(&error), "{what}: {error}"),
            }
            if let Err(error) = history(&*store, &was.thread).await {
                assert!(is_damage(&error), "{what}: {error}");
            }
            match runner.run(&was.thread, Command::go_on()).await {
                Ok(report) => {
                    // To where it stood, or on from where it was left.
                    let ends = was.states.values().any(|state| *state == *report.state);
                    assert!(ends, "{what}: a state that never was");
                }
                Err(error) => sorted(&error, found.is_sound(), &what),
            }
        }
    }

    /// Saves what can be saved, and sees that all of it is as it was.
    async fn save(&self, path: &Path, what: &str) {
        let before = sizes(path);
        let copy = self.folder.path().join("copy");
        match Wreck::open(path, &copy, |copy| self.engine.open(copy)) {
            Ok(wreck) => {
                for owner in wreck.store.owners().await.unwrap().into_iter().flatten() {
                    let new = Arc::new(MemoryStore::new());
                    let saved = salvage(&*wreck.store, &*new, &owner).await.unwrap();
                    let Some(archive) = saved.archive else {
                        continue;
                    };
                    let what = format!("{what}, saved {}", archive.thread);
                    let found = check(&*new, &archive.thread).await;
                    let worst = found.findings.iter().map(|found| found.severity).max();
                    assert!(
                        worst <= Some(Severity::Note),
                        "{what}: {:?}",
                        found.findings
                    );
                    let state = runner(new).state(&archive.thread).await.unwrap();
                    let was = self.threads.iter().find(|was| was.thread == archive.thread);
                    match was {
                        Some(was) => was.is(archive.head.seq, &state, &what),
                        None => assert!(archive.thread.as_str().starts_with("lost-"), "{what}"),
                    }
                }
            }
            Err(error) => assert!(is_damage(&error), "{what}: {error}"),
        }
        assert_eq!(sizes(path), before, "{what}: the old store was touched");
        match fs::remove_dir_all(&copy) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{error}"),
            _ => {}
        }
    }

    fn len(&self) -> u64 {
        let file = self.folder.path().join("killed").join(&self.file);
        let bytes = fs::read(file).unwrap();
        // Engines make their files longer than what is in them.
        bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64
    }
}

impl Was {
    fn is(&self, at: Seq, state: &Book, what: &str) {
        let was = self.states.get(&at);
        let was = was.unwrap_or_else(|| panic!("{what}: {at} was no position"));
        assert!(state == was, "{what}: another state than was written");
    }
}

fn is_damage(error: &StoreError) -> bool {
    matches!(error, StoreError::Corrupt { .. } | StoreError::Io { .. })
}

/// An error of a run is damage, or the thread is there no more.
fn sorted(error: &RunError, is_sound: bool, what: &str) {
    match error {
        RunError::Store(error) if is_damage(error) => {}
        RunError::NotFound { .. } => {}
        error => panic!("{what}: {error} (sound: {is_sound})"),
    }
}

pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let into = to.join(entry.file_name());
        match entry.metadata().unwrap().is_dir() {
            true => copy(&entry.path(), &into),
            false => drop(fs::copy(entry.path(), into).unwrap()),
        }
    }
}

/// The files below a folder with their lengths and times.
fn sizes(folder: &Path) -> BTreeMap<PathBuf, (u64, std::time::SystemTime)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let meta = entry.metadata().unwrap();
        match meta.is_dir() {
            true => all.append(&mut sizes(&entry.path())),
            false => drop(all.insert(entry.path(), (meta.len(), meta.modified().unwrap()))),
        }
    }
    all
}

fn over(path: &Path, at: u64, change: impl Fn(&mut [u8]), len: usize) {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut bytes = vec![0; len];
    let read = file.read_at(&mut bytes, at).unwrap();
    change(&mut bytes[..read]);
    file.write_all_at(&bytes[..read], at).unwrap();
}

/// Places all over a file, the same each time.
fn places(len: u64, number: u64) -> impl Iterator<Item = u64> {
    (0..number).map(move |place| {
        let even = len * place / number;
        (even + place * 0x9e37 % 509).min(len - 1)
    })
}

/// In each way at places all over the file. Returns how often the store opened.
async fn flipped(sound: &Sound, number: u64) -> usize {
    sound
        .harm(places(sound.len(), number), |path, at| {
            over(path, at, |bytes| bytes[0] ^= 1 << (at % 8), 1);
        })
        .await
}

async fn zeroed(sound: &Sound, number: u64) -> usize {
    sound
        .harm(places(sound.len(), number), |path, at| {
            over(path, at / 4_096 * 4_096, |bytes| bytes.fill(0), 4_096);
        })
        .await
}

async fn cut(sound: &Sound, number: u64) -> usize {
    sound
        .harm(places(sound.len(), number), |path, at| {
            let file = OpenOptions::new().write(true).open(path);
            file.unwrap().set_len(at).unwrap();
        })
        .await
}

#[tokio::test]
async fn a_flipped_bit_anywhere_is_damage_or_harmless() {
    let sound = Sound::make().await;
    assert!(flipped(&sound, 60).await > 0);
}

#[tokio::test]
async fn a_zeroed_page_anywhere_is_damage_or_harmless() {
    let sound = Sound::make().await;
    zeroed(&sound, 40).await;
}

#[tokio::test]
async fn noise_anywhere_is_damage_or_harmless() {
    let sound = Sound::make().await;
    sound
        .harm(places(sound.len(), 40), |path, at| {
            let mut noise = at | 1;
            let len = 16 << (at % 6);
            let mut stir = |byte: &mut u8| {
                noise = noise
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                *byte = (noise >> 33) as u8;
            };
            let file = OpenOptions::new().write(true).open(path);
            let mut bytes = vec![0; len];
            bytes.iter_mut().for_each(&mut stir);
            file.unwrap().write_all_at(&bytes, at).unwrap();
        })
        .await;
}

#[tokio::test]
async fn a_file_cut_off_anywhere_is_damage_or_an_earlier_store() {
    let sound = Sound::make().await;
    cut(&sound, 40).await;
}

#[tokio::test]
async fn a_page_of_another_place_is_damage_or_harmless() {
    let sound = Sound::make().await;
    sound
        .harm(places(sound.len(), 30), |path, at| {
            let page = at / 4_096 * 4_096;
            let file = fs::File::open(path).unwrap();
            let mut bytes = vec![0; 4_096];
            let read = file
                .read_at(&mut bytes, page * 7 % 400_000 / 512 * 512)
                .unwrap();
            over(
                path,
                page,
                |into| into.copy_from_slice(&bytes[..into.len()]),
                read,
            );
        })
        .await;
}

#[cfg(feature = "fjall")]
#[tokio::test]
async fn a_harmed_journal_of_fjall_is_damage_or_an_earlier_store() {
    let sound = Sound::in_journal().await;
    flipped(&sound, 16).await;
    zeroed(&sound, 8).await;
    cut(&sound, 8).await;
}

/// Whole blocks of it can be read although others cannot, and a file that is cut off is no store.
#[cfg(feature = "fjall")]
#[tokio::test]
async fn a_harmed_sorted_file_of_fjall_is_damage_or_harmless() {
    let sound = Sound::in_sorted_files().await;
    assert!(flipped(&sound, 8).await > 0);
    zeroed(&sound, 4).await;
    cut(&sound, 4).await;
}
