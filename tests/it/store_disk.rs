//! The folder of a store, whatever engine keeps it: who may open it, and that its engine is known.

use std::process::Command;
use std::sync::Arc;

use milepost::store::{CheckpointStore, StoreEngine, StoreError};

use super::store_logs::{History, thread};

/// Set for a child of a test: the folder that it opens, behind its engine.
const CHILD: &str = "MILEPOST_TEST_OPEN";

/// The engines that this build has.
pub(crate) const ENGINES: &[StoreEngine] = &[
    #[cfg(feature = "sled")]
    StoreEngine::Sled,
    #[cfg(feature = "fjall")]
    StoreEngine::Fjall,
];

/// The engine of this name.
pub(crate) fn named(name: &str) -> StoreEngine {
    *ENGINES.iter().find(|engine| engine.name() == name).unwrap()
}

fn refused(told: Result<Arc<dyn CheckpointStore>, StoreError>) -> StoreError {
    told.map(drop).unwrap_err()
}

#[test]
fn a_second_handle_in_this_process_is_refused_with_its_pid() {
    for engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let store = engine.open(folder.path()).unwrap();
        let told = refused(engine.open(folder.path()));
        let StoreError::Locked { path, holder } = &told else {
            panic!("{told:?}");
        };
        assert_eq!(path, folder.path());
        assert_eq!(*holder, Some(std::process::id()));
        assert!(told.to_string().contains(&std::process::id().to_string()));
        drop(store);
        engine.open(folder.path()).unwrap();
    }
}

#[test]
fn a_second_process_is_refused_with_the_pid_of_the_first() {
    if let Ok(child) = std::env::var(CHILD) {
        let (engine, path) = child.split_once(' ').unwrap();
        let told = refused(named(engine).open(path));
        let parent = std::os::unix::process::parent_id();
        assert!(
            matches!(told, StoreError::Locked { holder: Some(pid), .. } if pid == parent),
            "{told:?}"
        );
        return;
    }
    for engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let store = engine.open(folder.path()).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "store_disk::a_second_process_is_refused_with_the_pid_of_the_first",
            ])
            .env(CHILD, format!("{engine} {}", folder.path().display()))
            .output()
            .unwrap();
        assert!(child.status.success(), "{child:?}");
        drop(store);
    }
}

#[tokio::test]
async fn a_store_can_be_opened_again_as_soon_as_it_is_dropped() {
    for engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let mut history = History::new(&thread("a"));
        for round in 0..50 {
            let store = engine.open(folder.path()).unwrap();
            let clone = Arc::clone(&store);
            history.grow(&*store, 3, 150 * round).await;
            drop(store);
            history.check(&*clone).await;
        }
    }
}

#[test]
fn a_path_that_cannot_be_a_store_is_an_io_error_that_names_it() {
    for engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "text").unwrap();
        for path in [
            file.clone(),
            folder.path().join("no/parent"),
            file.join("below"),
        ] {
            let told = refused(engine.open(&path));
            assert!(matches!(told, StoreError::Io { .. }), "{told:?}");
            let said = told.to_string();
            assert!(said.contains(path.to_str().unwrap()), "{said}");
        }
        assert_eq!(std::fs::read(&file).unwrap(), b"text");
        // The last part of a path is made.
        engine.open(folder.path().join("new")).unwrap();
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_an_io_error() {
    use std::os::unix::fs::PermissionsExt;
    for engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o500)).unwrap();
        // Root may write everywhere; then there is nothing to refuse.
        match engine.open(&path) {
            Err(StoreError::Io { action, .. }) => assert!(action.contains("holder"), "{action}"),
            Err(error) => panic!("{error}"),
            Ok(_) => assert!(std::fs::write(path.join("probe"), "").is_ok()),
        }
    }
}

#[test]
fn a_folder_tells_its_engine_and_another_one_refuses_it_and_leaves_it_alone() {
    for engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(StoreEngine::found(folder.path()), None);
        drop(engine.open(folder.path()).unwrap());
        assert_eq!(StoreEngine::found(folder.path()), Some(*engine));
        for other in StoreEngine::ALL.iter().filter(|other| *other != engine) {
            let told = refused(other.open(folder.path()));
            let StoreError::OtherEngine {
                found, expected, ..
            } = &told
            else {
                panic!("{told:?}");
            };
            assert_eq!((*found, *expected), (engine.name(), other.name()));
        }
        engine.open(folder.path()).unwrap();
    }
}

#[test]
fn an_engine_that_the_program_was_built_without_is_named_with_its_feature() {
    let folder = tempfile::tempdir().unwrap();
    let missing = StoreEngine::ALL.iter().find(|it| !ENGINES.contains(it));
    if let Some(engine) = missing {
        let told = refused(engine.open(folder.path()));
        assert!(
            matches!(told, StoreError::NoEngine { engine: feature, .. } if feature == engine.name())
        );
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }
}

#[tokio::test]
async fn a_large_batch_is_whole_after_a_reopen() {
    for engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let mut history = History::new(&thread("large"));
        let store = engine.open(folder.path()).unwrap();
        history.grow(&*store, 2, 3 << 20).await;
        drop(store);
        let store = engine.open(folder.path()).unwrap();
        history.check(&*store).await;
    }
}
