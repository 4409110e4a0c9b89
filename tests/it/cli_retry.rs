//! `retry`: what finished tasks had brought is discarded by a command, and they run again.

use std::path::Path;

use milepost::cli::{self, Entry, Exit};
use milepost::store::{CheckpointStore, SledStore, Status};
use milepost::{
    Append, BuildError, Context, End, EventKind, Graph, NodeError, Snapshot, State, ThreadId,
    events,
};

#[derive(Clone, Debug, Default, State)]
struct Doc {
    #[reduce(Append)]
    log: Vec<String>,
    title: String,
}

/// `a` and `b` both write the title, for as long as a file says so.
fn graph(folder: &Path) -> Result<Graph<Doc>, BuildError> {
    let mut g = Graph::builder("titles");
    let node = |name: &'static str| {
        let file = folder.join("both");
        move |_: Snapshot<Doc>, _: Context| {
            let update = Doc::update().log(vec![name.to_owned()]);
            let update = match file.exists() || name == "a" {
                true => update.title(name.to_owned()),
                false => update,
            };
            std::future::ready(Ok::<_, NodeError>(update))
        }
    };
    let (a, b) = (g.node("a", node("a")), g.node("b", node("b")));
    g.start(a.and(b));
    g.edge(a, End);
    g.edge(b, End);
    g.build()
}

fn types(folder: &Path, words: &str) -> Exit {
    let store = folder.join("store").display().to_string();
    let first = ["titles", "--store", &store];
    let words = first.into_iter().chain(words.split(' '));
    cli::run([Entry::of(graph(folder))], words)
}

/// S427, C20: after a merge that failed, the one command makes the named tasks run again, by name or
/// by path; what is no open task is refused, and changes nothing.
#[test]
fn tasks_of_a_failed_merge_run_again_by_a_command() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("both"), "").unwrap();
    assert_eq!(types(folder, "run titles --thread t"), Exit::Failed);
    assert_eq!(types(folder, "resume t"), Exit::Failed);
    for wrong in [
        "retry t nosuch",
        "retry t 2:b[0]",
        "retry t b[1]",
        "retry nosuch b",
    ] {
        assert_eq!(types(folder, wrong), Exit::Usage, "{wrong}");
    }
    std::fs::remove_file(folder.join("both")).unwrap();
    assert_eq!(types(folder, "resume t"), Exit::Failed);
    assert_eq!(types(folder, "retry t b 1:b[0]"), Exit::Done);
    assert_eq!(types(folder, "retry t b"), Exit::Usage);
    assert_eq!(types(folder, "doctor"), Exit::Done);

    let store = SledStore::open(folder.join("store")).unwrap();
    let t = ThreadId::new("t").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let head = store.head(&t).await.unwrap().unwrap();
        assert_eq!((head.status, head.step), (Status::Finished, 1));
        let told = events(&store, &t).await.unwrap();
        let ended = told.iter().filter_map(|event| match &event.kind {
            EventKind::TaskFinished { task, .. } => Some(task.to_string()),
            EventKind::Discarded { tasks, .. } => Some(format!("discarded {tasks:?}")),
            _ => None,
        });
        let mut ended: Vec<_> = ended.collect();
        ended[..2].sort();
        assert_eq!(ended.len(), 4, "{ended:?}");
        assert_eq!(ended[..2], ["1:a[0]", "1:b[0]"]);
        assert!(
            ended[2].starts_with("discarded") && ended[2].contains("1:b[0]"),
            "{ended:?}"
        );
        assert_eq!(ended[3], "1:b[0]");
    });
}
