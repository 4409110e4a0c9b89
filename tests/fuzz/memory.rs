//! How much memory a process has ever had.

/// A limit for what decoders may take beyond what the process had before.
/// Threads that start meanwhile reserve 64 MiB each for what they allocate, so less would be noise.
const MOST: u64 = 1 << 30;

/// Watches the memory of this process.
pub(crate) struct Memory(u64);

impl Memory {
    pub(crate) fn watch() -> Self {
        Self(peak())
    }

    /// Whether no input has made the process ask for much more than inputs are worth. What was
    /// only reserved counts, too: a length that is believed shows here, even if nothing is read.
    pub(crate) fn check(&self) {
        let more = peak().saturating_sub(self.0);
        assert!(more < MOST, "{more} bytes more than before");
    }
}

/// The most address space that was ever taken, on Linux; elsewhere nothing is known.
fn peak() -> u64 {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else {
        return 0;
    };
    let line = status.lines().find(|line| line.starts_with("VmPeak:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    kib.unwrap_or(0) << 10
}

#[test]
#[cfg(target_os = "linux")]
fn a_large_allocation_is_noticed() {
    let memory = Memory::watch();
    let large = std::hint::black_box(vec![0u8; (MOST as usize) * 2]);
    assert!(std::panic::catch_unwind(|| memory.check()).is_err());
    drop(large);
}
