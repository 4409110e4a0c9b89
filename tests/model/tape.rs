//! Choices as rows of numbers: what is drawn is decided by them alone, so what is found can be made
//! smaller by making the rows shorter and their numbers smaller.

/// A row that is read from its beginning.
#[derive(Clone, Debug)]
pub(crate) struct Tape<'r> {
    row: &'r [u32],
}

impl<'r> Tape<'r> {
    pub(crate) fn new(row: &'r [u32]) -> Self {
        Self { row }
    }

    /// The next number, 0 after the last one.
    pub(crate) fn next(&mut self) -> u32 {
        let Some((first, rest)) = self.row.split_first() else {
            return 0;
        };
        self.row = rest;
        *first
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.next() as usize % limit.max(1)
    }

    /// Whether one of so many chances is taken; never after the last number.
    pub(crate) fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == chances - 1
    }
}

/// A generator of numbers, small and good enough.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d);
        random.number();
        random
    }

    fn number(&mut self) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let mixed = (self.0 ^ (self.0 >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 32) as u32
    }

    pub(crate) fn rows(&mut self, rows: usize, length: usize) -> Vec<Vec<u32>> {
        let row = |random: &mut Self| (0..length).map(|_| random.number()).collect();
        (0..rows).map(|_| row(self)).collect()
    }
}

/// Makes rows smaller as long as they still fail.
pub(crate) fn shrink(
    mut rows: Vec<Vec<u32>>,
    mut budget: usize,
    mut fails: impl FnMut(&[Vec<u32>]) -> bool,
) -> Vec<Vec<u32>> {
    let mut better = |rows: &mut Vec<Vec<u32>>, candidate: Vec<Vec<u32>>| {
        if budget == 0 || candidate == *rows {
            return false;
        }
        budget -= 1;
        let is_better = fails(&candidate);
        if is_better {
            *rows = candidate;
        }
        is_better
    };
    loop {
        let before = rows.clone();
        // Whole rows, which are nodes.
        for row in (0..rows.len()).rev() {
            let mut candidate = rows.clone();
            candidate.remove(row);
            if !better(&mut rows, candidate) {
                let mut candidate = rows.clone();
                candidate[row].clear();
                better(&mut rows, candidate);
            }
        }
        for row in 0..rows.len() {
            // The end of a row, by halves.
            let mut cut = rows[row].len() / 2;
            while cut > 0 {
                let mut candidate = rows.clone();
                let left = rows[row].len().saturating_sub(cut);
                candidate[row].truncate(left);
                if !better(&mut rows, candidate) {
                    cut /= 2;
                }
                cut = cut.min(rows[row].len());
            }
            for place in (0..rows[row].len()).rev() {
                let Some(value) = rows[row].get(place).copied() else {
                    continue;
                };
                let mut candidate = rows.clone();
                candidate[row][place] = 0;
                if value == 0 || better(&mut rows, candidate) {
                    let mut candidate = rows.clone();
                    candidate[row].remove(place);
                    better(&mut rows, candidate);
                    continue;
                }
                for smaller in (1..24.min(value)).chain([value % 24, value % 840]) {
                    let mut candidate = rows.clone();
                    candidate[row][place] = smaller;
                    if smaller < value && better(&mut rows, candidate) {
                        break;
                    }
                }
            }
        }
        if rows == before {
            return rows;
        }
    }
}
