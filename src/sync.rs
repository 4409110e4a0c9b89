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
    #[cfg(any(feature = "sled", feature = "fjall"))]
    pub(crate) use std::sync::{RwLock, RwLockWriteGuard, atomic, mpsc};
    #[cfg(any(feature = "sled", feature = "fjall"))]
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
    use std::io::Write as _;

    use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler, Scheduler};
    pub(crate) use shuttle::sync::{Mutex, MutexGuard};
    #[cfg(any(feature = "sled", feature = "fjall"))]
    pub(crate) use shuttle::sync::{RwLock, RwLockWriteGuard, atomic, mpsc};
    #[cfg(any(feature = "sled", feature = "fjall"))]
    pub(crate) use shuttle::thread;
    use shuttle::{Config, Runner};

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

    /// Runs a scenario in many orders: half of them drawn at random, half with few switches at chosen
    /// places, which find what random ones do not. Prints how many, which is what
    /// `docs/reliability.md` tells; `MILEPOST_MODEL_TIMES` multiplies them.
    pub(crate) fn explore(
        name: &str,
        orders: usize,
        scenario: impl Fn() + Clone + Send + Sync + 'static,
    ) {
        let times = std::env::var("MILEPOST_MODEL_TIMES");
        let half = orders / 2 * times.map_or(1, |number| number.parse().expect("a number"));
        let random = run(RandomScheduler::new(half), scenario.clone());
        let few = run(PctScheduler::new(3, half), scenario);
        say(&format!("orders {name} {}", random + few));
    }

    fn run(
        scheduler: impl Scheduler + 'static,
        scenario: impl Fn() + Send + Sync + 'static,
    ) -> usize {
        let mut config = Config::default();
        // A task of the checker has the stack that it is given, and encoding takes more than its own.
        config.stack_size = 512 << 10;
        // The one atomic that is shared is changed by one thread alone.
        config.silence_warnings = true;
        Runner::new(scheduler, config).run(scenario)
    }

    fn say(line: &str) {
        let mut out = std::io::stdout();
        writeln!(out, "{line}").expect("the output takes it");
    }

    /// A number that is drawn with the order.
    pub(crate) fn below(limit: usize) -> usize {
        use shuttle::rand::Rng as _;
        shuttle::rand::thread_rng().gen_range(0..limit)
    }

    /// Runs a scenario in every order that there is, and fails where they are more than this.
    pub(crate) fn exhaust(name: &str, most: usize, scenario: impl Fn() + Send + Sync + 'static) {
        let all = run(DfsScheduler::new(Some(most), false), scenario);
        assert!(all < most, "{name} has {most} orders or more");
        say(&format!("orders {name} all {all}"));
    }
}
