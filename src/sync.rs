//! Locks, channels and tasks for which a model checker can stand in.
//!
//! What is shared between threads in the ways that `docs/reliability.md` says are checked is made of
//! these. They are those of the standard library and of tokio; only in this crate's own tests, and only
//! with `--cfg milepost_model`, they are those of shuttle, which runs a test in very many orders.

#[cfg(all(test, milepost_model))]
pub(crate) use self::checked::*;
#[cfg(not(all(test, milepost_model)))]
pub(crate) use self::real::*;

#[cfg(not(all(test, milepost_model)))]
mod real {
    pub(crate) use std::sync::{Mutex, MutexGuard};
    #[cfg(feature = "sled")]
    pub(crate) use std::sync::{RwLock, atomic, mpsc};
    #[cfg(feature = "sled")]
    pub(crate) use std::thread;

    use tokio::runtime::Handle;

    /// Where tasks are spawned by whoever may be outside of a runtime by then.
    #[derive(Debug)]
    pub(crate) struct Spawner(Handle);

    impl Spawner {
        /// The runtime that this is called in.
        pub(crate) fn current() -> Self {
            Self(Handle::current())
        }

        pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
            self.0.spawn(task);
        }
    }
}

#[cfg(all(test, milepost_model))]
mod checked {
    pub(crate) use shuttle::sync::{Mutex, MutexGuard};
    #[cfg(feature = "sled")]
    pub(crate) use shuttle::sync::{RwLock, atomic, mpsc};
    #[cfg(feature = "sled")]
    pub(crate) use shuttle::thread;

    #[derive(Debug)]
    pub(crate) struct Spawner;

    impl Spawner {
        pub(crate) fn current() -> Self {
            Self
        }

        pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
            shuttle::future::spawn(task);
        }
    }

    /// Runs a scenario in many orders: at random, and with few switches at chosen places, which find
    /// what random ones do not. Prints how many, which is what `docs/reliability.md` tells.
    pub(crate) fn explore(name: &str, scenario: impl Fn() + Clone + Send + Sync + 'static) {
        use std::io::Write as _;
        let orders = std::env::var("MILEPOST_MODEL_ORDERS");
        let orders = orders.map_or(2_000, |number| number.parse().expect("a number"));
        shuttle::check_random(scenario.clone(), orders);
        shuttle::check_pct(scenario, orders, 3);
        let mut out = std::io::stdout();
        writeln!(out, "orders {name} {}", 2 * orders).expect("the output takes it");
    }

    /// A number that is drawn with the order.
    pub(crate) fn below(limit: usize) -> usize {
        use shuttle::rand::Rng as _;
        shuttle::rand::thread_rng().gen_range(0..limit)
    }

    /// Runs a scenario in every order that there is, or in the first so many.
    pub(crate) fn exhaust(name: &str, scenario: impl Fn() + Send + Sync + 'static) {
        use std::io::Write as _;
        use std::sync::Arc;
        use std::sync::atomic::{AtomicUsize, Ordering};
        const MOST: usize = 50_000;
        let count = Arc::new(AtomicUsize::new(0));
        let theirs = Arc::clone(&count);
        let counted = move || {
            theirs.fetch_add(1, Ordering::Relaxed);
            scenario();
        };
        shuttle::check_dfs(counted, Some(MOST));
        let count = count.load(Ordering::Relaxed);
        let all = if count < MOST { "all" } else { "the first" };
        let mut out = std::io::stdout();
        writeln!(out, "orders {name} {all} {count}").expect("the output takes it");
    }
}
